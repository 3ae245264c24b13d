//! The words of the code are those of `docs/glossary.md`. Home-made words of earlier days are refused.

use crate::rust_source::RustSource;
use crate::{assert_none, rust_sources};
use std::collections::BTreeMap;

/// Words that no identifier and no file name may have as a part, each with what to write instead.
const REFUSED_WORDS: [(&str, &str); 37] = [
    ("anew", "again, renew"),
    ("apart", "partitioned"),
    ("birth", "bootstrap"),
    ("born", "initialized"),
    ("crowd", "what it tests"),
    ("drift", "settings difference"),
    ("elsewhere", "which place"),
    ("excuse", "extend, renew"),
    ("excuses", "extensions"),
    ("facts", "NodeInfo"),
    ("handed_over", "transferred"),
    ("hand_over", "leadership transfer"),
    ("hands_over", "leadership transfer"),
    ("heard", "heartbeat, received"),
    ("hearing", "connectivity"),
    ("inherit", "full report"),
    ("inheritance", "full report"),
    ("is_fresh", "initialized"),
    ("judge", "authorize"),
    ("lane", "channel"),
    ("lanes", "channels"),
    ("ledger", "lease table"),
    ("newcomer", "joining node"),
    ("newcomers", "joining nodes"),
    ("news", "apply events"),
    ("nobody", "no broker, no node"),
    ("overtaken", "superseded"),
    ("quarrel", "conflict"),
    ("quarrels", "conflicts"),
    ("seat", "connection permit"),
    ("silence", "idle time"),
    ("silences", "idle times"),
    ("stranger", "unauthenticated peer"),
    ("telling", "reporting"),
    ("ticket", "request context"),
    ("told", "reported, notified, logged"),
    ("untold", "unreported"),
];

/// Names that no type may have as a whole, with what to write instead.
const REFUSED_TYPES: [(&str, &str); 10] = [
    ("Cut", "TruncatedTail"),
    ("Front", "SharedLogState"),
    ("Held", "LogIndex"),
    ("Known", "RegistrationStatus"),
    ("LeaderWord", "RegistrationStatus"),
    ("Live", "BrokerLiveInfo"),
    ("Look", "Comparison"),
    ("Published", "AppliedState"),
    ("Reading", "ParsedRegistration"),
    ("Word", "RegistrationStatus"),
];

/// Names that no file or folder may have as a whole, with what to write instead.
const REFUSED_FILES: [(&str, &str); 12] = [
    ("answers", "rpc_handlers"),
    ("cut_tail", "truncated_tail"),
    ("exchange", "reports"),
    ("front", "shared_log_state"),
    ("held", "log_index"),
    ("it", "in_process"),
    ("marks", "disconnects"),
    ("own", "local"),
    ("prints", "digest_cache"),
    ("shown", "status"),
    ("talk", "client"),
    ("words", "what they are"),
];

/// The words of an identifier: `LeaderWord`, `leader_word` and `LEADER_WORD` are all `leader_word`.
fn snake_case(identifier: &str) -> String {
    let mut words = String::new();
    let mut before = '_';
    for c in identifier.chars() {
        if c.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) {
            words.push('_');
        }
        words.extend(c.to_lowercase());
        before = c;
    }
    words
}

/// The word of an identifier that is refused, and what to write instead.
fn refused_word(identifier: &str) -> Option<(&'static str, &'static str)> {
    let words = snake_case(identifier);
    let is_whole = |at: usize, length: usize| {
        let (before, after) = (&words[..at], &words[at + length..]);
        (before.is_empty() || before.ends_with('_')) && (after.is_empty() || after.starts_with('_'))
    };
    let has = |word: &str| words.match_indices(word).any(|(at, _)| is_whole(at, word.len()));
    REFUSED_WORDS.into_iter().find(|(word, _)| has(word))
}

/// What is refused in the path of a file.
fn in_path(path: &str) -> Vec<String> {
    let parts = path.split('/').map(|part| part.split('.').next().unwrap_or_default());
    let refused_file = |part: &str| REFUSED_FILES.into_iter().find(|(refused, _)| *refused == part);
    let found = parts.filter_map(|part| refused_word(part).or(refused_file(part)));
    found.map(|(word, instead)| format!("{path}: '{word}' in its name; write: {instead}")).collect()
}

/// What is refused in the text of a Rust file: one line each, with its place.
fn in_text(path: &str, text: &str) -> Vec<String> {
    let source = RustSource::parse(text);
    let mut found = Vec::new();
    // Most identifiers of a file come many times.
    let mut refused = BTreeMap::new();
    for (number, line) in (1..).zip(source.lines()) {
        for identifier in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if let Some((word, instead)) =
                *refused.entry(identifier).or_insert_with(|| refused_word(identifier))
            {
                found.push(format!("{path}:{number}: '{word}' in {identifier}; write: {instead}"));
            }
        }
    }
    for (number, name) in source.type_names() {
        if let Some((_, instead)) = REFUSED_TYPES.into_iter().find(|(refused, _)| *refused == name) {
            found.push(format!("{path}:{number}: the name {name} says nothing; write: {instead}"));
        }
    }
    found
}

#[test]
fn names_use_the_words_of_the_glossary() {
    let mut offenders = Vec::new();
    for source in rust_sources() {
        offenders.extend(in_path(&source.path));
        // The list itself names what it refuses.
        if source.path != "tests/tidy/vocabulary.rs" {
            offenders.extend(in_text(&source.path, &source.text));
        }
    }
    assert_none("names have home-made words", &offenders);
}

#[cfg(test)]
mod tests {
    use super::{in_path, in_text, refused_word};

    #[test]
    fn whole_words_are_found_in_all_cases() {
        for identifier in ["heard", "last_heard_ms", "LAST_HEARD", "LastHeard", "leader_hands_over"] {
            assert!(refused_word(identifier).is_some(), "{identifier}");
        }
        for identifier in ["unheard", "heartbeat", "shared", "retold", "hands", "over"] {
            assert!(refused_word(identifier).is_none(), "{identifier}");
        }
    }

    #[test]
    fn comments_and_texts_are_free() {
        assert_eq!(in_text("a.rs", "// told\nlet a = \"told\"; /* told */\n"), [""; 0]);
        assert_eq!(in_text("a.rs", "fn told() {}\n").len(), 1);
    }

    #[test]
    fn names_are_compared_as_a_whole() {
        assert_eq!(in_text("a.rs", "struct Held;\nstruct HeldBrokers;\nlet held = 1;\n").len(), 1);
        assert_eq!(in_path("tests/it/main.rs").len(), 1);
        assert_eq!(in_path("src/edit/held_brokers.rs"), [""; 0]);
    }
}
