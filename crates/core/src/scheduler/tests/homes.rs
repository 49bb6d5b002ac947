//! Turns that wait for a home whose cache is lost meanwhile.
use std::num::NonZeroU32;

use super::*;
use crate::admission::{GateConfig, LeaseConfig};
use crate::affinity::{AffinityConfig, Mode};
use crate::block::{Seed, TokenBlocks};
use crate::event::{CacheEvent, Doubt, FeedNotice};
use crate::prefix::{StoredBlock, StoredBlocks, Tier};

const UNIT: NonZeroU32 = NonZeroU32::new(64).unwrap();

fn hard(admission: AdmissionConfig, max_running: Option<u32>) -> Config {
    Config {
        affinity: AffinityConfig {
            mode: Mode::Hard,
            ..AffinityConfig::default()
        },
        admission,
        gates: GateConfig {
            max_running,
            ..GateConfig::default()
        },
        ..Config::default()
    }
}

/// The names of a prompt's blocks, and what is in them.
fn blocks(tokens: &[u32]) -> Vec<StoredBlock> {
    let locals = TokenBlocks::plain(UNIT, Seed::default()).local_hashes(tokens);
    let named = locals.iter().zip(tokens.chunks(64));
    named
        .map(|(&local, ids)| StoredBlock {
            name: local ^ u64::from(ids[0]),
            local,
        })
        .collect()
}

impl Bench {
    /// Both workers tell of their caches from the beginning.
    fn feed(&mut self) {
        for worker in [A, B] {
            let ranks = NonZeroU32::MIN;
            let options = FeedOptions { ranks };
            let added = self.scheduler.add_feed(self.now, worker, options);
            added.unwrap();
            self.notice(worker, FeedNotice::Begun);
        }
    }

    fn notice(&mut self, worker: WorkerId, notice: FeedNotice) {
        self.scheduler.feed_notice(self.now, worker, 0, notice);
    }

    fn tell(&mut self, worker: WorkerId, event: &CacheEvent<'_>) {
        self.scheduler.apply_event(self.now, worker, 0, event);
    }

    fn stored_at(&mut self, worker: WorkerId, tokens: &[u32]) {
        let blocks = StoredBlocks {
            parent: None,
            block_tokens: UNIT.get(),
            blocks: &blocks(tokens),
        };
        let tier = Tier::Device;
        self.tell(worker, &CacheEvent::Stored { tier, blocks });
    }

    fn pinned(&mut self, session: &str, prompt: &[u32], worker: WorkerId) -> ReservationId {
        let turn = Turn {
            pin: Some(worker),
            ..turn(session, prompt)
        };
        let submitted = self.submit(&turn).unwrap();
        assert!(matches!(submitted.verdict, Verdict::Go(_)), "{session}");
        submitted.reservation
    }

    /// Runs the timers that are due by then, as whoever waits for them would.
    fn wake_until(&mut self, until: Micros) {
        while let Some(at) = self.scheduler.next_wake().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.scheduler.advance(self.now, &mut self.settled);
        }
    }

    fn went(&self, id: ReservationId) -> Option<WorkerId> {
        let settled = self.settled.iter().find(|s| s.reservation == id)?;
        match settled.outcome {
            Outcome::Go(placed) => Some(placed.worker),
            other => panic!("{other:?}"),
        }
    }
}

/// What may happen to a home.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    Nothing,
    Reset,
    Capacity,
    Time,
    Cleared,
    Lost,
    Suspended,
    Removed,
    Others,
}

impl Loss {
    fn is_told(self) -> bool {
        matches!(
            self,
            Self::Cleared | Self::Lost | Self::Suspended | Self::Removed | Self::Others
        )
    }

    fn befall(self, bench: &mut Bench, home: WorkerId, prompt: &[u32]) {
        let names: Vec<_> = blocks(prompt).iter().map(|block| block.name).collect();
        let tier = Tier::Device;
        match self {
            Self::Nothing => {}
            Self::Reset => bench.scheduler.reset_cache(bench.now, home).unwrap(),
            Self::Capacity => {
                let (now, settled) = (bench.now, &mut bench.settled);
                let set = bench.scheduler.set_capacity(now, home, Some(1), settled);
                set.unwrap();
            }
            Self::Time => bench.now = bench.now.plus(UNKNOWN_TTL),
            Self::Cleared => bench.tell(home, &CacheEvent::Cleared),
            Self::Lost => bench.notice(home, FeedNotice::Lost(Doubt::Gap)),
            Self::Suspended => bench.notice(home, FeedNotice::Suspended(Doubt::Gap)),
            Self::Removed => bench.tell(
                home,
                &CacheEvent::Removed {
                    tier,
                    names: &names,
                },
            ),
            // The last one only: the session's own is still there.
            Self::Others => bench.tell(
                home,
                &CacheEvent::Removed {
                    tier,
                    names: &names[9..],
                },
            ),
        }
    }
}

#[test]
fn whoever_waits_for_a_home_goes_elsewhere_when_that_has_lost_its_cache() {
    let losses = [
        (Loss::Nothing, None),
        (Loss::Others, None),
        (Loss::Reset, Some(0)),
        (Loss::Capacity, Some(0)),
        (Loss::Cleared, Some(0)),
        (Loss::Lost, Some(0)),
        (Loss::Suspended, Some(0)),
        (Loss::Removed, Some(1)),
        (Loss::Time, Some(1)),
    ];
    for (loss, within) in losses {
        let mut bench = Bench::with(hard(AdmissionConfig::None, Some(1)), None);
        if loss.is_told() {
            bench.feed();
        }
        let prompt = tokens(1, 1_280);
        let (id, placed) = bench.go("s", &prompt[..640]);
        let home = placed.worker;
        if loss.is_told() {
            bench.stored_at(home, &prompt[..640]);
        }
        bench.complete(id, &Completion::default());
        bench.pinned("full", &tokens(2, 640), home);
        let held = bench.hold("s", &prompt);
        loss.befall(&mut bench, home, &prompt[..640]);
        bench.wake_until(bench.now.plus(Micros::from_secs(within.unwrap_or(5))));
        let expected = within.map(|_| other(home));
        assert_eq!(bench.went(held), expected, "{loss:?}");
        // It has waited in vain: nobody has to look after it any more.
        if within.is_some() {
            bench.wake_until(bench.now.plus(Micros::from_secs(1)));
            assert_eq!(bench.scheduler.looks.due(), None, "{loss:?}");
        }
    }
}

#[test]
fn a_home_that_is_away_for_a_while_is_waited_for_when_it_is_back() {
    let mut bench = Bench::with(hard(AdmissionConfig::None, Some(1)), None);
    let prompt = tokens(1, 1_280);
    let (id, placed) = bench.go("s", &prompt[..640]);
    let home = placed.worker;
    bench.complete(id, &Completion::default());
    let full = [home, other(home)].map(|at| bench.pinned("", &tokens(2 + at.0, 640), at));
    let held = bench.hold("s", &prompt);
    bench.health(home, Health::Down);
    bench.after(5);
    bench.health(home, Health::Up);
    bench.complete(full[1], &Completion::default());
    assert_eq!(bench.went(held), None);
    bench.complete(full[0], &Completion::default());
    assert_eq!(bench.went(held), Some(home));
}

#[test]
fn all_who_wait_for_a_lost_home_are_looked_at_however_many_they_are() {
    let mut bench = Bench::with(hard(AdmissionConfig::None, Some(1)), None);
    let sessions: Vec<_> = (0..150_u32).map(|n| (format!("s{n}"), n + 10)).collect();
    for (session, seed) in &sessions {
        let id = bench.pinned(session, &tokens(*seed, 128), A);
        bench.complete(id, &Completion::default());
    }
    bench.pinned("full", &tokens(1, 640), A);
    let held: Vec<_> = sessions
        .iter()
        .map(|(session, seed)| bench.hold(session, &tokens(*seed, 256)))
        .collect();
    bench.scheduler.reset_cache(bench.now, A).unwrap();
    bench.wake_until(bench.now);
    assert_eq!(bench.went(held[0]), Some(B));
    let gates = bench.scheduler.gates[0].as_ref().unwrap();
    assert!(!gates.has_homebound());
    // Each goes there in its turn.
    for pair in held.windows(2) {
        bench.complete(pair[0], &Completion::default());
        assert_eq!(bench.went(pair[1]), Some(B));
    }
}

#[test]
fn a_turn_that_lease_holds_for_room_at_its_home_goes_elsewhere_when_that_is_cold() {
    let ways = [Loss::Reset, Loss::Cleared, Loss::Lost, Loss::Removed];
    for (loss, max_running) in ways.into_iter().flat_map(|w| [(w, None), (w, Some(5))]) {
        let lease = AdmissionConfig::Lease(LeaseConfig::default());
        let mut bench = Bench::with(hard(lease, max_running), Some(100_000));
        if loss.is_told() {
            bench.feed();
        }
        let prompt = tokens(1, 19_200);
        let (id, placed) = bench.go("s", &prompt[..640]);
        let home = placed.worker;
        if loss.is_told() {
            bench.stored_at(home, &prompt[..640]);
        }
        bench.complete(id, &Completion::default());
        // Home computes a large prompt, and takes no second one meanwhile.
        bench.pinned("large", &tokens(2, 60_800), home);
        let held = bench.hold("s", &prompt);
        bench.wake_until(bench.now.plus(Micros::from_secs(2)));
        assert_eq!(bench.went(held), None);
        loss.befall(&mut bench, home, &prompt[..640]);
        let wait = u64::from(loss == Loss::Removed);
        bench.wake_until(bench.now.plus(Micros::from_secs(wait)));
        assert_eq!(bench.went(held), Some(other(home)), "{loss:?}");
    }
}
