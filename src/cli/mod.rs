//! The command line: one file per sub-command. It checks what was typed and turns it into typed options.
//! `serve` hands them to [`crate::run()`]; every other command is a client of running nodes.

mod advice;
mod brokers;
pub(crate) mod client;
mod dev;
mod http;
mod kv;
mod members;
mod output;
mod play;
mod probe;
mod route;
mod serve;
mod settings;
mod status;
pub(crate) mod target;
mod topics;
mod transfer;
mod why;

use crate::logging;
use crate::printable::{Keep, printable};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// A replicated nameserver for Apache RocketMQ.
#[derive(Debug, Parser)]
#[command(name = "raft-namesrv", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node; without options a cluster of one node in ./data
    Serve(Box<serve::Args>),
    /// Run a cluster on this machine, each node a process of its own
    Dev(dev::Args),
    /// Pretend to be brokers: register, send heartbeats, change and leave
    Play(play::Args),
    /// Show each node: its role, its newest revision, whether it is ready
    Status(status::Args),
    /// Show where a topic lives: ask each address and compare the answers
    Route(route::Args),
    /// List the topics: ask each address and compare the answers
    Topics(topics::Args),
    /// List the brokers with their idle time: the seconds since their last sign of life
    Brokers(brokers::Args),
    /// Show what happened to a topic or a broker: when, why, and which address asked for it
    Why(why::Args),
    /// Read and change the KV configuration
    Kv(kv::Args),
    /// Read and change the settings of the cluster
    Settings(settings::Args),
    /// Show and change the members of the Raft group
    Members(members::Args),
    /// Transfer the leadership to another node
    Transfer(transfer::Args),
    /// Check the health of one node: exit code 0 when it is ready (for containers)
    Probe(probe::Args),
    /// Print completions for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

/// Why a command ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    /// For stderr: what the command attempted, on what, and why that failed.
    pub(crate) message: String,
    exit_code: u8,
    /// What an operator can do about it.
    advice: Option<&'static str>,
}

impl Failure {
    /// Refused data or settings, or an answer that is not what was asked for: exit code 1.
    pub(crate) fn refused(message: String) -> Self {
        Self { message, exit_code: 1, advice: None }
    }

    /// Wrong arguments: exit code 2.
    pub(crate) fn arguments(message: String) -> Self {
        Self { message, exit_code: 2, advice: None }
    }

    /// Cannot listen: exit code 3.
    pub(crate) fn listen(message: String) -> Self {
        Self { message, exit_code: 3, advice: None }
    }

    /// Raft or the disk is dead: exit code 4.
    pub(crate) fn dead(message: String) -> Self {
        Self { message, exit_code: 4, advice: None }
    }

    /// The same with advice, unless it has some.
    pub(crate) fn with(mut self, advice: Option<&'static str>) -> Self {
        self.advice = self.advice.or(advice);
        self
    }
}

impl From<io::Error> for Failure {
    /// For printing only: every other failure says what was attempted.
    fn from(error: io::Error) -> Self {
        let exit_code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { 1 };
        Self { message: format!("cannot print: {error}"), exit_code, advice: None }
    }
}

/// Parses the command line and runs it.
#[must_use]
pub fn main() -> ExitCode {
    let matches = without_empty_variables(Cli::command()).get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(&Failure::refused(format!("cannot start the runtime: {error}"))),
    };
    let result = runtime.block_on(run(cli.command));
    // Blocking work that hangs (a resolver, a disk) must not keep the process alive.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&failure),
    }
}

/// An environment variable that is empty counts as none: a compose file or a unit cannot leave one out.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty =
        |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|text| text.is_empty());
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(None) } else { arg });
    command.mut_subcommands(without_empty_variables)
}

async fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => Box::pin(serve::run(*args)).await,
        Command::Dev(args) => dev::run(&args).await,
        Command::Play(args) => play::run(args).await,
        Command::Status(args) => status::run(&args).await,
        Command::Route(args) => route::run(&args).await,
        Command::Topics(args) => topics::run(&args).await,
        Command::Brokers(args) => brokers::run(&args).await,
        Command::Why(args) => why::run(&args).await,
        Command::Kv(args) => kv::run(&args).await,
        Command::Settings(args) => settings::run(&args).await,
        Command::Members(args) => members::run(&args).await,
        Command::Transfer(args) => transfer::run(&args).await,
        Command::Probe(args) => probe::run(&args).await,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "raft-namesrv", &mut io::stdout());
            Ok(())
        }
    }
}

fn end(failure: &Failure) -> ExitCode {
    if failure.exit_code != 0 {
        let advice = failure.advice.map_or_else(String::new, |advice| format!("\n  {advice}"));
        let text = format!("raft-namesrv: {}{advice}\n", failure.message);
        let text = printable(&text, Keep::LineBreaks).into_owned();
        // A supervisor starts a node again when it has ended, so that must not wait for a pipe that is not read.
        logging::briefly(move || drop(io::stderr().write_all(text.as_bytes())));
    }
    ExitCode::from(failure.exit_code)
}

/// Resolves at Ctrl-C or SIGTERM.
pub(crate) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        drop(tokio::signal::ctrl_c().await);
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold() {
        Cli::command().debug_assert();
    }

    /// The reference of the settings names flags and variables as they are.
    #[test]
    fn flags_of_settings_are_flags_of_serve() {
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        for (flag, variable) in crate::config::SETTINGS.iter().filter_map(|setting| setting.flag) {
            let named = serve.get_arguments().find(|argument| {
                argument.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long))
            });
            let environment = named.and_then(|argument| argument.get_env()).unwrap_or_default();
            assert_eq!(environment, variable, "{flag}");
        }
    }
}
