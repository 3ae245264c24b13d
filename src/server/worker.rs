//! Carries out those requests of one connection whose answer needs more than this node's tables.

use super::admission::InFlight;
use super::registry::ToConnection;
use crate::protocol::Reply;
use crate::service::{Progress, Work};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What a request's answer needs to find its way back.
#[derive(Debug)]
pub(super) struct Ticket {
    /// The request's opaque; `None` for a oneway request, whose answer goes nowhere.
    pub(super) opaque: Option<i32>,
    /// Its place among those in flight.
    pub(super) in_flight: InFlight,
}

/// An answer for the connection to write.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) opaque: i32,
    pub(super) reply: Reply,
    /// Held until the connection has the answer.
    pub(super) in_flight: InFlight,
}

/// A request that a connection hands over.
pub(super) struct Task {
    pub(super) ticket: Ticket,
    pub(super) progress: Progress,
}

/// Work with its ticket.
struct Running {
    work: Work,
    /// Refused when its turn has not come by then.
    begin_by: Option<Instant>,
    ticket: Option<Ticket>,
}

impl Future for Running {
    type Output = (Option<Ticket>, Progress);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = std::task::ready!(self.work.as_mut().poll(cx));
        Poll::Ready((self.ticket.take(), progress))
    }
}

/// What a connection has under way.
struct Lanes {
    /// One after the other, in the order of the requests.
    in_order: VecDeque<Running>,
    /// Side by side.
    beside: FuturesUnordered<Running>,
    answers: mpsc::UnboundedSender<ToConnection>,
}

impl Lanes {
    fn go_on(&mut self, ticket: Option<Ticket>, progress: Progress) {
        match progress {
            Progress::InOrder(work) => self.in_order.push_back(Running { work, begin_by: None, ticket }),
            Progress::InOrderUntil(by, work) => {
                self.in_order.push_back(Running { work, begin_by: Some(by), ticket });
            }
            Progress::Beside(work) => self.beside.push(Running { work, begin_by: None, ticket }),
            Progress::Answered(reply) => {
                let Some(Ticket { opaque: Some(opaque), in_flight }) = ticket else { return };
                // A connection that has ended takes no answer.
                let answer = Box::new(Answer { opaque, reply, in_flight });
                let _ = self.answers.send(ToConnection::Answer(answer));
            }
        }
    }

    /// When the next of those that wait for their turn must be refused. All are given the same time, so the first one.
    fn next_late(&self) -> Option<Instant> {
        self.in_order.iter().skip(1).find_map(|waiting| waiting.begin_by)
    }

    /// Refuses those whose turn did not come in time: a registration that waits for a leader has longer than a client
    /// waits for the writes behind it.
    fn refuse_late(&mut self, now: Instant) {
        let mut at = 1;
        while let Some(waiting) = self.in_order.get(at) {
            if waiting.begin_by.is_none_or(|by| now < by) {
                at += 1;
                continue;
            }
            if let Some(late) = self.in_order.remove(at) {
                let reply =
                    Reply::error("not carried out: what came before it over the connection took too long");
                self.go_on(late.ticket, Progress::Answered(reply));
            }
        }
    }
}

/// Carries out a connection's requests: those that must keep their order one after the other, the rest side by
/// side. Ends when the connection has handed over its last (dropped its sender) and all that keep their order
/// have their outcome; what ran beside them is given up then, since nobody waits for it any more.
pub(super) async fn run(
    mut tasks: mpsc::UnboundedReceiver<Task>,
    answers: mpsc::UnboundedSender<ToConnection>,
) {
    let mut lanes = Lanes { in_order: VecDeque::new(), beside: FuturesUnordered::new(), answers };
    let mut open = true;
    loop {
        if !open {
            lanes.beside.clear();
        }
        let late = lanes.next_late();
        tokio::select! {
            biased;
            Some((ticket, progress)) = first(&mut lanes.in_order) => {
                lanes.in_order.pop_front();
                lanes.go_on(ticket, progress);
            }
            Some((ticket, progress)) = lanes.beside.next() => lanes.go_on(ticket, progress),
            task = tasks.recv(), if open => match task {
                Some(Task { ticket, progress }) => lanes.go_on(Some(ticket), progress),
                None => open = false,
            },
            () = tokio::time::sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {
                lanes.refuse_late(Instant::now());
            }
            else => return,
        }
    }
}

/// The outcome of the first in order, which stays in its place; `None` when there is none.
async fn first(in_order: &mut VecDeque<Running>) -> Option<(Option<Ticket>, Progress)> {
    Some(in_order.front_mut()?.await)
}
