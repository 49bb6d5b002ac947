//! What is measured of turns on their way, and when the measurement runs.
//!
//! A turn is counted wherever it ends, but its waits count only if it arrived while measuring, and
//! tokens only while measuring. Histograms instead of lists, so memory does not grow with turns.
use super::engines::{Engines, Offered};
use super::ledger::SessionLedger;
use super::report::{Latency, Promises, Regret, Report, Sample, Spread, TurnCounts, Work};
use super::series::Series;
use crate::event::Nanos;
use crate::histogram::Histogram;
use crate::router::{Promise, Router};

#[derive(Debug)]
pub(crate) struct Meter {
    /// From when on is measured.
    pub(crate) from: Nanos,
    pub(crate) counts: TurnCounts,
    pub(crate) sessions: SessionLedger,
    pub(crate) series: Series,
    first_arrival: Option<Nanos>,
    last_end: Nanos,
    ttft: Histogram,
    hold: Histogram,
    e2e: Histogram,
    prompt_tokens: u64,
    cached_tokens: u64,
    answered: u64,
    regret: Regret,
    promises: Option<Promises>,
}

/// Milestones of one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) arrived: Nanos,
    /// When the router took it in last.
    pub(crate) asked: Nanos,
    pub(crate) first_token: Option<Nanos>,
    pub(crate) was_held: bool,
}

impl Meter {
    pub(crate) fn new(from: Nanos) -> Self {
        Self {
            from,
            counts: TurnCounts::default(),
            sessions: SessionLedger::default(),
            series: Series::default(),
            first_arrival: None,
            last_end: 0,
            ttft: Histogram::default(),
            hold: Histogram::default(),
            e2e: Histogram::default(),
            prompt_tokens: 0,
            cached_tokens: 0,
            answered: 0,
            regret: Regret::default(),
            promises: None,
        }
    }

    pub(crate) fn arrived(&mut self, now: Nanos) {
        self.counts.arrived += 1;
        self.first_arrival.get_or_insert(now);
    }

    pub(crate) fn placed(&mut self, now: Nanos, times: &Times, offered: Offered) {
        if times.was_held && times.arrived >= self.from {
            self.hold.record(now - times.asked, 1);
        }
        if now >= self.from {
            self.regret.placements += 1;
            self.regret.not_best += u64::from(offered.taken < offered.best);
            self.regret.offered_tokens += u64::from(offered.best);
            self.regret.taken_tokens += u64::from(offered.taken);
        }
    }

    pub(crate) fn admitted(&mut self, now: Nanos, prompt: u32, cached: u32) {
        if now >= self.from {
            self.prompt_tokens += u64::from(prompt);
            self.cached_tokens += u64::from(cached.min(prompt));
        }
    }

    /// What became of a promise: the turn was admitted and found this.
    pub(crate) fn kept(&mut self, now: Nanos, promise: Promise, is_behind: bool, cached: u32) {
        if now < self.from {
            return;
        }
        let Promise { tokens, is_exact } = promise;
        let promises = self.promises.get_or_insert_default();
        let over = tokens.saturating_sub(cached);
        promises.turns += 1;
        promises.promised_tokens += u64::from(tokens);
        promises.missing_tokens += u64::from(over);
        promises.unforeseen_tokens += u64::from(cached.saturating_sub(tokens));
        promises.broken += u64::from(over > 0);
        promises.broken_behind += u64::from(over > 0 && is_behind);
        promises.broken_exact += u64::from(over > 0 && is_exact && !is_behind);
    }

    pub(crate) fn first_token(&mut self, now: Nanos, times: &Times) {
        if times.arrived >= self.from {
            self.ttft.record(now - times.arrived, 1);
        }
    }

    pub(crate) fn answered(&mut self, now: Nanos, times: &Times) {
        self.ended(now);
        if times.arrived >= self.from {
            self.e2e.record(now - times.arrived, 1);
        }
        self.answered += u64::from(now >= self.from);
    }

    pub(crate) fn ended(&mut self, now: Nanos) {
        self.last_end = self.last_end.max(now);
    }

    /// A client has left without a token.
    pub(crate) fn given_up(&mut self, now: Nanos, times: &Times, is_held: bool) {
        self.counts.given_up += 1;
        self.cut_short(now, times, is_held);
    }

    /// A turn that the end of the run finds on its way.
    pub(crate) fn unfinished(&mut self, end: Nanos, times: &Times, is_held: bool) {
        self.counts.unfinished += 1;
        self.cut_short(end, times, is_held);
    }

    /// A wait that ends without what was waited for counts as long as it was.
    fn cut_short(&mut self, end: Nanos, times: &Times, is_held: bool) {
        if times.arrived < self.from {
            return;
        }
        if times.first_token.is_none() {
            self.ttft.record(end.saturating_sub(times.arrived), 1);
        }
        if is_held {
            self.hold.record(end.saturating_sub(times.asked), 1);
        }
    }

    pub(crate) fn sample(&mut self, now: Nanos, engines: &Engines, router: &dyn Router) {
        if self.series.is_due(now) {
            let occupancy = engines.occupancy();
            let gauges = router.gauges();
            let sample = Sample {
                at_ms: now / 1_000_000,
                running: occupancy.running,
                queued: occupancy.waiting,
                held: gauges.held,
                paused: gauges.paused,
                working_set_tokens: self.sessions.working_set(),
            };
            self.series.add(now, sample);
        }
    }

    /// The report of a run that was cut at `cut`, or ended by itself.
    pub(crate) fn report(
        self,
        cut: Option<Nanos>,
        engines: &mut Engines,
        router: &dyn Router,
    ) -> Report {
        let end = cut.unwrap_or(self.last_end);
        let began = self.first_arrival.unwrap_or(0).max(self.from);
        let seconds = end.saturating_sub(began) as f64 / 1e9;
        let per_second = |n: u64| {
            if seconds > 0.0 {
                n as f64 / seconds
            } else {
                0.0
            }
        };
        let done = engines.done();
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        Report {
            router: router.label(),
            workers: engines.count(),
            seed: 0,
            population: None,
            drawn: None,
            turns: self.counts,
            work: Work {
                seconds,
                output_tokens: done.output_tokens,
                output_tokens_per_second: per_second(done.output_tokens),
                turns_per_minute: 60.0 * per_second(self.answered),
                prompt_tokens: self.prompt_tokens,
                cached_tokens: self.cached_tokens,
                loaded_tokens: done.loaded_tokens,
                hit_rate: share(self.cached_tokens, self.prompt_tokens),
                prompt_tokens_computed: done.prompt_tokens,
                preemptions: done.preemptions,
                passes: done.passes,
                busy: per_second(done.busy) / 1e9 / f64::from(engines.count()),
            },
            latency: Latency {
                ttft: Spread::of(&self.ttft),
                itl: Spread::of(&engines.gaps()),
                hold: Spread::of(&self.hold),
                e2e: Spread::of(&self.e2e),
            },
            sessions: self.sessions.judge(end),
            regret: self.regret,
            promises: self.promises,
            events: None,
            series: self.series.into_samples(),
            index: router.index_cost(),
        }
    }
}
