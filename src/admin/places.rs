//! The places of the HTTP port: so many connections at one time. A connection either waits (for a request, or for its
//! client to take the response) or runs a handler. One that waits gives its place to a new one, so a client that does
//! nothing keeps no other out.

use crate::counter::Counter;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The places of a port.
#[derive(Debug)]
pub(super) struct Places {
    max: usize,
    state: Mutex<State>,
    /// Connections that gave their place to a new one.
    pub(super) gave_way: Counter,
    /// Connections refused, since every place ran a handler.
    pub(super) refused: Counter,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    running: usize,
    /// In the order in which they began to wait.
    waiting: VecDeque<(u64, CancellationToken)>,
}

/// The place of a connection, returned when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    lost: CancellationToken,
}

/// While it lives, a handler runs, and the place cannot be lost.
#[derive(Debug)]
pub(super) struct Running(Arc<Place>);

impl Places {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            state: Mutex::default(),
            gave_way: Counter::default(),
            refused: Counter::default(),
        })
    }

    /// A place for a new connection, if need be that of the connection that has waited longest. `None`: each runs a
    /// handler.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut state = self.state();
        if state.waiting.len() + state.running >= self.max {
            let Some((_, lost)) = state.waiting.pop_front() else {
                self.refused.add_one();
                return None;
            };
            lost.cancel();
            self.gave_way.add_one();
        }
        state.next += 1;
        let (number, lost) = (state.next, CancellationToken::new());
        state.waiting.push_back((number, lost.clone()));
        Some(Arc::new(Place { places: Arc::clone(self), number, lost }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether it had waited.
    fn wait_ends(&mut self, number: u64) -> bool {
        let at = self.waiting.iter().position(|(waiting, _)| *waiting == number);
        at.is_some_and(|at| self.waiting.remove(at).is_some())
    }
}

impl Place {
    /// Waits until another connection has this place.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// A request has come. `None`: the place was lost meanwhile.
    pub(super) fn run(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.places.state();
        if !state.wait_ends(self.number) {
            return None;
        }
        state.running += 1;
        Some(Running(Arc::clone(self)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Place { places, number, lost } = &*self.0;
        let mut state = places.state();
        state.running -= 1;
        state.waiting.push_back((*number, lost.clone()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.state().wait_ends(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_has_waited_longest_gives_way_and_one_that_runs_never_does() {
        let places = Places::new(2);
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        let running = first.run().unwrap();
        let third = places.take().unwrap();
        assert!(second.lost.is_cancelled() && second.run().is_none());
        let also_running = third.run().unwrap();
        assert!(places.take().is_none(), "both run");
        drop((running, also_running));
        drop(second);
        let _fourth = places.take().unwrap();
        assert!(first.lost.is_cancelled() && !third.lost.is_cancelled(), "the first waits longer");
        drop(third);
        let _fifth = places.take().unwrap();
        assert_eq!((places.gave_way.get(), places.refused.get()), (2, 1));
        assert_eq!(places.state().waiting.len(), 2);
    }
}
