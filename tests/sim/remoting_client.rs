//! A connection to a node as brokers and clients have it: frames out, frames in.

use crate::network::SimStream;
use bytes::BytesMut;
use raft_namesrv::wire::{Decoder, RemotingCommand, encode};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) struct RemotingClient {
    stream: SimStream,
    decoder: Decoder,
    received: BytesMut,
    next: i32,
}

impl RemotingClient {
    pub(crate) fn new(stream: SimStream) -> Self {
        Self { stream, decoder: Decoder::for_client(), received: BytesMut::new(), next: 0 }
    }

    pub(crate) fn request(&mut self, code: i32, fields: &[(&str, &str)]) -> RemotingCommand {
        self.next += 1;
        let command = RemotingCommand::request(code, self.next);
        fields.iter().fold(command, |command, (key, value)| command.with(key, value))
    }

    pub(crate) async fn send(&mut self, command: &RemotingCommand) -> io::Result<()> {
        let mut out = BytesMut::new();
        encode(&command.head(), &command.body, command.serialization, &mut out);
        self.stream.write_all(&out).await
    }

    /// The next answer. Nothing is lost when it is not waited for to the end.
    pub(crate) async fn next(&mut self) -> io::Result<RemotingCommand> {
        loop {
            if let Some(command) = self.decoder.next(&mut self.received).map_err(io::Error::other)? {
                return Ok(command);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    pub(crate) async fn ask(&mut self, command: &RemotingCommand) -> io::Result<RemotingCommand> {
        self.send(command).await?;
        loop {
            let answer = self.next().await?;
            if answer.opaque == command.opaque {
                return Ok(answer);
            }
        }
    }
}
