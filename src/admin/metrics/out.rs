//! Writes metrics of each kind.

use crate::counter::Counter;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use raft::TickLateness;
use std::fmt;
use std::time::Duration;

/// Writes one metric per call.
pub(super) struct Out<'a>(pub(super) DescriptorEncoder<'a>);

impl Out<'_> {
    pub(super) fn counter(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, unit, MetricType::Counter)?)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?)
    }

    pub(super) fn seconds(&mut self, name: &str, help: &str, value: Duration) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(value.as_secs_f64()).encode(encoder)
    }

    pub(super) fn tick_lateness(&mut self, late: &TickLateness) -> fmt::Result {
        let help = "How late the timers of consensus were; later than an election timeout means an election";
        let bounds = TickLateness::BOUNDS_MS.map(|ms| Duration::from_millis(ms).as_secs_f64());
        let buckets: Vec<(f64, u64)> =
            bounds.into_iter().chain([f64::INFINITY]).zip(late.counts.iter().copied()).collect();
        let mut histogram = self.0.encode_descriptor(
            "raft_tick_lateness",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        histogram.encode_histogram::<NoLabelSet>(
            late.sum.as_secs_f64(),
            late.counts.iter().sum(),
            &buckets,
            None,
        )
    }

    /// Writes counters of the parts as one family.
    pub(super) fn counted<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        counters: [(&str, &Counter); N],
    ) -> fmt::Result {
        let values = counters.map(|(value, counter)| (value.to_owned(), counter.get()));
        self.counters(name, help, label, values)
    }

    /// Writes values of now as one family.
    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        label: &'static str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) -> fmt::Result {
        let family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        write_family(family, label, values, |now| ConstGauge::new(i64::try_from(now).unwrap_or(i64::MAX)))
    }

    /// Writes values as one family.
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (String, u64)>,
    ) -> fmt::Result {
        let family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        write_family(family, label, values, ConstCounter::new)
    }
}

fn write_family<M: EncodeMetric>(
    mut family: MetricEncoder<'_>,
    label: &'static str,
    values: impl IntoIterator<Item = (String, u64)>,
    metric: impl Fn(u64) -> M,
) -> fmt::Result {
    for (name, value) in values {
        metric(value).encode(family.encode_family(&[(label, name)])?)?;
    }
    Ok(())
}
