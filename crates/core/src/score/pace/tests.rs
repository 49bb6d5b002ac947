use super::*;

const GROUP: GroupId = GroupId(0);

/// A fleet whose workers take so many times as long as the usual one.
struct Fleet {
    paces: Paces,
    slower: Vec<f64>,
    turns: u64,
    /// Seconds without any.
    rest: u64,
}

impl Fleet {
    fn new(slower: &[f64]) -> Self {
        let mut paces = Paces::new(1.0);
        for worker in 0..slower.len() as u32 {
            paces.add(WorkerId(worker), GROUP);
        }
        Self {
            paces,
            slower: slower.to_vec(),
            turns: 0,
            rest: 0,
        }
    }

    fn now(&self) -> Micros {
        Micros::from_secs(self.turns + self.rest)
    }

    /// A turn on `worker`, of a size of its own, that takes `noise` times its time.
    fn turn(&mut self, worker: u32, noise: f64) {
        self.turns += 1;
        let n = self.turns as u32;
        let times = self.slower[worker as usize] * noise;
        let (waiting, computed) = (u64::from(n * 31 % 3) * 2_000, 200 + n * 7_919 % 30_000);
        let cached = n * 104_729 % 100_000;
        let work = prompt_work(waiting, computed, cached);
        let time = times * (15.0 * work[0] + 20_000.0 + 300.0 * work[2]);
        let prefilled = Prefilled {
            time: Micros(time as u64),
            waiting,
            computed,
            cached,
            fetched: [0; 3],
        };
        self.paces
            .prefilled(self.now(), WorkerId(worker), &prefilled);
        let (tokens, requests, context) = (20 + n % 900, 1 + n % 7, u64::from(n % 11) * 90_000);
        let step = 8_000.0 + 200.0 * f64::from(requests) + 12e-3 * context as f64;
        let decoded = Decoded {
            time: Micros((times * step * f64::from(tokens)) as u64),
            tokens,
            requests,
            context,
        };
        self.paces.decoded(self.now(), WorkerId(worker), &decoded);
    }

    fn all(&self) -> Vec<(u16, u16)> {
        let workers = 0..self.slower.len() as u32;
        let paces = workers.map(|worker| self.paces.of(WorkerId(worker)));
        paces.map(|pace| (pace.prefill, pace.decode)).collect()
    }
}

/// From 0.8 to 1.2 and now and then five times as long, the same numbers each time.
fn noise(n: u32) -> f64 {
    let even = 0.8 + f64::from(n.wrapping_mul(2_654_435_761) >> 16) / 163_840.0;
    if n.is_multiple_of(11) { 5.0 } else { even }
}

#[test]
fn a_slow_worker_is_known_by_its_turns_and_equals_stay_equal() {
    let mut fleet = Fleet::new(&[1.0, 1.0, 1.0, 3.0]);
    assert_eq!(fleet.all(), [(100, 100); 4]);
    // The slow one has a tenth of the turns.
    for n in 0..1_200 {
        fleet.turn(if n % 10 == 9 { 3 } else { n % 3 }, noise(n));
    }
    let found = fleet.all();
    for (prefill, decode) in &found[..3] {
        for pace in [prefill, decode] {
            let over = f64::from(found[3].0) / f64::from(*pace);
            assert!((2.0..=4.0).contains(&over), "{found:?}");
        }
    }
    let mut equal = Fleet::new(&[1.0; 8]);
    for n in 0..4_000 {
        // The last one has few, and some have more of the late ones than others.
        let worker = if n % 97 == 0 { 7 } else { n % 7 };
        equal.turn(worker, noise(n / 3));
        assert_eq!(equal.all(), [(100, 100); 8], "after {n}");
    }
}

/// What an outlier takes is no measure of its equals: else one with turns would look quick beside one that
/// has few, and keep them all.
#[test]
fn beside_a_very_slow_worker_equals_stay_equal_whoever_has_the_turns() {
    for slow in [3.0, 8.0, 30.0, 300.0] {
        let mut fleet = Fleet::new(&[slow, 1.0, 1.0]);
        for n in 0..24 {
            fleet.turn(n % 3, noise(n));
        }
        for n in 0..600 {
            fleet.turn(2, noise(n));
            assert_eq!(fleet.all()[1..], [(100, 100); 2], "{slow} times, after {n}");
        }
        let (prefill, decode) = fleet.all()[0];
        assert!(prefill > 140 && decode > 140, "{slow}: {prefill}, {decode}");
    }
}

#[test]
fn who_is_new_or_has_rested_is_taken_for_usual() {
    let mut fleet = Fleet::new(&[1.0, 1.0, 3.0]);
    for n in 0..300 {
        fleet.turn(n % 3, 1.0);
    }
    assert!(fleet.all()[2].0 > 150, "{:?}", fleet.all());
    fleet.slower.push(1.0);
    fleet.paces.add(WorkerId(3), GROUP);
    assert_eq!(fleet.all()[3], (100, 100));
    // Nothing more of the slow one for a day.
    fleet.rest = 86_400;
    for n in 0..64 {
        fleet.turn(n % 2, 1.0);
    }
    assert_eq!(fleet.all()[2], (100, 100));
    fleet.paces.remove(WorkerId(0));
    fleet.turn(0, 9.0);
    assert_eq!(fleet.all()[0], (100, 100));
}

#[test]
fn a_worker_that_becomes_slow_is_found_out_and_forgiven() {
    let mut fleet = Fleet::new(&[1.0; 4]);
    let run = |fleet: &mut Fleet, turns: u32| {
        for n in 0..turns {
            fleet.turn(n % 4, 1.0);
        }
    };
    run(&mut fleet, 400);
    assert_eq!(fleet.all(), [(100, 100); 4]);
    fleet.slower[1] = 4.0;
    run(&mut fleet, 800);
    let slow = fleet.all()[1];
    assert!(slow.0 > 180 && slow.1 > 180, "{slow:?}");
    fleet.slower[1] = 1.0;
    run(&mut fleet, 1_600);
    assert_eq!(fleet.all(), [(100, 100); 4]);
}

#[test]
fn credit_of_a_tier_follows_from_what_its_tokens_took() {
    let mut fleet = Fleet::new(&[1.0; 2]);
    let config = KvConfig::default();
    let fetch = |fleet: &mut Fleet, per_token: f64| {
        fleet.turns += 1;
        let (fetched, computed) = (20_000, 1_000);
        let work = prompt_work(0, computed, fetched);
        let time = 15.0 * work[0] + 20_000.0 + 300.0 * work[2] + per_token * f64::from(fetched);
        let turn = Prefilled {
            time: Micros(time as u64),
            waiting: 0,
            computed,
            cached: fetched,
            fetched: [fetched, 0, 0],
        };
        fleet.paces.prefilled(fleet.now(), WorkerId(0), &turn);
    };
    fetch(&mut fleet, 5.0);
    assert_eq!(
        fleet.paces.weights(GROUP, &config),
        config,
        "nothing is known"
    );
    for n in 0..400 {
        fleet.turn(n % 2, 1.0);
    }
    let paces = fleet.all();
    // Computing takes 15 us a token and 3 us of attention: 9 of 18 is a half.
    for _ in 0..200 {
        fetch(&mut fleet, 9.0);
    }
    let learnt = fleet.paces.weights(GROUP, &config);
    assert!((0.5..0.62).contains(&learnt.host_credit), "{learnt:?}");
    assert_eq!((learnt.disk_credit, learnt.pool_credit), (0.25, 0.25));
    assert_eq!(fleet.all(), paces, "such turns say nothing of the worker");
}

#[test]
fn a_cost_is_the_workers_time() {
    let config = KvConfig {
        prefill_scale: 8.0,
        ..KvConfig::default()
    };
    assert_eq!(Pace::USUAL.weigh(&config), config);
    let slow = Pace {
        prefill: 250,
        decode: 300,
    };
    let weights = slow.weigh(&config);
    assert_eq!((weights.prefill_scale, weights.overlap_credit), (20.0, 1.0));
    // What comes from a tier takes as long as elsewhere: a quarter of a usual token, a tenth of its own.
    assert!((weights.host_credit - 0.9).abs() < 1e-12);
    assert!((weights.disk_credit - 0.7).abs() < 1e-12);
    let fast = Pace {
        prefill: 20,
        decode: 100,
    };
    assert_eq!(fast.weigh(&config).host_credit, 0.0);
    let load = KvLoad {
        prefill_tokens: 10.0,
        decode_blocks: 2.0,
        additional_blocks: 1.0,
        requests: 3.0,
    };
    let felt = slow.feel(load);
    assert_eq!((felt.prefill_tokens, felt.decode_blocks), (10.0, 6.0));
    assert_eq!((felt.additional_blocks, felt.requests), (3.0, 9.0));
}

#[test]
fn nonsense_and_strangers_change_nothing_for_others() {
    let mut fleet = Fleet::new(&[1.0; 3]);
    for n in 0..2_000_u32 {
        let worker = WorkerId(n % 5);
        let time = Micros([0, u64::MAX, 1, n.into()][n as usize % 4]);
        let most = [0, u32::MAX, 1][n as usize % 3];
        let turn = Prefilled {
            time,
            waiting: [u64::MAX, 0][n as usize % 2],
            computed: most,
            cached: u32::MAX - most,
            fetched: [most / 3; 3],
        };
        fleet.paces.prefilled(Micros(n.into()), worker, &turn);
        let answer = Decoded {
            time,
            tokens: most,
            requests: most,
            context: u64::MAX,
        };
        fleet.paces.decoded(Micros(n.into()), worker, &answer);
        for (prefill, decode) in fleet.all() {
            assert!((12..=800).contains(&prefill) && (12..=800).contains(&decode));
        }
        let weights = fleet.paces.weights(GROUP, &KvConfig::default());
        assert_eq!(weights.validate(), Ok(()));
    }
    for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(validate(bad).map_err(|e| e.code()), Err("INVALID_ARGUMENT"));
    }
    assert_eq!(validate(1.0), Ok(()));
}
