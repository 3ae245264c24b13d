//! The log of a node, on stderr. Logging never blocks the node: lines wait in a bounded queue for a thread of their own,
//! and a line that finds no room is dropped and counted. The CLI writes its results without this module.

mod stderr;
#[cfg(test)]
mod tests;

use crate::printable::{Keep, printable, printable_json};
use std::borrow::Cow;
use std::io::{self, Write};
use std::panic;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;
use stderr::Stderr;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable that says how much is logged.
pub(crate) const LOG_VARIABLE: &str = "RAFT_NAMESRV_LOG";

/// Lines that wait for stderr: with the next limit 32 MiB at most.
const LINES_MAX: usize = 2_048;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 16 << 10;
/// How long the end of the process waits for a stderr that takes nothing.
const END_MAX: Duration = Duration::from_millis(1_500);

/// openraft repeats the same line for each message that a dead member does not take, and calls it an error that its own
/// parts end one after the other. The node itself says what matters of this: a member that is not reached, a leader, the
/// end of openraft's core with the reason.
const OPENRAFT: &str = "openraft=off";

/// Lines dropped by this process.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON document per line.
    Json,
}

/// The log of this process. When this is dropped, what waits is written, as far as stderr takes it in time.
#[must_use]
pub(crate) struct Logging(Option<WorkerGuard>);

/// Lines that found no room in the queue since the process started.
pub(crate) fn dropped_lines() -> u64 {
    DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64)
}

/// Starts to log what `RAFT_NAMESRV_LOG` asks for; by default all but details.
pub(crate) fn start(format: LogFormat) -> Logging {
    let (lines, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(Stderr::new(io::stderr(), dropped_lines));
    // A process starts its log once.
    let _ = DROPPED.set(lines.error_counter());
    let asked = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let log = tracing_subscriber::fmt().with_env_filter(filter(&asked)).with_writer(Lines { format, lines });
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
    // The hook of the standard library would wait for stderr.
    panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Logging(Some(guard))
}

/// What to log. A text that cannot be read counts as none; openraft speaks only when the text names it.
fn filter(asked: &str) -> EnvFilter {
    let directives = |levels: &str| EnvFilter::try_new(format!("{OPENRAFT},{levels}"));
    let asked = Some(asked).filter(|asked| !asked.trim().is_empty());
    let read = asked.and_then(|asked| directives(asked).ok());
    read.unwrap_or_else(|| directives("info").unwrap_or_default())
}

/// Runs something that may wait for a terminal or a pipe, and goes on without its end after a while.
pub(crate) fn briefly(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        work();
        // After the time limit there is no receiver any more.
        let _ = done.send(());
    });
    let _ = ended.recv_timeout(END_MAX);
}

impl Drop for Logging {
    fn drop(&mut self) {
        let guard = self.0.take();
        // Its own time limits do not hold when stdout is the same pipe.
        briefly(move || drop(guard));
    }
}

/// Gives each event to the queue, as one line.
struct Lines {
    format: LogFormat,
    lines: NonBlocking,
}

/// Takes one event.
struct Line<'a>(&'a Lines);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    /// The formatter writes an event in one call.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = line(&String::from_utf8_lossy(event), self.0.format);
        self.0.lines.clone().write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event as one line of limited length, without anything that a terminal would obey.
fn line(event: &str, format: LogFormat) -> String {
    let event = event.trim_end_matches('\n');
    let bytes = event.len();
    let line = match format {
        LogFormat::Text if bytes > LINE_BYTES_MAX => {
            let cut = event.get(..event.floor_char_boundary(LINE_BYTES_MAX)).unwrap_or_default();
            Cow::Owned(format!("{} … ({bytes} bytes)", printable(cut, Keep::Nothing)))
        }
        LogFormat::Text => printable(event, Keep::Nothing),
        // A part of a document is none.
        LogFormat::Json if bytes > LINE_BYTES_MAX => {
            Cow::Owned(serde_json::json!({"level": "WARN", "fields": {"message": format!("a line of {bytes} bytes is left out")}}).to_string())
        }
        LogFormat::Json => printable_json(event),
    };
    format!("{line}\n")
}
