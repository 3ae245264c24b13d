//! The `raft-namesrv` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    raft_namesrv::cli::main()
}
