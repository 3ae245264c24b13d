//! Where connections come from: TCP in production, anything else in a simulation.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A byte stream to a node.
pub trait PeerStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> PeerStream for T {}

/// A byte stream of any kind.
pub type BoxedStream = Box<dyn PeerStream>;

/// A future that a [`PeerNetwork`] gives.
pub type NetworkFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Makes and accepts connections between nodes.
pub trait PeerNetwork: Send + Sync + 'static {
    /// Connects to `host:port`. The name is resolved anew at each call.
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, BoxedStream>;

    /// Waits for the next connection; gives it with the address it came from (for log lines).
    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)>;
}

/// A silent peer is probed after this.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(1);
/// Between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Probes without an answer before the connection is dead.
const KEEPALIVE_RETRIES: u32 = 3;
/// Sent bytes that are not acknowledged for so long mean that the connection is dead.
const USER_TIMEOUT: Duration = Duration::from_secs(4);

/// Connections over TCP.
#[derive(Debug)]
pub struct TcpPeers {
    /// `None` once it is closed.
    listener: Mutex<Option<Arc<TcpListener>>>,
    closed: CancellationToken,
}

impl TcpPeers {
    /// Takes connections from a port that already listens.
    #[must_use]
    pub fn new(listener: TcpListener) -> Self {
        Self { listener: Mutex::new(Some(Arc::new(listener))), closed: CancellationToken::new() }
    }

    /// Closes the port, even while handles of the node are left.
    pub fn close(&self) {
        self.closed.cancel();
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl PeerNetwork for TcpPeers {
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, BoxedStream> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            prepare(&stream)?;
            let stream: BoxedStream = Box::new(stream);
            Ok(stream)
        })
    }

    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)> {
        Box::pin(async move {
            let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let listener = listener.ok_or_else(|| io::Error::other("the peer port is closed"))?;
            let (stream, from) = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(io::Error::other("the peer port is closed")),
                accepted = listener.accept() => accepted?,
            };
            prepare(&stream)?;
            let stream: BoxedStream = Box::new(stream);
            Ok((stream, from.to_string()))
        })
    }
}

/// No delay for small frames, and an end for connections to hosts that vanished.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_retries(KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}
