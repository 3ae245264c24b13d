//! A small client of the nodes' HTTP port: one request, one connection.

use super::client::Client;
use super::{Failure, advice};
use crate::config::HTTP_PORT_DISTANCE;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::net::TcpStream;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Status code and body of an answer.
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Body as text.
    pub(crate) body: String,
}

/// Sends one request to `host:port`.
///
/// # Errors
/// No connection, or no whole answer in time.
pub(crate) async fn send(
    address: &str,
    method: Method,
    path: &str,
    body: String,
    timeout: Duration,
) -> Result<Answer, Failure> {
    let what = format!("{method} http://{address}{path}");
    match tokio::time::timeout(timeout, exchange(address, method, path, body)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failure::refused(format!("{what}: {error}"))),
        Err(_) => Err(Failure::refused(format!("{what}: no answer in {} ms", timeout.as_millis()))),
    }
}

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn exchange(address: &str, method: Method, path: &str, body: String) -> Result<Answer, Error> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let bytes = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    driver.abort();
    Ok(Answer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
}

/// Finds the HTTP port of the node that serves RocketMQ at `address`: code 319 shows it.
///
/// # Errors
/// The address is not `host:port`.
async fn http_address(address: &str, timeout: Duration) -> Result<String, Failure> {
    let (host, port) = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        .ok_or_else(|| Failure::arguments(format!("'{address}' is not host:port")))?;
    let shown = match Client::connect(address, timeout).await {
        Ok(mut client) => client.http_port().await.ok().flatten(),
        // A node that is not ready takes no connection on that port; its HTTP port may answer nevertheless.
        Err(_) => None,
    };
    let port = shown.or_else(|| port.checked_add(HTTP_PORT_DISTANCE)).unwrap_or(port);
    Ok(format!("{host}:{port}"))
}

/// Sends a request to the JSON API of the node that serves RocketMQ at `address`.
///
/// # Errors
/// No answer, another status than 200, or JSON of another shape.
pub(crate) async fn api<T: DeserializeOwned>(
    address: &str,
    method: Method,
    path: &str,
    body: String,
    timeout: Duration,
) -> Result<T, Failure> {
    let http = http_address(address, timeout).await?;
    api_at(&http, method, path, body, timeout).await
}

/// Sends a request to the JSON API at the HTTP address `http`.
///
/// # Errors
/// As [`api`].
pub(crate) async fn api_at<T: DeserializeOwned>(
    http: &str,
    method: Method,
    path: &str,
    body: String,
    timeout: Duration,
) -> Result<T, Failure> {
    let what = format!("{method} http://{http}{path}");
    let answer = send(http, method, path, body, timeout).await;
    let answer = answer.map_err(|failure| failure.with(Some(advice::IS_IT_RUNNING)))?;
    if answer.status != StatusCode::OK {
        let failure = Failure::refused(format!("{what}: {} {}", answer.status, answer.body.trim()));
        return Err(failure.with(advice::about(&answer.body)));
    }
    serde_json::from_str(&answer.body)
        .map_err(|e| Failure::refused(format!("{what}: unexpected answer: {e}")))
}
