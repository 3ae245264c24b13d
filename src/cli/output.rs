//! What commands print: tables for people, JSON for scripts. A closed pipe ends a command quietly, with exit code 0.

use crate::printable::{Keep, printable, printable_json};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::{self, Write};

/// How the result of a command is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table or sentences.
    Text,
    /// One JSON document.
    Json,
}

/// Writes a line to stdout.
///
/// # Errors
/// The pipe is closed or the disk is full.
pub(crate) fn line(text: &str) -> io::Result<()> {
    write(&printable(text, Keep::Nothing))
}

/// Writes a text of several lines to stdout.
///
/// # Errors
/// The pipe is closed or the disk is full.
pub(crate) fn text(text: &str) -> io::Result<()> {
    write(&printable(text, Keep::LineBreaks))
}

/// Writes a list to stdout, each item a line of its own.
///
/// # Errors
/// The pipe is closed or the disk is full.
pub(crate) fn lines(items: &[String]) -> io::Result<()> {
    let lines: Vec<_> = items.iter().map(|item| printable(item, Keep::Nothing)).collect();
    write(&lines.join("\n"))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes a JSON document, indented.
///
/// # Errors
/// The pipe is closed or the disk is full.
pub(crate) fn json<T: Serialize>(value: &T) -> io::Result<()> {
    write(&printable_json(&serde_json::to_string_pretty(value)?))
}

/// Writes a table without frames: header, then rows.
///
/// # Errors
/// The pipe is closed or the disk is full.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell, Keep::Nothing)));
    }
    let text = table.to_string();
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    write(&trimmed.join("\n"))
}
