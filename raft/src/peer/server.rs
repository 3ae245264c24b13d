//! The peer port: takes connections of other nodes, and answers their requests.

use super::authorize::{authorize, is_member, log_other_version, log_truncated_tail};
use super::connection::{OUT_FRAMES_MAX, write_frames};
use super::frame::{self, Frame, Kind};
use super::handshake::{self, ChannelKind, HandshakeError, Hello, PROTOCOL, Refusal, Server};
use super::message::{self, Reply, Request};
use super::node_info::NodeInfo;
use super::places::{Place, Places, UNPROVEN_MAX, UNPROVEN_PER_ADDRESS_MAX};
use super::stream::{BoxedStream, PeerNetwork};
use crate::local::{LocalNode, background, blocking};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use storage::limits::PEER_FRAME_BYTES_MAX;
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, interval_at, sleep, timeout};

/// A handshake takes no longer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);
/// Requests of one connection that are handled at once.
const CONCURRENT_MAX: usize = 256;
/// A call of no more bytes is decoded at once.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// While a reply takes its time, the peer gets a sign of it at this interval.
const WORKING_INTERVAL: Duration = Duration::from_secs(1);
/// After a failed accept (no file descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A future that gives the reply.
pub(crate) type Handled<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// Handles requests of other nodes.
pub(crate) trait RpcHandler: Send + Sync + 'static {
    /// A handler of one connection, with what it keeps between requests (a snapshot that is being received).
    fn connection(self: Arc<Self>, from: NodeInfo, channel: ChannelKind) -> Box<dyn ConnectionHandler>;
}

/// Handles the requests of one connection.
pub(crate) trait ConnectionHandler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(&self, request: Request) -> Handled<'_>;
}

/// Takes connections until the node stops.
pub(crate) async fn run(local: Arc<LocalNode>, network: Arc<dyn PeerNetwork>, handler: Arc<dyn RpcHandler>) {
    let places = Arc::new(Places::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = local.lifecycle.stop.cancelled() => return,
            accepted = network.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                local.alerts.log("accept", format!("cannot take a connection on the peer port: {e}"));
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (place, took_another) = places.take(&from);
        if took_another {
            let text = format!(
                "{UNPROVEN_MAX} connections to the peer port, or {UNPROVEN_PER_ADDRESS_MAX} of one address, have not \
                 finished their handshake: the oldest is closed for one from {from}. Let only nodes reach this port"
            );
            local.alerts.log("unproven connections", text);
        }
        let (local, handler) = (Arc::clone(&local), Arc::clone(&handler));
        let tasks = local.lifecycle.tasks.clone();
        tasks.spawn(async move {
            let connection = serve(&local, stream, &from, &place, handler);
            tokio::select! {
                biased;
                () = local.lifecycle.stop.cancelled() => {}
                () = place.lost() => {}
                () = connection => {}
            }
        });
    }
}

/// Serves a connection from its handshake on.
async fn serve(
    local: &LocalNode,
    stream: BoxedStream,
    from: &str,
    place: &Place,
    handler: Arc<dyn RpcHandler>,
) {
    let Some((stream, info, channel)) = shake_hands(local, stream, from).await else { return };
    place.proven(info.node_id, channel, is_member(local, &info));
    let handler = handler.connection(info, channel);
    // The peer connects again when it needs to: an end is no error here.
    let _ = answer_requests(local, stream, channel, handler).await;
}

pub(super) async fn shake_hands(
    local: &LocalNode,
    mut stream: BoxedStream,
    from: &str,
) -> Option<(BoxedStream, NodeInfo, ChannelKind)> {
    let server = Server {
        protocol: PROTOCOL,
        secret: &local.options.secret,
        nonce: handshake::nonce(local.runtime.as_ref()),
    };
    let shake = handshake::accept(&mut stream, server, |hello| {
        let me = NodeInfo::of(local);
        let refusal = authorize(local, hello, &me);
        if let Some(Refusal::OtherVersion(_)) = refusal {
            log_other_version(local, hello, from);
        }
        (me, refusal)
    });
    let hello = match timeout(HANDSHAKE_MAX, shake).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(HandshakeError::Refused(refusal, caller))) => {
            tracing::debug!("node {} at {from} is refused: {refusal}", caller.node_id);
            return None;
        }
        Ok(Err(HandshakeError::Secret)) => {
            local.alerts.log(
                "unauthenticated peers",
                format!("{from} is refused: it does not know the peer secret, or uses another"),
            );
            return None;
        }
        Ok(Err(HandshakeError::Broken(e))) => {
            tracing::debug!("handshake with {from} broke: {e}");
            return None;
        }
        Err(_) => return None,
    };
    log_truncated_tail(local, &hello.info);
    if let Err(e) = join_cluster(local, &hello).await {
        local.alerts.set_while_repeated("cluster id", format!("the cluster's id cannot be saved: {e}"));
        return None;
    }
    Some((stream, hello.info, hello.channel))
}

/// A node without a cluster joins the first one whose membership names its data directory.
async fn join_cluster(local: &LocalNode, hello: &Hello) -> io::Result<()> {
    let Some(cluster_id) = hello.info.cluster_id else { return Ok(()) };
    let by_raft = !matches!(hello.channel, ChannelKind::Call | ChannelKind::Message(_));
    if !by_raft || hello.target_directory.is_none() || local.directory.cluster_id().is_some() {
        return Ok(());
    }
    tracing::info!("node {} adds this node to cluster {cluster_id:032x}", hello.info.node_id);
    let directory = Arc::clone(&local.directory);
    blocking(move || directory.save_cluster_id(cluster_id)).await
}

async fn answer_requests(
    local: &LocalNode,
    stream: BoxedStream,
    channel: ChannelKind,
    handler: Box<dyn ConnectionHandler>,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    let (out, frames) = mpsc::channel(OUT_FRAMES_MAX);
    let reader = BufReader::new(reader);
    let written = write_frames(writer, frames, || ());
    let handler: Arc<dyn ConnectionHandler> = Arc::from(handler);
    let read = async {
        match channel {
            ChannelKind::Control | ChannelKind::Call => concurrently(local, reader, handler, out).await,
            ChannelKind::Append | ChannelKind::Snapshot | ChannelKind::Message(_) => {
                in_order(reader, handler, out).await
            }
        }
    };
    tokio::select! {
        biased;
        result = written => result,
        result = read => result,
    }
}

async fn next_frame<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<Frame> {
    let bytes = frame::read(reader, PEER_FRAME_BYTES_MAX, || ()).await?;
    let frame = Frame::parse(&bytes)?;
    if frame.kind != Kind::Request {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a request"));
    }
    Ok(frame)
}

/// The request in a frame. A large one, a registration of thousands of topics, is decoded beside this thread, which
/// heartbeats and votes need.
async fn decode(body: Vec<u8>) -> io::Result<Request> {
    if body.len() <= INLINE_BYTES_MAX {
        return message::decode_request(&body);
    }
    background(move || message::decode_request(&body)).await?
}

fn reply_frame(number: u64, reply: &Reply) -> io::Result<Frame> {
    Ok(Frame { kind: Kind::Reply, number, body: message::encode_reply(reply)? })
}

/// Handles requests as they come; a slow one does not hold up the others.
async fn concurrently<R: AsyncRead + Unpin>(
    local: &LocalNode,
    mut reader: R,
    handler: Arc<dyn ConnectionHandler>,
    out: mpsc::Sender<Frame>,
) -> io::Result<()> {
    let running = Arc::new(Semaphore::new(CONCURRENT_MAX));
    loop {
        let Frame { number, body, .. } = next_frame(&mut reader).await?;
        let permit = Arc::clone(&running).acquire_owned().await.map_err(io::Error::other)?;
        let (handler, out) = (Arc::clone(&handler), out.clone());
        local.lifecycle.tasks.spawn(async move {
            let reply = match decode(body).await {
                Ok(request) => handler.handle(request).await,
                Err(e) => Reply::Unavailable(format!("the request cannot be read: {e}")),
            };
            if let Ok(frame) = reply_frame(number, &reply) {
                // The connection may have gone meanwhile.
                let _ = out.send(frame).await;
            }
            drop(permit);
        });
    }
}

/// Handles one request after the other; while one takes long, sends signs of it.
async fn in_order<R: AsyncRead + Unpin>(
    mut reader: R,
    handler: Arc<dyn ConnectionHandler>,
    out: mpsc::Sender<Frame>,
) -> io::Result<()> {
    loop {
        let Frame { number, body, .. } = next_frame(&mut reader).await?;
        let request = message::decode_request(&body)?;
        let mut handled = handler.handle(request);
        // Not `interval`: its first tick comes with the timer's next millisecond, and each reply would wait for it.
        let mut working = interval_at(Instant::now() + WORKING_INTERVAL, WORKING_INTERVAL);
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut handled => break reply,
                _ = working.tick() => {
                    let frame = Frame { kind: Kind::Working, number, body: Vec::new() };
                    out.send(frame).await.map_err(io::Error::other)?;
                }
            }
        };
        out.send(reply_frame(number, &reply)?).await.map_err(io::Error::other)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    /// Replies at once to everything but [`Request::BootstrapInfo`].
    struct Replies;

    impl ConnectionHandler for Replies {
        fn handle(&self, request: Request) -> Handled<'_> {
            match request {
                Request::BootstrapInfo => Box::pin(pending()),
                _ => Box::pin(ready(Reply::Noted)),
            }
        }
    }

    /// What goes out for these requests, until so many frames came, and how long that took.
    async fn frames(requests: &[Request], count: usize) -> (Vec<(Kind, u64)>, Duration) {
        let mut bytes = Vec::new();
        for (number, request) in (0..).zip(requests) {
            let body = message::encode_request(request).unwrap();
            Frame { kind: Kind::Request, number, body }.write_to(&mut bytes).unwrap();
        }
        let (out, mut frames) = mpsc::channel(OUT_FRAMES_MAX);
        // Timers fire at whole milliseconds only: one that is due now waits until the next.
        tokio::time::advance(Duration::from_micros(300)).await;
        let (begun, mut came) = (Instant::now(), Vec::new());
        let serving = tokio::spawn(async move { in_order(&*bytes, Arc::new(Replies), out).await });
        while came.len() < count {
            let frame = frames.recv().await.unwrap();
            came.push((frame.kind, frame.number));
        }
        serving.abort();
        (came, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_waits_for_no_timer() {
        let requests = [Request::Diverged { index: 1 }, Request::Diverged { index: 2 }];
        let came = frames(&requests, 2).await;
        assert_eq!(came, (vec![(Kind::Reply, 0), (Kind::Reply, 1)], Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn while_a_reply_takes_long_the_peer_gets_signs_of_it() {
        let (came, took) = frames(&[Request::BootstrapInfo], 2).await;
        let in_time = took.abs_diff(2 * WORKING_INTERVAL) < Duration::from_millis(2);
        assert_eq!((came, in_time), (vec![(Kind::Working, 0); 2], true));
    }
}
