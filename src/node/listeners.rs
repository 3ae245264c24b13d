//! The ports of a node.

use super::RunError;
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted: after a restart all clients of a node connect at the same moment. Java
/// lets 1,024 wait. The kernel allows at most `net.core.somaxconn`.
const ACCEPT_QUEUE: u32 = 4_096;

/// The ports of a node, already bound.
#[derive(Debug)]
pub struct Listeners {
    /// For brokers and clients.
    pub clients: TcpListener,
    /// For the other nodes.
    pub peers: TcpListener,
    /// For operators: health, metrics, JSON API. `None`: not served.
    pub http: Option<TcpListener>,
}

impl Listeners {
    /// Binds the three ports.
    ///
    /// # Errors
    /// A port is taken, or the address is not one of this host; the text says which.
    pub fn bind(clients: SocketAddr, peers: SocketAddr, http: SocketAddr) -> Result<Self, RunError> {
        Ok(Self {
            clients: bind("brokers and clients", clients)?,
            peers: bind("the other nodes", peers)?,
            http: Some(bind("HTTP", http)?),
        })
    }
}

fn bind(users: &str, address: SocketAddr) -> Result<TcpListener, RunError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted node must not wait until the kernel has forgotten the connections of the former process.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(ACCEPT_QUEUE)
    };
    listen().map_err(|error: io::Error| RunError::Listen(format!("for {users} on {address}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn hundreds_of_clients_may_come_at_once() {
        let any = "127.0.0.1:0".parse().unwrap();
        let listeners = Listeners::bind(any, any, any).unwrap();
        let at = listeners.clients.local_addr().unwrap();
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let mut waiting = Vec::new();
        for n in 0..allowed.trim().parse::<usize>().unwrap().min(400) {
            let connecting =
                tokio::time::timeout(Duration::from_secs(10), tokio::net::TcpStream::connect(at));
            waiting
                .push(connecting.await.unwrap_or_else(|_| panic!("connection {n} found no place")).unwrap());
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let any = "127.0.0.1:0".parse().unwrap();
        let taken = Listeners::bind(any, any, any).unwrap().clients;
        let at = taken.local_addr().unwrap();
        let refused = Listeners::bind(any, at, any).err().unwrap().to_string();
        assert!(refused.starts_with(&format!("cannot listen: for the other nodes on {at}: ")), "{refused}");
    }
}
