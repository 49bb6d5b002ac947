//! A prompt of text is known by the tokens that earlier answers came with.
use std::num::NonZeroU32;

use super::*;
use crate::block::{Seed, TokenBlocks};
use crate::event::{CacheEvent, FeedNotice};
use crate::prefix::{StoredBlock, StoredBlocks, Tier};
use crate::receipt::Origin;

const UNIT: NonZeroU32 = NonZeroU32::new(64).unwrap();

/// Two workers that are told of, of whom only the first is up.
fn told() -> Bench {
    let mut bench = Bench::new(AdmissionConfig::None, Some(1_000_000));
    for worker in [A, B] {
        let options = FeedOptions {
            ranks: NonZeroU32::MIN,
        };
        bench
            .scheduler
            .add_feed(bench.now, worker, options)
            .unwrap();
        let begun = FeedNotice::Begun;
        bench.scheduler.feed_notice(bench.now, worker, 0, begun);
    }
    bench.health(B, Health::Down);
    bench
}

/// So many messages of 400 bytes, and the tokens of a model that ends each prompt with a header of its own.
struct Session {
    text: Vec<u8>,
    segments: Vec<Segment>,
    tokens: Vec<u32>,
}

impl Session {
    fn of(messages: u32) -> Self {
        let text = (0..messages).flat_map(|n| [b'a' + n as u8; 400]).collect();
        let segments = vec![Segment::plain(400); messages as usize];
        let mut tokens: Vec<u32> = (0..messages * 100).collect();
        tokens.extend([70_000 + messages, 70_001]);
        Self {
            text,
            segments,
            tokens,
        }
    }

    fn turn(&self, origin: Origin) -> Turn<'_> {
        Turn {
            origin,
            prompt: Prompt::Text {
                bytes: &self.text,
                segments: &self.segments,
            },
            ..turn("s", &[])
        }
    }
}

impl Bench {
    fn go_by(&mut self, turn: &Turn<'_>) -> (ReservationId, Placement) {
        let submitted = self.submit(turn).unwrap();
        match submitted.verdict {
            Verdict::Go(placement) => (submitted.reservation, placement),
            Verdict::Hold => panic!("the turn is held"),
        }
    }

    fn learn(&mut self, id: ReservationId, tokens: &[u32]) {
        self.scheduler.learn_tokens(self.now, id, tokens);
    }

    /// The first worker's engine stores the blocks of a prompt, under names of their own.
    fn store(&mut self, tokens: &[u32], seed: Seed) {
        let cut = TokenBlocks {
            first: seed,
            ..TokenBlocks::plain(UNIT, Seed::default())
        };
        let locals = cut.local_hashes(tokens);
        let blocks = locals.iter().zip(tokens.chunks(64));
        let blocks: Vec<_> = blocks
            .map(|(&local, ids)| StoredBlock {
                name: local ^ u64::from(ids[0]),
                local,
            })
            .collect();
        let blocks = StoredBlocks {
            parent: None,
            block_tokens: UNIT.get(),
            blocks: &blocks,
        };
        let tier = Tier::Device;
        let event = CacheEvent::Stored { tier, blocks };
        self.scheduler.apply_event(self.now, A, 0, &event);
    }

    fn exact_tokens(&self, placement: &Placement) -> u32 {
        let receipt = self.scheduler.receipt(placement.receipt).unwrap();
        receipt.prompt.exact_tokens
    }

    /// A turn that is answered with its tokens, of which the engine tells or not.
    fn answered(&mut self, messages: u32, tells: bool) -> (Placement, u32) {
        let session = Session::of(messages);
        let (id, placement) = self.go_by(&session.turn(Origin::Answers));
        self.learn(id, &session.tokens);
        if tells {
            self.store(&session.tokens, Seed::default());
        }
        self.complete(id, &Completion::default());
        (placement, self.exact_tokens(&placement))
    }
}

#[test]
fn an_engine_s_word_counts_for_a_text_that_goes_on() {
    let mut bench = told();
    let exact: Vec<u32> = (1..=5).map(|n| bench.answered(n, true).1).collect();
    assert_eq!(exact, [0, 0, 0, 300, 400]);
    let (placement, exact) = bench.answered(6, true);
    assert_eq!((exact, placement.predicted_cached_tokens), (500, 448));
    assert_eq!(placement.trust, Trust::Exact);
    let receipt = bench.scheduler.receipt(placement.receipt).unwrap();
    assert!(!receipt.prompt.is_tokens, "it is a text all the same");
    // What the engine gives up is gone, though the text was sent there.
    let cleared = CacheEvent::Cleared;
    bench.scheduler.apply_event(bench.now, A, 0, &cleared);
    let (placement, exact) = bench.answered(7, true);
    assert_eq!((exact, placement.predicted_cached_tokens), (600, 0));
}

#[test]
fn what_was_answered_counts_before_the_engine_tells_and_not_for_long() {
    let mut bench = told();
    bench.store(&[9; 64], Seed::default());
    for n in 1..=4 {
        bench.answered(n, false);
    }
    let next = Session::of(5);
    let (id, placement) = bench.go_by(&next.turn(Origin::Answers));
    assert_eq!(placement.predicted_cached_tokens, 384);
    assert_eq!(placement.trust, Trust::Predicted);
    bench.scheduler.cancel(bench.now, id, &mut bench.settled);
    bench.after(31);
    let (_, placement) = bench.go_by(&next.turn(Origin::Answers));
    assert_eq!(placement.predicted_cached_tokens, 0);
}

#[test]
fn without_the_wish_or_an_exact_stream_the_text_is_all() {
    let mut bench = told();
    for n in 1..=4 {
        bench.answered(n, true);
    }
    let next = Session::of(5);
    let (_, given) = bench.go_by(&next.turn(Origin::Given));
    assert_eq!(bench.exact_tokens(&given), 0);
    assert!(given.predicted_cached_tokens > 0, "it was sent there");
    let silent = FeedNotice::Suspended(crate::event::Doubt::Gap);
    bench.scheduler.feed_notice(bench.now, A, 0, silent);
    let (_, doubted) = bench.go_by(&next.turn(Origin::Answers));
    assert_eq!(doubted.predicted_cached_tokens, 0);
}

#[test]
fn only_the_turn_s_own_answer_is_believed_and_once() {
    let mut bench = told();
    let session = Session::of(1);
    let (id, _) = bench.go_by(&session.turn(Origin::Answers));
    bench.learn(id, &session.tokens);
    bench.learn(id, &[1, 2, 3]);
    bench.complete(id, &Completion::default());
    let late = bench.scheduler.status().counters.late_calls;
    bench.learn(id, &[1, 2, 3]);
    assert_eq!(bench.scheduler.status().counters.late_calls, late + 1);
    let (id, again) = bench.go_by(&session.turn(Origin::Answers));
    assert_eq!(bench.exact_tokens(&again), 102, "the same text, to its end");
    bench.complete(id, &Completion::default());
    let (id, _) = bench.go_by(&session.turn(Origin::Given));
    bench.learn(id, &[1, 2, 3]);
    let (_, again) = bench.go_by(&session.turn(Origin::Answers));
    assert_eq!(bench.exact_tokens(&again), 102);
}

#[test]
fn salted_texts_are_known_apart_and_find_salted_blocks() {
    let mut bench = told();
    let salted = |session: &Session, bench: &mut Bench| {
        let turn = Turn {
            cache_salt: b"tenant",
            session: Some("other"),
            ..session.turn(Origin::Answers)
        };
        let (id, placement) = bench.go_by(&turn);
        bench.learn(id, &session.tokens);
        bench.complete(id, &Completion::default());
        (
            bench.exact_tokens(&placement),
            placement.predicted_cached_tokens,
        )
    };
    for n in 1..=4 {
        bench.answered(n, true);
        salted(&Session::of(n), &mut bench);
    }
    bench.after(31);
    assert_eq!(salted(&Session::of(5), &mut bench), (400, 0));
    bench.after(31);
    bench.store(&Session::of(5).tokens, Seed::framed(&[b"tenant"]));
    assert_eq!(salted(&Session::of(6), &mut bench), (500, 448));
}

#[test]
fn a_turn_that_moves_to_another_target_is_known_by_what_that_one_has_answered() {
    let mut bench = told();
    let group = bench
        .scheduler
        .add_group(bench.now, GroupOptions::default())
        .unwrap();
    let other = bench.scheduler.add_target("other", group).unwrap();
    let worker = WorkerOptions {
        name: "c".to_owned(),
        group,
        capacity_tokens: None,
    };
    let added = bench
        .scheduler
        .add_worker(bench.now, worker, &mut bench.settled);
    added.unwrap();
    let targets = [TargetId(0), other];
    let session = Session::of(1);
    let turn = Turn {
        targets: &targets,
        ..session.turn(Origin::Answers)
    };
    bench.answered(1, true);
    let mut exact = Vec::new();
    for _ in 0..2 {
        let (id, first) = bench.go_by(&turn);
        let (now, settled) = (bench.now, &mut bench.settled);
        let moved = bench.scheduler.reroute(now, id, Fault::Passing, settled);
        let moved = moved.unwrap();
        assert_eq!(moved.target, other);
        exact.push((bench.exact_tokens(&first), bench.exact_tokens(&moved)));
        bench.learn(id, &session.tokens);
        bench.complete(id, &Completion::default());
    }
    assert_eq!(exact, [(102, 0), (102, 102)]);
}

#[test]
fn reports_of_texts_that_are_known_show_whether_events_are_of_other_tokens() {
    let mut bench = told();
    bench.store(&[9; 64], Seed::default());
    let reports = |bench: &mut Bench, messages: u32, cached: u32| {
        let session = Session::of(messages);
        let (id, _) = bench.go_by(&session.turn(Origin::Answers));
        let reported = Reported {
            prompt_tokens: Some(messages * 100 + 2),
            cached_tokens: Some(cached),
            ..Reported::default()
        };
        bench.complete(
            id,
            &Completion {
                reported,
                ..Completion::default()
            },
        );
        bench.after(31);
    };
    for n in 1..=4 {
        bench.answered(n, false);
        bench.after(31);
    }
    // One block of what is known is no evidence: what was answered last is cached as well.
    let first = Session::of(1);
    let (id, placement) = bench.go_by(&first.turn(Origin::Answers));
    assert_eq!(bench.exact_tokens(&placement), 0, "it was gone on from");
    bench.learn(id, &first.tokens);
    bench.complete(id, &Completion::default());
    bench.after(31);
    for _ in 0..8 {
        reports(&mut bench, 1, 640);
    }
    assert_eq!(bench.scheduler.disagreement_of(A), None);
    for n in 0..4 {
        assert_eq!(bench.scheduler.disagreement_of(A), None, "{n}");
        reports(&mut bench, 4, 384);
    }
    assert!(bench.scheduler.disagreement_of(A).is_some());
}

#[test]
fn what_may_have_gone_again_before_the_answer_is_not_counted() {
    let mut bench = told();
    bench.store(&[9; 64], Seed::default());
    for n in 1..=4 {
        bench.answered(n, false);
    }
    bench.after(31);
    let session = Session::of(5);
    let (id, _) = bench.go_by(&session.turn(Origin::Answers));
    bench.store(&session.tokens, Seed::default());
    let locals = TokenBlocks::plain(UNIT, Seed::default()).local_hashes(&session.tokens);
    let names: Vec<u64> = locals
        .iter()
        .zip(session.tokens.chunks(64))
        .map(|(local, ids)| local ^ u64::from(ids[0]))
        .collect();
    let removed = CacheEvent::Removed {
        tier: Tier::Device,
        names: &names[3..],
    };
    bench.scheduler.apply_event(bench.now, A, 0, &removed);
    bench.learn(id, &session.tokens);
    bench.complete(id, &Completion::default());
    let (_, next) = bench.go_by(&Session::of(6).turn(Origin::Answers));
    assert_eq!(bench.exact_tokens(&next), 500);
    assert_eq!(next.predicted_cached_tokens, 192);
}
