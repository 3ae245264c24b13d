//! Broker addresses that no client can connect to. Java's nameserver takes them, and so does this one; but a broker with
//! a wrong `brokerIP1` is found by its clients' failures only, unless the nameserver says so.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use storage::command::Name;

/// Addresses that are logged; more are only counted.
const ADDRESSES_MAX: usize = 1_024;

/// The addresses that were logged.
#[derive(Debug, Default)]
pub(super) struct ImplausibleAddresses(Mutex<HashSet<Name>>);

impl ImplausibleAddresses {
    /// What is wrong with the address of a broker that registers, if anything. The first time, that is logged.
    pub(super) fn check(&self, broker: &Name, address: &Name) -> bool {
        let Some(why) = problem(address) else { return false };
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < ADDRESSES_MAX && logged.insert(address.clone()) {
            tracing::warn!(%broker, %address, "no client can connect to this broker: its address {why}");
        }
        true
    }
}

/// Why no client can connect to an address.
fn problem(address: &str) -> Option<&'static str> {
    let Some((host, port)) = address.rsplit_once(':') else { return Some("has no port") };
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Some("has no port from 1 to 65535");
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
        return Some("is that of no host");
    }
    let is_name = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
    (bare.is_empty() || !bare.chars().all(is_name)).then_some("has no host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_brokers_are_plausible_and_others_are_not() {
        for address in [
            "10.0.0.1:10911",
            "broker-a.example:1",
            "[::1]:65535",
            "::1:10911",
            "[fe80::1%eth0]:1",
            "größe_1:2",
        ] {
            assert_eq!(problem(address), None, "{address}");
        }
        for address in [
            "",
            "a",
            "a;b",
            ":1",
            "0.0.0.0:10911",
            "[::]:1",
            "a:0",
            "a:99999",
            "a:x",
            "a b:1",
            "a;b:1",
            "a\n:1",
        ] {
            assert!(problem(address).is_some(), "{address}");
        }
    }

    #[test]
    fn each_address_is_logged_once_and_their_number_is_bounded() {
        let addresses = ImplausibleAddresses::default();
        let check = |address: &str| addresses.check(&"b".into(), &address.into());
        assert!(!check("10.0.0.1:1"));
        for n in 0..2 * ADDRESSES_MAX {
            assert!(check(&format!("{n};")) && check(&format!("{n};")));
        }
        assert_eq!(addresses.0.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
