//! openraft's own suite on our adapters, over logs and snapshots of memory.

#[path = "../../tests/common/memory.rs"]
mod memory;

use super::*;
use crate::machine::Machine;
use crate::published::Published;
use memory::{MemoryLog, MemorySnapshots};
use openraft::storage::RaftLogStorage;
use openraft::testing::log::{StoreBuilder, Suite};
use storage::runtime::SystemRuntime;

struct Builder;

impl StoreBuilder<Types, LogStore, Machine> for Builder {
    async fn build(&self) -> Result<((), LogStore, Machine), openraft::StorageError<Types>> {
        let log = LogStore::new(Arc::new(MemoryLog::default()));
        let machine = Machine::new(
            Arc::new(Published::default()),
            Arc::new(MemorySnapshots::default()),
            Arc::new(SystemRuntime),
        );
        Ok(((), log, machine))
    }
}

#[tokio::test]
async fn openraft_is_content_with_log_and_machine() {
    Suite::test_all(Builder).await.unwrap();
}

#[tokio::test]
async fn a_log_that_gives_too_little_is_an_error_not_the_end() {
    let log = Arc::new(MemoryLog::default());
    let mut store = LogStore::new(Arc::clone(&log) as Arc<dyn Log>);
    let entries = (0..3).map(|index| RaftEntry {
        log_id: raft_log_id(storage::LogId { term: 1, index }),
        payload: EntryPayload::Blank,
    });
    store.append(entries, IOFlushed::noop()).await.unwrap();
    assert_eq!(store.try_get_log_entries(1..9).await.unwrap().len(), 2);
    log.fail_reads();
    assert!(store.try_get_log_entries(0..3).await.is_err());
    assert!(store.limited_get_log_entries(0, 3).await.is_err());
}
