//! A turn's way in: blocks, session, target, then the question to admission.
//!
//! Until admission is asked nothing has changed but the registry of sessions, and a refusal before
//! that leaves even those as they were.

use std::sync::Arc;

use crate::admission::{self, Release};
use crate::block::{Chain, Memo, Namespace, Seed, TokenRate, hash_text_after, text_blocks};
use crate::continuity::{Breach, Choice, IdKind, Lock, WhenDown};
use crate::error::{Error, Result};
use crate::id::{Micros, ProgramId, ReservationId, TargetId, WorkerId};
use crate::receipt::{Candidate, Volatile};
use crate::session::{Claim, Membership, Phase, Sent, SessionId, SessionName};

use super::Scheduler;
use super::hashing::{Hashing, segments_too_long};
use super::place::Seat;
use super::recall::{Body, Recalled};
use super::reservation::{Reservation, Route, State, Wait};
use super::scoring::{Account, Form, Scratch, Wanted, first_volatile};
use super::stays::Whose;
use super::topology::Apart;
use super::turn::{Behind, Prompt, Segment, Settled, Submitted, Turn, TurnKind, Verdict};

impl Scheduler {
    /// Takes a turn in and decides between go and hold.
    ///
    /// # Errors
    /// `NO_WORKER`, `OWNER_UNAVAILABLE`, `TOO_MANY_RESERVATIONS`, `INVALID_ARGUMENT`, `UNKNOWN_ID`.
    /// The turn then occupies nothing.
    pub fn submit(
        &mut self,
        now: Micros,
        turn: &Turn<'_>,
        settled: &mut Vec<Settled>,
    ) -> Result<Submitted> {
        self.advance(now, settled);
        self.check(turn)?;
        let mut chain = self.reservations.spare_chain();
        let hashed = self.hash(turn, &mut chain);
        let admitted = hashed.and_then(|hashed| self.admit(turn, &mut chain, hashed, settled));
        if admitted.is_err() {
            self.reservations.recycle_chain(chain);
        }
        admitted
    }

    /// Every worker that could take the turn now, the cheapest first, without taking it. Costs what
    /// a submit costs.
    ///
    /// # Errors
    /// As [`Scheduler::submit`].
    pub fn candidates(
        &mut self,
        now: Micros,
        turn: &Turn<'_>,
        settled: &mut Vec<Settled>,
    ) -> Result<(TargetId, Vec<Candidate>)> {
        self.advance(now, settled);
        self.check(turn)?;
        let mut chain = self.reservations.spare_chain();
        let found = self.hash(turn, &mut chain).and_then(|_| {
            let known = self.known_session(turn, &mut chain);
            let choice = self.guide().destination(turn, known, &mut chain)?.choice;
            if choice.is_waiting {
                return Err(Error::owner_unavailable(
                    "a turn that is submitted waits for the owner of its lock",
                ));
            }
            let group = self.topology.target(choice.target)?.group;
            let whose = known.and_then(|id| self.whose(turn, id, &chain));
            chain.enter(self.topology.namespace(choice.target, Apart::of(turn)));
            let mut placer = self.placer();
            let wanted = Wanted::pinned(choice.pin, Form::of(&turn.prompt))
                .bound_to(placer.bound_to(whose.as_ref(), group));
            placer.score(group, &chain, &wanted);
            placer.draw_home(whose.as_ref(), &chain, group);
            let mut rows = self.scratch.candidates().to_vec();
            rows.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.worker.cmp(&b.worker)));
            Ok((choice.target, rows))
        });
        self.reservations.recycle_chain(chain);
        found
    }

    /// Tokens of a turn's prompt as its first target is believed to count them. O(prompt).
    ///
    /// # Errors
    /// As [`Scheduler::submit`].
    pub fn prompt_tokens(&mut self, turn: &Turn<'_>) -> Result<u32> {
        self.check(turn)?;
        let mut chain = self.reservations.spare_chain();
        let hashed = self.hash(turn, &mut chain);
        let tokens = chain.tokens();
        self.reservations.recycle_chain(chain);
        hashed.map(|_| tokens)
    }

    fn check(&self, turn: &Turn<'_>) -> Result<()> {
        if turn.targets.is_empty() {
            return Err(Error::invalid_argument("the turn names no target"));
        }
        for &target in turn.targets {
            self.topology.target(target)?;
        }
        if self.reservations.len() >= self.config.limits.reservations {
            return Err(Error::too_many_reservations(format!(
                "{} turns are in flight or held, which is the limit",
                self.reservations.len()
            )));
        }
        Ok(())
    }

    /// Cuts the prompt into blocks as the first target asked for would; the hashes do not depend on
    /// the target, only the estimated lengths do. A session that is known by its name pays for what
    /// is new since its last turn.
    fn hash(&mut self, turn: &Turn<'_>, chain: &mut Chain) -> Result<Hashed> {
        let group = self.topology.target(turn.targets[0])?.group;
        let group = &self.topology.groups[group.index()];
        let named = turn
            .session
            .and_then(|s| self.sessions.by_name(turn.tenant, s));
        let session = named.and_then(|id| self.sessions.get(id));
        let known = session.and_then(|s| self.paths.known(&self.prefix, s));
        let hashing = Hashing {
            block_tokens: group.block_tokens,
            rate: group.rate,
            seed: Seed::default(),
            known,
        };
        let (bytes, segments, recalled) = match turn.prompt {
            Prompt::Tokens(ids) => {
                return Ok(Hashed::by(hashing.tokens(ids, turn.cache_salt, chain)));
            }
            Prompt::Hashes { hashes, tokens } => {
                return Ok(Hashed::by(hashing.content(hashes, tokens, chain)));
            }
            Prompt::Recalled {
                recalled,
                bytes,
                segments,
            } if recalled.items() > 0 => {
                return self.hash_rest(recalled, bytes, segments, group.rate, chain);
            }
            Prompt::Recalled {
                recalled,
                bytes,
                segments,
            } => (bytes, segments, Some(recalled)),
            Prompt::Text { bytes, segments } => (bytes, segments, None),
        };
        let lengths = &mut self.scratch.lengths;
        lengths.clear();
        lengths.extend(segments.iter().map(|s| s.bytes));
        let memo = hashing.text(bytes, lengths, chain)?;
        draw_outline(segments, chain);
        Ok(Hashed {
            memo,
            body: recalled.and_then(|recalled| recalled.body(segments)),
            ..Hashed::of(segments, group.rate)
        })
    }

    /// Hashes what its session has not sent before of a prompt.
    fn hash_rest(
        &mut self,
        recalled: &Recalled,
        bytes: &[u8],
        segments: &[Segment],
        rate: TokenRate,
        chain: &mut Chain,
    ) -> Result<Hashed> {
        let Scratch {
            segments: all,
            lengths,
            ..
        } = &mut self.scratch;
        let (program, body, items) = recalled.before().ok_or_else(Error::not_recalled)?;
        all.clear();
        all.extend_from_slice(body.segments(items));
        let known = all.len();
        all.extend_from_slice(segments);
        lengths.clear();
        lengths.extend(all.iter().map(|s| s.bytes));
        let blocks = lengths[..known].iter().map(|&n| text_blocks(n) as usize);
        let whose = (program, body);
        if !(self.paths).retrace(&self.prefix, whose, blocks.sum(), chain) {
            return Err(Error::not_recalled());
        }
        let rest = lengths[known..].iter().map(|&n| n as usize).sum();
        let bytes = bytes.get(..rest).ok_or_else(segments_too_long)?;
        hash_text_after(bytes, lengths, known, rate, Seed::default(), chain);
        draw_outline(all, chain);
        Ok(Hashed {
            body: recalled.body(all),
            ..Hashed::of(all, rate)
        })
    }

    fn admit(
        &mut self,
        turn: &Turn<'_>,
        chain: &mut Chain,
        hashed: Hashed,
        settled: &mut Vec<Settled>,
    ) -> Result<Submitted> {
        let known = self.known_session(turn, chain);
        let mut chosen = self.guide().destination(turn, known, chain)?;
        let choice = chosen.choice;
        let binding = known.and_then(|id| self.sessions.get(id)?.binding);
        let membership = self.join(turn, known, chain, &choice);
        self.note_course(turn, membership.program, (&chosen, binding), chain);
        chain.enter(self.topology.namespace(choice.target, Apart::of(turn)));
        let prompt_tokens = chain.tokens();
        let reservation = Reservation {
            begun: self.begin(turn, choice.target, chain),
            volatile: hashed.volatile,
            memo: hashed.memo,
            body: hashed.body,
            text_bytes: hashed.text_bytes,
            model: chosen.note.take(),
            chain: std::mem::take(chain),
            ..self.reserve(turn, prompt_tokens, &choice, &membership)?
        };
        let id = self.reservations.open(reservation);
        self.counters.submitted += 1;
        let verdict = match choice.is_waiting {
            true => self.wait_for_owner(id),
            false => self.follow_or_ask(id, settled)?,
        };
        Ok(Submitted {
            reservation: id,
            target: choice.target,
            lock: choice.note.lock,
            prompt_tokens,
            derived: self.derived_hash(membership.session),
            program: membership.program.map(|program| program.0),
            verdict,
        })
    }

    /// What the turn will occupy, held until admission lets it go.
    fn reserve(
        &mut self,
        turn: &Turn<'_>,
        prompt_tokens: u32,
        choice: &Choice,
        membership: &Membership,
    ) -> Result<Reservation> {
        let may_breach = self.may_breach(turn, choice);
        let guide = self.guide();
        let fitting = guide.fitting(turn, prompt_tokens);
        let alternatives = alternatives(&fitting, choice, may_breach);
        let session = self.sessions.get(membership.session);
        Ok(Reservation {
            tenant: session.map(|s| Arc::clone(s.tenant())).unwrap_or_default(),
            session: membership.session,
            program: membership.program,
            kind: turn.kind,
            is_in_loop: membership.was_acting,
            answers_to: self.caller_of(turn),
            route: Route {
                target: choice.target,
                group: self.topology.target(choice.target)?.group,
                alternatives,
                pin: choice.pin,
                excluded: Vec::new(),
                apart: Apart::of(turn),
                is_detour: choice.is_detour,
                is_moved: false,
                lock: choice.note,
                may_breach,
                is_waiting: false,
            },
            chain: Chain::default(),
            begun: None,
            memo: None,
            body: None,
            model: None,
            coverage: self.reservations.spare_coverage(),
            believed: None,
            timed: None,
            entered: Default::default(),
            entered_in: Namespace::COMMON,
            has_token: false,
            form: Form::of(&turn.prompt),
            origin: turn.origin,
            counted_tokens: match turn.prompt {
                Prompt::Tokens(ids) => u32::try_from(ids.len()).ok(),
                _ => None,
            },
            offers_tools: turn.ask.needs.tools,
            is_salted: !turn.cache_salt.is_empty(),
            text_bytes: 0,
            volatile: None,
            since: self.now,
            priority: turn.priority,
            wait: Wait::default(),
            state: State::Held,
        })
    }

    /// Whose turn it would be.
    fn whose(&mut self, turn: &Turn<'_>, session: SessionId, chain: &Chain) -> Option<Whose> {
        let identity = self.scratch.identity_chain(turn, chain.hashes());
        let (branch, _) = self.sessions.get(session)?.branch_for(identity)?;
        Some(Whose {
            program: branch.program,
            session,
            is_in_loop: branch.phase == Phase::Acting,
            answers_to: self.caller_of(turn),
        })
    }

    /// The worker that has called the tools whose results a turn brings, where that may matter.
    fn caller_of(&self, turn: &Turn<'_>) -> Option<WorkerId> {
        if self.departures.is_empty() {
            return None;
        }
        let owner = |id| self.owners.find(turn.tenant, IdKind::ToolCall, id);
        turn.tool_results
            .iter()
            .find_map(owner)
            .map(|owner| owner.worker)
    }

    /// What leaving the owner of its lock would do with that, where the settings allow it.
    fn may_breach(&self, turn: &Turn<'_>, choice: &Choice) -> Breach {
        if choice.note.lock == Lock::Free {
            return Breach::Kept;
        }
        match self.chooser.config().when_down(choice.note.lock) {
            WhenDown::Escape => Breach::Escaped,
            WhenDown::Strip if turn.ask.can_strip => Breach::Stripped,
            WhenDown::Wait | WhenDown::Fail | WhenDown::Strip => Breach::Kept,
        }
    }

    /// The hash that an unnamed session is known by.
    fn derived_hash(&self, session: SessionId) -> Option<u64> {
        match self.sessions.get(session)?.name() {
            &SessionName::Derived(hash) => Some(hash),
            SessionName::Named(_) => None,
        }
    }

    /// Hands a turn that has been taken in to its group's admission.
    pub(super) fn ask_admission(
        &mut self,
        id: ReservationId,
        settled: &mut Vec<Settled>,
    ) -> Result<Verdict> {
        let Some(turn) = self.reservations.remove(id) else {
            return Err(Error::unknown_id("the turn has ended"));
        };
        let group = turn.route.group;
        let mut releases = Vec::new();
        match self.is_stopped_at_gate(id, &turn) {
            Ok(false) => {}
            Ok(true) => {
                self.reservations.insert(id, turn);
                return Ok(self.hold(id));
            }
            Err(error) => {
                self.reservations.insert(id, turn);
                self.abandon(id, settled);
                return Err(error);
            }
        }
        let mut seat = self.begin_admission(id, &turn, &mut releases);
        self.reservations.insert(id, turn);
        if seat.is_none() {
            self.relieve(group, &mut releases);
            seat = take_own(&mut releases, id).map(|release| Seat::Offered(release.worker));
        }
        let seat = seat.and_then(|seat| self.open_seat(id, seat));
        let verdict = match seat {
            Some(seat) => self.place(id, seat).map(Verdict::Go),
            None => Ok(self.hold(id)),
        };
        if verdict.is_err() {
            self.abandon(id, settled);
        }
        self.release(group.index(), releases, settled);
        self.make_room();
        verdict
    }

    fn hold(&mut self, id: ReservationId) -> Verdict {
        self.note_hold(id);
        if let Some(limit) = self.config.hold_limit {
            self.deadlines.push_back((self.now.plus(limit), id));
        }
        Verdict::Hold
    }

    /// Asks the group's admission; where the turn may sit if it goes at once. Others that go with
    /// it are in `releases`.
    pub(super) fn begin_admission(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        releases: &mut Vec<Release>,
    ) -> Option<Seat> {
        let pin = turn.route.pin;
        let Some(program) = turn.program else {
            return Some(Seat::Offered(pin));
        };
        let group = turn.route.group.index();
        let wants_rows = self.admission[group].wants_rows();
        let own = match wants_rows {
            true => self.score_for_admission(id, turn, program),
            false => None,
        };
        self.give_up_seat(turn, program);
        let admission = &mut self.admission[group];
        let home = match own {
            Some(own) => (own.tokens > 0).then_some(own.worker),
            None => admission.state(program).and_then(|state| state.worker),
        };
        let begin = admission::Begin {
            ticket: id,
            program,
            prompt_tokens: turn.chain.tokens(),
            kind: match turn.kind {
                TurnKind::Ordinary => admission::Kind::Turn,
                TurnKind::Final => admission::Kind::Final,
            },
            pin,
            claimant: turn.claimant(),
        };
        admission.begin(self.now, begin, &self.scratch.rows, releases);
        let release = take_own(releases, id)?;
        Some(match release.worker {
            worker if wants_rows => Seat::Chosen {
                worker,
                is_home: worker.is_some() && worker == home,
            },
            Some(worker) if home == Some(worker) => Seat::Kept(worker),
            offered => Seat::Offered(offered),
        })
    }

    /// A session whose worker others leave, and which may not stay there, asks the policy as one without a
    /// worker does.
    fn give_up_seat(&mut self, turn: &Reservation, program: ProgramId) {
        if self.departures.is_empty() {
            return;
        }
        let bound = self.bound_to(turn).or(turn.route.pin);
        self.admission[turn.route.group.index()].give_up_seat(self.now, program, bound);
    }

    /// Scores the workers that may take the turn as its group's admission wants to see them. Returns what
    /// that has of the program by its own account.
    pub(super) fn score_for_admission(
        &mut self,
        id: ReservationId,
        turn: &Reservation,
        program: ProgramId,
    ) -> Option<admission::Account> {
        let own = self.admission[turn.route.group.index()].account(program);
        let account = own.map(|own| self.account(turn, program, own));
        self.placer().score_for(id, turn, account);
        own
    }

    /// What admission's account says of the turn's prompt. O(runs on its way).
    fn account(&self, turn: &Reservation, program: ProgramId, own: admission::Account) -> Account {
        let chain = &turn.chain;
        let frontier = self.paths.frontier(program);
        let along = frontier.map_or(0, |frontier| self.prefix.along(frontier, chain));
        let shared = self.prefix.shared(chain, Some(program));
        let known = chain.tokens_of(along as usize);
        let kept = known.min(own.tokens);
        Account {
            home: own.worker,
            kept,
            hosted: (known - kept).min(own.host_tokens),
            shared: chain.tokens_of(shared as usize),
        }
    }

    /// The session that the turn belongs to, if it is known: by its name, by the prompt that it
    /// extends, or by how far it goes along with one.
    fn known_session(&mut self, turn: &Turn<'_>, chain: &mut Chain) -> Option<SessionId> {
        let identity = self.scratch.identity_chain(turn, chain.hashes());
        let claim = claim(turn);
        let found = self.sessions.find(claim, identity);
        if found.is_some() || claim.session.is_some() {
            return found;
        }
        let apart = Apart::of(turn);
        let found = turn.targets.iter().find_map(|&target| {
            chain.enter(self.topology.namespace(target, apart));
            let (prefix, sessions) = (&self.prefix, &self.sessions);
            self.paths.recognise(prefix, sessions, claim, chain)
        });
        chain.enter(Namespace::COMMON);
        found
    }

    /// Counts the turn in its session and binds the session to its target.
    fn join(
        &mut self,
        turn: &Turn<'_>,
        known: Option<SessionId>,
        chain: &Chain,
        choice: &Choice,
    ) -> Membership {
        let mut left = Vec::new();
        let sent = Sent {
            chain: self.scratch.identity_chain(turn, chain.hashes()),
            tokens: chain.tokens(),
        };
        let branches = self.sessions.programs();
        let membership = self
            .sessions
            .begin(self.now, known, claim(turn), sent, &mut left);
        if let Some(program) = membership.program
            && self.sessions.programs() > branches
        {
            self.tally.begun(program);
        }
        left.extend(membership.replaced);
        self.forget_programs(&left);
        if !choice.is_detour
            && let Some(session) = self.sessions.get_mut(membership.session)
        {
            session.binding = Some(choice.target);
        }
        membership
    }
}

/// What came of hashing a prompt, besides its chain.
#[derive(Default)]
struct Hashed {
    volatile: Option<Volatile>,
    memo: Option<Memo>,
    body: Option<Arc<Body>>,
    /// Bytes of canonical text; 0 where the caller brought tokens or hashes.
    text_bytes: u32,
}

impl Hashed {
    /// Of a prompt that did not come as text.
    fn by(memo: Option<Memo>) -> Self {
        Self {
            memo,
            ..Self::default()
        }
    }

    /// Of a text with these segments.
    fn of(segments: &[Segment], rate: TokenRate) -> Self {
        let sum = |sum: u32, segment: &Segment| sum.saturating_add(segment.bytes);
        Self {
            volatile: first_volatile(segments, rate),
            text_bytes: segments.iter().fold(0, sum),
            ..Self::default()
        }
    }
}

/// Says where the content blocks of a prompt of text end and where its breakpoints are.
fn draw_outline(segments: &[Segment], chain: &mut Chain) {
    let outline = chain.outline_mut();
    for segment in segments {
        outline.push_segment(segment.bytes, segment.contents);
        if let Behind::Breakpoint(ttl) = segment.behind {
            outline.break_here(ttl);
        }
    }
    debug_assert!(outline_ends(chain), "cuts are counted as they are made");
}

/// Whether the last content block ends where the chain does.
fn outline_ends(chain: &Chain) -> bool {
    let blocks = u32::try_from(chain.len()).unwrap_or(u32::MAX);
    chain.outline().contents_before(blocks).is_some()
}

/// How the turn says who it belongs to.
fn claim<'a>(turn: &Turn<'a>) -> Claim<'a> {
    Claim {
        tenant: turn.tenant,
        session: turn.session,
        parent: turn.parent,
    }
}

/// The targets that may take over from the one chosen; none where a lock has chosen it.
fn alternatives(fitting: &[TargetId], choice: &Choice, may_breach: Breach) -> Vec<TargetId> {
    let is_bound = choice.note.lock != Lock::Free && may_breach == Breach::Kept;
    if is_bound || fitting.len() < 2 {
        return Vec::new();
    }
    let others = fitting.iter().copied();
    others.filter(|&target| target != choice.target).collect()
}

/// Takes the turn's own release out of the list.
fn take_own(releases: &mut Vec<Release>, id: ReservationId) -> Option<Release> {
    let own = releases.iter().position(|release| release.ticket == id)?;
    Some(releases.remove(own))
}
