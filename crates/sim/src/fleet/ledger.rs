//! How do sessions fare, each against itself alone?
//!
//! Of every session: when it began, what its turns and pauses would have taken on an idle worker, and
//! how large it grew. From that come slowdown, progress and fairness. It keeps 96 bytes a session and
//! nothing of a turn. A session that runs several turns at once is taken as if they came one after the
//! other, and one that found its beginning in the cache thanks to others does not count as faster than
//! alone.
use super::report::{Sessions, Spread};
use crate::event::Nanos;
use crate::histogram::Histogram;

/// A session that has not run for so long is not judged unless it has finished: one that has just
/// begun says nothing.
const LEAST_LIFE: Nanos = 300_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    began: Option<Nanos>,
    ended: Option<Nanos>,
    /// End of its last turn.
    idle_since: Option<Nanos>,
    alone: Nanos,
    /// Its last turn, to see what the next one repeats.
    last_turn: Option<u32>,
    /// Tokens of its context now, and at most.
    context: u32,
    largest: u32,
    is_judged: bool,
}

/// All sessions of a run.
#[derive(Debug, Default)]
pub(crate) struct SessionLedger {
    records: Vec<Record>,
    working_set: u64,
}

impl SessionLedger {
    /// A turn of `tokens` prompt tokens arrives. Gives the turn of the session before it.
    pub(crate) fn arrive(
        &mut self,
        now: Nanos,
        session: u64,
        turn: u32,
        tokens: u32,
    ) -> Option<u32> {
        let record = self.record(session);
        record.began.get_or_insert(now);
        if let Some(since) = record.idle_since.take() {
            record.alone += now - since;
        }
        let before = record.last_turn.replace(turn);
        self.set_context(session, tokens);
        before
    }

    /// A turn has been answered that would take `alone` by itself and leaves a context of `tokens`.
    pub(crate) fn answer(
        &mut self,
        now: Nanos,
        session: u64,
        alone: Nanos,
        tokens: u32,
        is_measured: bool,
    ) {
        let record = self.record(session);
        record.alone += alone;
        record.idle_since = Some(now);
        record.is_judged |= is_measured;
        self.set_context(session, tokens);
    }

    /// The session's last turn is over.
    pub(crate) fn finish(&mut self, now: Nanos, session: u64) {
        self.record(session).ended = Some(now);
        self.set_context(session, 0);
    }

    /// Tokens of the contexts of all sessions that have begun and not finished.
    pub(crate) fn working_set(&self) -> u64 {
        self.working_set
    }

    /// The figures at the end of a run. O(n log n).
    pub(crate) fn judge(&self, end: Nanos) -> Sessions {
        let mut completion = Histogram::default();
        let mut judged: Vec<(u32, f64)> = Vec::new();
        let mut finished = 0;
        for record in self.records.iter().filter(|record| record.is_judged) {
            let Some(began) = record.began else {
                continue;
            };
            let life = record.ended.unwrap_or(end) - began;
            if record.ended.is_some() {
                finished += 1;
                completion.record(life, 1);
            } else if life < LEAST_LIFE {
                continue;
            }
            let progress = (record.alone as f64 / life.max(1) as f64).min(1.0);
            judged.push((record.largest, progress));
        }
        Sessions {
            finished,
            completion: Spread::of(&completion),
            ..weigh(&mut judged)
        }
    }

    fn record(&mut self, session: u64) -> &mut Record {
        let index = session as usize;
        if index >= self.records.len() {
            self.records.resize(index + 1, Record::default());
        }
        &mut self.records[index]
    }

    fn set_context(&mut self, session: u64, tokens: u32) {
        let record = self.record(session);
        let before = std::mem::replace(&mut record.context, tokens);
        record.largest = record.largest.max(tokens);
        self.working_set = self.working_set - u64::from(before) + u64::from(tokens);
    }
}

/// Slowdown and fairness of sessions, each its largest context and its progress.
fn weigh(judged: &mut [(u32, f64)]) -> Sessions {
    judged.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let slowdowns: Vec<f64> = judged.iter().map(|(_, progress)| 1.0 / progress).collect();
    let quarter = |n: usize| {
        let at = |n| slowdowns.len() * n / 4;
        mean(&slowdowns[at(n)..at(n + 1)])
    };
    let mut progress: Vec<f64> = judged.iter().map(|(_, progress)| *progress).collect();
    progress.sort_by(f64::total_cmp);
    let slowest = progress.len().div_ceil(20);
    let hundredth = progress.len() / 100;
    Sessions {
        judged: judged.len() as u64,
        slowdown_mean: mean(&slowdowns),
        slowdown_p99: progress.get(hundredth).map(|progress| 1.0 / progress),
        slowdown_by_size: [quarter(0), quarter(1), quarter(2), quarter(3)],
        jain: jain(&progress),
        slowest_progress: mean(&progress[..slowest]),
        progress_mean: mean(&progress),
        ..Sessions::default()
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = 1_000_000_000;

    #[test]
    fn slowdown_is_life_over_life_alone() {
        let mut ledger = SessionLedger::default();
        for (session, tokens) in [(0, 100), (1, 200)] {
            assert_eq!(ledger.arrive(0, session, 5, tokens), None);
            ledger.answer(20 * S, session, 5 * S, tokens + 10, true);
            assert_eq!(ledger.arrive(25 * S, session, 6, tokens + 20), Some(5));
        }
        assert_eq!(ledger.working_set(), 120 + 220);
        ledger.answer(30 * S, 0, 5 * S, 130, true);
        ledger.finish(30 * S, 0);
        ledger.answer(55 * S, 1, 0, 230, true);
        ledger.finish(60 * S, 1);
        ledger.arrive(60 * S, 2, 7, 50);
        ledger.answer(61 * S, 2, S, 60, true);
        let sessions = ledger.judge(70 * S);
        assert_eq!(
            (sessions.judged, sessions.finished),
            (2, 2),
            "the third has just begun"
        );
        assert_eq!(
            sessions.slowdown_by_size,
            [None, Some(2.0), None, Some(6.0)]
        );
        assert_eq!(sessions.slowdown_mean, Some(4.0));
        assert_eq!(sessions.slowdown_p99, Some(6.0));
        let slowest = sessions.slowest_progress.unwrap();
        assert!((slowest - 1.0 / 6.0).abs() < 1e-12);
        assert!((sessions.jain.unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(ledger.working_set(), 60);
    }
}
