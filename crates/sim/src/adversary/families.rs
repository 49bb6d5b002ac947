//! What sessions do that a count of calls, a last model or a clock is not up to.

use warmpath_core::continuity::Lock;
use warmpath_core::scheduler::{Health, Outcome};
use warmpath_core::{Micros, Result, TargetId};

use super::world::{Answer, Branch, MODELS, Sent, Served, World};
use crate::random::Random;

/// Plays one session of a family.
pub(super) type Play = fn(&mut World, &mut Random, u64) -> Result<()>;

/// Turns of a session.
const TURNS: u64 = 18;

/// Every family: its name, its sessions, and what it asks for beside that no turn is unsafe.
pub(super) const FAMILIES: [(&str, Play, &str); 7] = [
    ("parallel-sub-agents", parallel, "loops-kept"),
    ("abandoned-call", abandoned, "released"),
    ("compaction", compacted, "loops-kept"),
    ("model-removed", removed, "refused-by-name"),
    ("owner-down", down, "recovered"),
    ("clock-backwards", clock, "loops-kept"),
    ("response-elsewhere", accounts, "kept-by-account"),
];

fn draw(random: &mut Random, tokens: u64) -> Vec<u32> {
    (0..tokens).map(|_| random.next() as u32).collect()
}

fn branch(tenant: &'static str, number: u64, random: &mut Random) -> Branch {
    let tokens = 256 + 64 * random.below(16);
    Branch::new(tenant, format!("s{number}"), draw(random, tokens))
}

/// The turn of a branch, of which nothing is expected to go wrong.
fn turn(world: &mut World, random: &mut Random, branch: &mut Branch) -> Option<Served> {
    let base = MODELS[random.below(3) as usize];
    match world.send(branch, base) {
        Sent::Served(served) => {
            let grown = 64 + random.below(256);
            branch.tokens.extend(draw(random, grown));
            world.now = world.now.plus(Micros::from_secs(1 + random.below(20)));
            Some(served)
        }
        Sent::Waiting(_) | Sent::Refused(_) => None,
    }
}

fn calls(random: &mut Random) -> Answer {
    Answer {
        calls: random.below(3) as u32,
        keeps: false,
    }
}

/// Whether a turn went as it must: locked if it answers calls, free if not.
fn is_right(answered: bool, served: Option<&Served>) -> bool {
    served.is_some_and(|served| answered == (served.lock != Lock::Free))
}

/// Four sub-agents under one session id, each with turns under way while the others go on.
fn parallel(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut agents: Vec<(Branch, Option<Served>)> =
        (0..4).map(|_| (branch("", number, random), None)).collect();
    for _ in 0..4 * TURNS {
        let at = random.below(4) as usize;
        let (branch, under_way) = &mut agents[at];
        if let Some(served) = under_way.take() {
            world.answer(branch, &served, calls(random));
            continue;
        }
        let answers = !branch.open.is_empty();
        *under_way = turn(world, random, branch);
        world.tally.expect(is_right(answers, under_way.as_ref()));
    }
    for (mut branch, under_way) in agents {
        if let Some(served) = under_way {
            world.answer(&mut branch, &served, Answer::default());
        }
    }
    Ok(())
}

/// Calls that nobody answers: the next turn is a person's, and must be free.
fn abandoned(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut branch = branch("", number, random);
    for _ in 0..TURNS {
        let had_calls = !branch.open.is_empty();
        let gives_up = had_calls && random.below(2) == 0;
        if gives_up {
            branch.open.clear();
        }
        let served = turn(world, random, &mut branch);
        if gives_up {
            world.tally.expect(is_right(false, served.as_ref()));
        }
        if let Some(served) = served {
            world.answer(&mut branch, &served, calls(random));
        }
    }
    Ok(())
}

/// The history is summed up in the middle of a loop: the prompt is another one, the open call is not.
fn compacted(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut branch = branch("", number, random);
    for _ in 0..TURNS {
        let answers = !branch.open.is_empty();
        if answers && random.below(2) == 0 {
            let tokens = 64 + random.below(192);
            branch.tokens = draw(random, tokens);
        }
        let served = turn(world, random, &mut branch);
        world.tally.expect(is_right(answers, served.as_ref()));
        if let Some(served) = served {
            world.answer(&mut branch, &served, calls(random));
        }
    }
    Ok(())
}

/// The model that made a call is taken out of service: the result goes nowhere else, and the client,
/// which is told so, starts over.
fn removed(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut branch = branch("", number, random);
    for _ in 0..TURNS {
        let Some(served) = turn(world, random, &mut branch) else {
            continue;
        };
        world.answer(&mut branch, &served, calls(random));
        let owner = served.placement.target;
        if branch.open.is_empty() || random.below(2) == 0 {
            continue;
        }
        world.mark(owner, Health::Removed)?;
        let sent = world.send(&mut branch, MODELS[random.below(3) as usize]);
        let refused = matches!(sent, Sent::Refused("STATE_LOST"));
        world.tally.expect(refused);
        branch.open.clear();
        world.staff(owner)?;
    }
    Ok(())
}

/// The model that made a call goes down: the turn waits and goes to it, or is refused by name when that
/// takes too long; the client repeats it then.
fn down(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut branch = branch("", number, random);
    for _ in 0..TURNS {
        let Some(served) = turn(world, random, &mut branch) else {
            continue;
        };
        world.answer(&mut branch, &served, calls(random));
        let owner = served.placement.target;
        if branch.open.is_empty() || random.below(2) == 0 {
            continue;
        }
        world.mark(owner, Health::Down)?;
        let recovered = outlast(world, random, &mut branch, owner)?;
        world.tally.expect(recovered);
    }
    Ok(())
}

/// Whether the branch's next turn outlasts its owner's absence as it must.
fn outlast(
    world: &mut World,
    random: &mut Random,
    branch: &mut Branch,
    owner: TargetId,
) -> Result<bool> {
    let Sent::Waiting(id) = world.send(branch, MODELS[random.below(3) as usize]) else {
        return Ok(false);
    };
    let comes_back = random.below(2) == 0;
    let away = if comes_back { random.below(29) } else { 31 };
    let early = world.await_end(branch, id, away);
    world.mark(owner, Health::Up)?;
    if comes_back {
        let went = match world.await_end(branch, id, 0) {
            Some(Outcome::Go(placement)) => Some(placement),
            _ => None,
        };
        let Some(placement) = went.filter(|_| early.is_none()) else {
            return Ok(false);
        };
        let served = Served {
            reservation: id,
            placement,
            lock: Lock::ToolLoop,
        };
        world.answer(branch, &served, calls(random));
        return Ok(placement.target == owner);
    }
    let open = !branch.open.is_empty();
    let again = turn(world, random, branch);
    if let Some(served) = again {
        world.answer(branch, &served, calls(random));
    }
    let is_refused = early == Some(Outcome::OwnerUnavailable);
    Ok(open && is_refused && again.is_some_and(|served| served.placement.target == owner))
}

/// The clock goes back by up to an hour between turns.
fn clock(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut branch = branch("", number, random);
    for _ in 0..TURNS {
        let answers = !branch.open.is_empty();
        if random.below(3) == 0 {
            world.now = Micros(world.now.0.saturating_sub(1_000_000 * random.below(3_600)));
        }
        let served = turn(world, random, &mut branch);
        world.tally.expect(is_right(answers, served.as_ref()));
        if let Some(served) = served {
            world.answer(&mut branch, &served, calls(random));
        }
    }
    Ok(())
}

/// A response that one account keeps, under an id that another tenant has too: it goes to that account.
fn accounts(world: &mut World, random: &mut Random, number: u64) -> Result<()> {
    let mut tenants = ["a", "b"].map(|tenant| branch(tenant, number, random));
    for _ in 0..TURNS {
        for branch in &mut tenants {
            let leans = !branch.state.is_empty();
            let served = turn(world, random, branch);
            world.tally.expect(is_right(leans, served.as_ref()));
            if let Some(served) = served {
                let keeps = random.below(3) > 0;
                world.answer(branch, &served, Answer { calls: 0, keeps });
            }
        }
    }
    Ok(())
}
