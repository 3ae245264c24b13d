//! What the leader refuses since a part of the tables would grow too large; apply never does.

use super::world::{Reg, World};
use crate::Change;
use crate::command::{DeleteKv, PutKv};
use crate::limits::{BROKERS_MAX, KV_NAMESPACE_BYTES_MAX, json_bytes_max};
use crate::outcome::Outcome;
use std::sync::Arc;

fn put(key: &str, bytes: usize) -> Change {
    let value = Some("v".repeat(bytes).into());
    Change::PutKv(PutKv { namespace: "n".into(), key: key.into(), value })
}

#[test]
fn a_kv_namespace_has_room_up_to_its_limit_and_can_always_shrink() {
    let mut w = World::default();
    w.run(put("k1", 1 << 20));
    let left =
        KV_NAMESPACE_BYTES_MAX - w.table.kv_namespace_bytes("n") - json_bytes_max("k2") - json_bytes_max("");
    assert_eq!(w.table.check_growth(&put("k2", left), 0), Ok(()));
    assert_eq!(w.table.check_growth(&put("k2", left - 7), 7), Ok(()));
    let refused = w.table.check_growth(&put("k2", left), 1).unwrap_err();
    let reason = format!("KV namespace n would take {} bytes in a reply", KV_NAMESPACE_BYTES_MAX + 1);
    assert!(refused.contains(&reason), "{refused}");
    assert!(w.table.check_growth(&put("k2", left + 1), 0).is_err());

    // A log of an earlier version has more: all of it is applied, and the namespace can become smaller.
    for key in ["k2", "k3"] {
        assert_eq!(w.run(put(key, 9 << 20)), Outcome::Done { changed: true });
    }
    assert!(w.table.check_growth(&put("k4", 1), 0).is_err());
    assert_eq!(w.table.check_growth(&put("k2", 1), 0), Ok(()));
    for key in ["k1", "k2", "k3"] {
        w.run(Change::DeleteKv(DeleteKv { namespace: "n".into(), key: key.into() }));
    }
    assert_eq!(w.table.kv_namespace_bytes("n"), 0);
}

#[test]
fn broker_names_and_the_brokers_of_a_name_are_limited() {
    let mut w = World::default();
    w.reg(Reg::new("c", "b", 0, "a0"));
    let new_name = Reg::new("c", "new", 0, "x").change();
    let (new_broker, known_broker) =
        (Reg::new("c", "b", -1, "new").change(), Reg::new("c", "b", 0, "a0").version(2).change());
    // By hand: to register so many takes minutes.
    let mut full = w.table.clone();
    let group = full.groups.get("b").unwrap().clone();
    let mut many = group.clone();
    many.brokers = (0..BROKERS_MAX as i64).map(|id| (id, format!("a{id}").into())).collect::<Arc<[_]>>();
    full.groups.insert("b".into(), many);
    assert_eq!(full.check_growth(&new_name, 0), Ok(()));
    assert_eq!(full.check_growth(&known_broker, 0), Ok(()));
    assert!(full.check_growth(&new_broker, 0).unwrap_err().starts_with("broker name b has 32768 brokers"));
    let mut full = w.table.clone();
    (1..BROKERS_MAX).for_each(|number| drop(full.groups.insert(format!("b{number}").into(), group.clone())));
    assert!(full.check_growth(&new_name, 0).unwrap_err().starts_with("there are 32768 broker names"));
    assert_eq!(full.check_growth(&new_broker, 0), Ok(()));
}
