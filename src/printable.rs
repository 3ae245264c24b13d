//! Text of brokers, clients and other nodes, as a log or a terminal may show it. A name with a line break would forge a
//! log line, one with an escape sequence would drive the terminal, and one with a bidi mark would show other names than it
//! holds.

use std::borrow::Cow;
use std::fmt::Write;

/// What a text may keep of what [`is_harmful`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing: it becomes one line, or a part of one.
    Nothing,
    /// Line breaks and tabs: it has several lines of its own.
    LineBreaks,
}

/// The text with `\n`, `\u{1b}` and the like in place of each character that is not shown as itself.
pub(crate) fn printable(text: &str, keep: Keep) -> Cow<'_, str> {
    escape(text, keep, |c, out| out.extend(c.escape_default()))
}

/// A JSON document with `\u202e` and the like in place of such characters, which can stand in its strings only.
pub(crate) fn printable_json(json: &str) -> Cow<'_, str> {
    escape(json, Keep::LineBreaks, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn escape(text: &str, keep: Keep, write: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let kept = |c: char| keep == Keep::LineBreaks && matches!(c, '\n' | '\t');
    let harms = |c: char| is_harmful(c) && !kept(c);
    if !text.contains(harms) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harms(c) {
            write(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Control characters, line and paragraph separators, and marks that change the direction of the text after them.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\nb\r\u{1b}[2J\u{9b}c\t\u{7f}\u{202e}d\u{2028}\u{2069}\u{200f}\0";

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_an_escape() {
        let shown = printable(HOSTILE, Keep::Nothing);
        let expected = "a\\nb\\r\\u{1b}[2J\\u{9b}c\\t\\u{7f}\\u{202e}d\\u{2028}\\u{2069}\\u{200f}\\u{0}";
        assert_eq!(shown, expected);
        assert_eq!(printable("a\n\tb\r", Keep::LineBreaks), "a\n\tb\\r");
        for plain in ["", "topic-1", "%RETRY%g", "größe 主题 🚀 \\n \"x\""] {
            assert!(matches!(printable(plain, Keep::Nothing), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn json_stays_the_same_document() {
        let json = serde_json::to_string_pretty(&[HOSTILE]).unwrap();
        let shown = printable_json(&json);
        assert!(!shown.contains(|c| is_harmful(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [HOSTILE]);
    }
}
