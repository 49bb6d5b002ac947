//! Single situations, each with its whole outcome: what one tick does to a set of programs, and
//! what the door does around the edges that no recorded run reaches.
use super::program::Program;
use super::*;
use crate::admission::{Phase, Standing};

const CAPACITY: u64 = 10_000;

fn policy(capacities: &[u64]) -> ThunderAgent {
    let mut policy = ThunderAgent::new(ThunderAgentConfig::default()).expect("settings");
    let capacities = capacities.iter().map(|&capacity| Some(capacity));
    let workers: Vec<_> = (0..).map(WorkerId).zip(capacities).collect();
    policy.set_workers(Micros(0), &workers);
    policy.table.look();
    policy
}

fn at(seconds: u64) -> Micros {
    Micros::from_secs(seconds)
}

fn turn(ticket: u64, program: u64, prompt_tokens: u32) -> Begin {
    Begin {
        ticket: ReservationId(ticket),
        claimant: Default::default(),
        program: ProgramId(program),
        prompt_tokens,
        kind: Kind::Turn,
        pin: None,
    }
}

/// Begins a turn and gives what came out: (ticket, worker).
fn begin(policy: &mut ThunderAgent, now: Micros, turn: Begin) -> Vec<(u64, Option<u32>)> {
    let mut out = Vec::new();
    policy.begin(now, turn, &mut out);
    plain(&out)
}

fn plain(out: &[Release]) -> Vec<(u64, Option<u32>)> {
    out.iter()
        .map(|r| (r.ticket.0, r.worker.map(|w| w.0)))
        .collect()
}

fn complete(
    policy: &mut ThunderAgent,
    now: Micros,
    ticket: u64,
    tokens: u32,
) -> Vec<(u64, Option<u32>)> {
    let mut out = Vec::new();
    policy.complete(now, ReservationId(ticket), Some(tokens), &mut out);
    plain(&out)
}

fn cancel(policy: &mut ThunderAgent, now: Micros, ticket: u64) -> Vec<(u64, Option<u32>)> {
    let mut out = Vec::new();
    policy.cancel(now, ReservationId(ticket), &mut out);
    plain(&out)
}

fn tick(policy: &mut ThunderAgent, now: Micros) -> Vec<(u64, Option<u32>)> {
    let mut out = Vec::new();
    policy.tick(now, &mut out);
    plain(&out)
}

/// Puts a program into the table: `R@0 500` reasons on worker 0, `Az 500 2` is paused and idle
/// with two steps, `*` is a mark. A paused one that reasons holds a turn with the program's number.
fn put(policy: &mut ThunderAgent, number: u64, text: &str) {
    let mut words = text.split(' ');
    let place = words.next().expect("a place").trim_end_matches('*');
    let tokens = words.next().expect("tokens").parse().expect("a number");
    let steps = words.next().map_or(3, |w| w.parse().expect("a number"));
    let mut program = Program::new(tokens);
    program.state.steps = steps;
    program.state.marked = text.contains('*');
    if let Some((_, worker)) = place.split_once('@') {
        program.state.worker = Some(WorkerId(worker.parse().expect("a number")));
    } else {
        program.pause();
    }
    if place.starts_with('A') {
        program.finish(Micros(0), None);
    } else {
        let begin = turn(number, number, tokens);
        let held = program.is_paused();
        let gate = if held {
            Gate::Held
        } else {
            Gate::Released(program.state.worker)
        };
        policy.table.enqueue(Turn {
            begin,
            gate: Gate::Held,
        });
        policy.table.create(ProgramId(number), program);
        if let Gate::Released(worker) = gate {
            policy
                .table
                .release(ReservationId(number), worker, &mut Vec::new());
        } else {
            policy.step(&mut Vec::new()).hold(ProgramId(number));
        }
        return;
    }
    policy.table.create(ProgramId(number), program);
}

/// All programs, by number, in the notation of [`put`] without steps.
fn show(policy: &ThunderAgent) -> Vec<String> {
    let all = policy.programs().into_iter();
    all.map(|(_, s)| {
        let phase = if s.phase == Phase::Acting { 'A' } else { 'R' };
        let place = match (s.standing, s.worker) {
            (Standing::Paused, _) => "z".to_owned(),
            (Standing::Active, Some(worker)) => format!("@{}", worker.0),
            (Standing::Active, None) => "@".to_owned(),
        };
        let mark = if s.marked { "*" } else { "" };
        format!("{phase}{place}{mark} {}", s.tokens)
    })
    .collect()
}

fn with(capacities: &[u64], programs: &[&str]) -> ThunderAgent {
    let mut policy = policy(capacities);
    for (number, text) in (1..).zip(programs) {
        put(&mut policy, number, text);
    }
    policy
}

/// What one tick makes of `before`, and the charges after it.
#[track_caller]
fn one_tick(capacities: &[u64], before: &[&str], after: &[&str], charges: &[u64]) {
    let mut policy = with(capacities, before);
    tick(&mut policy, at(5));
    assert_eq!(show(&policy), after);
    let used: Vec<u64> = (0..capacities.len() as u32)
        .map(|w| policy.used(WorkerId(w)))
        .collect();
    assert_eq!(used, charges);
}

#[test]
fn the_threshold_itself_is_not_over() {
    let full = &[CAPACITY];
    one_tick(
        full,
        &["R@0 5000", "A@0 4200"],
        &["R@0 5000", "A@0 4200"],
        &[9400],
    );
    one_tick(
        full,
        &["R@0 5000", "A@0 4300"],
        &["R@0 5000", "A@0 4300"],
        &[9500],
    );
    one_tick(
        full,
        &["R@0 5000", "A@0 4301"],
        &["R@0 5000", "Az 4301"],
        &[5100],
    );
}

#[test]
fn a_threshold_between_two_tokens_rounds_to_neither_side() {
    // 95 % of 436,528 is 414,701.6
    one_tick(&[436_528], &["A@0 414601"], &["A@0 414601"], &[414_701]);
    one_tick(&[436_528], &["A@0 414602"], &["Az 414602"], &[0]);
}

#[test]
fn idle_programs_go_smallest_first_until_the_target() {
    one_tick(
        &[CAPACITY],
        &["R@0 3000", "A@0 500", "A@0 1500", "A@0 2500", "A@0 1800"],
        &["R@0 3000", "Az 500", "Az 1500", "A@0 2500", "A@0 1800"],
        &[7600],
    );
    one_tick(
        &[CAPACITY],
        &["R@0 500", "A@0 4000", "A@0 5000"],
        &["R@0 500", "Az 4000", "A@0 5000"],
        &[5700],
    );
}

#[test]
fn buffers_alone_can_fill_a_worker() {
    let before = ["A@0 1"; 95];
    let mut after = ["A@0 1"; 95];
    after[..16].fill("Az 1");
    one_tick(&[CAPACITY], &before, &after, &[7979]);
}

#[test]
fn every_reasoning_program_is_marked_where_one_would_do() {
    one_tick(
        &[CAPACITY],
        &["R@0 3000", "R@0 3200", "R@0 3400"],
        &["R@0* 3000", "R@0* 3200", "R@0* 3400"],
        &[9900],
    );
    one_tick(
        &[CAPACITY],
        &["R@0 6000", "R@0 2500", "A@0 700", "A@0 300"],
        &["R@0* 6000", "R@0* 2500", "Az 700", "Az 300"],
        &[8700],
    );
}

#[test]
fn pressure_on_one_worker_leaves_the_others_alone() {
    one_tick(
        &[CAPACITY, CAPACITY],
        &["R@0 9800", "A@1 100"],
        &["R@0* 9800", "A@1 100"],
        &[9900, 200],
    );
}

#[test]
fn the_smallest_come_back_first_and_the_large_are_skipped() {
    one_tick(
        &[CAPACITY],
        &["R@0 6900", "Rz 1300 3", "Rz 50 2"],
        &["R@0 6900", "Rz 1300", "R@0 50"],
        &[7150],
    );
    one_tick(
        &[CAPACITY],
        &["R@0 5000", "A@0 3000", "Rz 200", "Rz 250"],
        &["R@0 5000", "A@0 3000", "R@0 200", "Rz 250"],
        &[8500],
    );
}

#[test]
fn waiting_returns_then_new_then_idle_and_later_groups_fill_up() {
    let paused = ["Az 200 4", "Rz 900 1", "Rz 1500 7"];
    let case = |tokens: &str, after: [&str; 3], used| {
        let first = format!("R@0 {tokens}");
        let before = [&first, paused[0], paused[1], paused[2]];
        one_tick(
            &[CAPACITY],
            &before,
            &[&first, after[0], after[1], after[2]],
            &[used],
        );
    };
    case("5400", ["A@0 200", "R@0 900", "R@0 1500"], 8400);
    case("5700", ["Az 200", "R@0 900", "R@0 1500"], 8400);
    case("6400", ["A@0 200", "Rz 900", "R@0 1500"], 8400);
}

#[test]
fn an_idle_program_of_one_turn_comes_back_as_a_new_one() {
    one_tick(
        &[CAPACITY],
        &["R@0 7000", "Az 1200 1", "Rz 1250 1"],
        &["R@0 7000", "A@0 1200", "Rz 1250"],
        &[8400],
    );
}

#[test]
fn the_largest_goes_where_most_room_is() {
    one_tick(
        &[CAPACITY, CAPACITY],
        &["R@0 5400", "R@1 4400", "Rz 3800", "Rz 2800", "Rz 900"],
        &["R@0 5400", "R@1 4400", "Rz 3800", "R@1 2800", "R@0 900"],
        &[6500, 7400],
    );
}

#[test]
fn room_in_pieces_is_no_room() {
    let busy = ["R@0 6900", "R@1 6900"];
    one_tick(
        &[CAPACITY, CAPACITY],
        &[busy[0], busy[1], "Rz 2000"],
        &[busy[0], busy[1], "Rz 2000"],
        &[7000, 7000],
    );
    one_tick(
        &[CAPACITY, CAPACITY],
        &[busy[0], busy[1], "Rz 2000", "Rz 300"],
        &[busy[0], busy[1], "Rz 2000", "R@0 300"],
        &[7400, 7000],
    );
}

#[test]
fn room_for_a_buffer_only_counts_for_nothing() {
    one_tick(
        &[CAPACITY, CAPACITY],
        &["R@0 7400", "R@1 8300", "Rz 950", "Az 10"],
        &["R@0 7400", "R@1 8300", "Rz 950", "A@0 10"],
        &[7610, 8400],
    );
    one_tick(
        &[CAPACITY],
        &["R@0 7300", "Rz 900", "Rz 0"],
        &["R@0 7300", "R@0 900", "Rz 0"],
        &[8400],
    );
}

#[test]
fn the_next_tick_is_never_one_that_has_passed_unwanted() {
    let mut policy = with(&[CAPACITY], &["R@0 9000"]);
    begin(&mut policy, at(12), turn(9, 9, 2_000));
    assert_eq!(policy.next_wake(), Some(at(15)));
    tick(&mut policy, at(15));
    assert_eq!(policy.next_wake(), Some(at(20)));
}

#[test]
fn a_time_that_goes_back_is_no_time() {
    let mut policy = with(&[CAPACITY], &["R@0 9000"]);
    begin(&mut policy, at(1_000), turn(9, 9, 2_000));
    complete(&mut policy, at(900), 1, 9_000);
    assert_eq!(tick(&mut policy, at(950)), []);
    assert_eq!(policy.next_wake(), Some(at(1_005)));
    assert_eq!(tick(&mut policy, at(2_799)), []);
    assert_eq!(tick(&mut policy, at(2_800)), [(9, Some(0))]);
    assert_eq!(
        show(&policy),
        ["R@0 2000"],
        "both deadlines count from 1,000 s"
    );
}

#[test]
fn a_newcomer_may_fill_the_whole_capacity_and_the_next_tick_regrets_it() {
    let mut policy = with(&[CAPACITY], &["A@0 8900"]);
    assert_eq!(begin(&mut policy, at(1), turn(9, 9, 900)), [(9, Some(0))]);
    assert_eq!(policy.used(WorkerId(0)), 10_000);
    tick(&mut policy, at(5));
    assert_eq!(show(&policy), ["Az 8900", "R@0 900"]);

    let mut policy = with(&[CAPACITY], &["A@0 8900"]);
    assert_eq!(begin(&mut policy, at(1), turn(9, 9, 901)), []);
    assert_eq!(show(&policy), ["A@0 8900", "Rz 901"]);
    assert_eq!(policy.ahead(ReservationId(9)).map(|a| a.place()), Some(1));
}

#[test]
fn an_idle_paused_program_queues_every_newcomer_until_the_tick() {
    let mut policy = with(&[CAPACITY], &["Az 9000"]);
    assert_eq!(begin(&mut policy, at(1), turn(9, 9, 100)), []);
    assert!(policy.is_held(ReservationId(9)));
    assert_eq!(policy.next_wake(), Some(at(5)));
    let mut out = Vec::new();
    policy.advance(at(4), &mut out);
    assert_eq!(out, []);
    policy.advance(at(5), &mut out);
    assert_eq!(plain(&out), [(9, Some(0))]);
}

#[test]
fn a_smaller_capacity_sheds_at_the_next_tick() {
    let mut policy = with(
        &[CAPACITY],
        &["R@0 3000", "A@0 1000", "A@0 2000", "A@0 2600"],
    );
    assert_eq!(policy.next_wake(), Some(at(1_800)));
    policy.set_worker(at(1), WorkerId(0), Some(6_000));
    assert_eq!(policy.next_wake(), Some(at(5)));
    tick(&mut policy, at(5));
    assert_eq!(show(&policy), ["R@0 3000", "Az 1000", "Az 2000", "Az 2600"]);
}

#[test]
fn acting_contexts_count_by_their_weight() {
    let config = ThunderAgentConfig {
        acting_weight: 5_000,
        ..ThunderAgentConfig::default()
    };
    let mut policy = ThunderAgent::new(config).expect("settings");
    policy.set_worker(Micros(0), WorkerId(0), Some(CAPACITY));
    put(&mut policy, 1, "R@0 5000");
    put(&mut policy, 2, "A@0 4501");
    assert_eq!(policy.used(WorkerId(0)), 7_450);
    tick(&mut policy, at(5));
    assert_eq!(show(&policy), ["R@0 5000", "A@0 4501"]);
}

#[test]
fn a_turn_held_for_the_timeout_goes_whatever_the_load_and_is_paused_again_at_its_end() {
    let mut policy = with(&[CAPACITY], &["R@0 9300", "Rz 3000"]);
    assert_eq!(tick(&mut policy, at(1_795)), []);
    assert_eq!(tick(&mut policy, at(1_800)), [(2, Some(0))]);
    assert_eq!(policy.counters().forced, 1);
    assert_eq!(show(&policy), ["R@0* 9300", "R@0* 3000"]);
    assert_eq!(policy.used(WorkerId(0)), 12_500);
    assert_eq!(complete(&mut policy, at(1_801), 2, 3_100), []);
    assert_eq!(show(&policy), ["R@0* 9300", "Az 3100"]);
}

#[test]
fn forced_turns_go_where_idle_contexts_have_faded_most() {
    // Worker 0 holds more, but all of it idle for minutes; worker 1 holds less, all in use.
    let mut policy = with(&[CAPACITY, CAPACITY], &["A@0 9000", "R@1 8000", "Rz 9900"]);
    let mut out = Vec::new();
    policy.tick(at(1_795), &mut out);
    policy.sent(at(1_796), ReservationId(2), WorkerId(1));
    policy
        .table
        .edit(ProgramId(1), |p| p.idle_since = Some(at(1_700)));
    assert_eq!(tick(&mut policy, at(1_800)), [(3, Some(0))]);
}

#[test]
fn a_forced_turn_keeps_its_pin_and_goes_anywhere_without_workers() {
    let mut policy = with(&[CAPACITY, 500], &["Az 9000"]);
    let pinned = Begin {
        pin: Some(WorkerId(1)),
        ..turn(9, 9, 800)
    };
    assert_eq!(begin(&mut policy, at(1), pinned), []);
    assert_eq!(tick(&mut policy, at(1_810)), [(9, Some(1))]);

    let mut policy = with(&[CAPACITY], &["R@0 9000", "Rz 9000"]);
    policy.set_workers(at(1), &[]);
    assert_eq!(tick(&mut policy, at(1_795)), []);
    assert_eq!(tick(&mut policy, at(1_800)), [(2, None)]);
}

#[test]
fn a_program_above_the_ceiling_of_an_empty_worker_waits_for_the_timeout() {
    let mut policy = with(&[CAPACITY], &["Rz 8500"]);
    assert_eq!(tick(&mut policy, at(5)), []);
    assert_eq!(tick(&mut policy, at(1_800)), [(1, Some(0))]);
}

#[test]
fn idle_programs_are_forgotten_after_their_retention() {
    let mut policy = with(&[CAPACITY], &["A@0 1000"]);
    assert_eq!(policy.next_wake(), Some(at(1_800)));
    tick(&mut policy, at(1_795));
    assert_eq!(show(&policy), ["A@0 1000"]);
    tick(&mut policy, at(1_800));
    assert_eq!(policy.programs(), []);
    assert_eq!(policy.used(WorkerId(0)), 0);
    assert_eq!(policy.next_wake(), None);
}

#[test]
fn cancelling_a_held_newcomer_opens_the_door_again() {
    let mut policy = with(&[CAPACITY], &["R@0 9000"]);
    assert_eq!(begin(&mut policy, at(1), turn(8, 8, 2_000)), []);
    assert_eq!(cancel(&mut policy, at(2), 8), []);
    assert_eq!(show(&policy), ["R@0 9000"]);
    assert_eq!(begin(&mut policy, at(3), turn(9, 9, 100)), [(9, Some(0))]);
}

#[test]
fn cancelling_a_held_turn_of_a_paused_program_leaves_it_paused_and_idle() {
    let mut policy = with(&[CAPACITY], &["Az 4000 5"]);
    let before = policy.state(ProgramId(1));
    assert_eq!(begin(&mut policy, at(1), turn(9, 1, 4_300)), []);
    assert_eq!(show(&policy), ["Rz 4300"]);
    assert_eq!(cancel(&mut policy, at(2), 9), []);
    assert_eq!(policy.state(ProgramId(1)), before);
    assert_eq!(policy.waiting(), 0);
}

#[test]
fn a_mark_outlives_the_pressure() {
    let mut policy = with(&[CAPACITY], &["R@0* 3000"]);
    tick(&mut policy, at(5));
    assert_eq!(show(&policy), ["R@0* 3000"]);
    complete(&mut policy, at(6), 1, 3_200);
    assert_eq!(show(&policy), ["Az 3200"]);
}

#[test]
fn turns_of_one_program_run_one_after_another() {
    let mut policy = with(&[CAPACITY], &["R@0 1000"]);
    assert_eq!(begin(&mut policy, at(1), turn(8, 1, 1_200)), []);
    assert_eq!(begin(&mut policy, at(1), turn(9, 1, 1_300)), []);
    assert_eq!(policy.ahead(ReservationId(9)).map(|a| a.place()), Some(2));
    assert_eq!(complete(&mut policy, at(2), 1, 1_100), [(8, Some(0))]);
    assert_eq!(cancel(&mut policy, at(3), 8), [(9, Some(0))]);
    assert_eq!(policy.state(ProgramId(1)).map(|s| s.steps), Some(4));
}

#[test]
fn a_turn_of_a_lost_worker_passes_newcomers_and_moves() {
    let mut policy = with(&[CAPACITY, CAPACITY], &["A@1 1000", "Rz 9000"]);
    policy.remove_worker(at(1), WorkerId(1));
    assert_eq!(policy.used(WorkerId(1)), 1_100);
    assert_eq!(begin(&mut policy, at(2), turn(9, 1, 1_100)), [(9, Some(0))]);
    assert_eq!(policy.used(WorkerId(1)), 0);
}

#[test]
fn a_cancelled_turn_does_not_bring_back_a_lost_worker() {
    let mut policy = with(&[CAPACITY, CAPACITY], &["A@1 1000"]);
    policy.remove_worker(at(1), WorkerId(1));
    assert_eq!(begin(&mut policy, at(2), turn(9, 1, 1_100)), [(9, Some(0))]);
    cancel(&mut policy, at(3), 9);
    assert_eq!(show(&policy), ["A@ 1000"]);
    assert_eq!(policy.charges().count(), 0);
}

#[test]
fn a_live_set_that_changes_back_unnoticed_still_clears_lost_workers() {
    let mut policy = with(&[CAPACITY], &["R@0 1000"]);
    policy.set_worker(at(1), WorkerId(1), Some(CAPACITY));
    policy.sent(at(1), ReservationId(1), WorkerId(1));
    policy.remove_worker(at(1), WorkerId(1));
    assert_eq!(policy.used(WorkerId(1)), 1_100);
    tick(&mut policy, at(5));
    assert_eq!(policy.used(WorkerId(1)), 0);
}

#[test]
fn a_sent_to_a_dead_worker_charges_it_until_the_live_set_changes() {
    let mut policy = with(&[CAPACITY], &["R@0 1000"]);
    policy.sent(at(1), ReservationId(1), WorkerId(7));
    tick(&mut policy, at(5));
    assert_eq!(policy.used(WorkerId(7)), 1_100);
    policy.set_worker(at(6), WorkerId(1), Some(CAPACITY));
    tick(&mut policy, at(10));
    assert_eq!(policy.charges().count(), 0);
}

#[test]
fn an_empty_live_set_moves_nobody() {
    let mut policy = with(&[CAPACITY], &["A@0 1000"]);
    policy.set_workers(at(1), &[]);
    tick(&mut policy, at(5));
    assert_eq!(begin(&mut policy, at(6), turn(9, 1, 1_100)), [(9, Some(0))]);
    assert_eq!(begin(&mut policy, at(7), turn(8, 2, 500)), [(8, None)]);
    policy.set_worker(at(8), WorkerId(0), Some(CAPACITY));
    tick(&mut policy, at(10));
    assert_eq!(show(&policy), ["R@0 1100", "R@ 500"]);
}

#[test]
fn an_unlimited_worker_takes_everybody_and_is_never_over() {
    let mut policy = policy(&[]);
    policy.set_worker(Micros(0), WorkerId(0), None);
    for n in 0..100 {
        let answer = begin(&mut policy, at(1), turn(n, n, u32::MAX));
        assert_eq!(answer, [(n, Some(0))]);
    }
    assert_eq!(tick(&mut policy, at(5)), []);
    assert_eq!(policy.marked(), 0);
    put(&mut policy, 200, "Rz 4000000000");
    assert_eq!(tick(&mut policy, at(10)), [(200, Some(0))]);
}

#[test]
fn a_final_turn_frees_its_program_at_once() {
    let mut policy = with(&[CAPACITY], &["A@0 9000"]);
    let last = Begin {
        kind: Kind::Final,
        ..turn(9, 1, 9_100)
    };
    assert_eq!(begin(&mut policy, at(1), last), [(9, Some(0))]);
    assert_eq!(policy.programs(), []);
    assert_eq!(policy.used(WorkerId(0)), 0);
    assert_eq!(begin(&mut policy, at(2), turn(10, 1, 300)), []);
    assert_eq!(complete(&mut policy, at(3), 9, 9_200), [(10, Some(0))]);
    assert_eq!(show(&policy), ["R@0 300"]);
}

#[test]
fn an_ended_program_goes_now_or_with_its_last_turn() {
    let mut policy = with(&[CAPACITY], &["A@0 1000", "R@0 2000", "R@0 3000"]);
    for id in 1..=4 {
        policy.end_program(at(1), ProgramId(id));
    }
    assert_eq!(show(&policy), ["R@0 2000", "R@0 3000"]);
    assert_eq!(begin(&mut policy, at(2), turn(9, 3, 3_000)), []);
    complete(&mut policy, at(2), 2, 2_100);
    assert_eq!(complete(&mut policy, at(2), 3, 3_100), [(9, Some(0))]);
    complete(&mut policy, at(3), 9, 3_100);
    assert_eq!(
        show(&policy),
        ["A@0 3100"],
        "a further turn has taken the end back"
    );
}

#[test]
fn at_the_bound_the_longest_idle_makes_place_and_otherwise_turns_pass_uncounted() {
    let config = ThunderAgentConfig {
        max_programs: 2,
        ..ThunderAgentConfig::default()
    };
    let mut policy = ThunderAgent::new(config).expect("settings");
    policy.set_worker(Micros(0), WorkerId(0), Some(CAPACITY));
    begin(&mut policy, at(1), turn(1, 1, 100));
    begin(&mut policy, at(1), turn(2, 2, 200));
    assert_eq!(begin(&mut policy, at(1), turn(3, 3, 300)), [(3, None)]);
    assert_eq!(policy.tracked(), 2);
    complete(&mut policy, at(2), 2, 210);
    complete(&mut policy, at(3), 1, 110);
    assert_eq!(begin(&mut policy, at(4), turn(4, 4, 400)), [(4, Some(0))]);
    assert_eq!(show(&policy), ["A@0 110", "R@0 400"]);
    let counters = policy.counters();
    assert_eq!((counters.evicted, counters.untracked), (1, 1));
}

#[test]
fn growth_counts_from_the_next_renewing_call_on() {
    let mut policy = with(&[CAPACITY], &["R@0 1000"]);
    policy.progress(at(1), ReservationId(1), 9_500);
    policy.progress(at(1), ReservationId(1), 9_400);
    assert_eq!(show(&policy), ["R@0 9500"]);
    assert_eq!(policy.used(WorkerId(0)), 1_100);
    assert_eq!(policy.next_wake(), Some(at(5)));
    policy.advance(at(5), &mut Vec::new());
    assert_eq!(policy.used(WorkerId(0)), 9_600);
    assert_eq!(policy.marked(), 1);
}

#[test]
fn completing_a_held_turn_is_a_cancel_and_a_ticket_in_use_is_ignored() {
    let mut policy = with(&[CAPACITY], &["Az 9000"]);
    assert_eq!(begin(&mut policy, at(1), turn(9, 9, 100)), []);
    assert_eq!(begin(&mut policy, at(1), turn(9, 7, 100)), []);
    assert_eq!(policy.counters().duplicates, 1);
    assert_eq!(complete(&mut policy, at(2), 9, 500), []);
    assert_eq!(show(&policy), ["Az 9000"]);
    assert_eq!(policy.tracked(), 0);
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |change: fn(&mut ThunderAgentConfig)| {
        let mut config = ThunderAgentConfig::default();
        change(&mut config);
        let error = ThunderAgent::new(config).expect_err("out of range");
        assert_eq!(error.code(), "INVALID_ARGUMENT");
        error.to_string()
    };
    let points = |field, value, most| {
        format!("admission.{field} is {value} basis points, allowed are 0 to {most}")
    };
    assert_eq!(
        refused(|c| c.pause = 10_001),
        points("pause", 10_001, 10_000)
    );
    assert_eq!(
        refused(|c| c.target = 9_501),
        points("target", 9_501, 9_500)
    );
    assert_eq!(
        refused(|c| c.resume = 9_501),
        points("resume", 9_501, 9_500)
    );
    assert!(refused(|c| c.acting_weight = 0).contains("allowed are 1 to 100000"));
    assert!(refused(|c| c.interval = Micros(0)).contains("admission.interval is 0"));
    assert!(refused(|c| c.retention = Micros(0)).contains("admission.retention is 0"));
    assert!(refused(|c| c.max_programs = 0).contains("admission.max_programs is 0"));
}
