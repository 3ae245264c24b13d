//! As much of Rust's syntax as the house rules need: where comments, texts, functions and test modules are.

/// A function and where it is.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line of its `fn`, counted from 1.
    pub(crate) at: usize,
    /// Lines from its `fn` to its closing brace.
    pub(crate) lines: usize,
}

/// A Rust file whose comments and literals are blanked out, so that every brace left is one of the program's.
pub(crate) struct RustSource {
    lines: Vec<String>,
}

impl RustSource {
    pub(crate) fn parse(text: &str) -> Self {
        Self { lines: blank_literals(text).lines().map(str::to_owned).collect() }
    }

    /// All lines, tests too. No comments, no literals.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// How many lines the file has, the bodies of `#[cfg(test)]` modules not counted.
    pub(crate) fn lines_without_tests(&self) -> usize {
        self.code_without_tests().len()
    }

    /// The lines with their numbers, but for the bodies of `#[cfg(test)]` modules. No comments, no literals.
    pub(crate) fn code_without_tests(&self) -> Vec<(usize, &str)> {
        let mut code = Vec::new();
        let mut after_attribute = false;
        let mut at = 0;
        while at < self.lines.len() {
            let line = self.lines[at].trim();
            if after_attribute
                && line.contains("mod ")
                && let Some(end) = self.closing_line(at)
            {
                at = end + 1;
                continue;
            }
            after_attribute = line.starts_with("#[cfg(test)]") || (after_attribute && line.starts_with("#["));
            code.push((at + 1, self.lines[at].as_str()));
            at += 1;
        }
        code
    }

    /// Functions with a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let Some(name) = word_after(line, "fn") else { continue };
            if let Some(end) = self.closing_line(at) {
                found.push(Function { name: name.to_owned(), at: at + 1, lines: end - at + 1 });
            }
        }
        found
    }

    /// Structs, enums and traits with the line of each, counted from 1.
    pub(crate) fn type_names(&self) -> Vec<(usize, &str)> {
        let declared =
            |line| ["struct", "enum", "trait"].iter().find_map(|keyword| word_after(line, keyword));
        self.lines.iter().enumerate().filter_map(|(at, line)| Some((at + 1, declared(line)?))).collect()
    }

    /// The line on which the first brace opened at or after line `start` closes; none when a `;` ends the item first.
    fn closing_line(&self, start: usize) -> Option<usize> {
        let mut depth = 0usize;
        // `;` inside `[u8; 4]` or `(…)` of a signature does not end it.
        let mut brackets = 0usize;
        for (at, line) in self.lines.iter().enumerate().skip(start) {
            for c in line.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth <= 1 => return (depth == 1).then_some(at),
                    '}' => depth -= 1,
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets = brackets.saturating_sub(1),
                    ';' if depth == 0 && brackets == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }
}

/// The identifier that follows `keyword` where that stands as a word of its own.
fn word_after<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.find(|word| *word == keyword)?;
    // `fn(u8)` is a type: there the next thing is no identifier.
    let rest = &line[line.find(&format!("{keyword} "))? + keyword.len() + 1..];
    let name = words.next()?;
    rest.trim_start().starts_with(name).then_some(name)
}

/// Replaces what stands in comments, strings and character literals by blanks; lines stay lines.
fn blank_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            out.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(if bytes[at].is_ascii() { bytes[at] as char } else { ' ' });
            at += 1;
        }
    }
    out
}

/// The end of the comment or literal that begins at `at`; `at` itself when none does.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let inside_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let length = if rest.starts_with(b"//") {
        rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
    } else if rest.starts_with(b"/*") {
        block_comment_length(rest)
    } else if let Some(hashes) = (!inside_word).then(|| raw_string_hashes(rest)).flatten() {
        raw_string_length(rest, hashes)
    } else if rest[0] == b'"' {
        quoted_length(rest, b'"')
    } else if rest[0] == b'\'' && is_character(rest) {
        quoted_length(rest, b'\'')
    } else {
        0
    };
    at + length
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The number of `#` when a raw string such as `r#"…"#` or `br"…"` begins here.
fn raw_string_hashes(rest: &[u8]) -> Option<usize> {
    let rest = rest.strip_prefix(b"b").unwrap_or(rest).strip_prefix(b"r")?;
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    (rest.get(hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_string_length(rest: &[u8], hashes: usize) -> usize {
    let mut closing = vec![b'"'];
    closing.extend(std::iter::repeat_n(b'#', hashes));
    let open = rest.iter().position(|byte| *byte == b'"').unwrap_or(0) + 1;
    let body = rest[open..].windows(closing.len()).position(|window| window == closing);
    body.map_or(rest.len(), |length| open + length + closing.len())
}

/// `'a'` and `'\n'` are characters, `'a` in `&'a str` is a lifetime.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            rest.get(1 + width) == Some(&b'\'')
        }
        None => false,
    }
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::{Function, RustSource};

    #[test]
    fn braces_in_texts_and_comments_do_not_count() {
        let text = "fn one() {\n  let a = \"}\"; // }\n  let b = '}'; /* } /* } */ } */\n  let c = r#\"}\"}\"#;\n}\n";
        let expected = Function { name: "one".into(), at: 1, lines: 5 };
        assert_eq!(RustSource::parse(text).functions(), [expected]);
    }

    #[test]
    fn a_lifetime_is_no_character() {
        let text = "fn of<'a>(text: &'a str, four: [u8; 4]) -> &'a str {\n  text\n}\n";
        let expected = Function { name: "of".into(), at: 1, lines: 3 };
        assert_eq!(RustSource::parse(text).functions(), [expected]);
    }

    #[test]
    fn declarations_and_function_types_are_no_functions() {
        let text = "trait T {\n  fn no_body(&self);\n}\nstruct F(fn(u8) -> u8);\n";
        assert_eq!(RustSource::parse(text).functions(), []);
        assert_eq!(RustSource::parse(text).type_names(), [(1, "T"), (4, "F")]);
    }

    #[test]
    fn test_modules_are_not_counted() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n  fn b() {\n  }\n}\nfn c() {}\n";
        assert_eq!(RustSource::parse(text).lines_without_tests(), 4);
        assert_eq!(RustSource::parse("#[cfg(test)]\nmod tests;\nfn a() {}\n").lines_without_tests(), 3);
    }
}
