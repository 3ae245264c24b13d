//! The power goes at every operation of random histories: what was acknowledged is there, and what is there is a
//! state that the log once had.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use storage::directory::{Directory, OpenError, Opened};
use storage::files::{Fault, MemoryFiles};
use storage::log::{Done, Entry, Log, LogOptions, Payload, WriterMode};
use storage::runtime::Runtime;
use storage::{LogId, Vote};

/// Salts and ids that are the same in each run.
struct Fixed(AtomicUsize);

impl Runtime for Fixed {
    fn unix_ms(&self) -> u64 {
        0
    }

    fn random_u64(&self) -> u64 {
        (self.0.fetch_add(1, Ordering::Relaxed) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

fn open(files: &MemoryFiles) -> Result<Opened, OpenError> {
    let options = LogOptions { segment_bytes: 1024, cache_bytes: 400, writer: WriterMode::Stepped };
    let runtime = Arc::new(Fixed(AtomicUsize::new(files.operations() as usize)));
    Directory::open(Path::new("/data"), 1, Arc::new(files.clone()), runtime, options)
}

#[derive(Debug, Clone)]
enum Action {
    Append {
        count: u64,
        bytes: usize,
    },
    Vote,
    Committed,
    /// Removes so many entries from the end.
    Truncate(u64),
    /// Removes so many entries from the beginning; may go past the end.
    Purge(u64),
    Step,
    Reopen,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        6 => (1..4_u64, 0..300_usize).prop_map(|(count, bytes)| Action::Append { count, bytes }),
        1 => (1..2_u64, 1000..3000_usize).prop_map(|(count, bytes)| Action::Append { count, bytes }),
        2 => Just(Action::Vote),
        1 => Just(Action::Committed),
        2 => (0..6_u64).prop_map(Action::Truncate),
        2 => (0..8_u64).prop_map(Action::Purge),
        6 => Just(Action::Step),
        1 => Just(Action::Reopen),
    ];
    prop::collection::vec(action, 1..30)
}

/// What the log should hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    vote: Option<Vote>,
    purged: Option<LogId>,
    entries: Vec<Entry>,
}

impl Model {
    fn last(&self) -> Option<LogId> {
        self.entries.last().map(|entry| entry.id).or(self.purged)
    }

    fn of(log: &dyn Log) -> Self {
        let state = log.state();
        let to = state.last.map_or(0, |id| id.index + 1);
        let from = state.purged.map_or(0, |id| id.index + 1);
        let entries = log.read(from.min(to)..to, usize::MAX).unwrap();
        let model = Self { vote: state.vote, purged: state.purged, entries };
        assert_eq!(model.last(), state.last);
        let bytes: usize = model.entries.iter().map(|entry| payload(entry).len()).sum();
        assert_eq!(bytes as u64, state.bytes);
        model
    }
}

fn payload(entry: &Entry) -> &[u8] {
    match &entry.payload {
        Payload::Commands(bytes) => bytes,
        _ => &[],
    }
}

/// A run of a history: the states that the log went through, and the last one that was acknowledged.
struct Run {
    states: Vec<Model>,
    acknowledged: Arc<AtomicUsize>,
}

impl Run {
    fn new() -> Self {
        Self { states: vec![Model::default()], acknowledged: Arc::default() }
    }

    fn now(&self) -> Model {
        self.states.last().unwrap().clone()
    }

    /// The callback of a call after which the log is in the last state.
    fn done(&self) -> Done {
        let (acknowledged, state) = (Arc::clone(&self.acknowledged), self.states.len() - 1);
        Box::new(move |result| {
            if result.is_ok() {
                let before = acknowledged.swap(state, Ordering::Relaxed);
                assert!(before <= state, "callbacks out of order");
            }
        })
    }

    /// Does what it can until the power goes.
    fn play(&mut self, files: &MemoryFiles, actions: &[Action]) -> Result<(), TestCaseError> {
        let Ok(mut opened) = open(files) else { return Ok(()) };
        for (term, action) in (1..).zip(actions) {
            if matches!(action, Action::Reopen) {
                drop(opened);
                let Ok(again) = open(files) else { return Ok(()) };
                opened = again;
                // After a failed write this may be an earlier state than the last.
                let found = Model::of(&*opened.log);
                self.check(&found)?;
                self.states.push(found);
                self.acknowledged.store(self.states.len() - 1, Ordering::Relaxed);
                continue;
            }
            self.act(&*opened.log, term, action);
            if matches!(action, Action::Step) {
                opened.log.step();
            }
        }
        opened.log.step();
        Ok(())
    }

    fn act(&mut self, log: &dyn Log, term: u64, action: &Action) {
        let mut model = self.now();
        match *action {
            Action::Append { count, bytes } => {
                let first = model.last().map_or(0, |id| id.index + 1);
                let entries: Vec<Entry> = (first..first + count)
                    .map(|index| Entry {
                        id: LogId { term, index },
                        payload: Payload::Commands(Bytes::from(vec![(index * 7 + term) as u8; bytes])),
                    })
                    .collect();
                for entry in &entries {
                    model.entries.push(entry.clone());
                    self.states.push(model.clone());
                }
                log.append(entries, self.done());
            }
            Action::Vote => {
                let vote = Vote { term, node: term * 3, committed: term.is_multiple_of(2) };
                model.vote = Some(vote);
                self.states.push(model);
                log.save_vote(vote, self.done());
            }
            Action::Committed => log.save_committed(model.last()),
            Action::Truncate(count) => {
                let keep = model.entries.len().saturating_sub(count as usize);
                model.entries.truncate(keep);
                let last = model.last();
                self.states.push(model);
                log.truncate_after(last, self.done());
            }
            Action::Purge(count) => {
                let from = model.purged.map_or(0, |id| id.index + 1);
                let upto = match model.entries.get(count as usize) {
                    Some(entry) => entry.id,
                    None => LogId { term, index: from + count },
                };
                model.entries.retain(|entry| entry.id.index > upto.index);
                model.purged = Some(upto);
                self.states.push(model);
                log.purge(upto, self.done());
            }
            Action::Step | Action::Reopen => {}
        }
    }

    fn check(&self, found: &Model) -> Result<(), TestCaseError> {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        prop_assert!(
            self.states[acknowledged..].contains(found),
            "acknowledged up to state {acknowledged} of {}: {:?}\nfound {found:?}\nwhich is state {:?}",
            self.states.len(),
            self.states[acknowledged],
            self.states.iter().position(|state| state == found),
        );
        Ok(())
    }
}

/// Opens after a crash; the power goes again while it opens, at some operation.
fn reopen_twice(files: &MemoryFiles, seed: u64) -> Result<Opened, TestCaseError> {
    files.fail_at(files.operations() + 1 + seed % 13, Fault::PowerOff);
    drop(open(files));
    files.power_cut(seed ^ 0xabcd);
    open(files).map_err(|e| TestCaseError::fail(format!("does not open: {e}")))
}

fn survives(actions: &[Action], at: u64, seed: u64, kill: bool) -> Result<(), TestCaseError> {
    let files = MemoryFiles::new();
    files.fail_at(at, Fault::PowerOff);
    let mut run = Run::new();
    run.play(&files, actions)?;
    if kill {
        files.kill();
    } else {
        files.power_cut(seed);
    }
    let opened = reopen_twice(&files, seed.rotate_left(17))?;
    let found = Model::of(&*opened.log);
    run.check(&found)?;

    // And the log goes on from there, and keeps that too.
    let mut more = Run { states: vec![found], acknowledged: Arc::default() };
    more.act(&*opened.log, 1000, &Action::Append { count: 3, bytes: 100 });
    more.act(&*opened.log, 1001, &Action::Vote);
    opened.log.step();
    prop_assert_eq!(more.acknowledged.load(Ordering::Relaxed), 4);
    files.power_cut(seed.rotate_left(31));
    drop(opened);
    let opened = open(&files).map_err(|e| TestCaseError::fail(format!("does not open again: {e}")))?;
    more.check(&Model::of(&*opened.log))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_survives_a_power_cut_at_every_operation(actions in actions(), seed: u64) {
        let files = MemoryFiles::new();
        Run::new().play(&files, &actions)?;
        for at in 1..=files.operations() + 1 {
            survives(&actions, at, seed.wrapping_add(at), false)
                .map_err(|e| TestCaseError::fail(format!("power cut at operation {at}: {e}")))?;
        }
    }

    #[test]
    fn what_was_written_survives_a_kill_at_every_operation(actions in actions(), seed: u64) {
        let files = MemoryFiles::new();
        Run::new().play(&files, &actions)?;
        for at in 1..=files.operations() + 1 {
            survives(&actions, at, seed.wrapping_add(at), true)
                .map_err(|e| TestCaseError::fail(format!("killed at operation {at}: {e}")))?;
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_full_disk_or_a_failing_one_loses_nothing(actions in actions(), at in 1..200_u64, full: bool) {
        let files = MemoryFiles::new();
        if full {
            files.set_capacity(Some(at * 64));
        } else {
            files.fail_at(at, Fault::Error(std::io::ErrorKind::Other));
        }
        let mut run = Run::new();
        run.play(&files, &actions)?;
        files.set_capacity(None);
        files.power_cut(at);
        let opened = open(&files).map_err(|e| TestCaseError::fail(format!("does not open: {e}")))?;
        run.check(&Model::of(&*opened.log))?;
    }
}
