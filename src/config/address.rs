//! Addresses as people write them, and the ports of a node.

use std::net::SocketAddr;

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
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(wrong("write an IPv6 address in brackets: [::1]:9876"));
    }
    Ok(())
}

/// The default of a further port: the same IP address, `distance` ports on. Port 0 (any free one) gives port 0.
pub(super) fn beside(listen: SocketAddr, distance: u16) -> SocketAddr {
    let port = if listen.port() == 0 { 0 } else { listen.port().saturating_add(distance) };
    SocketAddr::new(listen.ip(), port)
}
