//! A network that can be cut: connections over real sockets, ended and refused while two nodes are apart.

use raft::{BoxedStream, NetworkFuture, NodeId, PeerNetwork, TcpPeers};
use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;

/// Which nodes are cut off from all others.
#[derive(Default)]
pub struct Cuts {
    isolated: Mutex<BTreeSet<NodeId>>,
    owners: Mutex<Vec<(String, NodeId)>>,
}

impl Cuts {
    pub fn isolate(&self, id: NodeId) {
        self.isolated.lock().unwrap().insert(id);
    }

    pub fn heal(&self, id: NodeId) {
        self.isolated.lock().unwrap().remove(&id);
    }

    fn is_cut(&self, a: NodeId, b: Option<NodeId>) -> bool {
        let isolated = self.isolated.lock().unwrap();
        isolated.contains(&a) || b.is_some_and(|b| isolated.contains(&b))
    }

    /// The network of one node.
    pub fn network(self: &Arc<Self>, id: NodeId, listener: TcpListener) -> Arc<dyn PeerNetwork> {
        let address = listener.local_addr().unwrap().to_string();
        self.owners.lock().unwrap().push((address, id));
        Arc::new(CutNetwork { id, cuts: Arc::clone(self), tcp: TcpPeers::new(listener) })
    }
}

struct CutNetwork {
    id: NodeId,
    cuts: Arc<Cuts>,
    tcp: TcpPeers,
}

impl PeerNetwork for CutNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, BoxedStream> {
        Box::pin(async move {
            let owners = self.cuts.owners.lock().unwrap().clone();
            let other = owners.iter().rev().find(|(at, _)| at == address).map(|(_, id)| *id);
            if self.cuts.is_cut(self.id, other) {
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            let stream = self.tcp.connect(address).await?;
            let cut = CutStream { a: self.id, b: other, cuts: Arc::clone(&self.cuts), stream };
            Ok(Box::new(cut) as BoxedStream)
        })
    }

    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)> {
        Box::pin(async move {
            let (stream, from) = self.tcp.accept().await?;
            let cut = CutStream { a: self.id, b: None, cuts: Arc::clone(&self.cuts), stream };
            Ok((Box::new(cut) as BoxedStream, from))
        })
    }
}

/// Breaks with the next byte once its ends are apart.
struct CutStream {
    a: NodeId,
    b: Option<NodeId>,
    cuts: Arc<Cuts>,
    stream: BoxedStream,
}

impl CutStream {
    fn check(&self) -> io::Result<()> {
        if self.cuts.is_cut(self.a, self.b) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for CutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.check()?;
        }
        polled
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
