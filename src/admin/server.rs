//! Connections of the HTTP port: who may have one, and how long head and body of a request may take.

use super::places::{Place, Places};
use crate::warn_limit::WarnLimit;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The head of a request takes no longer, and a connection without a request does not last longer.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Nor does the body.
const BODY_MAX: Duration = Duration::from_secs(10);
/// Largest head. The name of a topic, of 4 KiB, may stand in it with three bytes for one.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Largest body. A change of the members takes less than 1 KiB.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Pause after an accept that failed (no file descriptors, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// To a client that finds no place.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Serves connections until this is dropped; then they end too.
pub(super) async fn run(listener: TcpListener, router: Router, places: Arc<Places>) {
    let (failed, refused) = (WarnLimit::new(), WarnLimit::new());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match places.take() {
                Some(place) => drop(connections.spawn(serve(stream, peer, router.clone(), place))),
                None => {
                    if let Some(held_back) = refused.allow() {
                        tracing::warn!(%peer, held_back, "HTTP connection refused: all others have requests under way");
                    }
                    refuse(stream);
                }
            },
            Err(error) => {
                if let Some(held_back) = failed.allow() {
                    tracing::warn!(%error, held_back, "no HTTP connection could be accepted");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The client may miss the refusal when it has sent its request already.
fn refuse(stream: TcpStream) {
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write(REFUSAL);
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, place: Arc<Place>) {
    let service = service_fn(|request| answer(request, peer, router.clone(), Arc::clone(&place)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = place.lost() => {}
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "HTTP connection ended");
            }
        }
    }
}

/// Reads the body first: from then on only the handler takes time, and the connection keeps its place.
async fn answer(
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
    router: Router,
    place: Arc<Place>,
) -> Result<Response, Infallible> {
    let (mut head, body) = request.into_parts();
    head.extensions.insert(ConnectInfo(peer));
    let too_large = || {
        let text = format!("the body has more than {BODY_BYTES_MAX} bytes\n");
        Ok((StatusCode::PAYLOAD_TOO_LARGE, text).into_response())
    };
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return too_large();
    }
    let body = match timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
        Ok(Err(error)) => return Ok((StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()),
        Err(_) => return Ok((StatusCode::REQUEST_TIMEOUT, "the body did not come in time\n").into_response()),
    };
    let Some(_running) = place.run() else { return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()) };
    TowerToHyperService::new(router).call(Request::from_parts(head, Body::from(body))).await
}
