//! The expected values are those of Java's own decoder.

use super::*;

fn fields(text: &str) -> Vec<(String, Option<String>)> {
    let command = decode(text.as_bytes()).unwrap();
    command.ext.unwrap().iter().map(|(key, value)| (key.to_owned(), value.map(ToOwned::to_owned))).collect()
}

fn field(key: &str, value: &str) -> (String, Option<String>) {
    (key.to_owned(), Some(value.to_owned()))
}

#[test]
fn codes_are_cast_as_java_casts_them() {
    for (text, code) in [
        ("{}", 0),
        (r#"{"code":101}"#, 101),
        (r#"{"code":"101"}"#, 101),
        (r#"{"code":-1}"#, -1),
        (r#"{"code":+5}"#, 5),
        (r#"{"code":1.0}"#, 1),
        (r#"{"code":1.7}"#, 1),
        (r#"{"code":""}"#, 0),
        (r#"{"code":"null"}"#, 0),
        (r#"{"code":null}"#, 0),
        (r#"{"code":true}"#, 1),
        (r#"{"code":1,"code":2}"#, 2),
        (r#"{"code":1,}"#, 1),
        (r#"{,"code":1}"#, 1),
        (r#"{"flag":2,,"code":1}"#, 1),
        ("{code:1}", 1),
        ("{'code':1}", 1),
        (" {\n\t\"code\" : 1\r\n} ", 1),
        (r#"{"other":{"a":[1,{"b":null}]},"code":7,"x":"}"}"#, 7),
    ] {
        assert_eq!(decode(text.as_bytes()).map(|command| command.code), Ok(code), "{text}");
    }
}

#[test]
fn headers_that_java_refuses_are_refused() {
    for text in [
        "",
        "  ",
        "null",
        "[]",
        "hello",
        r#"{"code":1"#,
        r#"{"code":1} x"#,
        r#"{"code":1}{"#,
        r#"{"code":1}}"#,
        r#"{"code":1 "flag":2}"#,
        r#"{"code":" 5"}"#,
        r#"{"code":"x"}"#,
        r#"{"code":tru}"#,
        r#"{"code":99999999999}"#,
        r#"{"code":-2147483649}"#,
        r#"{"opaque":"2147483648"}"#,
        r#"{"version":"4.9"}"#,
        r#"{"extFields":[]}"#,
        r#"{"extFields":5}"#,
        r#"{"extFields":"x"}"#,
        r#"{"extFields":{"a":"\u12"}}"#,
        r#"{"extFields":{"a":"\q"}}"#,
        r#"{"a":}"#,
        r#"{"x":[1,{"a":}]}"#,
        r#"{"x":[1}"#,
    ] {
        assert!(decode(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn values_of_any_kind_become_texts() {
    let text = r#"{"extFields":{"a":1.50,"b":true,"c":null,"d":"","e":-0,"f":12345678901234567890}}"#;
    let expected =
        [field("a", "1.50"), field("b", "true"), ("c".to_owned(), None), field("d", ""), field("e", "-0")];
    assert_eq!(fields(text)[..5], expected);
    assert_eq!(fields(text)[5], field("f", "12345678901234567890"));
    assert_eq!(fields(r#"{"extFields":{"a":{"b":[1,2]}}}"#), [field("a", r#"{"b":[1,2]}"#)]);
    assert!(decode(br#"{"extFields":null}"#).unwrap().ext.is_none());
    assert!(decode(br#"{"extFields":{}}"#).unwrap().ext.is_some_and(|ext| ext.is_empty()));
}

#[test]
fn escapes_are_resolved() {
    let text = r#"{"extFields":{"a\u0041":"\"\\\/\b\f\n\r\t中\u4e2d\uD83D\uDE00\uD83Dx\x41\0"}}"#;
    assert_eq!(fields(text), [field("aA", "\"\\/\u{8}\u{c}\n\r\t中中😀\u{fffd}xA\0")]);
}

#[test]
fn languages_by_name_in_any_case_and_by_number() {
    for (text, name) in [
        ("\"GO\"", "GO"),
        ("\"go\"", "GO"),
        ("9", "GO"),
        ("\"FOO\"", "OTHER"),
        ("null", "JAVA"),
        ("200", "OTHER"),
    ] {
        let command = decode(format!("{{\"language\":{text}}}").as_bytes()).unwrap();
        assert_eq!(command.language.name(), name, "{text}");
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let command = decode(b"{\"remark\":\"\xff\"}").unwrap();
    assert_eq!(command.remark.as_deref(), Some("\u{fffd}"));
}

#[test]
fn keys_are_written_in_javas_order_and_nulls_are_left_out() {
    let mut out = BytesMut::new();
    let command = RemotingCommand::request(105, -7).with("topic", "a\"b").with("z", "");
    encode(&command.head(), &mut out);
    let expected = r#"{"code":105,"extFields":{"topic":"a\"b","z":""},"flag":0,"language":"JAVA","opaque":-7,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(std::str::from_utf8(&out).unwrap(), expected);
    out.clear();
    let mut command = RemotingCommand::request(1, 0);
    command.remark = Some("é\n".to_owned());
    command.ext = Some([("a", None)].into_iter().collect());
    encode(&command.head(), &mut out);
    let expected = r#"{"code":1,"extFields":{},"flag":0,"language":"JAVA","opaque":0,"remark":"é\n","serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(std::str::from_utf8(&out).unwrap(), expected);
}
