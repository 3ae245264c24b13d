//! Where all brokers seem to be gone at once, the guard keeps those above its share, at first.

use crate::node::NODES;
use crate::record::Seen;

/// What may go at once, percent.
const SHARE: usize = 60;
/// And so many always, when one after the other is found to be gone.
const SMALL_GROUP: usize = 4;

/// All of so many brokers vanished a moment ago, and no others for a while before.
pub(crate) fn look(seen: &Seen, brokers: usize) -> Result<(), String> {
    let least = brokers - SMALL_GROUP.max(brokers * SHARE / 100);
    for node in NODES {
        let left = seen.present.get(&node).map_or(0, |present| present.len());
        if left < least {
            return Err(format!(
                "of {brokers} brokers that vanished at once, node {node} has kept {left}, not {least}"
            ));
        }
    }
    Ok(())
}
