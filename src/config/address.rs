//! Addresses as people write them, and the ports of a node.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// RocketMQ's port.
pub const DEFAULT_PORT: u16 = 9876;
/// The peer port is this much above the RocketMQ port, unless it is set.
pub const PEER_PORT_DISTANCE: u16 = 100;
/// The HTTP port is this much above the RocketMQ port, unless it is set.
pub const HTTP_PORT_DISTANCE: u16 = 200;

/// Checks `host:port`, with an IPv6 host in brackets.
///
/// # Errors
/// The text is something else; the error says what is wrong.
pub(crate) fn check_address(text: &str) -> Result<(), String> {
    let wrong = |why: &str| format!("'{text}' is not host:port ({why})");
    let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("no port"))?;
    port.parse::<u16>().map_err(|_| wrong("the port is no number up to 65535"))?;
    if host.is_empty() {
        return Err(wrong("no host"));
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(wrong("a host has no spaces"));
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(wrong("write an IPv6 address in brackets: [::1]:9876"));
    }
    Ok(())
}

/// Checks the address at which others reach a node: `host:port`, of one host and with a port.
///
/// # Errors
/// The text is something else; the error says what is wrong.
pub(super) fn check_reachable(text: &str) -> Result<(), String> {
    check_address(text)?;
    let Some((host, port)) = text.rsplit_once(':') else { return Ok(()) };
    if port.parse() == Ok(0u16) {
        return Err(format!("'{text}' has port 0: other nodes need the port at which this member listens"));
    }
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if ip.is_ok_and(|ip| ip.is_unspecified()) {
        return Err(format!("'{text}' is the address of no host: other nodes cannot connect to it"));
    }
    Ok(())
}

/// Reads an address to listen on: `IP:PORT`, or a name of this host and a port.
///
/// # Errors
/// The text is something else, or the name has no address.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    check_address(text)?;
    let found = text.to_socket_addrs().map_err(|e| format!("'{text}' cannot be resolved: {e}"))?;
    let found: Vec<SocketAddr> = found.collect();
    // Brokers and clients of RocketMQ use IPv4 unless they are configured otherwise.
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| format!("'{text}' has no address"))
}

/// Reads the host of an address to listen on: an IP address, or a name of this host.
///
/// # Errors
/// As [`parse_listen`].
pub(super) fn parse_host(text: &str) -> Result<IpAddr, String> {
    text.parse().or_else(|_| parse_listen(&format!("{text}:0")).map(|address| address.ip()))
}

/// The default of a further port: the same IP address, `distance` ports on. Port 0 (any free one) gives port 0.
///
/// # Errors
/// There is no such port; `key` names the setting that helps.
pub(super) fn beside(listen: SocketAddr, distance: u16, key: &str) -> Result<SocketAddr, String> {
    let port = match listen.port() {
        0 => Some(0),
        port => port.checked_add(distance),
    };
    let port = port.ok_or_else(|| {
        format!(
            "the RocketMQ port {} + {distance} is no port: choose a lower one, or set {key}",
            listen.port()
        )
    })?;
    Ok(SocketAddr::new(listen.ip(), port))
}

/// Checks that no two ports of a node are the same.
///
/// # Errors
/// Names the two.
pub(super) fn check_distinct(ports: [(&str, SocketAddr); 3]) -> Result<(), String> {
    for (number, (name, a)) in ports.iter().enumerate() {
        for (other, b) in ports.iter().skip(number + 1) {
            let same_host = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
            if same_host && a.port() == b.port() && a.port() != 0 {
                return Err(format!(
                    "{name} ({a}) and {other} ({b}) are one port: by default the peer port is the RocketMQ port + \
                     {PEER_PORT_DISTANCE} and the HTTP port the RocketMQ port + {HTTP_PORT_DISTANCE}; set peerListen or \
                     httpListen to another one"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_host_are_resolved() {
        assert!(parse_listen("localhost:9876").unwrap().ip().is_loopback());
        assert_eq!(parse_listen("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert!(parse_host("localhost").unwrap().is_loopback());
        for (text, why) in [
            ("nowhere", "no port"),
            ("no such host:1", "no spaces"),
            ("no-such-host.invalid:1", "cannot be resolved"),
        ] {
            let error = parse_listen(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
