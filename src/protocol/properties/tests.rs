//! The expected values are those of `java.util.Properties`.

use super::*;

fn parsed(text: &str) -> Vec<(String, String)> {
    parse(text.as_bytes()).unwrap().iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn keys_and_values_are_those_of_java() {
    for (text, expected) in [
        ("a=1\nb=2\n", vec![("a", "1"), ("b", "2")]),
        ("b=2\na=1", vec![("a", "1"), ("b", "2")]),
        ("a:1", vec![("a", "1")]),
        ("a 1", vec![("a", "1")]),
        ("a\\ b=c\\=d", vec![("a b", "c=d")]),
        (" a = 1 \n  b\t=\t2", vec![("a", "1 "), ("b", "2")]),
        ("a=1\\\n   2", vec![("a", "12")]),
        ("a=1\\\r\n   2", vec![("a", "12")]),
        ("!c\n#d\na=\\u0041\\n\\t\\q", vec![("a", "A\n\tq")]),
        ("a", vec![("a", "")]),
        ("=x", vec![("", "x")]),
        ("a=1\ra=2\r\n", vec![("a", "2")]),
        ("a=\\", vec![("a", "")]),
        ("a=x\\\\\nb=1", vec![("a", "x\\"), ("b", "1")]),
        ("k\\:1=2", vec![("k:1", "2")]),
        ("a=b=c", vec![("a", "b=c")]),
        ("a==b", vec![("a", "=b")]),
        ("a = = b", vec![("a", "= b")]),
        ("\u{c} a=1", vec![("a", "1")]),
        ("# x\\\nb=1", vec![("b", "1")]),
        ("a=\\\n\nb=1", vec![("a", ""), ("b", "1")]),
        ("a\\", vec![("a", "")]),
        ("\\u0061=1", vec![("a", "1")]),
        ("a\\\n  =1", vec![("a", "1")]),
        ("a=\\uD83D\\uDE00\\uD83D", vec![("a", "😀\u{fffd}")]),
        ("键=值", vec![("键", "值")]),
        ("", vec![]),
        ("  \n\r\n # only a comment", vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        assert_eq!(parsed(text), expected, "{text:?}");
    }
}

#[test]
fn a_broken_unicode_escape_is_the_only_error() {
    for text in ["a=\\u00zz", "a=\\u00", "\\u", "a=\\uD83D\\u"] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(parse(&[0xff, 0xfe, 0]).map(|entries| entries.len()), Ok(1));
}

#[test]
fn lines_are_written_as_they_are() {
    assert_eq!(write([("a", "1"), ("b", "x=y \\")]), "a=1\nb=x=y \\\n");
}
