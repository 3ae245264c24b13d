//! Snapshots of a state: whole, large, damaged, impossible.

use super::world::{Reg, TWO, World, bytes};
use crate::command::PutKv;
use crate::route_info::chunks::{Head, Record, pack};
use crate::route_info::{LoadError, Loader, RouteInfo};
use crate::snapshots::CHUNK_BYTES_MAX;
use crate::split_mix::SplitMix;
use crate::{Change, Position, Settings};
use proptest::prelude::*;

fn load(chunks: &[Vec<u8>]) -> Result<RouteInfo, LoadError> {
    let mut loader = Loader::new();
    for chunk in chunks {
        loader.chunk(chunk)?;
    }
    loader.finish()
}

fn small() -> World {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a").topics(TWO).filters(&["f"]).static_info("t1", "b", 1));
    w.reg(Reg::new("c", "b", 1, "s").topics(TWO).acting(true));
    w.run(Change::PutKv(PutKv { namespace: "n".into(), key: "k".into(), value: None }));
    w.set("clusterTest", "true");
    w.delete("t2", None);
    w
}

#[test]
fn an_empty_state_and_a_small_one() {
    for table in [RouteInfo::default(), small().table] {
        let chunks: Vec<Vec<u8>> = table.chunks().map(Result::unwrap).collect();
        assert_eq!(chunks.len(), 1);
        let loaded = load(&chunks).unwrap();
        assert_eq!(loaded.revision(), table.revision());
        assert_eq!(loaded.state_hash(), table.state_hash());
        assert_eq!(bytes(&loaded), bytes(&table));
    }
}

#[test]
fn a_value_larger_than_a_chunk() {
    let mut w = small();
    // Bytes that do not shrink, as text.
    let mut random = SplitMix::new(1);
    let value: String = (0..300_000).map(|_| char::from(b' ' + random.below(95) as u8)).collect();
    w.run(Change::PutKv(PutKv {
        namespace: "n".into(),
        key: "big".into(),
        value: Some(value.as_str().into()),
    }));
    let chunks: Vec<Vec<u8>> = w.table.chunks().map(Result::unwrap).collect();
    assert!(chunks.len() > 4);
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES_MAX));
    let loaded = load(&chunks).unwrap();
    assert_eq!(loaded.kv("n", "big").map(|v| v.len()), Some(300_000));
    assert_eq!(bytes(&loaded), bytes(&w.table));
    // Chunks that are missing, twice, or in another order are noticed.
    for wrong in [&chunks[1..], &chunks[..chunks.len() - 1], &[]] {
        assert!(load(wrong).is_err());
    }
    let mut swapped = chunks.clone();
    swapped.swap(1, 2);
    assert!(load(&swapped).is_err());
    let twice: Vec<Vec<u8>> = chunks.iter().chain(&chunks).cloned().collect();
    assert!(load(&twice).is_err());
}

#[test]
fn bytes_that_do_not_shrink_fit_a_chunk() {
    let mut random = SplitMix::new(1);
    let noise = std::iter::repeat_with(|| random.below(256) as u8);
    let plain: Vec<u8> = noise.take(crate::route_info::chunks::CHUNK_PLAIN_BYTES_MAX).collect();
    let chunk = pack(&plain);
    assert!(chunk.len() > plain.len() && chunk.len() <= CHUNK_BYTES_MAX);
}

#[test]
fn another_format_is_refused_in_one_sentence() {
    let mut chunk = small().table.chunks().next().unwrap().unwrap();
    chunk[0] = 9;
    let error = load(&[chunk]).err().unwrap().to_string();
    assert_eq!(error, "snapshot chunk 0 has format 9, this version reads 1");
}

/// A stream of these records, with the end that belongs to it.
fn stream(records: Vec<Record>) -> Vec<Vec<u8>> {
    let mut plain = Vec::new();
    let end = Record::End { records: records.len() as u64, hash: RouteInfo::default().state_hash() };
    for record in records.into_iter().chain([end]) {
        let bytes = crate::format::encode("snapshot record", &record).unwrap();
        plain.extend((bytes.len() as u32).to_le_bytes());
        plain.extend(bytes);
    }
    vec![pack(&plain)]
}

fn head() -> Record {
    let at = Position::default();
    Record::Head(Head {
        revision: None,
        brokers_version: at,
        settings_version: at,
        settings: Settings::default(),
    })
}

#[test]
fn impossible_states_are_refused() {
    let of = small();
    let (topic, queues) = of.table.topics().next().map(|(n, t)| (n.clone(), t.clone())).unwrap();
    let (name, group) = of.table.groups().next().map(|(n, g)| (n.clone(), g.clone())).unwrap();
    let topic = || Record::Topic(topic.clone(), queues.clone());
    let group = || Record::BrokerData(name.clone(), group.clone());
    let refused = |records| load(&stream(records)).err().unwrap().to_string();
    assert!(load(&stream(vec![head()])).is_ok());
    assert!(refused(vec![]).contains("out of place"));
    assert!(refused(vec![head(), head()]).contains("out of place"));
    assert!(refused(vec![head(), topic(), group()]).contains("out of place"));
    assert!(refused(vec![head(), group(), group()]).contains("out of order"));
    assert!(refused(vec![head(), topic()]).contains("which has no broker"));
    assert!(refused(vec![head(), group()]).contains("lacks its broker name"));
    let cluster = Record::Cluster("c".into(), vec![name.clone()]);
    assert!(refused(vec![head(), group(), cluster]).contains("live"));
    assert!(refused(vec![head(), Record::Kv("n".into(), "k".into(), None)]).contains("namespace is missing"));
    let empty = Record::Cluster("c".into(), vec![]);
    assert!(refused(vec![head(), empty]).contains("is empty"));
    let namespace = Record::Namespace("n".into());
    assert!(refused(vec![head(), namespace]).contains("differs in kv"));
}

#[test]
fn a_claimed_length_allocates_nothing() {
    let mut chunk = vec![1];
    chunk.extend(u32::MAX.to_le_bytes());
    chunk.push(0);
    assert!(load(&[chunk]).is_err());
    let record = pack(&u32::MAX.to_le_bytes());
    assert!(load(&[record]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Damaged bytes are an error or the same state, and never a panic.
    #[test]
    fn damage_is_noticed(at in any::<prop::sample::Index>(), flip in 1u8..) {
        let table = small().table;
        let mut chunk = table.chunks().next().unwrap().unwrap();
        let at = at.index(chunk.len());
        chunk[at] ^= flip;
        if let Ok(loaded) = load(&[chunk]) {
            prop_assert_eq!(loaded.state_hash(), table.state_hash());
        }
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(load(std::slice::from_ref(&noise)).is_err());
        prop_assert!(load(&[pack(&noise)]).is_err());
    }
}
