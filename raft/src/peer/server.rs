//! The peer port: takes connections of other nodes, and answers what they ask.

use super::connection::write_frames;
use super::frame::{self, FRAME_BYTES_MAX, Frame, Kind};
use super::handshake::{self, Facts, HandshakeError, Lane};
use super::message::{self, Reply, Request};
use super::stream::BoxedStream;
use crate::consensus::runtime::blocking;
use crate::health::truncated_tail as cut_tail;
use crate::local::node::Context;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{interval, sleep, timeout};

/// Handshakes that may be under way at once.
const HANDSHAKES_MAX: usize = 64;
/// A handshake takes no longer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);
/// Requests of one connection that are answered side by side.
const CONCURRENT_MAX: usize = 256;
/// While an answer is being worked on, the peer hears so at this interval.
const WORKING_INTERVAL: Duration = Duration::from_secs(1);
/// After a failed accept (no file descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Replies that wait to be written on one connection.
const OUT_FRAMES_MAX: usize = 256;

/// A future that answers.
pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// Answers requests of other nodes.
pub(crate) trait Answers: Send + Sync + 'static {
    /// A connection of its own: what it keeps between requests (a snapshot that is being received).
    fn session(self: Arc<Self>, from: Facts, lane: Lane) -> Box<dyn Session>;
}

/// The answering side of one connection.
pub(crate) trait Session: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: Request) -> Answer<'_>;
}

/// Takes connections until the node stops.
pub(crate) async fn run(context: Arc<Context>, answers: Arc<dyn Answers>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            accepted = context.network.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                context.notices.log("accept", format!("cannot take a connection on the peer port: {e}"));
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
            context.notices.log("handshakes", format!("too many handshakes at once, {from} is turned away"));
            continue;
        };
        let (context, answers) = (Arc::clone(&context), Arc::clone(&answers));
        let tasks = context.tasks.clone();
        tasks.spawn(async move {
            let shaken = shake_hands(&context, stream, &from).await;
            drop(permit);
            let Some((stream, facts, lane)) = shaken else { return };
            let session = answers.session(facts, lane);
            tokio::select! {
                biased;
                // A connection that ends is the peer's business.
                _ = serve(&context, stream, lane, session) => {}
                () = context.stop.cancelled() => {}
            }
        });
    }
}

async fn shake_hands(
    context: &Context,
    mut stream: BoxedStream,
    from: &str,
) -> Option<(BoxedStream, Facts, Lane)> {
    let shake = handshake::answer(&mut stream, &context.options.secret, context.nonce(), |hello| {
        let me = context.facts();
        let verdict = context.judge(hello, &me);
        (me, verdict)
    });
    let hello = match timeout(HANDSHAKE_MAX, shake).await {
        Ok(Ok(hello)) => hello,
        Ok(Err(HandshakeError::Refused(refusal, caller))) => {
            tracing::debug!("node {} at {from} is turned away: {refusal}", caller.node_id);
            return None;
        }
        Ok(Err(HandshakeError::Secret)) => {
            context.notices.log(
                "strangers",
                format!("{from} does not know the peer secret, or uses another, and is turned away"),
            );
            return None;
        }
        Ok(Err(HandshakeError::Broken(e))) => {
            tracing::debug!("handshake with {from} broke: {e}");
            return None;
        }
        Err(_) => return None,
    };
    cut_tail::hear(context, &hello.facts);
    if let Err(e) = join_cluster(context, &hello).await {
        context.notices.set("cluster id", format!("the cluster's id cannot be kept: {e}"));
        return None;
    }
    Some((stream, hello.facts, hello.lane))
}

/// A node without a cluster belongs to the first that knows it by its data directory.
async fn join_cluster(context: &Context, hello: &handshake::Hello) -> io::Result<()> {
    let Some(cluster_id) = hello.facts.cluster_id else { return Ok(()) };
    let by_raft = !matches!(hello.lane, Lane::Call | Lane::Message(_));
    if !by_raft || hello.target_directory.is_none() || context.directory.cluster_id().is_some() {
        return Ok(());
    }
    tracing::info!("taken into cluster {cluster_id:032x} by node {}", hello.facts.node_id);
    let directory = Arc::clone(&context.directory);
    blocking(move || directory.save_cluster_id(cluster_id)).await
}

async fn serve(
    context: &Context,
    stream: BoxedStream,
    lane: Lane,
    session: Box<dyn Session>,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    let (out, frames) = mpsc::channel(OUT_FRAMES_MAX);
    let reader = BufReader::new(reader);
    let written = write_frames(writer, frames, || ());
    let session: Arc<dyn Session> = Arc::from(session);
    let read = async {
        match lane {
            Lane::Control | Lane::Call => side_by_side(context, reader, session, out).await,
            Lane::Append | Lane::Snapshot | Lane::Message(_) => in_order(reader, session, out).await,
        }
    };
    tokio::select! {
        biased;
        result = written => result,
        result = read => result,
    }
}

async fn next_request<R: AsyncRead + Unpin>(reader: &mut R) -> io::Result<(u64, Request)> {
    let bytes = frame::read(reader, FRAME_BYTES_MAX, || ()).await?;
    let frame = Frame::parse(&bytes)?;
    if frame.kind != Kind::Request {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a request"));
    }
    Ok((frame.number, message::decode_request(&frame.body)?))
}

fn reply_frame(number: u64, reply: &Reply) -> io::Result<Frame> {
    Ok(Frame { kind: Kind::Reply, number, body: message::encode_reply(reply)? })
}

/// Answers requests as they come; a slow one does not hold the others up.
async fn side_by_side<R: AsyncRead + Unpin>(
    context: &Context,
    mut reader: R,
    session: Arc<dyn Session>,
    out: mpsc::Sender<Frame>,
) -> io::Result<()> {
    let running = Arc::new(Semaphore::new(CONCURRENT_MAX));
    loop {
        let (number, request) = next_request(&mut reader).await?;
        let permit = Arc::clone(&running).acquire_owned().await.map_err(io::Error::other)?;
        let (session, out) = (Arc::clone(&session), out.clone());
        context.tasks.spawn(async move {
            let reply = session.answer(request).await;
            if let Ok(frame) = reply_frame(number, &reply) {
                // The connection may have gone meanwhile.
                let _ = out.send(frame).await;
            }
            drop(permit);
        });
    }
}

/// Answers one request after the other, and says so while it takes long.
async fn in_order<R: AsyncRead + Unpin>(
    mut reader: R,
    session: Arc<dyn Session>,
    out: mpsc::Sender<Frame>,
) -> io::Result<()> {
    loop {
        let (number, request) = next_request(&mut reader).await?;
        let mut answer = session.answer(request);
        let mut working = interval(WORKING_INTERVAL);
        working.tick().await;
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut answer => break reply,
                _ = working.tick() => {
                    let frame = Frame { kind: Kind::Working, number, body: Vec::new() };
                    out.send(frame).await.map_err(io::Error::other)?;
                }
            }
        };
        out.send(reply_frame(number, &reply)?).await.map_err(io::Error::other)?;
    }
}
