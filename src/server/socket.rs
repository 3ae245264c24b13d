//! The one place where a connection's socket is set up.

use super::DeadPeer;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What a connection is served over: TCP, or what a simulation has instead.
pub trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Whether there is something to read (or the end, or an error).
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes what is taken now.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is; any other: the connection is broken.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// From now on a peer that is gone without a word is noticed.
    ///
    /// # Errors
    /// The connection goes on without that.
    fn watch_for_death(&mut self, settings: &DeadPeer) -> io::Result<()>;
}

impl ClientStream for TcpStream {
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_read_ready(self, cx)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }

    fn watch_for_death(&mut self, settings: &DeadPeer) -> io::Result<()> {
        watch_for_death(self, settings)
    }
}

/// Sets up a new connection: answers go out at once.
pub(super) fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}

/// From a connection's first broker request on, a peer that is gone without a word is noticed.
fn watch_for_death(stream: &TcpStream, settings: &DeadPeer) -> io::Result<()> {
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
