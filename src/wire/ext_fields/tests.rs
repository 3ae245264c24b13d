use super::*;

#[test]
fn fields_keep_their_order_and_the_last_of_a_key_counts() {
    let mut ext = ExtFields::default();
    ext.push("a", Some("1"));
    ext.push("", Some(""));
    ext.push("b", None);
    ext.push("a", Some("2"));
    assert_eq!(
        ext.iter().collect::<Vec<_>>(),
        [("a", Some("1")), ("", Some("")), ("b", None), ("a", Some("2"))]
    );
    assert_eq!((ext.get("a"), ext.get("b"), ext.get("c"), ext.get("")), (Some("2"), None, None, Some("")));
    assert_eq!(ext.len(), 4);
}

#[test]
fn a_later_null_hides_a_value() {
    let ext: ExtFields = [("a", Some("1")), ("a", None)].into_iter().collect();
    assert_eq!(ext.get("a"), None);
}
