//! openraft's configuration, from this node's options.

use crate::api::{OpenError, Options};
use openraft::{Config, SnapshotPolicy};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Entries of one append; the bytes are limited where they are read.
const APPEND_ENTRIES_MAX: u64 = 1024;
/// Waits before asking an unreachable peer again.
const BACKOFF: &str = "50ms 100ms 200ms ...500ms";
/// openraft's limit for a snapshot. The limit that counts is the network's, on progress.
const SNAPSHOT_MAX_MS: u64 = 3_600_000;

/// Checks the options, and gives openraft's configuration.
pub(crate) fn check(options: &Options) -> Result<Arc<Config>, OpenError> {
    let ids: BTreeSet<u64> = options.members.iter().map(|m| m.id).collect();
    if ids.len() != options.members.len() {
        return Err(OpenError::Refused("--members names a node id twice".into()));
    }
    if let Some(member) = options.members.iter().find(|m| m.address.is_empty()) {
        return Err(OpenError::Refused(format!("--members gives no address for node {}", member.id)));
    }
    let timing = options.timing;
    let config = Config {
        cluster_name: "raft-namesrv".into(),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min: timing.election_min_ms,
        election_timeout_max: timing.election_max_ms,
        max_payload_entries: APPEND_ENTRIES_MAX,
        install_snapshot_timeout: SNAPSHOT_MAX_MS,
        backoff: BACKOFF.into(),
        // Snapshots and purges are triggered by the snapshot driver only.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        // A node that was cut off must not move the term when it returns.
        enable_pre_vote: Some(true),
        // A leader that gets no replies must not keep quiet the followers that get its heartbeats.
        quorum_loss_probe_interval: Some(2 * timing.election_max_ms),
        // A restarted leader has no lease, and has not applied its log yet.
        enable_leader_restore: Some(false),
        allow_log_reversion: Some(false),
        ..Config::default()
    };
    let config = config.validate().map_err(|e| OpenError::Refused(format!("timing: {e}")))?;
    Ok(Arc::new(config))
}
