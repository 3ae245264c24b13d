//! The list of members: `1=HOST:PEERPORT,2=…`.

use super::address::check_reachable;
use raft::{Member, NodeId};
use std::str::FromStr;

/// Members named at the start, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members(pub Vec<Member>);

impl FromStr for Members {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut members: Vec<Member> = Vec::new();
        // One separator at the end is allowed; every other one stands between two members.
        let text = text.trim();
        let text = text.strip_suffix([',', ';']).unwrap_or(text);
        for part in text.split([',', ';']).map(str::trim).filter(|_| !text.is_empty()) {
            let member = parse_member(part)?;
            let is_same = |m: &&Member| m.id == member.id || m.address.eq_ignore_ascii_case(&member.address);
            if let Some(other) = members.iter().find(is_same) {
                let (id, address) = (other.id, &other.address);
                return Err(format!("'{part}' and '{id}={address}' have the same id or address"));
            }
            members.push(member);
        }
        if members.is_empty() {
            return Err("no member given; expected 1=HOST:PEERPORT,2=…".to_owned());
        }
        members.sort();
        Ok(Self(members))
    }
}

/// One member: `ID=HOST:PEERPORT`.
///
/// # Errors
/// The text is something else; the error says what is wrong.
pub(crate) fn parse_member(part: &str) -> Result<Member, String> {
    let (id, address) = part.split_once('=').ok_or_else(|| format!("'{part}' is not ID=HOST:PEERPORT"))?;
    let id = parse_node_id(id.trim())?;
    let address = address.trim();
    check_reachable(address)?;
    Ok(Member { id, address: address.to_owned() })
}

/// A node id: a number from 1.
///
/// # Errors
/// Anything else.
pub fn parse_node_id(text: &str) -> Result<NodeId, String> {
    match text.parse::<NodeId>() {
        Ok(id) if id > 0 => Ok(id),
        _ => Err(format!("'{text}' is no node id (a number from 1)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_in_id_order_with_either_separator() {
        let Members(members) = "2=b:9976; 1=a:9976,".parse().unwrap();
        let expected = [(1, "a:9976"), (2, "b:9976")];
        assert_eq!(members, expected.map(|(id, a)| Member { id, address: a.to_owned() }));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "no member"),
            ("a:1", "ID="),
            ("0=a:1", "no node id"),
            ("x=a:1", "no node id"),
            ("1=a", "no port"),
            ("1=a:1,1=b:2", "same id"),
            ("1=a:1,2=a:1", "same id or address"),
            ("1=a.example:1,2=A.example:1", "same id or address"),
            ("1=a:0", "port 0"),
            ("1=0.0.0.0:1", "no host"),
            ("1=[::]:1", "no host"),
            ("1=a b:1", "no spaces"),
            ("1=a:99999", "up to 65535"),
            ("1=a:1,,2=b:2", "'' is not ID="),
            (";1=a:1", "'' is not ID="),
            ("1=a:1,2=b:2,;", "'' is not ID="),
            (",", "no member"),
        ] {
            let error = text.parse::<Members>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
