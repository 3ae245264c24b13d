//! Java's properties text: codes 318 and 319, and configuration files.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;
use storage::command::Name;

/// The text is no properties text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a broken unicode escape")]
pub struct BadProperties;

/// Parses a text into keys and values, sorted by key; of several with one key the last counts. Comments, continued
/// lines, escapes and the separators `=`, `:` and white space are those of `java.util.Properties`; the text is UTF-8.
///
/// # Errors
/// A unicode escape is broken. Every other text is valid.
pub fn parse(text: &[u8]) -> Result<Vec<(Name, Name)>, BadProperties> {
    let text = String::from_utf8_lossy(text);
    let mut entries = BTreeMap::new();
    let mut rest = text.chars().peekable();
    loop {
        skip_while(&mut rest, |c| is_space(c) || is_line_end(c));
        match rest.peek() {
            None => break,
            Some('#' | '!') => skip_while(&mut rest, |c| !is_line_end(c)),
            Some(_) => {
                let (key, value) = entry(&mut rest)?;
                entries.insert(Name::from(key), Name::from(value));
            }
        }
    }
    Ok(entries.into_iter().collect())
}

/// Writes `key=value` lines in the given order. Nothing is escaped: that is how Java answers code 319.
pub fn write<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Bytes {
    let mut text = String::new();
    for (key, value) in entries {
        text.extend([key, "=", value, "\n"]);
    }
    Bytes::from(text)
}

/// A key and its value, up to the end of the logical line.
fn entry(rest: &mut Peekable<Chars<'_>>) -> Result<(String, String), BadProperties> {
    let key = token(rest, |c| is_space(c) || matches!(c, '=' | ':'))?;
    skip_blank(rest);
    if rest.next_if(|c| matches!(c, '=' | ':')).is_some() {
        skip_blank(rest);
    }
    let value = token(rest, |_| false)?;
    Ok((key, value))
}

/// Characters up to the end of the logical line or to a character that `ends` the token, with escapes resolved.
fn token(rest: &mut Peekable<Chars<'_>>, ends: impl Fn(char) -> bool) -> Result<String, BadProperties> {
    let mut token = String::new();
    while let Some(character) = rest.next_if(|c| !is_line_end(*c) && !ends(*c)) {
        if character != '\\' {
            token.push(character);
            continue;
        }
        match rest.next() {
            None => break,
            Some(end) if is_line_end(end) => continue_line(end, rest),
            Some('u') => token.push(unicode(rest)?),
            Some('t') => token.push('\t'),
            Some('n') => token.push('\n'),
            Some('r') => token.push('\r'),
            Some('f') => token.push('\u{c}'),
            Some(other) => token.push(other),
        }
    }
    Ok(token)
}

/// Blanks, and the ends of lines that are continued.
fn skip_blank(rest: &mut Peekable<Chars<'_>>) {
    loop {
        skip_while(rest, is_space);
        let mut ahead = rest.clone();
        if ahead.next() != Some('\\') {
            return;
        }
        match ahead.next() {
            Some(end) if is_line_end(end) => {
                *rest = ahead;
                continue_line(end, rest);
            }
            _ => return,
        }
    }
}

/// Called after a backslash and the end of a line: skips the leading blanks of the next line.
fn continue_line(end: char, rest: &mut Peekable<Chars<'_>>) {
    if end == '\r' {
        rest.next_if_eq(&'\n');
    }
    skip_while(rest, is_space);
}

/// Reads four hexadecimal digits, and the second half of a surrogate pair if they are the first half.
fn unicode(rest: &mut Peekable<Chars<'_>>) -> Result<char, BadProperties> {
    let first = hex(rest)?;
    if !(0xD800..0xDC00).contains(&first) {
        return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    let mut ahead = rest.clone();
    let escaped = ahead.next() == Some('\\') && ahead.next() == Some('u');
    if escaped && let Ok(second @ 0xDC00..0xE000) = hex(&mut ahead) {
        *rest = ahead;
        let scalar = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    Ok(char::REPLACEMENT_CHARACTER)
}

fn hex(rest: &mut Peekable<Chars<'_>>) -> Result<u32, BadProperties> {
    (0..4).try_fold(0, |number, _| {
        let digit = rest.next().and_then(|c| c.to_digit(16)).ok_or(BadProperties)?;
        Ok(number << 4 | digit)
    })
}

fn skip_while(rest: &mut Peekable<Chars<'_>>, skip: impl Fn(char) -> bool) {
    while rest.next_if(|c| skip(*c)).is_some() {}
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r')
}

#[cfg(test)]
mod tests;
