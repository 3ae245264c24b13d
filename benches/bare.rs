//! The least that a look-up can cost: a server that answers each frame with the same bytes, without looking at it.
//!
//! `cargo bench --bench bare -- LISTEN LIKE TOPIC` asks the nameserver at LIKE for TOPIC once, and then gives that answer on
//! LISTEN, until it is ended. `scripts/bench.sh` puts the same load on both.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, printed")]

use bytes::{Buf, BytesMut};
use raft_namesrv::wire::{self, Decoder, RemotingCommand};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers that are written together at most, bytes; as many as the nameserver itself takes together.
const FLUSH_BYTES: usize = 256 << 10;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [listen, like, topic] = arguments.as_slice() else {
        println!("usage: cargo bench --bench bare -- LISTEN LIKE TOPIC");
        return;
    };
    let answer: Arc<[u8]> = answer_of(like, topic).await.into();
    let listener = TcpListener::bind(listen).await.unwrap();
    println!("answers on {listen} with {} bytes", answer.len());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(stream, Arc::clone(&answer)));
    }
}

/// What a nameserver answers, as a frame.
async fn answer_of(address: &str, topic: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = BytesMut::new();
    let ask = RemotingCommand::request(105, 1).with("topic", topic);
    wire::encode(&ask.head(), &ask.body, wire::Serialization::Json, &mut request);
    stream.write_all(&request).await.unwrap();
    let mut received = BytesMut::new();
    loop {
        stream.read_buf(&mut received).await.unwrap();
        let bytes = received.to_vec();
        if Decoder::for_client().next(&mut received.clone()).unwrap().is_some() {
            return bytes;
        }
    }
}

async fn serve(mut stream: TcpStream, answer: Arc<[u8]>) {
    stream.set_nodelay(true).unwrap();
    let (mut inbound, mut outbound) = (BytesMut::with_capacity(64 << 10), Vec::new());
    while stream.read_buf(&mut inbound).await.is_ok_and(|bytes| bytes > 0) {
        while let Some(length) = inbound.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
            && inbound.len() >= 4 + length
        {
            inbound.advance(4 + length);
            outbound.extend_from_slice(&answer);
            if outbound.len() >= FLUSH_BYTES {
                break;
            }
        }
        if stream.write_all(&outbound).await.is_err() {
            return;
        }
        outbound.clear();
        inbound.reserve(64 << 10);
    }
}
