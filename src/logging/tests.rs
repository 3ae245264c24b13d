use super::*;

#[test]
fn an_event_is_one_line_whatever_is_in_it() {
    let shown = line("INFO topic=a\nERROR forged\u{1b}[2J\u{202e}\n", LogFormat::Text);
    assert_eq!(shown, "INFO topic=a\\nERROR forged\\u{1b}[2J\\u{202e}\n");
    let event = serde_json::json!({"fields": {"message": "a\n\u{1b}\u{2028}\u{9b}"}});
    let shown = line(&format!("{event}\n"), LogFormat::Json);
    assert!(shown.is_ascii() && shown.lines().count() == 1, "{shown}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), event);
}

#[test]
fn a_long_line_is_cut() {
    let shown = line(&"ü".repeat(LINE_BYTES_MAX), LogFormat::Text);
    assert!(shown.len() < LINE_BYTES_MAX + 64 && shown.ends_with("ü … (32768 bytes)\n"), "{}", shown.len());
    let long = serde_json::json!({"fields": {"message": "x".repeat(LINE_BYTES_MAX)}}).to_string();
    let shown: serde_json::Value = serde_json::from_str(&line(&long, LogFormat::Json)).unwrap();
    assert_eq!(shown["fields"]["message"], format!("a line of {} bytes is left out", long.len()));
}

#[test]
fn openraft_logs_only_when_it_is_named() {
    for (asked, expected) in [
        ("", "openraft=off,info"),
        ("debug", "openraft=off,debug"),
        ("info,openraft=warn", "openraft=warn,info"),
        ("not=a=filter", "openraft=off,info"),
    ] {
        assert_eq!(filter(asked).to_string(), expected, "{asked}");
    }
}

#[test]
fn work_that_hangs_is_left_behind() {
    let (_never, waits) = channel::<()>();
    let begun = tokio::time::Instant::now();
    briefly(move || {
        let _ = waits.recv();
    });
    assert!(begun.elapsed() >= END_MAX);
}
