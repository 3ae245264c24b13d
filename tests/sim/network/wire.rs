//! One connection: bytes under way in both directions, and what each end knows of the other.

use super::Place;
use crate::dice::Dice;
use crate::host::{Moment, STEP, STEP_MS};
use bytes::Bytes;
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

/// Bytes that may be under way before a writer has to wait.
const WINDOW_BYTES: usize = 1 << 20;

/// Which end: 0 connected, 1 accepted.
pub(super) type EndNumber = usize;
/// The end of the side that listened.
pub(super) const ACCEPTED: EndNumber = 1;

pub(crate) struct Wire {
    places: [Place; 2],
    dice: Dice,
    /// `flows[end]` carries what `end` wrote.
    flows: [Flow; 2],
    ends: [End; 2],
    /// Since when one of the directions carries nothing.
    stalled: Option<Moment>,
    /// When the end that connected last sent something that could go.
    spoke: Moment,
}

#[derive(Default)]
struct Flow {
    /// What arrives, and when.
    parts: VecDeque<(Moment, Bytes)>,
    /// What was sent while the path was cut, and is sent again once it is not.
    held: Vec<Bytes>,
    bytes: usize,
    last: Moment,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
struct End {
    closed: bool,
    /// From then on it reads the end.
    eof: Option<Moment>,
    /// From then on it is broken.
    broken: Option<Moment>,
    /// How long it bears a path that is cut; `None`: for ever.
    patience: Option<Duration>,
}

/// What a reader finds.
pub(super) enum Found {
    Bytes(Bytes),
    Eof,
    Broken,
    /// Nothing yet; look again then, or when woken.
    Nothing(Option<Moment>),
}

impl Wire {
    pub(super) fn new(places: [Place; 2], dice: Dice, patience: [Option<Duration>; 2], now: Moment) -> Self {
        let ends = patience.map(|patience| End { patience, ..End::default() });
        Self { places, dice, flows: Default::default(), ends, stalled: None, spoke: now }
    }

    pub(super) fn spoke(&self) -> Moment {
        self.spoke
    }

    pub(super) fn ends_at(&self, place: Place) -> Vec<EndNumber> {
        (0..2).filter(|end| self.places[*end] == place).collect()
    }

    /// From where to where an end writes.
    pub(super) fn way(&self, end: EndNumber) -> (Place, Place) {
        (self.places[end], self.places[1 - end])
    }

    pub(super) fn set_patience(&mut self, end: EndNumber, patience: Duration) {
        self.ends[end].patience = Some(patience);
    }

    /// `false`: the window is full; the writer is woken when it is not.
    pub(super) fn has_room(&mut self, end: EndNumber, writer: &Waker) -> bool {
        let flow = &mut self.flows[end];
        let room = flow.bytes < WINDOW_BYTES;
        if !room {
            flow.writer = Some(writer.clone());
        }
        room
    }

    pub(super) fn is_broken(&self, end: EndNumber, now: Moment) -> bool {
        self.ends[end].broken.is_some_and(|at| at <= now)
    }

    /// Sends bytes at a moment. `weather`: most delay in ms, lost of 1,000.
    pub(super) fn send(&mut self, end: EndNumber, now: Moment, bytes: Bytes, weather: (u64, u64), ok: bool) {
        if self.ends[1 - end].closed && ok {
            // The other machine answers that it has no such connection.
            let at = now + 2 * STEP;
            self.ends[end].broken.get_or_insert(at);
            return;
        }
        let mut delay = self.dice.ms(STEP_MS, weather.0);
        if self.dice.within(0, 1_000) < weather.1 {
            delay += self.dice.ms(200, 450);
        }
        if ok && end != ACCEPTED {
            self.spoke = now;
        }
        let flow = &mut self.flows[end];
        flow.bytes += bytes.len();
        if ok {
            flow.last = flow.last.max(now + delay);
            flow.parts.push_back((flow.last, bytes));
            flow.reader.take().into_iter().for_each(Waker::wake);
        } else {
            flow.held.push(bytes);
        }
    }

    pub(super) fn receive(&mut self, end: EndNumber, now: Moment, room: usize, reader: &Waker) -> Found {
        let (flow, own) = (&mut self.flows[1 - end], &self.ends[end]);
        if own.broken.is_some_and(|at| at <= now) {
            return Found::Broken;
        }
        if let Some((at, bytes)) = flow.parts.front_mut()
            && *at <= now
        {
            let part = bytes.split_to(room.min(bytes.len()));
            if bytes.is_empty() {
                flow.parts.pop_front();
            }
            flow.bytes -= part.len();
            if flow.bytes < WINDOW_BYTES {
                flow.writer.take().into_iter().for_each(Waker::wake);
            }
            return Found::Bytes(part);
        }
        let next = flow.parts.front().map(|(at, _)| *at);
        if next.is_none() && own.eof.is_some_and(|at| at <= now) {
            return Found::Eof;
        }
        flow.reader = Some(reader.clone());
        let eof = own.eof.filter(|_| next.is_none());
        Found::Nothing([next, eof, own.broken].into_iter().flatten().min())
    }

    /// An end closes. `carried`: the other hears of it; else when the path is there again.
    pub(super) fn close(&mut self, end: EndNumber, now: Moment, carried: bool) {
        if std::mem::replace(&mut self.ends[end].closed, true) || !carried {
            return;
        }
        let after = self.dice.ms(STEP_MS, 8);
        self.tell_end(end, now + after);
    }

    fn tell_end(&mut self, end: EndNumber, at: Moment) {
        let at = at.max(self.flows[end].last);
        self.ends[1 - end].eof.get_or_insert(at);
        self.wake(1 - end);
    }

    fn wake(&mut self, end: EndNumber) {
        self.flows[1 - end].reader.take().into_iter().for_each(Waker::wake);
        self.flows[end].writer.take().into_iter().for_each(Waker::wake);
    }

    fn break_end(&mut self, end: EndNumber, at: Moment) {
        self.ends[end].broken.get_or_insert(at);
        self.wake(end);
    }

    /// Time goes on: cuts make ends give up, healed paths carry what waited.
    pub(super) fn step(&mut self, now: Moment, carries: &impl Fn(Place, Place) -> bool) {
        let ways = [self.way(0), self.way(1)];
        let ok = ways.map(|(from, to)| carries(from, to));
        for end in (0..2).filter(|end| ok[*end]) {
            let held = std::mem::take(&mut self.flows[end].held);
            if !held.is_empty() && !self.ends[1 - end].closed {
                let at = now + self.dice.ms(50, 450);
                let flow = &mut self.flows[end];
                flow.last = flow.last.max(at);
                flow.parts.extend(held.into_iter().map(|bytes| (flow.last, bytes)));
                flow.reader.take().into_iter().for_each(Waker::wake);
            }
        }
        if ok == [true, true] {
            self.stalled = None;
            for end in 0..2 {
                let other = &self.ends[1 - end];
                if self.ends[end].closed && !other.closed && other.eof.is_none() && other.broken.is_none() {
                    let at = now + self.dice.ms(50, 1_000);
                    self.break_end(1 - end, at);
                }
            }
            return;
        }
        let since = *self.stalled.get_or_insert(now);
        for end in 0..2 {
            let tired = self.ends[end].patience.is_some_and(|patience| now >= since + patience);
            if tired && self.ends[end].broken.is_none() {
                self.break_end(end, now + STEP);
                self.ends[end].closed = true;
            }
        }
    }

    /// Nobody can learn anything from it any more.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.ends.iter().all(|end| end.closed && end.broken.or(end.eof).is_none_or(|at| at <= now))
            && self.ends.iter().all(|end| end.closed)
            && self.stalled.is_none()
    }
}
