use super::seal::Seal;
use super::*;
use crate::snapshots::CHUNK_BYTES_MAX;
use crate::split_mix::SplitMix;
use bytes::Bytes;
use std::collections::BTreeMap;
use tempfile::TempDir;

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta {
        last: LogId { term: 3, index },
        membership: Bytes::from_static(b"members"),
        state_hash: u128::from(index) << 70,
        unix_ms: 1_700_000_000_000,
    }
}

/// Bytes that do not repeat, the same for a seed.
fn chunks(seed: u64, count: usize, bytes: usize) -> Vec<Bytes> {
    let mut random = SplitMix::new(seed);
    let mut next = || random.next_u64().to_le_bytes();
    (0..count).map(|_| (0..bytes.div_ceil(8)).flat_map(|_| next()).take(bytes).collect()).collect()
}

fn write(store: &SledSnapshots, index: u64, chunks: &[Bytes]) {
    let mut writer = store.begin(meta(index)).unwrap();
    for chunk in chunks {
        writer.chunk(chunk).unwrap();
    }
    writer.commit().unwrap();
}

fn read(store: &SledSnapshots, index: u64) -> io::Result<Vec<Bytes>> {
    let reader = store.open(meta(index).last)?;
    let mut all = Vec::new();
    while let Some(chunk) = reader.chunk(u32::try_from(all.len()).unwrap())? {
        all.push(chunk);
    }
    Ok(all)
}

fn indexes(store: &SledSnapshots) -> Vec<u64> {
    store.all().iter().map(|meta| meta.last.index).collect()
}

/// Every file below a directory, with its content.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_snapshot_is_there_after_reopening() {
    let directory = TempDir::new().unwrap();
    let (large, small) = (chunks(1, 40, CHUNK_BYTES_MAX), chunks(2, 3, 10));
    {
        let store = SledSnapshots::open(directory.path()).unwrap();
        assert_eq!(store.latest(), None);
        write(&store, 7, &large);
        write(&store, 9, &small);
        assert_eq!(read(&store, 7).unwrap(), large);
    }
    let store = SledSnapshots::open(directory.path()).unwrap();
    assert_eq!(store.latest(), Some(meta(9)));
    assert_eq!(store.all(), [meta(7), meta(9)]);
    assert_eq!(read(&store, 7).unwrap(), large);
    assert_eq!(read(&store, 9).unwrap(), small);
    store.verify().unwrap();
    assert!(store.open(meta(7).last).unwrap().chunk(1_000).unwrap().is_none());
    assert_eq!(read(&store, 8).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn an_empty_snapshot_is_a_snapshot() {
    let directory = TempDir::new().unwrap();
    write(&SledSnapshots::open(directory.path()).unwrap(), 1, &[]);
    let store = SledSnapshots::open(directory.path()).unwrap();
    assert_eq!(store.latest(), Some(meta(1)));
    assert!(read(&store, 1).unwrap().is_empty());
}

#[test]
fn the_newest_two_are_kept_and_the_others_leave_the_disk() {
    let directory = TempDir::new().unwrap();
    let store = SledSnapshots::open(directory.path()).unwrap();
    for index in [1, 2, 3] {
        write(&store, index, &chunks(index, 2, 100));
    }
    assert_eq!(indexes(&store), [2, 3]);
    assert_eq!(read(&store, 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    let on_disk = || directories::find(directory.path()).unwrap().finished.len();
    assert_eq!(on_disk(), 2);

    // The same log id again: the second one holds, and it does not push the other one out.
    write(&store, 3, &chunks(33, 4, 50));
    assert_eq!(indexes(&store), [2, 3]);
    assert_eq!(read(&store, 3).unwrap(), chunks(33, 4, 50));
    assert_eq!(on_disk(), 2);

    // One that is finished late does not become the newest.
    write(&store, 1, &chunks(1, 1, 10));
    assert_eq!(indexes(&store), [2, 3]);
    assert_eq!(store.latest(), Some(meta(3)));
    assert_eq!(on_disk(), 2);
}

#[test]
fn an_unfinished_snapshot_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let store = SledSnapshots::open(directory.path()).unwrap();
    write(&store, 1, &chunks(1, 2, 100));
    {
        let mut writer = store.begin(meta(2)).unwrap();
        writer.chunk(b"half").unwrap();
    }
    assert_eq!(indexes(&store), [1]);
    assert!(directories::find(directory.path()).unwrap().leftovers.is_empty());

    // The same by a crash: the directories are there at the next start, and go.
    let (new, old) =
        (directory.path().join("00000000000000aa.new"), directory.path().join("00000000000000ab.old"));
    for leftover in [&new, &old] {
        fs::create_dir_all(leftover.join("blobs")).unwrap();
        fs::write(leftover.join("db"), b"torn").unwrap();
    }
    drop(store);
    let store = SledSnapshots::open(directory.path()).unwrap();
    assert_eq!(indexes(&store), [1]);
    assert!(!new.exists() && !old.exists());
    write(&store, 2, &chunks(2, 1, 10));
    assert_eq!(indexes(&store), [1, 2]);
}

#[test]
fn a_crash_between_finishing_and_pruning_leaves_no_third() {
    let directory = TempDir::new().unwrap();
    let third = directory.path().join("third");
    {
        let store = SledSnapshots::open(directory.path()).unwrap();
        write(&store, 1, &chunks(1, 1, 10));
        fs::rename(directory.path().join("0000000000000000"), &third).unwrap();
    }
    {
        let store = SledSnapshots::open(directory.path()).unwrap();
        write(&store, 2, &chunks(2, 1, 10));
        write(&store, 3, &chunks(3, 1, 10));
    }
    fs::rename(&third, directory.path().join("00000000000000ff")).unwrap();
    let store = SledSnapshots::open(directory.path()).unwrap();
    assert_eq!(indexes(&store), [2, 3]);
    assert_eq!(directories::find(directory.path()).unwrap().finished.len(), 2);
}

#[test]
fn too_large_a_chunk_is_refused() {
    let directory = TempDir::new().unwrap();
    let store = SledSnapshots::open(directory.path()).unwrap();
    let mut writer = store.begin(meta(1)).unwrap();
    let error = writer.chunk(&vec![0; CHUNK_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(error.to_string(), "a snapshot chunk has 65537 bytes; the limit is 65536");
    writer.chunk(b"fits").unwrap();
    writer.commit().unwrap();
    assert_eq!(read(&store, 1).unwrap(), [Bytes::from_static(b"fits")]);
}

#[test]
fn no_value_gets_a_file_of_its_own() {
    // sled never syncs such files.
    let directory = TempDir::new().unwrap();
    write(&SledSnapshots::open(directory.path()).unwrap(), 1, &chunks(1, 100, CHUNK_BYTES_MAX));
    let names: Vec<_> = files(directory.path()).into_keys().collect();
    assert!(names.iter().any(|name| name.ends_with("0000000000000000/db")), "{names:?}");
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("blobs")), "{names:?}");
}

#[test]
fn reading_changes_no_file() {
    // The seal depends on it: a reader that is interrupted anywhere must leave what was sealed.
    let directory = TempDir::new().unwrap();
    for (index, count) in [(1, 1), (2, 16), (3, 130)] {
        write(&SledSnapshots::open(directory.path()).unwrap(), index, &chunks(index, count, CHUNK_BYTES_MAX));
        let before = files(directory.path());
        for reads in [0, 1, 150] {
            let store = SledSnapshots::open(directory.path()).unwrap();
            let reader = store.open(meta(index).last).unwrap();
            for number in (0..reads).rev() {
                reader.chunk(number).unwrap();
            }
            drop((store, reader));
            assert!(files(directory.path()) == before, "{count} chunks, {reads} reads");
        }
    }
}

#[test]
fn a_snapshot_that_is_read_stays_until_it_has_been_read() {
    let directory = TempDir::new().unwrap();
    let store = SledSnapshots::open(directory.path()).unwrap();
    let first = chunks(1, 3, 100);
    write(&store, 1, &first);
    let reader = store.open(meta(1).last).unwrap();
    assert_eq!(reader.chunk(0).unwrap().as_ref(), first.first());
    for index in [2, 3, 4] {
        write(&store, index, &chunks(index, 1, 100));
    }
    assert_eq!(indexes(&store), [3, 4]);
    assert_eq!(read(&store, 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    let rest: Vec<Bytes> = (1..).map_while(|number| reader.chunk(number).unwrap()).collect();
    assert_eq!(rest, first[1..]);
    let on_disk = || directories::find(directory.path()).unwrap().finished.len();
    assert_eq!(on_disk(), 3);

    drop(reader);
    write(&store, 5, &chunks(5, 1, 100));
    assert_eq!(on_disk(), 2);
}

#[test]
fn a_second_process_is_refused_and_a_quick_restart_is_not() {
    let directory = TempDir::new().unwrap();
    let store = SledSnapshots::open(directory.path()).unwrap();
    let error = SledSnapshots::open(directory.path()).unwrap_err();
    assert!(matches!(error, SnapshotError::Locked { .. }), "{error}");
    assert!(error.to_string().ends_with("are in use by another process"), "{error}");

    let path = directory.path().to_owned();
    let second = std::thread::spawn(move || SledSnapshots::open(&path).map(|_| ()));
    drop(store);
    second.join().unwrap().unwrap();
    for _ in 0..20 {
        let store = SledSnapshots::open(directory.path()).unwrap();
        write(&store, 1, &chunks(1, 1, 10));
    }
}

/// Opens and reads everything after a change on disk: it must be refused, or give exactly what was written.
fn refused(directory: &Path, what: &str, expected: &[Bytes]) -> bool {
    let before = files(directory);
    let result = SledSnapshots::open(directory).map_err(io::Error::from).and_then(|store| read(&store, 1));
    match result {
        Ok(read) => {
            assert!(read == expected, "{what}: other data");
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(&directory.display().to_string()), "{what}: {text}");
            assert!(text.contains("docs/runbooks/damaged-snapshot.md"), "{what}: {text}");
            assert!(files(directory) == before, "{what}: something was changed");
            true
        }
    }
}

#[test]
fn damage_anywhere_is_refused_and_nothing_is_changed() {
    let directory = TempDir::new().unwrap();
    let expected = chunks(1, 20, CHUNK_BYTES_MAX);
    write(&SledSnapshots::open(directory.path()).unwrap(), 1, &expected);
    for (path, content) in files(directory.path()) {
        if path.ends_with("lock") {
            continue;
        }
        let length = content.len();
        for at in (0..length).step_by((length / 24).max(1)).chain([length - 1]) {
            let mut damaged = content.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            let what = format!("{} with bit flipped at {at}", path.display());
            assert!(refused(directory.path(), &what, &expected), "{what}");
        }
        for cut in [0, 1, length / 2, length - 1] {
            fs::write(&path, &content[..cut]).unwrap();
            let what = format!("{} cut to {cut}", path.display());
            assert!(refused(directory.path(), &what, &expected), "{what}");
        }
        fs::remove_file(&path).unwrap();
        assert!(refused(directory.path(), &format!("{} gone", path.display()), &expected));
        fs::write(&path, &content).unwrap();
    }
    assert!(!refused(directory.path(), "all put back", &expected));
}

/// The same without the seal: what sled and the checksums of chunks and pointer do by themselves.
#[test]
fn damage_below_the_seal_gives_no_wrong_data_and_no_panic() {
    let directory = TempDir::new().unwrap();
    let expected = chunks(1, 20, 3_000);
    write(&SledSnapshots::open(directory.path()).unwrap(), 1, &expected);
    let snapshot = directory.path().join("0000000000000000");
    let (path, sealed) = (snapshot.join("db"), files(&snapshot));
    let content = &sealed[&path];
    let used =
        content.len() - content.iter().rev().take_while(|byte| **byte == content[content.len() - 1]).count();
    let mut refused_count = 0;
    for at in (0..used).step_by(used / 50) {
        let mut damaged = content.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        Seal::of(&snapshot).unwrap().write(&snapshot).unwrap();
        let result = SledSnapshots::open(directory.path()).map_err(io::Error::from).and_then(|store| {
            let read = read(&store, 1)?;
            Ok((store.all(), read))
        });
        match result {
            Ok((all, read)) => {
                assert!(all == [meta(1)] && read == expected, "other data after a flip at {at}")
            }
            Err(error) => {
                assert!(error.to_string().contains("0000000000000000"), "{error}");
                refused_count += 1;
            }
        }
        for (path, content) in &sealed {
            fs::write(path, content).unwrap();
        }
        for path in files(&snapshot).keys().filter(|path| !sealed.contains_key(*path)) {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(refused_count > 20, "only {refused_count} refused");
}

#[test]
fn a_chunk_that_was_exchanged_or_damaged_is_refused() {
    let value = record::encode_chunk(4, b"payload");
    assert_eq!(record::decode_chunk(4, &value).unwrap(), b"payload");
    assert!(record::decode_chunk(5, &value).unwrap_err().contains("checksum of chunk 5"));
    for at in 0..value.len() {
        let mut damaged = value.clone();
        damaged[at] ^= 1;
        assert!(record::decode_chunk(4, &damaged).is_err(), "byte {at}");
        assert!(record::decode_chunk(4, &value[..at]).is_err(), "cut to {at}");
    }
    let newer: Vec<u8> = std::iter::once(9).chain(value[1..].iter().copied()).collect();
    assert_eq!(record::decode_chunk(4, &newer).unwrap_err(), "chunk 4 has format 9, this version reads 1");
}

#[test]
fn stored_bytes_are_golden() {
    let chunk = record::encode_chunk(4, b"payload");
    assert_eq!(hex(&chunk), "0105771e047061796c6f6164");
    let pointer = record::Pointer { meta: meta(300), chunks: 2, bytes: 70_000, hash: 5 };
    let bytes = record::encode_checked("pointer record", &pointer).unwrap();
    let golden = "0103fb2c01076d656d62657273fe0000000000000000004b000000000000fd0068e5cf8b01000002fc70110100053f2dc01a";
    assert_eq!(hex(&bytes), golden);
    assert_eq!(record::decode_checked::<record::Pointer>("pointer record", &bytes).unwrap(), pointer);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
