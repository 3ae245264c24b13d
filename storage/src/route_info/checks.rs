//! Any bytes as the commands of an entry and as a snapshot: a table whose invariants hold, or an error.

use super::chunks::{CHUNK_PLAIN_BYTES_MAX, Record, pack};
use super::{LoadError, Loader, RouteInfo};
use crate::command::{
    Cause, Change, Command, DeleteTopic, Origin, Removal, RemoveBrokers, SetWritePermission,
};
use crate::{LogId, format};

/// The bytes are records, to be cut into chunks and compressed here.
const STREAM: u8 = 1;
/// The records' lengths and the last one are made right.
const SEAL: u8 = 2;

/// The bytes as the commands of an entry.
pub fn commands(bytes: &[u8]) {
    let mut table = RouteInfo::default();
    apply(&mut table, bytes);
    check_table(&table);
}

/// The bytes as the chunks of a snapshot.
pub fn snapshot(bytes: &[u8]) {
    let Some((&how, content)) = bytes.split_first() else { return };
    if how & STREAM == 0 {
        let mut loader = Loader::new();
        let half = content.len().div_ceil(2).max(1);
        let loaded = content.chunks(half).try_for_each(|chunk| loader.chunk(chunk));
        if loaded.is_ok()
            && let Ok(table) = loader.finish()
        {
            check_table(&table);
        }
    } else if how & SEAL == 0 {
        if let Ok(table) = load(content) {
            check_table(&table);
        }
    } else {
        let mut records = records(content);
        if let Err(LoadError::Hash { found, .. }) = load(&stream(&records)) {
            if let Some(Record::End { hash, .. }) = records.last_mut() {
                *hash = found;
            }
            match load(&stream(&records)) {
                Ok(mut table) => {
                    check_table(&table);
                    empty(&mut table);
                }
                Err(e) => unreachable!("the state agrees with its hash: {e}"),
            }
        }
    }
}

fn load(stream: &[u8]) -> Result<RouteInfo, LoadError> {
    let mut loader = Loader::new();
    stream.chunks(CHUNK_PLAIN_BYTES_MAX).try_for_each(|plain| loader.chunk(&pack(plain)))?;
    loader.finish()
}

/// The records of a stream, those that are none left out, and an end.
fn records(mut stream: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (record, rest) = rest.split_at(length.min(rest.len()));
        stream = rest;
        match format::decode("snapshot record", record) {
            Ok(Record::End { .. }) | Err(_) => {}
            Ok(record) => records.push(record),
        }
    }
    let end = Record::End { records: records.len() as u64, hash: RouteInfo::default().state_hash() };
    records.push(end);
    records
}

fn stream(records: &[Record]) -> Vec<u8> {
    let encoded = records.iter().filter_map(|record| format::encode("snapshot record", record).ok());
    encoded
        .flat_map(|bytes| [&(u32::try_from(bytes.len()).unwrap_or(0)).to_le_bytes(), &*bytes].concat())
        .collect()
}

/// Applies the bytes as one entry after the other: the same commands again meet what they did.
fn apply(table: &mut RouteInfo, bytes: &[u8]) {
    let Ok(commands) = format::decode::<Vec<Command>>("commands", bytes) else { return };
    let again = format::encode("commands", &commands).and_then(|bytes| format::decode("commands", &bytes));
    assert_eq!(again.ok().as_ref(), Some(&commands));
    for index in 1..3 {
        for command in &commands {
            let _ = table.prepare(command.clone());
        }
        let applied = table.apply_entry(LogId { term: 1, index }, &commands);
        assert_eq!(applied.outcomes.len(), commands.len());
        check_invariants(table);
    }
}

/// A loaded table goes on: here by all that take something away.
fn empty(table: &mut RouteInfo) {
    let Some(index) = table.revision().map_or(0, |id| id.index).checked_add(1) else { return };
    let permissions = table.groups().map(|(name, _)| {
        Change::SetWritePermission(SetWritePermission { broker: name.clone(), writable: false })
    });
    let brokers = table.live_brokers().map(|(key, live)| Removal {
        cluster: key.cluster.clone(),
        broker: live.broker.clone(),
        address: key.address.clone(),
        incarnation: Some(live.incarnation),
        cause: Cause::Asked,
    });
    let removals = RemoveBrokers { brokers: brokers.collect(), decided_in_term: None };
    let topics = table
        .topics()
        .map(|(name, _)| Change::DeleteTopic(DeleteTopic { topic: name.clone(), cluster: None }));
    let changes = permissions.chain(topics).chain([Change::RemoveBrokers(removals)]);
    let commands: Vec<Command> =
        changes.map(|change| Command { origin: Origin::default(), change }).collect();
    table.apply_entry(LogId { term: 1, index }, &commands);
    check_table(table);
    assert_eq!((table.topics().len(), table.live_brokers().len()), (0, 0), "{table:?}");
}

fn check_invariants(table: &RouteInfo) {
    if let Err(e) = table.check_invariants() {
        unreachable!("{e}: {table:?}");
    }
}

/// A table that is taken for one is one, and comes back out of its own chunks.
fn check_table(table: &RouteInfo) {
    check_invariants(table);
    let mut loader = Loader::new();
    let loaded = table.chunks().try_for_each(|chunk| match chunk {
        Ok(chunk) => loader.chunk(&chunk).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    });
    let loaded = loaded.and_then(|()| loader.finish().map_err(|e| e.to_string()));
    assert_eq!(loaded.map(|loaded| loaded.state_hash()), Ok(table.state_hash()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::edits::{edited, edits};
    use crate::checks::seeds;
    use crate::route_info::tests::golden;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            commands(&bytes);
            snapshot(&bytes);
        }

        #[test]
        fn entries_with_changes(entry in prop::sample::select(golden::entries()), edits in edits()) {
            commands(&edited(&entry, &edits));
        }

        #[test]
        fn snapshots_with_changes(edits in edits()) {
            let chunk = golden::stored("snapshot.chunk");
            snapshot(&[&[0], &*edited(&chunk, &edits)].concat());
            let stream = edited(&golden::plain(&chunk), &edits);
            snapshot(&[&[STREAM], &*stream].concat());
            snapshot(&[&[STREAM | SEAL], &*stream].concat());
        }
    }

    #[test]
    fn seeds_pass() {
        let entries = golden::entries();
        entries.iter().for_each(|entry| commands(entry));
        seeds::keep("commands", &entries).unwrap();
        let chunk = golden::stored("snapshot.chunk");
        let plain = golden::plain(&chunk);
        let chunks = [(0, &chunk), (STREAM, &plain), (STREAM | SEAL, &plain)]
            .map(|(how, bytes): (u8, &Vec<u8>)| [&[how], &**bytes].concat());
        chunks.iter().for_each(|chunk| snapshot(chunk));
        seeds::keep("snapshot_chunks", &chunks).unwrap();
    }

    #[test]
    fn what_is_checked_is_a_state() {
        let stream = golden::plain(&golden::stored("snapshot.chunk"));
        assert!(load(&stream).is_ok_and(|table| table.topics().len() > 0));
        assert_eq!(super::stream(&records(&stream)).len(), stream.len());
    }
}
