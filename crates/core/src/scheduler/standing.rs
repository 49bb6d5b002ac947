//! How much of what happened has a stream of events told, and is anything missing at the moment?
//!
//! Of an engine's rank and of a shared store alike. Knows nothing of what the events say.
use crate::event::{Doubt, FeedNotice};
use crate::id::Micros;
use crate::receipt::{Evidence, Trust};

/// What a stream of events is worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    stream: Stream,
    suspended: Option<Doubt>,
    since: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Silent,
    Whole,
    Partial(Doubt),
}

impl Standing {
    /// A stream that has told nothing yet.
    pub(super) fn new(now: Micros) -> Self {
        Self {
            stream: Stream::Silent,
            suspended: None,
            since: now,
        }
    }

    /// Whether nothing of it counts at the moment.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Takes note of what its carrier says. Returns whether what it had told is void.
    pub(super) fn notice(&mut self, now: Micros, notice: FeedNotice) -> bool {
        let before = (self.stream, self.suspended);
        match notice {
            FeedNotice::Begun => (self.stream, self.suspended) = (Stream::Whole, None),
            FeedNotice::Suspended(doubt) => self.suspended = Some(doubt),
            FeedNotice::Resumed => self.suspended = None,
            FeedNotice::Lost(doubt) => {
                (self.stream, self.suspended) = (Stream::Partial(doubt), None);
            }
        }
        if (self.stream, self.suspended) != before {
            self.since = now;
        }
        matches!(notice, FeedNotice::Begun | FeedNotice::Lost(_))
    }

    /// Something that it had told has been forgotten for want of room.
    pub(super) fn evicted(&mut self, now: Micros) {
        if self.stream == Stream::Whole {
            self.stream = Stream::Partial(Doubt::Evicted);
            self.since = now;
        }
    }

    /// Whoever publishes is empty: what is told from now on is all there is.
    pub(super) fn cleared(&mut self, now: Micros) {
        if self.stream != Stream::Whole {
            self.stream = Stream::Whole;
            self.since = now;
        }
    }

    /// How good what it has told is; of one that has told nothing, what the router predicts.
    pub(super) fn evidence(&self) -> Evidence {
        let (trust, doubt) = match (self.suspended, self.stream) {
            (Some(doubt), _) => (Trust::None, Some(doubt)),
            (None, Stream::Silent) => (Trust::Predicted, Some(Doubt::Silent)),
            (None, Stream::Partial(doubt)) => (Trust::Degraded, Some(doubt)),
            (None, Stream::Whole) => (Trust::Exact, None),
        };
        Evidence {
            trust,
            doubt,
            cause: None,
            since: self.since,
        }
    }
}
