//! The one place where a connection's socket is set up.

use super::limits::DeadPeer;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The stream of a connection: TCP, or that of a simulation.
pub trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Ready once there is something to read (bytes, the end, or an error).
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes as much as the stream takes now, and returns the number of bytes.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing now; any other: the connection is broken.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// From now on the connection breaks when the host of the peer has vanished.
    ///
    /// # Errors
    /// The connection goes on without that.
    fn detect_dead_peer(&mut self, settings: &DeadPeer) -> io::Result<()>;
}

impl ClientStream for TcpStream {
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_read_ready(self, cx)
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }

    fn detect_dead_peer(&mut self, settings: &DeadPeer) -> io::Result<()> {
        set_keepalive(self, settings)
    }
}

/// Sets up a new connection: responses are sent without delay.
pub(super) fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}

/// Sets TCP keep-alive and the user time-out.
fn set_keepalive(stream: &TcpStream, settings: &DeadPeer) -> io::Result<()> {
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
