//! Writes to a data directory until it is killed, or checks what a killed writer left behind.
//!
//! ```text
//! torture writer DIR [--seed N] [--only snapshots|log]   prints its history, one event a line, and never ends
//! torture checker DIR HISTORY [--only snapshots|log]       exit code 1 if anything acknowledged is not there
//! ```
//!
//! The test in `main.rs` drives the same code with kill -9, `scripts/power-cut.sh` with power cuts.

#![allow(unreachable_pub, reason = "the harness is shared with a test")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the command line")]

mod harness;

use harness::Parts;
use harness::check::check;
use harness::write::write;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: torture writer DIR [--seed N] [--only snapshots|log]
       torture checker DIR HISTORY [--only snapshots|log]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (mut seed, mut parts, mut places) = (1, Parts::default(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seed" => seed = rest.next().ok_or(USAGE)?.parse()?,
            "--only" => parts = Parts::only(rest.next().ok_or(USAGE)?).ok_or(USAGE)?,
            place => places.push(place),
        }
    }
    match places.as_slice() {
        ["writer", directory] => {
            write(Path::new(directory), parts, seed, Box::new(std::io::stdout()))?;
        }
        ["checker", directory, history] => {
            let history = std::fs::read_to_string(history)?;
            let summary = check(Path::new(directory), parts, &history, None)?;
            println!("{summary}");
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
