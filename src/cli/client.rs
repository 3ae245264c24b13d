//! A client of any nameserver, ours or Java's: one connection, one request at a time.

use super::{Failure, advice};
use crate::config::HTTP_PORT_KEY;
use crate::wire::codes::{request, result};
use crate::wire::{Decoder, RemotingCommand, Serialization, encode};
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// A connection to a nameserver.
pub(crate) struct Client {
    address: String,
    stream: TcpStream,
    decoder: Decoder,
    received: BytesMut,
    opaque: i32,
    timeout: Duration,
}

impl Client {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// No connection in time.
    pub(crate) async fn connect(address: &str, timeout: Duration) -> Result<Self, Failure> {
        let why = match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(Self::over(stream, address, timeout)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {} ms", timeout.as_millis()),
        };
        let failure = Failure::refused(format!("cannot connect to {address}: {why}"));
        Err(failure.with(Some(advice::IS_IT_RUNNING)))
    }

    fn over(stream: TcpStream, address: &str, timeout: Duration) -> Self {
        // Without it a small request would wait for the acknowledgement of the one before.
        drop(stream.set_nodelay(true));
        Self {
            address: address.to_owned(),
            stream,
            decoder: Decoder::for_client(),
            received: BytesMut::new(),
            opaque: 0,
            timeout,
        }
    }

    /// A request with the next number.
    pub(crate) fn request(&mut self, code: i32) -> RemotingCommand {
        self.opaque = self.opaque.wrapping_add(1);
        RemotingCommand::request(code, self.opaque)
    }

    /// Sends a request and waits for its answer, of any code.
    ///
    /// # Errors
    /// The connection broke, or no answer in time.
    pub(crate) async fn call(&mut self, command: &RemotingCommand) -> Result<RemotingCommand, Failure> {
        let deadline = Instant::now() + self.timeout;
        let ms = self.timeout.as_millis();
        let what = format!("request {} to {}", command.code, self.address);
        match timeout_at(deadline, self.exchange(command)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(reason)) => Err(Failure::refused(format!("{what}: {reason}"))),
            Err(_) => {
                let failure = Failure::refused(format!("{what}: no answer in {ms} ms"));
                Err(failure.with(Some(advice::IS_IT_RUNNING)))
            }
        }
    }

    /// As [`Client::call`]; an answer other than success is an error with its code and remark.
    ///
    /// # Errors
    /// As [`Client::call`], or the request failed.
    pub(crate) async fn must(&mut self, command: &RemotingCommand) -> Result<RemotingCommand, Failure> {
        let answer = self.call(command).await?;
        if answer.code == result::SUCCESS {
            return Ok(answer);
        }
        let remark = answer.remark.unwrap_or_default();
        let failure = Failure::refused(format!("{}: code {}: {}", self.address, answer.code, remark.trim()));
        Err(failure.with(advice::about(&remark)))
    }

    /// Sends a one-way request.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn send(&mut self, command: &RemotingCommand) -> Result<(), Failure> {
        let mut out = BytesMut::new();
        encode(&command.head(), &command.body, Serialization::Json, &mut out);
        let written = self.stream.write_all(&out).await;
        written.map_err(|e| Failure::refused(format!("request {} to {}: {e}", command.code, self.address)))
    }

    async fn exchange(&mut self, command: &RemotingCommand) -> Result<RemotingCommand, String> {
        self.send(command).await.map_err(|failure| failure.message)?;
        loop {
            while let Some(answer) = self.decoder.next(&mut self.received).map_err(|e| e.to_string())? {
                // Every other answer is late: its request has timed out.
                if answer.is_response() && answer.opaque == command.opaque {
                    return Ok(answer);
                }
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) => return Err("the connection was closed".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// The settings that code 319 shows, key and value.
    ///
    /// # Errors
    /// As [`Client::must`].
    pub(crate) async fn settings(&mut self) -> Result<Vec<(String, String)>, Failure> {
        let command = self.request(request::GET_NAMESRV_CONFIG);
        let answer = self.must(&command).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// The HTTP port that a node of raft-namesrv shows; `None` for Java's nameserver.
    ///
    /// # Errors
    /// As [`Client::must`].
    pub(crate) async fn http_port(&mut self) -> Result<Option<u16>, Failure> {
        let settings = self.settings().await?;
        let port = settings.iter().find(|(key, _)| key == HTTP_PORT_KEY);
        Ok(port.and_then(|(_, value)| value.parse().ok()))
    }
}
