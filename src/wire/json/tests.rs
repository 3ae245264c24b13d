use super::*;
use bytes::BytesMut;

fn written(text: &str, charset: Charset) -> String {
    let mut out = BytesMut::new();
    put_text(text, charset, &mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn texts_are_escaped_as_fastjson_does() {
    let low: String = ('\0'..=' ').collect();
    let escaped = concat!(
        r#""\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000B\f\r\u000E\u000F"#,
        r"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001A\u001B\u001C\u001D\u001E\u001F ",
        "\""
    );
    for charset in [Charset::Utf8, Charset::Ascii] {
        assert_eq!(written(&low, charset), escaped);
        assert_eq!(
            written("\"\\'<>&\u{7f}\u{80}\u{9f}\u{2028}\u{2029}", charset),
            r#""\"\\'<>&\u007F\u0080\u009F\u2028\u2029""#
        );
    }
    assert_eq!(
        written("a/é\u{a0}\u{2027}\u{202a}\u{feff}\u{ffff}😀", Charset::Utf8),
        "\"a/é\u{a0}\u{2027}\u{202a}\u{feff}\u{ffff}😀\""
    );
    assert_eq!(
        written("a/é\u{a0}\u{2027}\u{202a}\u{feff}\u{ffff}😀", Charset::Ascii),
        r#""a\/\u00E9\u00A0\u2027\u202A\uFEFF\uFFFF\uD83D\uDE00""#
    );
    assert_eq!(written("127.0.0.1:10911", Charset::Ascii), "\"127.0.0.1:10911\"");
}

#[test]
fn numbers_are_written_whole() {
    for number in [0, 1, -1, 9, 10, 99, 1_700_000_000_000, i64::MAX, i64::MIN] {
        let mut out = BytesMut::new();
        put_int(number, &mut out);
        assert_eq!(std::str::from_utf8(&out).unwrap(), number.to_string());
    }
}

#[test]
fn a_value_is_walked_through() {
    let mut reader = Reader::new(r#" {"a":[1,"x",{"b":null},[]],c:'y', "d":{}} "#);
    assert_eq!(reader.value(), Ok(Event::Object));
    assert_eq!(reader.key().unwrap().as_deref(), Some("a"));
    assert_eq!(reader.value(), Ok(Event::Array));
    assert_eq!(reader.element(), Ok(true));
    assert_eq!(reader.int::<i32>(), Ok(Some(1)));
    assert_eq!(reader.element(), Ok(true));
    assert_eq!(reader.text().unwrap().as_deref(), Some("x"));
    assert_eq!(reader.element(), Ok(true));
    assert_eq!(reader.text().unwrap().as_deref(), Some(r#"{"b":null}"#));
    assert_eq!(reader.element(), Ok(true));
    assert_eq!(reader.skip(), Ok(()));
    assert_eq!(reader.element(), Ok(false));
    assert_eq!(reader.key().unwrap().as_deref(), Some("c"));
    assert_eq!(reader.value(), Ok(Event::Text("y".into())));
    assert_eq!(reader.key().unwrap().as_deref(), Some("d"));
    assert_eq!(reader.skip(), Ok(()));
    assert_eq!(reader.key(), Ok(None));
    assert_eq!(reader.end(), Ok(()));
}

#[test]
fn numbers_and_booleans_are_cast() {
    let int = |text| Reader::new(text).int::<i32>();
    assert_eq!(int("\"16\""), Ok(Some(16)));
    assert_eq!(int("4.7"), Ok(Some(4)));
    assert_eq!(int("-4.7"), Ok(Some(-4)));
    assert_eq!(int("1e3"), Ok(Some(1000)));
    assert_eq!(int("null"), Ok(None));
    for bad in ["[]", "{}", "x", "\"x\"", "2147483648", "1e99", "--1", "-", "1.5.2"] {
        assert!(int(bad).is_err(), "{bad}");
    }
    let boolean = |text| Reader::new(text).boolean();
    assert_eq!(boolean("true"), Ok(Some(true)));
    assert_eq!(boolean("\"TRUE\""), Ok(Some(true)));
    assert_eq!(boolean("5"), Ok(Some(false)));
    assert_eq!(boolean("1"), Ok(Some(true)));
    assert_eq!(boolean("null"), Ok(None));
    assert!(boolean("\"x\"").is_err());
}

#[test]
fn deep_nesting_is_refused_without_a_deep_stack() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(Reader::new(&nested(64)).skip(), Ok(()));
    assert_eq!(Reader::new(&nested(65)).skip(), Err("nested too deep"));
    assert!(Reader::new(&"[".repeat(1_000_000)).skip().is_err());
    assert!(Reader::new(&"{\"a\":".repeat(1_000_000)).text().is_err());
}
