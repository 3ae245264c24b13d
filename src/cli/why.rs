//! `why`: what happened to a topic or a broker, from the history of the cluster.

use super::{Failure, http, output, output::Format, target::Target};
use crate::admin::history::HistoryView;
use hyper::Method;
use std::time::{Duration, UNIX_EPOCH};

/// RFC 3339 ends here. A time comes from the clock of another machine and may be anything.
const YEAR_10000_UNIX_MS: u64 = 253_402_300_800_000;

/// Flags of `why`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A topic, a broker name, or a broker's ip:port
    name: String,
    /// How many records at most; the newest are shown
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    target: Target,
}

/// Asks the first node that answers.
///
/// # Errors
/// No node answers, or the cluster knows nothing of that name.
pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let timeout = args.target.timeout();
    let path = path(&args.name, args.limit);
    let ask = async |address: &str| http::api(address, Method::GET, &path, String::new(), timeout).await;
    let view: HistoryView = args.target.first(ask).await?;
    match args.target.format() {
        Format::Json => output::json(&view)?,
        Format::Text => print(&view)?,
    }
    if view.known || !view.records.is_empty() {
        return Ok(());
    }
    let since =
        view.since_unix_ms.map_or_else(|| "is empty".to_owned(), |ms| format!("begins at {}", time(ms)));
    Err(Failure::refused(format!("nothing is known of {}; the history {since}", view.about)))
}

fn path(name: &str, limit: usize) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let query = query.append_pair("about", name).append_pair("limit", &limit.to_string()).finish();
    format!("/api/v1/history?{query}")
}

fn print(view: &HistoryView) -> Result<(), Failure> {
    output::line(&view.now)?;
    if view.records.is_empty() {
        return Ok(());
    }
    let rows = view.records.iter().map(|record| {
        let peer = if record.peer.is_empty() { "-".to_owned() } else { record.peer.clone() };
        [
            time(record.unix_ms),
            record.revision.to_string(),
            record.node.to_string(),
            peer,
            record.what.clone(),
        ]
    });
    output::table(["TIME", "REVISION", "NODE", "ASKED BY", "WHAT"], rows.collect())?;
    if view.left_out > 0 {
        output::line(&format!("{} older records are left out; see --limit", view.left_out))?;
    }
    Ok(())
}

/// The time in UTC; from the year 10000 on the bare number of milliseconds.
fn time(unix_ms: u64) -> String {
    if unix_ms >= YEAR_10000_UNIX_MS {
        return format!("{unix_ms} ms");
    }
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(unix_ms)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_marks_of_a_query_string_pass() {
        let about = |name| path(name, 1).strip_prefix("/api/v1/history?about=").unwrap().to_owned();
        assert_eq!(about("%RETRY%g"), "%25RETRY%25g&limit=1");
        assert_eq!(about("10.0.0.1:10911"), "10.0.0.1%3A10911&limit=1");
        assert_eq!(about("a&limit=1 ü"), "a%26limit%3D1+%C3%BC&limit=1");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(YEAR_10000_UNIX_MS - 1), "9999-12-31T23:59:59.999Z");
        assert_eq!(time(u64::MAX), format!("{} ms", u64::MAX));
    }
}
