//! Which model answers: the settings and the models of targets, as JSON.
use serde::Deserialize;

use crate::error::{Code, invalid, refused};
use warmpath_core::continuity::{
    Abilities, BaseRule, ContinuityConfig, Grade, LookaheadConfig, Model, PolicyConfig, Prices,
    Quality, SaarConfig, Usd, Value, WhenDown,
};
use warmpath_core::{Micros, TargetId};

/// Who decides, who watches, and what happens when an owner is down.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Continuity {
    #[serde(default)]
    policy: Policy,
    shadow: Option<Policy>,
    lambda: Option<f64>,
    #[serde(default)]
    value: Worth,
    fee: Option<f64>,
    floor: Option<Strength>,
    grade: Option<Strength>,
    #[serde(default)]
    saar: Saar,
    #[serde(default)]
    tool_owner_down: Down,
    #[serde(default)]
    state_owner_down: Down,
    owner_wait_ms: Option<u32>,
    #[serde(default)]
    base: Vec<NewRule>,
}

/// A rule for the base choice; `target` is a number.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewRule {
    min_tokens: Option<u32>,
    max_tokens: Option<u32>,
    tool_loop: Option<bool>,
    images: Option<bool>,
    tools: Option<bool>,
    target: u32,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    #[default]
    Bound,
    LocksOnly,
    Sticky,
    SingleTurn,
    Constant,
    Saar,
    Lookahead,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Worth {
    #[default]
    Shortfall,
    Quality,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Strength {
    Small,
    #[default]
    Middle,
    Large,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Down {
    #[default]
    Wait,
    Fail,
    Strip,
    Escape,
}

/// Which parts of the published policy are there. Its locks are the scheduler's and always there.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Saar {
    expected_turns: Option<u32>,
    drift_reset: Option<bool>,
    idle_reset: Option<bool>,
    price_pressure: Option<bool>,
}

/// What a target's model is and costs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewModel {
    #[serde(default)]
    grade: Strength,
    quality: Option<f64>,
    price: Option<Price>,
    context_tokens: Option<u32>,
    images: Option<bool>,
    tools: Option<bool>,
}

/// $ per million tokens.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Price {
    input: f64,
    cached: f64,
    write: f64,
    output: f64,
}

impl Continuity {
    /// The core's settings; the core checks them.
    pub(crate) fn config(&self) -> ContinuityConfig {
        let default = ContinuityConfig::default();
        ContinuityConfig {
            policy: self.policy(self.policy),
            shadow: self.shadow.map(|shadow| self.policy(shadow)),
            tool_owner_down: self.tool_owner_down.core(),
            state_owner_down: self.state_owner_down.core(),
            owner_wait: self
                .owner_wait_ms
                .map_or(default.owner_wait, |ms| Micros::from_millis(u64::from(ms))),
        }
    }

    /// The rules for the base choice.
    pub(crate) fn rules(&self) -> Vec<BaseRule> {
        let core = |rule: &NewRule| BaseRule {
            min_tokens: rule.min_tokens,
            max_tokens: rule.max_tokens,
            is_tool_loop: rule.tool_loop,
            images: rule.images,
            tools: rule.tools,
            target: TargetId(rule.target),
        };
        self.base.iter().map(core).collect()
    }

    fn policy(&self, policy: Policy) -> PolicyConfig {
        match policy {
            Policy::Bound => PolicyConfig::Bound,
            Policy::LocksOnly => PolicyConfig::LocksOnly,
            Policy::Sticky => PolicyConfig::Sticky,
            Policy::SingleTurn => PolicyConfig::SingleTurn,
            Policy::Constant => PolicyConfig::Constant(self.grade.unwrap_or_default().core()),
            Policy::Saar => PolicyConfig::Saar(self.saar.config()),
            Policy::Lookahead => PolicyConfig::Lookahead(self.lookahead()),
        }
    }

    fn lookahead(&self) -> LookaheadConfig {
        let default = LookaheadConfig::default();
        LookaheadConfig {
            lambda: self.lambda.unwrap_or(default.lambda),
            value: match self.value {
                Worth::Shortfall => Value::Shortfall,
                Worth::Quality => Value::Quality,
            },
            fee: self.fee.map_or(default.fee, Usd),
            floor: self.floor.map_or(default.floor, Strength::core),
            ..default
        }
    }
}

impl Saar {
    fn config(&self) -> SaarConfig {
        let default = SaarConfig::default();
        SaarConfig {
            expected_turns: self.expected_turns,
            drift_reset: self.drift_reset.unwrap_or(default.drift_reset),
            idle_reset: self.idle_reset.unwrap_or(default.idle_reset),
            price_pressure: self.price_pressure.unwrap_or(default.price_pressure),
            ..default
        }
    }
}

impl Strength {
    fn core(self) -> Grade {
        match self {
            Self::Small => Grade::Small,
            Self::Middle => Grade::Middle,
            Self::Large => Grade::Large,
        }
    }
}

impl Down {
    fn core(self) -> WhenDown {
        match self {
            Self::Wait => WhenDown::Wait,
            Self::Fail => WhenDown::Fail,
            Self::Strip => WhenDown::Strip,
            Self::Escape => WhenDown::Escape,
        }
    }
}

impl NewModel {
    /// Reads a model that stands alone.
    pub(crate) fn parse(text: &str) -> napi::bindgen_prelude::Result<Model, Code> {
        let read: Self = serde_json::from_str(text).map_err(|e| invalid(e.to_string()))?;
        read.core().map_err(|e| refused(&e))
    }

    /// The core's model.
    pub(crate) fn core(&self) -> warmpath_core::Result<Model> {
        let grade = self.grade.core();
        let price = self.price.as_ref();
        let prices = price.map(|p| Prices::new(p.input, p.cached, p.write, p.output));
        Ok(Model {
            grade,
            quality: self.quality.map_or(Ok(grade.quality()), Quality::new)?,
            prices: prices.transpose()?,
            context_tokens: self.context_tokens,
            lacks: Abilities {
                images: self.images == Some(false),
                tools: self.tools == Some(false),
            },
        })
    }
}
