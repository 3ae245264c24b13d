//! The lenient reader.

use std::borrow::Cow;

/// Deepest nesting of a skipped value.
const SKIP_DEPTH_MAX: u32 = 64;

/// The beginning of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// `{`: go on with [`Reader::key`] until it returns none.
    Object,
    /// `[`: go on with [`Reader::element`] until there is none.
    Array,
    /// `null`.
    Null,
    /// A text.
    Text(Cow<'a, str>),
    /// A number, `true` or `false`, as written.
    Scalar(&'a str),
}

/// Walks over a JSON text without building a tree. Beside standard JSON it accepts unquoted keys, single quotes,
/// repeated commas, and raw control characters in texts. An error is a short reason; the reader must not be used after
/// it.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// A value ended, so a comma or the end of its container must follow.
    after_value: bool,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of a text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, after_value: false }
    }

    /// The next value. The reader enters an object or array, and consumes any other value.
    ///
    /// # Errors
    /// No value begins here.
    pub fn value(&mut self) -> Result<Event<'a>, &'static str> {
        let event = match self.peek().ok_or("a value is missing")? {
            b'{' => Event::Object,
            b'[' => Event::Array,
            quote @ (b'"' | b'\'') => Event::Text(self.quoted(quote)?),
            _ => self.scalar()?,
        };
        self.after_value = !matches!(event, Event::Object | Event::Array);
        if !self.after_value {
            self.at += 1;
        }
        Ok(event)
    }

    /// The next key of the entered object, with the reader before its value; `None` at the end of the object.
    ///
    /// # Errors
    /// Neither a key nor the end is here.
    pub fn key(&mut self) -> Result<Option<Cow<'a, str>>, &'static str> {
        if self.entry()? { self.name().map(Some) } else { Ok(None) }
    }

    /// Whether the entered object has another entry, with the reader before its key.
    ///
    /// # Errors
    /// Neither a key nor the end is here.
    pub fn entry(&mut self) -> Result<bool, &'static str> {
        Ok(!self.separated(b'}')?)
    }

    /// The key that [`Reader::entry`] found, with the reader before its value.
    ///
    /// # Errors
    /// No key is here.
    pub fn name(&mut self) -> Result<Cow<'a, str>, &'static str> {
        let key = match self.peek().ok_or("an object has no end")? {
            quote @ (b'"' | b'\'') => self.quoted(quote)?,
            _ => Cow::Borrowed(self.token()),
        };
        if self.peek() != Some(b':') {
            return Err("a key without a value");
        }
        self.at += 1;
        Ok(key)
    }

    /// The rest of the text.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips bytes that the caller knows to be whole entries of the object that was entered, from its next key on.
    pub fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.after_value = true;
    }

    /// Whether the entered array has another element, with the reader before it.
    ///
    /// # Errors
    /// Neither an element nor the end is here.
    pub fn element(&mut self) -> Result<bool, &'static str> {
        Ok(!self.separated(b']')?)
    }

    /// The next value as text: numbers, booleans, objects and arrays as written; `None` for null.
    ///
    /// # Errors
    /// No value is here.
    pub fn text(&mut self) -> Result<Option<Cow<'a, str>>, &'static str> {
        self.peek();
        let start = self.at;
        match self.value()? {
            Event::Null => Ok(None),
            Event::Text(text) => Ok(Some(text)),
            Event::Scalar(text) => Ok(Some(Cow::Borrowed(text))),
            Event::Object => self.leave(b'}').map(|()| Some(Cow::Borrowed(self.since(start)))),
            Event::Array => self.leave(b']').map(|()| Some(Cow::Borrowed(self.since(start)))),
        }
    }

    /// The next value as a whole number, as Java casts it: also a number in quotes, a fraction cut off, booleans as 1
    /// and 0; `None` for null and for an empty text.
    ///
    /// # Errors
    /// The value is no number, or does not fit.
    pub fn int<N: TryFrom<i64>>(&mut self) -> Result<Option<N>, &'static str> {
        const NOT_A_NUMBER: &str = "not a whole number";
        if let Some(number) = self.digits() {
            return N::try_from(number).map(Some).map_err(|_| "a number that is too large");
        }
        let number = match self.value()? {
            Event::Null => return Ok(None),
            Event::Text(text) if text.is_empty() || text == "null" => return Ok(None),
            Event::Text(text) => text.parse().map_err(|_| NOT_A_NUMBER)?,
            Event::Scalar("true") => 1,
            Event::Scalar("false") => 0,
            Event::Scalar(number) => {
                number.parse().or_else(|_| whole_part(number)).map_err(|()| NOT_A_NUMBER)?
            }
            Event::Object | Event::Array => return Err(NOT_A_NUMBER),
        };
        N::try_from(number).map(Some).map_err(|_| "a number that is too large")
    }

    /// A plain number, as nearly all are: digits, perhaps after a minus, and then a comma or the end of the object. Any
    /// other value is not consumed.
    #[inline]
    fn digits(&mut self) -> Option<i64> {
        self.peek();
        let rest = self.rest();
        let (negative, digits) = rest.strip_prefix(b"-").map_or((false, rest), |digits| (true, digits));
        let length = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        // 18 digits always fit.
        if !(1..=18).contains(&length) || !matches!(digits.get(length)?, b',' | b'}') {
            return None;
        }
        let number =
            digits.get(..length)?.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        self.at += length + usize::from(negative);
        self.after_value = true;
        Some(if negative { -number } else { number })
    }

    /// The next value as a boolean: also in quotes, 1 for true, other numbers for false; `None` for null and for an
    /// empty text.
    ///
    /// # Errors
    /// The value is no boolean.
    pub fn boolean(&mut self) -> Result<Option<bool>, &'static str> {
        Ok(match self.value()? {
            Event::Null => None,
            Event::Text(text) if text.is_empty() => None,
            Event::Text(text) if text.eq_ignore_ascii_case("true") || text == "1" => Some(true),
            Event::Text(text) if text.eq_ignore_ascii_case("false") || text == "0" => Some(false),
            Event::Scalar("true" | "1") => Some(true),
            Event::Scalar(_) => Some(false),
            _ => return Err("neither true nor false"),
        })
    }

    /// Skips the next value.
    ///
    /// # Errors
    /// No value is here, or it is nested more than 64 deep.
    pub fn skip(&mut self) -> Result<(), &'static str> {
        match self.value()? {
            Event::Object => self.leave(b'}'),
            Event::Array => self.leave(b']'),
            _ => Ok(()),
        }
    }

    /// Checks that only white space is left.
    ///
    /// # Errors
    /// Something else is left.
    pub fn end(&mut self) -> Result<(), &'static str> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err("something follows the value"),
        }
    }

    /// Skips to the end of the object or array that was just entered and that `closer` ends. Not recursive: the bits of
    /// a number hold the open levels, 1 for an object.
    fn leave(&mut self, closer: u8) -> Result<(), &'static str> {
        let (mut depth, mut objects) = (1u32, u64::from(closer == b'}'));
        while depth > 0 {
            let in_object = objects & 1 == 1;
            let more = if in_object { self.key()?.is_some() } else { self.element()? };
            if !more {
                (depth, objects) = (depth - 1, objects >> 1);
                continue;
            }
            let entered = match self.value()? {
                Event::Object => 1,
                Event::Array => 0,
                _ => continue,
            };
            if depth == SKIP_DEPTH_MAX {
                return Err("nested too deep");
            }
            (depth, objects) = (depth + 1, objects << 1 | entered);
        }
        Ok(())
    }

    /// Skips the commas before the next key or element; true when the container ends instead.
    fn separated(&mut self, closer: u8) -> Result<bool, &'static str> {
        let mut commas = 0;
        while self.peek() == Some(b',') {
            self.at += 1;
            commas += 1;
        }
        match self.peek() {
            None => Err("an object or array has no end"),
            Some(byte) if byte == closer => {
                self.at += 1;
                self.after_value = true;
                Ok(true)
            }
            Some(_) if self.after_value && commas == 0 => Err("a comma is missing"),
            Some(_) => Ok(false),
        }
    }

    /// Skips white space, and returns the next byte, which stays unread.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blanks = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        self.at += blanks.unwrap_or(rest.len());
        rest.get(blanks?).copied()
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Everything up to the next byte that ends a token.
    #[inline]
    fn token(&mut self) -> &'a str {
        let (start, rest) = (self.at, self.rest());
        let ends = |byte: &u8| {
            matches!(
                byte,
                b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b',' | b':' | b'{' | b'}' | b'[' | b']'
            )
        };
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
        self.since(start)
    }

    fn scalar(&mut self) -> Result<Event<'a>, &'static str> {
        match self.token() {
            "null" => Ok(Event::Null),
            token @ ("true" | "false") => Ok(Event::Scalar(token)),
            token if is_number(token) => Ok(Event::Scalar(token)),
            _ => Err("neither a text nor a number"),
        }
    }

    /// A quoted text, with the reader on its first quote. Borrowed unless something in it is escaped.
    #[inline]
    fn quoted(&mut self, quote: u8) -> Result<Cow<'a, str>, &'static str> {
        self.at += 1;
        let (start, rest) = (self.at, self.rest());
        let stop =
            rest.iter().position(|byte| *byte == quote || *byte == b'\\').ok_or("a text has no end")?;
        self.at += stop;
        if rest.get(stop) == Some(&b'\\') {
            return self.escaped(start, quote).map(Cow::Owned);
        }
        let text = self.since(start);
        self.at += 1;
        Ok(Cow::Borrowed(text))
    }

    /// The rest of a quoted text that began at `start`, from its first backslash on.
    fn escaped(&mut self, start: usize, quote: u8) -> Result<String, &'static str> {
        let mut text = self.since(start).to_owned();
        loop {
            let plain = self.at;
            let rest = self.text.as_bytes().get(plain..).unwrap_or_default();
            let length =
                rest.iter().position(|byte| *byte == quote || *byte == b'\\').ok_or("a text has no end")?;
            self.at += length;
            text.push_str(self.since(plain));
            let stop = rest.get(length).copied();
            self.at += 1;
            if stop == Some(quote) {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    /// The character of the escape after a backslash.
    fn escape(&mut self) -> Result<char, &'static str> {
        let letter = *self.text.as_bytes().get(self.at).ok_or("a text has no end")?;
        self.at += 1;
        Ok(match letter {
            b'"' | b'\'' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' | b'F' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\u{b}',
            b'0'..=b'7' => char::from(letter - b'0'),
            b'x' => char::from_u32(self.hex(2)?).unwrap_or(char::REPLACEMENT_CHARACTER),
            b'u' => self.unicode()?,
            _ => return Err("an unknown escape"),
        })
    }

    /// The character after `\u`. UTF-8 cannot express half of a surrogate pair, so it is replaced.
    fn unicode(&mut self) -> Result<char, &'static str> {
        let unit = self.hex(4)?;
        if !(0xD800..0xDC00).contains(&unit) {
            return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        if self.text.as_bytes().get(self.at..self.at + 2) == Some(b"\\u") {
            self.at += 2;
            let low = self.hex(4)?;
            if (0xDC00..0xE000).contains(&low) {
                let scalar = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = after_first;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self, digits: usize) -> Result<u32, &'static str> {
        let text = self.text.get(self.at..self.at + digits).ok_or("an escape is cut short")?;
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("an escape that is no number");
        }
        self.at += digits;
        u32::from_str_radix(text, 16).map_err(|_| "an escape that is no number")
    }
}

/// The whole part of a decimal fraction.
fn whole_part(number: &str) -> Result<i64, ()> {
    let fraction: f64 = number.parse().map_err(|_| ())?;
    // Beyond 2^53 a fraction is no longer exact, and no such number is meant.
    if fraction.abs() > 9_007_199_254_740_992.0 {
        return Err(());
    }
    #[allow(clippy::cast_possible_truncation)]
    let whole = fraction as i64;
    Ok(whole)
}

/// Digits, with a sign, a point or an exponent.
fn is_number(token: &str) -> bool {
    token.bytes().any(|byte| byte.is_ascii_digit())
        && token.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
}
