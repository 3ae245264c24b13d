//! Carries out the requests of one connection that need more than the tables of this node.

use super::admission::RequestPermit;
use super::message::{Response, ToConnection};
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

/// What the worker needs of a request beside its work.
#[derive(Debug)]
pub(super) struct RequestContext {
    /// The request's opaque; `None` for a oneway request, which gets no response.
    pub(super) opaque: Option<i32>,
    pub(super) permit: RequestPermit,
}

/// A request that a connection hands to its worker.
pub(super) struct Task {
    pub(super) context: RequestContext,
    pub(super) progress: Progress,
}

/// A request in progress.
struct InProgress {
    work: Work,
    /// The worker refuses it when its turn has not come by then.
    begin_by: Option<Instant>,
    context: Option<RequestContext>,
}

impl Future for InProgress {
    type Output = (Option<RequestContext>, Progress);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = std::task::ready!(self.work.as_mut().poll(cx));
        Poll::Ready((self.context.take(), progress))
    }
}

/// The requests of a connection that are in progress.
struct Channels {
    /// Run one after the other, in the order of the requests.
    ordered: VecDeque<InProgress>,
    /// Run concurrently.
    concurrent: FuturesUnordered<InProgress>,
    connection: mpsc::UnboundedSender<ToConnection>,
}

impl Channels {
    /// Schedules the next step of a request, or sends its response.
    fn schedule(&mut self, context: Option<RequestContext>, progress: Progress) {
        match progress {
            Progress::Ordered(work) => self.ordered.push_back(InProgress { work, begin_by: None, context }),
            Progress::OrderedUntil(by, work) => {
                self.ordered.push_back(InProgress { work, begin_by: Some(by), context });
            }
            Progress::Concurrent(work) => self.concurrent.push(InProgress { work, begin_by: None, context }),
            Progress::Done(reply) => {
                let Some(RequestContext { opaque: Some(opaque), permit }) = context else { return };
                // A connection that has ended receives nothing.
                let response = Box::new(Response { opaque, reply, permit });
                let _ = self.connection.send(ToConnection::Respond(response));
            }
        }
    }

    /// When the first of the waiting requests must be refused. All are given the same time, so that is the first one.
    fn next_overdue(&self) -> Option<Instant> {
        self.ordered.iter().skip(1).find_map(|waiting| waiting.begin_by)
    }

    /// Refuses the requests whose turn did not come in time: a registration may wait for a leader longer than a client
    /// waits for the writes behind it.
    fn refuse_overdue(&mut self, now: Instant) {
        let mut at = 1;
        while let Some(waiting) = self.ordered.get(at) {
            if waiting.begin_by.is_none_or(|by| now < by) {
                at += 1;
                continue;
            }
            if let Some(overdue) = self.ordered.remove(at) {
                let reply =
                    Reply::error("not carried out: what came before it over the connection took too long");
                self.schedule(overdue.context, Progress::Done(reply));
            }
        }
    }
}

/// Runs the worker of a connection. Ends when the connection has dropped its sender and all ordered requests have their
/// outcome. It drops the concurrent requests then: they change nothing, and their responses have no receiver any more.
pub(super) async fn run(
    mut tasks: mpsc::UnboundedReceiver<Task>,
    connection: mpsc::UnboundedSender<ToConnection>,
) {
    let mut channels = Channels { ordered: VecDeque::new(), concurrent: FuturesUnordered::new(), connection };
    let mut open = true;
    loop {
        if !open {
            channels.concurrent.clear();
        }
        let overdue = channels.next_overdue();
        tokio::select! {
            biased;
            Some((context, progress)) = first(&mut channels.ordered) => {
                channels.ordered.pop_front();
                channels.schedule(context, progress);
            }
            Some((context, progress)) = channels.concurrent.next() => channels.schedule(context, progress),
            task = tasks.recv(), if open => match task {
                Some(Task { context, progress }) => channels.schedule(Some(context), progress),
                None => open = false,
            },
            () = tokio::time::sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => {
                channels.refuse_overdue(Instant::now());
            }
            else => return,
        }
    }
}

/// Runs the first of the ordered requests, which stays in its place; `None` when there is none.
async fn first(ordered: &mut VecDeque<InProgress>) -> Option<(Option<RequestContext>, Progress)> {
    Some(ordered.front_mut()?.await)
}
