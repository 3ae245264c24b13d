//! The real liveness, service, server, tables and log, and openraft, for three nodes with brokers and clients, over a
//! simulated network, disk and time. Everything follows from a seed.
//!
//! A run has a phase with faults and one without, in which there must be progress ([`world`]); `invariants` must hold at
//! each moment. Nodes, brokers and clients are on machines of their own ([`host`]) that run in turn.
//!
//! `make sim` runs many seeds, `make sim SEED=n` one, and tells what happens in it. It builds tokio so that its choices
//! follow from the seed too: the same seed then is the same run, which a test checks. A plain `cargo test` runs fewer, and
//! there tokio wakes the tasks that wait for the same thing in an order of its own: a seed that fails there may need
//! some attempts to fail again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod brokers;
mod clients;
mod dice;
mod disk;
mod faults;
mod host;
mod identity;
mod invariants;
mod lease_model;
mod network;
mod node;
mod reachability;
mod record;
mod remoting_client;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Outcome, World};

/// Seeds of a plain test run.
const SEEDS: u64 = 160;
/// Seeds that run side by side.
const THREADS: usize = 2;

fn named(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a seed on a thread of its own, so that nothing is left of another.
fn run(seed: u64, verbose: bool) -> Result<Outcome, String> {
    let running = std::thread::spawn(move || {
        let run = AssertUnwindSafe(|| World::new(seed, verbose).run(seed));
        catch_unwind(run).unwrap_or_else(|_| Err("a panic, see above".into()))
    });
    running.join().unwrap_or_else(|_| Err("the thread ended".into()))
}

#[test]
fn invariants_hold_and_there_is_progress() {
    let one = named("SIM_SEED");
    let first = one.or(named("SIM_FIRST")).unwrap_or(0);
    let count = if one.is_some() { 1 } else { named("SIM_COUNT").unwrap_or(SEEDS) };
    let next = AtomicU64::new(first);
    let (failed, done) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    match run(seed, one.is_some()) {
                        Ok(outcome) => done.lock().unwrap().push(outcome),
                        Err(error) => {
                            println!("seed {seed} fails; `make sim SEED={seed}` repeats it: {error}");
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
            });
        }
    });
    let (failed, done) = (failed.into_inner().unwrap(), done.into_inner().unwrap());
    assert!(failed.is_empty(), "seeds {failed:?} fail; `make sim SEED={}` repeats the first", failed[0]);
    let sum = |what: fn(&Outcome) -> u64| done.iter().map(what).sum::<u64>();
    println!(
        "{} seeds, {} s simulated, {} entries applied, {} brokers removed, {} writes acknowledged, {} notices, of {} \
         changes that had to be told, {} look-ups judged",
        done.len(),
        sum(|outcome| outcome.simulated.as_secs()),
        sum(|outcome| outcome.applied),
        sum(|outcome| outcome.removals),
        sum(|outcome| outcome.writes),
        sum(|outcome| outcome.notices),
        sum(|outcome| outcome.due_notices),
        sum(|outcome| outcome.routes),
    );
    // A simulation in which nothing happens proves nothing.
    assert!(done.iter().all(|outcome| outcome.removals >= 1 && outcome.writes >= 3), "{done:?}");
    assert!(done.iter().all(|outcome| outcome.routes >= 3), "{done:?}");
    assert!(count < 20 || sum(|outcome| outcome.removals) >= 2 * count, "hardly a removal");
    assert!(count < 20 || sum(|outcome| outcome.notices) > count / 2, "hardly a notice");
    assert!(
        count < 20 || sum(|outcome| outcome.due_notices) > count / 5,
        "hardly a notice that had to be given"
    );
}

/// Only a tokio that takes a seed can be held to it.
#[cfg(tokio_unstable)]
#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..16 {
        assert_eq!(run(seed, false), run(seed, false), "seed {seed}");
    }
}
