//! kill -9 at random moments: what was acknowledged is there, whole, and nothing else is.
//!
//! The writer is this test program itself, started again with [`CHILD`] in its environment.
//! `KILL_SEED=N` repeats the moments of a run as nearly as a running machine allows, `KILL_ROUNDS=N` asks for more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(unreachable_pub, reason = "the harness is shared with an example")]
#![allow(clippy::disallowed_methods, reason = "a real process is killed at a real moment")]

mod harness;

use harness::Parts;
use harness::check::{Found, Summary, check};
use harness::model::Operation;
use harness::write::write;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// `<seed> <part> <directory>` for the writer.
const CHILD: &str = "KILL_TEST_CHILD";

/// Not a test but the writer, when it is started as one.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let mut words = arguments.splitn(3, ' ');
    let seed = words.next().unwrap().parse().unwrap();
    let parts = Parts::only(words.next().unwrap()).unwrap_or_default();
    let directory = words.next().unwrap();
    let mut history = File::options().append(true).open("/dev/stdout").unwrap();
    writeln!(history).unwrap(); // The test runner has left a line unfinished.
    write(Path::new(directory), parts, seed, Box::new(history)).unwrap();
}

#[test]
fn log_and_vote_survive_kill() {
    let each = |hit: &Hit| hit.append.min(hit.vote).min(hit.truncate).min(hit.purge) > 5;
    rounds("log", 150, 60, |hit| hit.in_flight > 30, each);
}

#[test]
fn snapshots_survive_kill() {
    rounds("snapshots", 15, 700, |hit| hit.snapshot > 0, |_| true);
}

#[test]
fn log_and_snapshots_survive_kill() {
    let rare = |hit: &Hit| hit.append > 5 && hit.purge > 0 && hit.install > 0;
    rounds("both", 35, 500, |hit| hit.in_flight > 10 && hit.snapshot > 0, rare);
}

/// In how many rounds the kill hit something that was not acknowledged, by what it was.
#[derive(Debug, Default)]
struct Hit {
    in_flight: usize,
    append: usize,
    vote: usize,
    truncate: usize,
    purge: usize,
    snapshot: usize,
    install: usize,
}

impl Hit {
    fn count(&mut self, summary: &Summary) {
        let asked = |is: fn(&Operation) -> bool| usize::from(summary.in_flight.iter().any(is));
        self.in_flight += usize::from(!summary.in_flight.is_empty());
        self.append += asked(|o| matches!(o, Operation::Append { .. }));
        self.vote += asked(|o| matches!(o, Operation::Vote(_)));
        self.truncate += asked(|o| matches!(o, Operation::TruncateAfter(_)));
        self.purge += asked(|o| matches!(o, Operation::Purge(_)));
        self.snapshot += usize::from(summary.in_snapshot);
        self.install += usize::from(summary.in_install);
    }
}

/// Writes and kills so many times in one directory, which must hit writes `often`, and up to twice as many more until the
/// `rare` ones were hit.
fn rounds(
    part: &str,
    rounds: u64,
    longest_ms: u64,
    often: impl Fn(&Hit) -> bool,
    rare: impl Fn(&Hit) -> bool,
) {
    let seed = number("KILL_SEED").unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::from(since.subsec_nanos())
    });
    let rounds = number("KILL_ROUNDS").unwrap_or(rounds);
    println!("{part}: repeat with KILL_SEED={seed} cargo test -p storage --test kill");
    let parts = Parts::only(part).unwrap_or_default();
    let directory = fast_directory();
    let (mut before, mut hit) = (Found::default(), Hit::default());
    for round in 0..3 * rounds {
        if round == rounds {
            assert!(often(&hit), "{part}: {hit:?}: too few kills hit a write");
        }
        if round >= rounds && rare(&hit) {
            break;
        }
        let round_seed = seed.wrapping_add(round.wrapping_mul(0x9e37_79b9));
        let history = write_and_kill(directory.path(), part, round_seed, longest_ms);
        let summary = check(directory.path(), parts, &history, Some(&before)).unwrap_or_else(|error| {
            let history = tail(&history);
            panic!("{part}: KILL_SEED={seed}, round {round}: {error}\nafter:\n{history}")
        });
        hit.count(&summary);
        println!("{part} {round}: {summary}");
        before = summary.found;
    }
    println!("{part}: {hit:?}");
    assert!(rare(&hit), "{part}: {hit:?}: too few kills hit a write of each kind");
}

/// In memory where that is possible: kill -9 takes nothing from the page cache, so the disk has no part in it, and a busy
/// one would only make the rounds fewer.
fn fast_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Starts the writer, kills it some time after it has opened (or, now and then, while it opens).
fn write_and_kill(directory: &Path, part: &str, seed: u64, longest_ms: u64) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{seed} {part} {}", directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut history = String::new();
    if !seed.is_multiple_of(16) {
        while !history.ends_with("ready\n") {
            assert!(output.read_line(&mut history).unwrap() > 0, "the writer ended by itself:\n{history}");
        }
    }
    let mixed = seed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20;
    let killer =
        std::thread::spawn(move || kill_after(child, Duration::from_micros(mixed % (longest_ms * 1_000))));
    // Read while it runs: a full pipe would hold it up.
    output.read_to_string(&mut history).unwrap();
    assert!(!killer.join().unwrap(), "the writer ended by itself:\n{}", tail(&history));
    history
}

/// Whether it had ended before.
fn kill_after(mut child: Child, after: Duration) -> bool {
    std::thread::sleep(after);
    let ended = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    child.wait().unwrap();
    ended
}

fn tail(history: &str) -> String {
    let lines: Vec<&str> = history.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
