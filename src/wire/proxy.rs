//! The PROXY protocol header (versions 1 and 2) that a load balancer sends before the first frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Signature of version 2.
const V2_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Size of the fixed part of version 2: signature, version and command, family, length.
const V2_HEADER_BYTES: usize = 16;
/// First bytes of version 1.
const V1_PREFIX: &[u8] = b"PROXY ";
/// Longest line of version 1, its end included.
const V1_MAX_BYTES: usize = 108;

/// The result of parsing the first bytes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    /// There is no PROXY header.
    Absent,
    /// More bytes are needed.
    Incomplete,
    /// There is a PROXY header.
    Present {
        /// Its length, bytes.
        length: usize,
        /// Address of the peer, if the header has one.
        source: Option<SocketAddr>,
    },
}

/// Parses the first bytes of a connection: 12 or more.
///
/// # Errors
/// The bytes begin like a PROXY header and do not parse.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, &'static str> {
    if bytes.starts_with(&V2_SIGNATURE) {
        parse_v2(bytes)
    } else if bytes.starts_with(V1_PREFIX) {
        parse_v1(bytes)
    } else {
        Ok(Parsed::Absent)
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Parsed, &'static str> {
    let head = bytes.get(..V1_MAX_BYTES).unwrap_or(bytes);
    let Some(end) = head.windows(2).position(|pair| pair == b"\r\n") else {
        return if head.len() < V1_MAX_BYTES { Ok(Parsed::Incomplete) } else { Err("line without an end") };
    };
    let line = head.get(V1_PREFIX.len()..end).and_then(|line| std::str::from_utf8(line).ok());
    let mut fields = line.ok_or("line that is no text")?.split(' ');
    let source = match fields.next() {
        Some("UNKNOWN") => None,
        Some("TCP4" | "TCP6") => {
            let mut field = || fields.next().ok_or("line with too few words");
            let (address, _destination, port) = (field()?, field()?, field()?);
            let address: IpAddr = address.parse().map_err(|_| "source that is no address")?;
            let port: u16 = port.parse().map_err(|_| "source port that is no port")?;
            Some(SocketAddr::new(address, port))
        }
        _ => return Err("unknown family"),
    };
    Ok(Parsed::Present { length: end + 2, source })
}

fn parse_v2(bytes: &[u8]) -> Result<Parsed, &'static str> {
    let Some(&[version_command, family, high, low]) = bytes.get(V2_SIGNATURE.len()..V2_HEADER_BYTES) else {
        return Ok(Parsed::Incomplete);
    };
    let length = V2_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    let local = match version_command {
        0x20 => true,
        0x21 => false,
        _ => return Err("unknown version or command"),
    };
    let Some(addresses) = bytes.get(V2_HEADER_BYTES..length) else { return Ok(Parsed::Incomplete) };
    let source = if local { None } else { source_v2(family, addresses)? };
    Ok(Parsed::Present { length, source })
}

fn source_v2(family: u8, addresses: &[u8]) -> Result<Option<SocketAddr>, &'static str> {
    let port_at =
        |at: usize| addresses.get(at..).and_then(<[u8]>::first_chunk).map(|port| u16::from_be_bytes(*port));
    let (ip, port) = match family >> 4 {
        1 => (addresses.first_chunk::<4>().map(|ip| IpAddr::V4(Ipv4Addr::from(*ip))), port_at(8)),
        2 => (addresses.first_chunk::<16>().map(|ip| IpAddr::V6(Ipv6Addr::from(*ip))), port_at(32)),
        // Unix sockets and "unspecified" have no address to show.
        _ => return Ok(None),
    };
    match (ip, port) {
        (Some(ip), Some(port)) => Ok(Some(SocketAddr::new(ip, port))),
        _ => Err("addresses cut short"),
    }
}

#[cfg(test)]
mod tests;
