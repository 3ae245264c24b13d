//! A network with faults: connections over real sockets end and are refused while a node is isolated; what comes in is
//! lost while a node is deaf; and a connection breaks between a request and its reply.

use raft::{BoxedStream, NetworkFuture, NodeId, PeerNetwork, TcpPeers};
use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;

/// The faults of now.
#[derive(Default)]
pub struct Partitions {
    isolated: Mutex<BTreeSet<NodeId>>,
    deaf: Mutex<BTreeSet<NodeId>>,
    losing: Mutex<Option<Losing>>,
    owners: Mutex<Vec<(String, NodeId)>>,
}

/// A request whose answer is lost once.
struct Losing {
    /// Of this node.
    asker: NodeId,
    /// The request has these bytes.
    needle: Vec<u8>,
    /// How often it was sent.
    sent: usize,
}

impl Partitions {
    pub fn isolate(&self, id: NodeId) {
        self.isolated.lock().unwrap().insert(id);
    }

    pub fn heal(&self, id: NodeId) {
        self.isolated.lock().unwrap().remove(&id);
    }

    /// From now on the node sends, and receives nothing: handshakes pass, and all that comes in after them is lost.
    pub fn deafen(&self, id: NodeId) {
        self.deaf.lock().unwrap().insert(id);
    }

    pub fn undeafen(&self, id: NodeId) {
        self.deaf.lock().unwrap().remove(&id);
    }

    /// The answer to the next request of a node that contains these bytes is lost: its connection breaks instead.
    pub fn lose_answer(&self, asker: NodeId, needle: &str) {
        *self.losing.lock().unwrap() = Some(Losing { asker, needle: needle.into(), sent: 0 });
    }

    /// How often that request was sent.
    pub fn times_sent(&self) -> usize {
        self.losing.lock().unwrap().as_ref().map_or(0, |losing| losing.sent)
    }

    /// Notes bytes that a node sends. Gives whether their answer is to be lost.
    fn loses_answer(&self, asker: NodeId, bytes: &[u8]) -> bool {
        let mut losing = self.losing.lock().unwrap();
        let Some(losing) = losing.as_mut().filter(|losing| losing.asker == asker) else { return false };
        if !bytes.windows(losing.needle.len()).any(|part| part == losing.needle) {
            return false;
        }
        losing.sent += 1;
        losing.sent == 1
    }

    fn is_deaf(&self, id: NodeId) -> bool {
        self.deaf.lock().unwrap().contains(&id)
    }

    fn is_isolated(&self, a: NodeId, b: Option<NodeId>) -> bool {
        let isolated = self.isolated.lock().unwrap();
        isolated.contains(&a) || b.is_some_and(|b| isolated.contains(&b))
    }

    /// The network of one node.
    pub fn network(self: &Arc<Self>, id: NodeId, listener: TcpListener) -> Arc<dyn PeerNetwork> {
        let address = listener.local_addr().unwrap().to_string();
        self.owners.lock().unwrap().push((address, id));
        Arc::new(FaultyNetwork { id, partitions: Arc::clone(self), tcp: TcpPeers::new(listener) })
    }
}

struct FaultyNetwork {
    id: NodeId,
    partitions: Arc<Partitions>,
    tcp: TcpPeers,
}

impl PeerNetwork for FaultyNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> NetworkFuture<'a, BoxedStream> {
        Box::pin(async move {
            let owners = self.partitions.owners.lock().unwrap().clone();
            let other = owners.iter().rev().find(|(at, _)| at == address).map(|(_, id)| *id);
            if self.partitions.is_isolated(self.id, other) {
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            let stream = self.tcp.connect(address).await?;
            Ok(Box::new(FaultyStream::new(self, other, stream)) as BoxedStream)
        })
    }

    fn accept(&self) -> NetworkFuture<'_, (BoxedStream, String)> {
        Box::pin(async move {
            let (stream, from) = self.tcp.accept().await?;
            Ok((Box::new(FaultyStream::new(self, None, stream)) as BoxedStream, from))
        })
    }
}

/// Breaks with the next byte once one of its ends is isolated.
struct FaultyStream {
    a: NodeId,
    /// The node at the other end; `None` at the end that accepted.
    b: Option<NodeId>,
    partitions: Arc<Partitions>,
    stream: BoxedStream,
    /// Writes so far. The end that connects writes once for the handshake.
    writes: usize,
    loses_answer: bool,
}

impl FaultyStream {
    fn new(network: &FaultyNetwork, b: Option<NodeId>, stream: BoxedStream) -> Self {
        let partitions = Arc::clone(&network.partitions);
        Self { a: network.id, b, partitions, stream, writes: 0, loses_answer: false }
    }

    /// Whether what comes in is lost.
    fn hears_nothing(&self) -> bool {
        self.partitions.is_deaf(self.a) && (self.b.is_none() || self.writes > 1)
    }

    fn check(&self) -> io::Result<()> {
        if self.partitions.is_isolated(self.a, self.b) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for FaultyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let before = buf.filled().len();
        loop {
            let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
            if buf.filled().len() == before {
                return polled;
            }
            self.check()?;
            if self.loses_answer {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if !self.hears_nothing() {
                return polled;
            }
            buf.set_filled(before);
        }
    }
}

impl AsyncWrite for FaultyStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        if polled.is_ready() {
            self.writes += 1;
            self.loses_answer |= self.b.is_some() && self.partitions.loses_answer(self.a, buf);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
