//! The one place where a connection's socket is set up.

use super::DeadPeer;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use tokio::net::TcpStream;

/// Sets up a new connection: answers go out at once.
pub(super) fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}

/// From a connection's first broker request on, a peer that is gone without a word is noticed.
pub(super) fn watch_for_death(stream: &TcpStream, settings: &DeadPeer) -> io::Result<()> {
    let socket = SockRef::from(stream);
    if !settings.keepalive_idle.is_zero() {
        let keepalive =
            TcpKeepalive::new().with_time(settings.keepalive_idle).with_interval(settings.keepalive_interval);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if !settings.user_timeout.is_zero() {
        socket.set_tcp_user_timeout(Some(settings.user_timeout))?;
    }
    Ok(())
}
