//! Turns whose prompt came as text, on a worker that is read and written at breakpoints.
use super::*;
use crate::prefix::{BreakpointRules, Implicit, Matching, Refresh};

const ASKED: Behind = Behind::Breakpoint(None);

/// One worker that looks 20 content blocks back and takes nothing below 100 tokens.
fn hosted() -> Bench {
    let mut bench = Bench::free();
    let matching = Matching::Breakpoint(BreakpointRules {
        lookback: Some(20),
        min_tokens: 100,
        ttl: UNKNOWN_TTL,
        refresh: Refresh::OnRead,
        implicit: Implicit::None,
    });
    let Bench {
        scheduler, settled, ..
    } = &mut bench;
    let options = GroupOptions {
        matching,
        ..GroupOptions::default()
    };
    let group = scheduler.add_group(Micros(0), options).unwrap();
    scheduler.add_target("hosted", group).unwrap();
    let worker = WorkerOptions {
        name: "h".to_owned(),
        group,
        capacity_tokens: None,
    };
    scheduler.add_worker(Micros(0), worker, settled).unwrap();
    bench
}

const HOSTED: TargetId = TargetId(1);

/// Sends segments of so many bytes, with what is behind each.
fn send(bench: &mut Bench, segments: &[(u32, Behind)]) -> (ReservationId, Placement) {
    let segments: Vec<Segment> = segments
        .iter()
        .map(|&(bytes, behind)| Segment {
            behind,
            ..Segment::plain(bytes)
        })
        .collect();
    let bytes: u32 = segments.iter().map(|segment| segment.bytes).sum();
    let text: Vec<u8> = (0..bytes).map(|i| (i / 100) as u8).collect();
    let mut turn = turn("s", &[]);
    turn.targets = &[HOSTED];
    turn.prompt = Prompt::Text {
        bytes: &text,
        segments: &segments,
    };
    let submitted = bench.submit(&turn).unwrap();
    match submitted.verdict {
        Verdict::Go(placement) => (submitted.reservation, placement),
        Verdict::Hold => panic!("held"),
    }
}

fn ask(bench: &mut Bench, segments: &[(u32, Behind)]) -> u32 {
    let (id, placement) = send(bench, segments);
    bench.complete(id, &used_tools());
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    let row = &receipt.candidates[receipt.chosen];
    assert_eq!(row.overlap_tokens, placement.predicted_cached_tokens);
    placement.predicted_cached_tokens
}

#[test]
fn credit_ends_where_the_last_turn_wrote_and_cuts_are_no_content_blocks() {
    let mut bench = hosted();
    let (plain, system, long) = (Behind::Nothing, (2_000, ASKED), 40_000);
    assert_eq!(ask(&mut bench, &[system, (1_000, ASKED)]), 0);
    // Forty cuts lie between, in one content block.
    let next = [system, (1_000, plain), (long, ASKED)];
    assert_eq!(ask(&mut bench, &next), 750);
    let next = [system, (1_000, plain), (long, plain), (400, plain)];
    assert_eq!(ask(&mut bench, &next), 500, "at the system prompt");
    let next = [system, (1_000, plain), (long, plain), (400, ASKED)];
    assert_eq!(ask(&mut bench, &next), 10_750);
    assert_eq!(ask(&mut bench, &[(2_000, plain), (1_000, plain)]), 0);
}

#[test]
fn as_text_more_than_twenty_content_blocks_are_too_many() {
    let mut bench = hosted();
    let mut segments = vec![(2_000, ASKED)];
    ask(&mut bench, &segments);
    segments[0].1 = Behind::Nothing;
    segments.extend([(100, Behind::Nothing); 20]);
    segments[20].1 = ASKED;
    assert_eq!(ask(&mut bench, &segments), 500);
    let mut bench = hosted();
    ask(&mut bench, &[(2_000, ASKED)]);
    segments[20].1 = Behind::Nothing;
    segments.push((100, ASKED));
    assert_eq!(ask(&mut bench, &segments), 0);
}

#[test]
fn lifetimes_are_those_that_the_turn_asked_for() {
    let mut bench = hosted();
    let hour = Behind::Breakpoint(Some(Micros::from_secs(3_600)));
    let both = [(2_000, hour), (2_000, ASKED)];
    ask(&mut bench, &both);
    bench.after(299);
    assert_eq!(ask(&mut bench, &both), 1_000);
    bench.after(300);
    assert_eq!(ask(&mut bench, &both), 500);
    bench.after(3_599);
    assert_eq!(ask(&mut bench, &both), 500);
    bench.after(3_600);
    assert_eq!(ask(&mut bench, &both), 0);
}

#[test]
fn a_report_is_held_against_what_was_predicted() {
    let long = [(40_000, ASKED)];
    let next = [(40_000, Behind::Nothing), (4_000, ASKED)];
    for (cached, later) in [(Some(0), 0), (Some(10_000), 10_000), (None, 10_000)] {
        let mut bench = hosted();
        assert_eq!(ask(&mut bench, &long), 0);
        let (id, placement) = send(&mut bench, &next);
        assert_eq!(placement.predicted_cached_tokens, 10_000);
        let mut completion = used_tools();
        completion.reported = Reported {
            prompt_tokens: Some(11_000),
            cached_tokens: cached,
            completion_tokens: None,
        };
        bench.complete(id, &completion);
        assert_eq!(ask(&mut bench, &long), later);
        assert_eq!(ask(&mut bench, &next), 11_000, "that turn wrote itself");
    }
}

#[test]
fn a_turn_that_failed_has_written_nothing_and_what_it_has_read_stays() {
    let mut bench = hosted();
    assert_eq!(
        ask(&mut bench, &[(2_000, ASKED), (1_000, Behind::Nothing)]),
        0
    );
    let both = [(2_000, ASKED), (1_000, ASKED)];
    let (id, _) = send(&mut bench, &both);
    bench.scheduler.cancel(bench.now, id, &mut bench.settled);
    assert_eq!(ask(&mut bench, &both), 500);
    assert_eq!(ask(&mut bench, &both), 750);
}
