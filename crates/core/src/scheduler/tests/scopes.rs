//! What prompts share in a cache, and what sets them apart there.
use super::*;
use crate::block::Namespace;
use crate::continuity::{Ask, ContinuityConfig, Grade, Model, PolicyConfig, Prices, SaarConfig};

const BASE: TargetId = TargetId(0);
const OTHER: TargetId = TargetId(1);

/// Two workers that serve two models.
fn two_models(config: Config) -> Bench {
    let mut bench = Bench::with(config, None);
    let group = bench.scheduler.topology().target(BASE).unwrap().group;
    let other = bench.scheduler.add_target("other", group).unwrap();
    scope(&mut bench, other, Namespace::of(&[b"other"]), SharedBy::All);
    bench
}

fn scope(bench: &mut Bench, target: TargetId, namespace: Namespace, shared_by: SharedBy) {
    let scope = CacheScope {
        namespace,
        shared_by,
    };
    bench.scheduler.set_cache_scope(target, scope).unwrap();
}

/// Sends the turn and ends it as one whose tools are called; what was counted as cached.
fn cached(bench: &mut Bench, turn: &Turn<'_>) -> u32 {
    let submitted = bench.submit(turn).unwrap();
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held");
    };
    bench.complete(submitted.reservation, &used_tools());
    placement.predicted_cached_tokens
}

fn asking<'a>(session: &'a str, prompt: &'a [u32], targets: &'a [TargetId]) -> Turn<'a> {
    Turn {
        targets,
        pin: Some(A),
        ..turn(session, prompt)
    }
}

#[test]
fn two_models_on_one_worker_share_no_cache() {
    let mut bench = two_models(Config::default());
    let prompt = tokens(1, 640);
    assert_eq!(cached(&mut bench, &asking("s", &prompt, &[BASE])), 0);
    assert_eq!(cached(&mut bench, &asking("t", &prompt, &[OTHER])), 0);
    assert_eq!(cached(&mut bench, &asking("u", &prompt, &[BASE])), 640);
    assert_eq!(cached(&mut bench, &asking("v", &prompt, &[OTHER])), 640);
}

#[test]
fn a_salt_and_a_tenant_set_prompts_apart() {
    let mut bench = two_models(Config::default());
    let prompt = tokens(1, 640);
    let salted = |salt: &'static [u8]| Turn {
        cache_salt: salt,
        origin: Default::default(),
        ..asking("", &prompt, &[BASE])
    };
    assert_eq!(cached(&mut bench, &salted(b"a")), 0);
    assert_eq!(cached(&mut bench, &salted(b"b")), 0);
    assert_eq!(cached(&mut bench, &salted(b"")), 0);
    assert_eq!(cached(&mut bench, &salted(b"a")), 640);

    scope(&mut bench, OTHER, Namespace::COMMON, SharedBy::Tenant);
    let of = |tenant: &'static str| Turn {
        tenant,
        ..asking("", &prompt, &[OTHER])
    };
    assert_eq!(cached(&mut bench, &of("x")), 0);
    assert_eq!(cached(&mut bench, &of("y")), 0);
    assert_eq!(cached(&mut bench, &of("x")), 640);
}

#[test]
fn a_session_that_changes_its_model_finds_what_each_has() {
    let mut bench = two_models(Config::default());
    let prompt = tokens(1, 6_400);
    let lengths = [640, 1_280, 1_920, 2_560, 3_200];
    let targets = [BASE, OTHER, BASE, OTHER, OTHER];
    let got: Vec<u32> = lengths
        .iter()
        .zip(targets)
        .map(|(&n, target)| cached(&mut bench, &asking("s", &prompt[..n], &[target])))
        .collect();
    assert_eq!(got, [0, 0, 640, 1_280, 2_560]);
}

#[test]
fn the_price_of_a_switch_counts_what_each_model_has() {
    let policy = PolicyConfig::Saar(SaarConfig::default());
    let continuity = ContinuityConfig {
        policy,
        ..ContinuityConfig::default()
    };
    let mut bench = two_models(Config {
        continuity,
        ..Config::default()
    });
    for (target, grade) in [(BASE, Grade::Middle), (OTHER, Grade::Large)] {
        let model = Model::of(grade, Prices::new(3.0, 0.3, 3.75, 15.0).unwrap());
        bench.scheduler.set_model(target, model).unwrap();
    }
    let prompt = tokens(1, 1_280);
    let both = |n: usize| Turn {
        targets: &[BASE, OTHER],
        ask: Ask {
            base: Some(BASE),
            ..Ask::default()
        },
        ..turn("s", &prompt[..n])
    };
    cached(&mut bench, &both(640));
    let submitted = bench.submit(&both(1_280)).unwrap();
    let Verdict::Go(placement) = submitted.verdict else {
        panic!("held");
    };
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    let rows = &receipt.model.as_ref().unwrap().rows;
    let warm: Vec<u32> = rows.iter().map(|row| row.warm_tokens).collect();
    assert_eq!(warm, [640, 0]);
}

#[test]
fn an_unnamed_session_is_recognised_in_the_cache_that_it_used() {
    let mut bench = two_models(Config::default());
    let first = tokens(1, 640);
    let mut longer = tokens(1, 1_280);
    let go = |bench: &mut Bench, prompt: &[u32], targets: &[TargetId]| {
        let submitted = bench.submit(&asking("", prompt, targets)).unwrap();
        bench.complete(submitted.reservation, &used_tools());
        submitted.derived
    };
    let own = go(&mut bench, &first, &[OTHER]);
    go(&mut bench, &longer, &[OTHER]);
    // Its end is another one: neither the last prompt nor one that extends it.
    longer[1_200] += 1;
    assert_eq!(go(&mut bench, &longer, &[BASE, OTHER]), own);
}

#[test]
fn a_turn_that_moves_to_another_model_leaves_no_credit_behind() {
    let mut bench = Bench::free();
    let scheduler = &mut bench.scheduler;
    let group = scheduler.add_group(Micros(0), GroupOptions::default());
    let group = group.unwrap();
    let other = scheduler.add_target("other", group).unwrap();
    let worker = WorkerOptions {
        name: "c".to_owned(),
        group,
        capacity_tokens: None,
    };
    let added = scheduler.add_worker(Micros(0), worker, &mut bench.settled);
    let alone = added.unwrap();
    scope(&mut bench, other, Namespace::of(&[b"other"]), SharedBy::All);

    let prompt = tokens(1, 640);
    let both = Turn {
        targets: &[other, BASE],
        ..turn("s", &prompt)
    };
    let submitted = bench.submit(&both).unwrap();
    let (now, id) = (bench.now, submitted.reservation);
    let moved = bench
        .scheduler
        .reroute(now, id, Fault::Passing, &mut bench.settled);
    let moved = moved.unwrap();
    assert_eq!(moved.target, BASE);
    bench.complete(id, &used_tools());
    let mut has = |worker: WorkerId, target: TargetId| {
        let at = Turn {
            targets: &[target],
            pin: Some(worker),
            ..turn("", &prompt)
        };
        cached(&mut bench, &at)
    };
    assert_eq!((has(alone, other), has(moved.worker, BASE)), (0, 640));
}
