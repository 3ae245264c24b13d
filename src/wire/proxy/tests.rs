use super::*;

fn v2(version_command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
    [&V2_SIGNATURE[..], &[version_command, family], &length, addresses].concat()
}

#[test]
fn version_1_gives_source_and_length() {
    for (line, source) in [
        ("PROXY TCP4 10.1.2.3 10.4.5.6 1111 9876\r\n", Some("10.1.2.3:1111")),
        ("PROXY TCP6 2001:db8::1 2001:db8::2 1111 9876\r\n", Some("[2001:db8::1]:1111")),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ff:ff::1 ff::2 1 2\r\n", None),
    ] {
        let source = source.map(|text| text.parse().unwrap());
        assert_eq!(
            parse(format!("{line}rest").as_bytes()),
            Ok(Parsed::Present { length: line.len(), source })
        );
    }
}

#[test]
fn version_1_is_awaited_up_to_its_longest_line_and_no_longer() {
    assert_eq!(parse(b"PROXY TCP4 10.1.2.3 10."), Ok(Parsed::Incomplete));
    let long = ["PROXY ", &"x".repeat(101)].concat();
    assert_eq!(parse(long.as_bytes()), Ok(Parsed::Incomplete));
    assert!(parse([&long, "x"].concat().as_bytes()).is_err());
}

#[test]
fn version_1_refuses_unknown_families() {
    for line in [
        "PROXY TCP5 10.1.2.3 10.4.5.6 1111 9876\r\n",
        "PROXY TCP4 10.1.2 10.4.5.6 1111 9876\r\n",
        "PROXY TCP4 10.1.2.3 10.4.5.6 111111 9876\r\n",
        "PROXY TCP4 10.1.2.3\r\n",
        "PROXY \r\n       ",
    ] {
        assert!(parse(line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn version_2_gives_source_and_length() {
    let v4 = [10, 1, 2, 3, 10, 4, 5, 6, 4, 87, 38, 148];
    assert_eq!(
        parse(&v2(0x21, 0x11, &v4)),
        Ok(Parsed::Present { length: 28, source: Some("10.1.2.3:1111".parse().unwrap()) })
    );
    let mut v6 = [0; 36 + 5];
    (v6[15], v6[32], v6[33]) = (1, 4, 87);
    assert_eq!(
        parse(&v2(0x21, 0x21, &v6)),
        Ok(Parsed::Present { length: 57, source: Some("[::1]:1111".parse().unwrap()) })
    );
    // Health checks of the balancer itself, and families without addresses.
    assert_eq!(parse(&v2(0x20, 0, &[])), Ok(Parsed::Present { length: 16, source: None }));
    assert_eq!(parse(&v2(0x21, 0x31, &[0; 216])), Ok(Parsed::Present { length: 232, source: None }));
}

#[test]
fn version_2_is_awaited_whole_and_checked() {
    let whole = v2(0x21, 0x11, &[0; 12]);
    for cut in 12..whole.len() {
        assert_eq!(parse(&whole[..cut]), Ok(Parsed::Incomplete), "{cut}");
    }
    assert!(parse(&v2(0x31, 0x11, &[0; 12])).is_err());
    assert!(parse(&v2(0x22, 0x11, &[0; 12])).is_err());
    assert!(parse(&v2(0x21, 0x11, &[0; 9])).is_err());
}

#[test]
fn frames_are_no_proxy_header() {
    assert_eq!(parse(b"\0\0\0\x48\0\0\0\x44{\"code"), Ok(Parsed::Absent));
    assert_eq!(parse(b"PROXX TCP4 1.2.3.4 "), Ok(Parsed::Absent));
}
