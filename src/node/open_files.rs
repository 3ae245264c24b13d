//! How many files a process may open, and what its connections may take of them. A node without a file left makes no
//! segment of its log, and ends; so some are kept for the log and the other nodes.

use super::{NodeConfig, RunError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use storage::log::LogOptions;

/// Files that connections of clients, brokers and operators never take, beside those of the log: 64 for the channels
/// with four other members, 24 for connections to the peer port that have not proved the secret yet, and 32 for standard
/// streams, runtimes, listeners, the data directory and snapshots.
const RESERVED_FILES: u64 = 120;
/// Segments of the log beyond `logBytesMax`: those that are written and prepared, and those behind the last snapshot.
const MORE_SEGMENTS: u64 = 8;
/// With less for connections a node is of no use.
const CONNECTION_FILES_MIN: u64 = 16;
const WHAT_TO_DO: &str = "raise `ulimit -n` (systemd: LimitNOFILE=, Docker: --ulimit nofile=)";

/// Raises the number of files that this process may open as far as the system lets it. Gives that number.
#[must_use]
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let now = if raised.is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// Lowers the limits of connections to what a process may open that has `files` in all. Gives the warning to log when
/// clients and brokers get fewer than the settings say. (Notices that find no connection wait.)
///
/// # Errors
/// Nothing would be left for connections.
pub fn fit_open_files(config: &mut NodeConfig, files: u64) -> Result<Option<String>, RunError> {
    let segments = config.snapshots.log_bytes_max / LogOptions::default().segment_bytes + MORE_SEGMENTS;
    let reserved = RESERVED_FILES + segments;
    let left = files.saturating_sub(reserved);
    if left < CONNECTION_FILES_MIN {
        return Err(RunError::Refused(format!(
            "this process may open {files} files; a node needs {} at least, {reserved} of them for the log, the \
             snapshots and the other nodes: {WHAT_TO_DO}",
            reserved + CONNECTION_FILES_MIN
        )));
    }
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let [http, notices] = [config.http_connections_max, config.notice_connections_max];
    config.http_connections_max = http.min(left / 4);
    config.notice_connections_max = notices.min(left / 4);
    let room = left - config.http_connections_max - config.notice_connections_max;
    let wanted = config.server.limits.connections;
    if wanted <= room {
        return Ok(None);
    }
    config.server.limits.connections = room;
    let needed = reserved + [wanted, http, notices].map(|count| count as u64).iter().sum::<u64>();
    Ok(Some(format!(
        "this process may open {files} files: it takes {room} connections of clients and brokers instead of \
         connectionsMax={wanted}, and keeps {reserved} files for the log, the snapshots and the other nodes. For all \
         connections {WHAT_TO_DO} to {needed}; with connectionsMax={room} this warning ends"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Clients, operators and notices, and the warning.
    fn fitted(files: u64, clients: usize) -> Result<([usize; 3], Option<String>), RunError> {
        let mut config = NodeConfig::new(1, PathBuf::new());
        config.server.limits.connections = clients;
        let warning = fit_open_files(&mut config, files)?;
        let connections =
            [config.server.limits.connections, config.http_connections_max, config.notice_connections_max];
        Ok((connections, warning))
    }

    #[test]
    fn connections_leave_files_for_the_log_and_the_other_nodes() {
        assert_eq!(fitted(65_536, 20_000).unwrap(), ([20_000, 32, 1_024], None));
        let (connections, warning) = fitted(1_024, 20_000).unwrap();
        assert_eq!(connections, [616, 32, 216]);
        let warning = warning.unwrap();
        for part in ["may open 1024 files", "to 21216;", "takes 616 connections", "keeps 160", "ulimit -n"] {
            assert!(warning.contains(part), "{part} in {warning}");
        }
        assert_eq!(fitted(1_024, 616).unwrap(), ([616, 32, 216], None), "as the warning says");
        assert_eq!(fitted(200, 20_000).unwrap().0, [20, 10, 10]);
        let refused = fitted(175, 20_000).unwrap_err().to_string();
        assert!(refused.contains("may open 175 files") && refused.contains("needs 176"), "{refused}");
    }
}
