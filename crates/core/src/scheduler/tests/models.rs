//! Which model answers, through the door that everybody uses: three targets of one worker each.
use super::*;
use crate::continuity::{
    Ask, Boundary, ContinuityConfig, Grade, LookaheadConfig, Model, PolicyConfig, Prices, Reason,
    SaarConfig, Usd, Weighed,
};

pub(super) const SMALL: TargetId = TargetId(0);
pub(super) const MIDDLE: TargetId = TargetId(1);
pub(super) const LARGE: TargetId = TargetId(2);
pub(super) const ALL: [TargetId; 3] = [SMALL, MIDDLE, LARGE];

fn model(grade: Grade, [input, cached, output]: [f64; 3]) -> Model {
    Model::of(grade, Prices::new(input, cached, input, output).unwrap())
}

pub(super) fn bench(continuity: ContinuityConfig) -> Bench {
    let config = Config {
        continuity,
        ..Config::default()
    };
    let mut scheduler = Scheduler::new(config).unwrap();
    let mut settled = Vec::new();
    let prices = [[0.05, 0.01, 0.1], [0.3, 0.06, 0.6], [8.0, 1.2, 24.0]];
    for (grade, price) in Grade::ALL.into_iter().zip(prices) {
        let options = GroupOptions {
            ttl: Some(Micros::from_secs(300)),
            ..GroupOptions::default()
        };
        let group = scheduler.add_group(Micros(0), options).unwrap();
        let name = format!("{grade:?}");
        let target = scheduler.add_target(&name, group).unwrap();
        scheduler.set_model(target, model(grade, price)).unwrap();
        let worker = WorkerOptions {
            name,
            group,
            capacity_tokens: None,
        };
        scheduler
            .add_worker(Micros(0), worker, &mut settled)
            .unwrap();
    }
    Bench {
        scheduler,
        settled,
        now: Micros(0),
    }
}

fn with(policy: PolicyConfig) -> Bench {
    bench(ContinuityConfig {
        policy,
        ..ContinuityConfig::default()
    })
}

fn lookahead(lambda: f64) -> PolicyConfig {
    PolicyConfig::Lookahead(LookaheadConfig {
        lambda,
        ..LookaheadConfig::default()
    })
}

pub(super) fn asking<'a>(session: &'a str, tokens: &'a [u32], base: TargetId) -> Turn<'a> {
    Turn {
        targets: &ALL,
        ask: Ask {
            base: Some(base),
            ..Ask::default()
        },
        ..turn(session, tokens)
    }
}

impl Bench {
    /// Sends a turn and ends it; the target that answered, the reason and the boundary.
    pub(super) fn ask(&mut self, turn: &Turn<'_>) -> (TargetId, Option<Reason>, Option<Boundary>) {
        self.ask_and(turn, &Completion::default())
    }

    pub(super) fn ask_and(
        &mut self,
        turn: &Turn<'_>,
        completion: &Completion<'_>,
    ) -> (TargetId, Option<Reason>, Option<Boundary>) {
        let submitted = self.submit(turn).unwrap();
        let Verdict::Go(placement) = submitted.verdict else {
            panic!("held");
        };
        let receipt = self.scheduler.receipt(placement.receipt).unwrap();
        let note = receipt.model.as_deref();
        if let Some(note) = note {
            assert_eq!(note.again(), note.decision, "a receipt is enough");
        }
        let why = note.map(|note| note.decision.reason);
        let boundary = note.and_then(|note| note.boundary);
        self.complete(submitted.reservation, completion);
        (placement.target, why, boundary)
    }
}

#[test]
fn without_a_policy_a_session_stays_where_it_is() {
    let mut bench = with(PolicyConfig::Bound);
    let prompt = tokens(1, 640);
    assert_eq!(bench.ask(&asking("s", &prompt, LARGE)), (SMALL, None, None));
}

#[test]
fn each_policy_answers_in_its_way() {
    let prompt = tokens(1, 1_280);
    let asked = [
        (&prompt[..640], MIDDLE),
        (&prompt[..960], LARGE),
        (&prompt[..], SMALL),
    ];
    let cases = [
        (PolicyConfig::SingleTurn, [MIDDLE, LARGE, SMALL]),
        (PolicyConfig::LocksOnly, [MIDDLE, LARGE, SMALL]),
        (PolicyConfig::Sticky, [MIDDLE; 3]),
        (PolicyConfig::Constant(Grade::Large), [LARGE; 3]),
        // Up by more than the switch costs, and never down.
        (
            PolicyConfig::Saar(SaarConfig::default()),
            [MIDDLE, LARGE, LARGE],
        ),
        // Nothing is worth anything but money.
        (lookahead(0.0), [SMALL; 3]),
        // The model of the first turn is kept for what the loop after it may need.
        (lookahead(1e6), [LARGE; 3]),
    ];
    for (policy, expected) in cases {
        let mut bench = with(policy);
        let got = asked.map(|(prompt, base)| bench.ask(&asking("s", prompt, base)).0);
        assert_eq!(got, expected, "{policy:?}");
    }
}

#[test]
fn a_tool_result_goes_to_its_issuer_whatever_the_policy_would_do() {
    let mut bench = with(PolicyConfig::SingleTurn);
    let prompt = tokens(1, 1_280);
    let called = Completion {
        tool_calls: CALL,
        ..used_tools()
    };
    bench.ask_and(&asking("s", &prompt[..640], MIDDLE), &called);
    let answer = Turn {
        tool_results: CALL,
        ..asking("s", &prompt, LARGE)
    };
    assert_eq!(bench.ask(&answer), (MIDDLE, None, None));
    // The loop is over: the turn after it is free.
    let next = tokens(1, 1_600);
    let free = bench.ask(&asking("s", &next, LARGE));
    assert_eq!(free, (LARGE, Some(Reason::Base), None));
}

#[test]
fn the_past_stops_to_bind_at_boundaries() {
    let mut bench = with(PolicyConfig::Saar(SaarConfig::default()));
    let prompt = tokens(1, 2_560);
    bench.ask(&asking("s", &prompt[..640], LARGE));
    bench.after(299);
    let stay = bench.ask(&asking("s", &prompt[..960], SMALL));
    assert_eq!(stay, (LARGE, Some(Reason::CostBlocks), None));
    bench.after(301);
    let idle = bench.ask(&asking("s", &prompt[..1_280], SMALL));
    assert_eq!(idle, (SMALL, Some(Reason::Idle), Some(Boundary::Idle)));
    let drift = Turn {
        ask: Ask {
            is_drift: true,
            base: Some(MIDDLE),
            ..Ask::default()
        },
        ..asking("s", &prompt[..1_600], MIDDLE)
    };
    let drift = bench.ask(&drift);
    assert_eq!(drift, (MIDDLE, Some(Reason::Drift), Some(Boundary::Drift)));
    let mut compacted = prompt[..64].to_vec();
    compacted.extend(tokens(2, 640));
    let other = bench.ask(&asking("s", &compacted, SMALL));
    let expected = Some(Boundary::NewConversation);
    assert_eq!(other, (SMALL, Some(Reason::NewConversation), expected));
}

#[test]
fn a_history_that_no_longer_fits_goes_to_a_model_that_can_read_it() {
    let mut bench = with(PolicyConfig::Sticky);
    let known = bench.scheduler.chooser.model(SMALL);
    let short = Model {
        context_tokens: Some(1_000),
        ..known
    };
    bench.scheduler.set_model(SMALL, short).unwrap();
    let prompt = tokens(1, 1_280);
    assert_eq!(bench.ask(&asking("s", &prompt[..640], SMALL)).0, SMALL);
    let (target, _, boundary) = bench.ask(&asking("s", &prompt, SMALL));
    assert_eq!((target, boundary), (MIDDLE, Some(Boundary::TooLong)));
}

#[test]
fn branches_of_one_session_have_models_of_their_own() {
    let mut bench = with(PolicyConfig::Sticky);
    let (main, side) = (tokens(1, 1_280), tokens(2, 1_280));
    let first = bench.submit(&asking("s", &main[..640], LARGE)).unwrap();
    let second = bench.submit(&asking("s", &side[..640], SMALL)).unwrap();
    assert_eq!((first.target, second.target), (LARGE, SMALL));
    bench.complete(first.reservation, &used_tools());
    bench.complete(second.reservation, &used_tools());
    assert_eq!(bench.ask(&asking("s", &side, LARGE)).0, SMALL);
    assert_eq!(bench.ask(&asking("s", &main, SMALL)).0, LARGE);
}

#[test]
fn a_shadow_is_written_down_and_decides_nothing() {
    let mut bench = bench(ContinuityConfig {
        policy: PolicyConfig::Sticky,
        shadow: Some(lookahead(0.0)),
        ..ContinuityConfig::default()
    });
    let prompt = tokens(1, 640);
    let submitted = bench.submit(&asking("s", &prompt, LARGE)).unwrap();
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held");
    };
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    let (_, shadow) = receipt.model.as_ref().unwrap().shadow.as_ref().unwrap();
    assert_eq!((placement.target, ALL[shadow.row]), (LARGE, SMALL));
}

#[test]
fn a_warm_model_is_charged_what_is_cold() {
    let mut bench = with(lookahead(0.5));
    let prompt = tokens(1, 1_280);
    let (first, ..) = bench.ask(&asking("s", &prompt[..640], MIDDLE));
    let submitted = bench.submit(&asking("s", &prompt, MIDDLE)).unwrap();
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held");
    };
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    let note = receipt.model.as_ref().unwrap();
    let Weighed::Lookahead(terms) = &note.decision.weighed else {
        panic!("{:?}", note.decision);
    };
    let cold: Vec<u32> = terms.rows.iter().map(|row| row.cold_tokens).collect();
    let expected = ALL.map(|target| if target == first { 640 } else { 1_280 });
    assert_eq!(cold, expected);
    assert_eq!(terms.rows[2].prompt, Usd(1_280.0 * 8.0 / 1e6));
}

#[test]
fn a_target_that_is_down_is_passed_by_and_stays_the_sessions() {
    let mut bench = with(PolicyConfig::Sticky);
    let prompt = tokens(1, 1_920);
    assert_eq!(bench.ask(&asking("s", &prompt[..640], LARGE)).0, LARGE);
    bench.health(WorkerId(2), Health::Down);
    assert_eq!(bench.ask(&asking("s", &prompt[..1_280], MIDDLE)).0, MIDDLE);
    bench.health(WorkerId(2), Health::Up);
    assert_eq!(bench.ask(&asking("s", &prompt, MIDDLE)).0, LARGE);
}
