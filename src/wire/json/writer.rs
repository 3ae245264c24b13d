//! Writes texts and numbers as Java's fastjson does.

use bytes::BytesMut;

/// How characters beyond ASCII are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Charset {
    /// As UTF-8.
    Utf8,
    /// As `\uXXXX`, in UTF-16 units; `/` is escaped as well ("browser compatible").
    Ascii,
}

/// Appends a number.
pub fn put_int(number: i64, out: &mut BytesMut) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        start -= 1;
        // A remainder of ten fits a byte.
        #[allow(clippy::cast_possible_truncation)]
        let digit = (rest % 10) as u8;
        if let Some(place) = digits.get_mut(start) {
            *place = b'0' + digit;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.extend_from_slice(b"-");
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Appends a text in double quotes.
pub fn put_text(text: &str, charset: Charset, out: &mut BytesMut) {
    out.reserve(text.len() + 2);
    out.extend_from_slice(b"\"");
    // Names and addresses are nearly always plain ASCII: one check per byte, one copy.
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
    } else {
        put_characters(text, charset, out);
    }
    out.extend_from_slice(b"\"");
}

/// Whether a byte is never escaped. (`/` sometimes is.)
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..b'\x7f') && !matches!(byte, b'"' | b'\\' | b'/')
}

fn put_characters(text: &str, charset: Charset, out: &mut BytesMut) {
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        if !must_escape(character, charset) {
            continue;
        }
        out.extend_from_slice(text.as_bytes().get(plain..at).unwrap_or_default());
        plain = at + character.len_utf8();
        put_escaped(character, out);
    }
    out.extend_from_slice(text.as_bytes().get(plain..).unwrap_or_default());
}

fn must_escape(character: char, charset: Charset) -> bool {
    match character {
        '\0'..'\u{20}' | '"' | '\\' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => true,
        '/' => charset == Charset::Ascii,
        '\u{80}'.. => charset == Charset::Ascii,
        _ => false,
    }
}

fn put_escaped(character: char, out: &mut BytesMut) {
    let short: &[u8] = match character {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '/' => b"\\/",
        '\u{8}' => b"\\b",
        '\u{c}' => b"\\f",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                put_unit(*unit, out);
            }
            return;
        }
    };
    out.extend_from_slice(short);
}

fn put_unit(unit: u16, out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |shift: u16| HEX.get(usize::from(unit >> shift & 15)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}
