//! The base choice where the caller makes none: the first rule that a turn meets.
//!
//! Rules are the operator's; nothing here looks at what a prompt says. O(rules) a turn.

use super::model::Abilities;
use crate::id::TargetId;

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Whether it answers tool calls.
    pub is_tool_loop: bool,
    /// What it brings along.
    pub has: Abilities,
}

/// A rule; what is `None` does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseRule {
    /// The least number of prompt tokens.
    pub min_tokens: Option<u32>,
    /// The greatest number of prompt tokens.
    pub max_tokens: Option<u32>,
    /// Whether it must, or must not, answer tool calls.
    pub is_tool_loop: Option<bool>,
    /// Whether there must, or must not, be images.
    pub images: Option<bool>,
    /// Whether there must, or must not, be tools that may be called.
    pub tools: Option<bool>,
    /// The base choice of the turns that meet it.
    pub target: TargetId,
}

impl BaseRule {
    fn meets(&self, turn: &Traits) -> bool {
        let is = |wanted: Option<bool>, found| wanted.is_none_or(|wanted| wanted == found);
        self.min_tokens
            .is_none_or(|least| turn.prompt_tokens >= least)
            && self
                .max_tokens
                .is_none_or(|most| turn.prompt_tokens <= most)
            && is(self.is_tool_loop, turn.is_tool_loop)
            && is(self.images, turn.has.images)
            && is(self.tools, turn.has.tools)
    }
}

/// The place of the first rule that the turn meets and whose target it may go to, and that target.
pub(crate) fn first_met(
    rules: &[BaseRule],
    turn: &Traits,
    asked: &[TargetId],
) -> Option<(usize, TargetId)> {
    let met = |rule: &BaseRule| asked.contains(&rule.target) && rule.meets(turn);
    let at = rules.iter().position(met)?;
    Some((at, rules[at].target))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: [TargetId; 2] = [TargetId(0), TargetId(1)];

    /// Every combination of three facts at five lengths.
    fn turns() -> impl Iterator<Item = Traits> {
        [0, 9, 10, 20, 21].into_iter().flat_map(|prompt_tokens| {
            (0..8).map(move |bits: u32| Traits {
                prompt_tokens,
                is_tool_loop: bits & 1 > 0,
                has: Abilities {
                    images: bits & 2 > 0,
                    tools: bits & 4 > 0,
                },
            })
        })
    }

    #[test]
    fn the_first_rule_that_is_met_in_all_it_says_decides() {
        let rule = |change: fn(&mut BaseRule)| {
            let mut rule = BaseRule::default();
            change(&mut rule);
            rule
        };
        type Holds = fn(&Traits) -> bool;
        let cases: [(BaseRule, Holds); 7] = [
            (rule(|_| ()), |_| true),
            (rule(|r| r.min_tokens = Some(10)), |t| t.prompt_tokens >= 10),
            (rule(|r| r.max_tokens = Some(20)), |t| t.prompt_tokens <= 20),
            (rule(|r| r.is_tool_loop = Some(true)), |t| t.is_tool_loop),
            (rule(|r| r.is_tool_loop = Some(false)), |t| !t.is_tool_loop),
            (rule(|r| r.images = Some(true)), |t| t.has.images),
            (
                rule(|r| (r.tools, r.images) = (Some(false), Some(false))),
                |t| !t.has.tools && !t.has.images,
            ),
        ];
        for turn in turns() {
            let rules = cases.map(|(rule, _)| rule);
            for at in 0..rules.len() {
                let expected = cases[at..].iter().position(|(_, holds)| holds(&turn));
                let found = first_met(&rules[at..], &turn, &ASKED);
                assert_eq!(found.map(|(at, _)| at), expected, "{turn:?}");
            }
        }
    }

    #[test]
    fn a_rule_of_a_target_that_was_not_asked_for_is_passed_over() {
        let rules = [7, 1].map(|target| BaseRule {
            target: TargetId(target),
            ..BaseRule::default()
        });
        let turn = turns().next().unwrap();
        assert_eq!(first_met(&rules, &turn, &ASKED), Some((1, TargetId(1))));
        assert_eq!(first_met(&rules[..1], &turn, &ASKED), None);
    }
}
