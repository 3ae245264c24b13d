//! Limits and timers: file keys with units in their names. All are node settings.

use super::{Config, PropertiesFile};
use crate::protocol::ReadMode;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Takes a number from the file, within a range.
struct Keys<'a>(&'a mut PropertiesFile);

impl Keys<'_> {
    fn number<T>(&mut self, key: &str, min: T, max: T, set: impl FnOnce(T)) -> Result<(), String>
    where
        T: FromStr + PartialOrd + Display,
    {
        let what = format!("a number from {min} to {max}");
        let Some(value) = self.0.take_as::<T>(key, &what)? else { return Ok(()) };
        if value < min || value > max {
            return Err(format!("{key}={value} is not {what}"));
        }
        set(value);
        Ok(())
    }

    fn millis(&mut self, key: &str, min: u64, max: u64, set: impl FnOnce(Duration)) -> Result<(), String> {
        self.number(key, min, max, |ms| set(Duration::from_millis(ms)))
    }

    fn seconds(&mut self, key: &str, max: u64, set: impl FnOnce(Duration)) -> Result<(), String> {
        self.number(key, 0, max, |s| set(Duration::from_secs(s)))
    }

    fn switch(&mut self, key: &str, set: impl FnOnce(bool)) -> Result<(), String> {
        if let Some(on) = self.0.take_as::<bool>(key, "true or false")? {
            set(on);
        }
        Ok(())
    }
}

const DAY_S: u64 = 86_400;
/// The most that the kernel takes.
const KEEP_ALIVE_MAX_S: u64 = 32_767;
const GIB: usize = 1 << 30;

/// Takes all limits and timers that the file has.
pub(super) fn read(config: &mut Config, file: &mut PropertiesFile) -> Result<(), String> {
    let mut keys = Keys(file);
    let limits = &mut config.server.limits;
    keys.seconds("serverChannelMaxIdleTimeSeconds", DAY_S, |d| limits.idle = d)?;
    keys.number("connectionsMax", 1, 10_000_000, |n| limits.connections = n)?;
    keys.number("requestsInFlightMax", 1, 10_000_000, |n| limits.in_flight = n)?;
    keys.number("requestsInFlightPerConnectionMax", 1, 1_000_000, |n| limits.in_flight_per_connection = n)?;
    keys.number("requestsInFlightBytesMax", 1 << 20, 64 * GIB, |n| limits.in_flight_bytes = n)?;
    keys.number("frameBytesMax", 64 << 10, crate::wire::FRAME_MAX_BYTES, |n| limits.frame_bytes = n)?;
    keys.number("writeBufferBytesMax", 64 << 10, GIB, |n| limits.write_buffer_bytes = n)?;
    keys.millis("writeStallMillis", 1, DAY_S * 1000, |d| limits.write_stall = d)?;
    let dead = &mut config.server.dead_peer;
    keys.seconds("brokerKeepAliveIdleSeconds", KEEP_ALIVE_MAX_S, |d| dead.keepalive_idle = d)?;
    keys.number("brokerKeepAliveIntervalSeconds", 1, KEEP_ALIVE_MAX_S, |s| {
        dead.keepalive_interval = Duration::from_secs(s);
    })?;
    keys.millis("brokerTcpUserTimeoutMillis", 0, DAY_S * 1000, |d| dead.user_timeout = d)?;
    let service = &mut config.service;
    keys.number("routeCacheBytesMax", 0, 16 * GIB, |n| service.route_cache_bytes = n)?;
    let registration = &mut service.registration;
    keys.number("registrationBytesMax", 1 << 20, 64 * GIB as u64, |n| registration.inflated_bytes = n)?;
    keys.number("registrationTopicsMax", 1, 10_000_000, |n| registration.topics = n)?;
    keys.seconds("recoveryWaitSeconds", DAY_S, |d| service.readiness.recovery_wait = Some(d))?;
    keys.switch("serveAfterRecoveryWait", |on| {
        if !on {
            service.readiness.recovery_wait = None;
        }
    })?;
    keys.millis("stalenessMaxMillis", 0, DAY_S * 1000, |d| {
        service.readiness.staleness_max = (!d.is_zero()).then_some(d);
    })?;
    let liveness = &mut config.liveness;
    keys.switch("massEvictionGuard", |on| liveness.guard = on)?;
    keys.number("massEvictionSharePercent", 1, 100, |n| liveness.guard_share_percent = n)?;
    keys.number("sessionPairsMax", 0, 100_000_000, |n| liveness.session_pairs_max = n)?;
    log(&mut keys, config)?;
    let timing = &mut config.timing;
    keys.number("heartbeatIntervalMillis", 10, 60_000, |ms| timing.heartbeat_ms = ms)?;
    keys.number("electionTimeoutMinMillis", 30, 600_000, |ms| timing.election_min_ms = ms)?;
    keys.number("electionTimeoutMaxMillis", 60, 600_000, |ms| timing.election_max_ms = ms)?;
    let (beat, min, max) = (timing.heartbeat_ms, timing.election_min_ms, timing.election_max_ms);
    if min < beat * 2 || max <= min {
        return Err(format!(
            "heartbeatIntervalMillis={beat}, electionTimeoutMinMillis={min}, electionTimeoutMaxMillis={max} do not fit: \
             the shortest election timeout must be twice the heartbeat or more, and below the longest"
        ));
    }
    read_mode(config, file)?;
    secret(config, file)
}

/// What the log keeps, and when a snapshot takes its place.
fn log(keys: &mut Keys<'_>, config: &mut Config) -> Result<(), String> {
    let snapshots = &mut config.snapshots;
    keys.number("snapshotLogBytes", 1 << 20, 64 * GIB as u64, |n| snapshots.log_bytes = n)?;
    keys.number("snapshotEntries", 1, u64::MAX, |n| snapshots.entries = n)?;
    keys.number("snapshotAgeSeconds", 1, 365 * DAY_S, |s| snapshots.age = Duration::from_secs(s))?;
    keys.number("logBytesMax", 1 << 20, 1024 * GIB as u64, |n| snapshots.log_bytes_max = n)?;
    keys.number("recentLogBytesMax", 0, 64 * GIB, |n| config.recent_log_bytes = n)?;
    keys.number("batchCommandsMax", 1, 65_536, |n| config.batch_commands_max = n)
}

fn read_mode(config: &mut Config, file: &mut PropertiesFile) -> Result<(), String> {
    config.service.read_mode = match file.take("readMode").as_deref() {
        None | Some("local") => ReadMode::Local,
        Some("linearizable") => ReadMode::Linearizable,
        Some(text) => return Err(format!("readMode={text} is neither local nor linearizable")),
    };
    Ok(())
}

/// The secret stands in a file of its own, so that it is in no process list and in no settings dump.
fn secret(config: &mut Config, file: &mut PropertiesFile) -> Result<(), String> {
    let Some(path) = file.take("peerSecretFile").filter(|path| !path.is_empty()) else { return Ok(()) };
    let text = std::fs::read(&path).map_err(|e| format!("cannot read peerSecretFile={path}: {e}"))?;
    let secret = text.trim_ascii();
    if secret.is_empty() {
        return Err(format!("peerSecretFile={path} is empty"));
    }
    config.secret = secret.to_vec();
    config.secret_file = path;
    Ok(())
}

/// As the file has them.
pub(super) fn shown(config: &Config) -> Vec<(&'static str, String)> {
    let limits = &config.server.limits;
    let dead = &config.server.dead_peer;
    let readiness = &config.service.readiness;
    let recovery_wait = readiness.recovery_wait;
    let mut all = vec![
        ("serverChannelMaxIdleTimeSeconds", limits.idle.as_secs().to_string()),
        ("connectionsMax", limits.connections.to_string()),
        ("requestsInFlightMax", limits.in_flight.to_string()),
        ("requestsInFlightPerConnectionMax", limits.in_flight_per_connection.to_string()),
        ("requestsInFlightBytesMax", limits.in_flight_bytes.to_string()),
        ("frameBytesMax", limits.frame_bytes.to_string()),
        ("writeBufferBytesMax", limits.write_buffer_bytes.to_string()),
        ("writeStallMillis", limits.write_stall.as_millis().to_string()),
        ("brokerKeepAliveIdleSeconds", dead.keepalive_idle.as_secs().to_string()),
        ("brokerKeepAliveIntervalSeconds", dead.keepalive_interval.as_secs().to_string()),
        ("brokerTcpUserTimeoutMillis", dead.user_timeout.as_millis().to_string()),
        ("routeCacheBytesMax", config.service.route_cache_bytes.to_string()),
        ("registrationBytesMax", config.service.registration.inflated_bytes.to_string()),
        ("registrationTopicsMax", config.service.registration.topics.to_string()),
        ("serveAfterRecoveryWait", recovery_wait.is_some().to_string()),
        ("stalenessMaxMillis", readiness.staleness_max.unwrap_or_default().as_millis().to_string()),
        ("massEvictionGuard", config.liveness.guard.to_string()),
        ("massEvictionSharePercent", config.liveness.guard_share_percent.to_string()),
        ("sessionPairsMax", config.liveness.session_pairs_max.to_string()),
        ("snapshotLogBytes", config.snapshots.log_bytes.to_string()),
        ("snapshotEntries", config.snapshots.entries.to_string()),
        ("snapshotAgeSeconds", config.snapshots.age.as_secs().to_string()),
        ("logBytesMax", config.snapshots.log_bytes_max.to_string()),
        ("recentLogBytesMax", config.recent_log_bytes.to_string()),
        ("batchCommandsMax", config.batch_commands_max.to_string()),
        ("heartbeatIntervalMillis", config.timing.heartbeat_ms.to_string()),
        ("electionTimeoutMinMillis", config.timing.election_min_ms.to_string()),
        ("electionTimeoutMaxMillis", config.timing.election_max_ms.to_string()),
    ];
    // Without it nothing is waited for.
    all.extend(recovery_wait.map(|wait| ("recoveryWaitSeconds", wait.as_secs().to_string())));
    all
}
