//! The shape of generated sessions, as JSON options.
use napi::bindgen_prelude::Result;
use serde::Deserialize;

use warmpath_core::Micros;
use warmpath_sim::fleet::SessionShape;

use crate::error::{Code, invalid};

/// What is left out is the generator's default. Tokens are counts, times milliseconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Shape {
    sessions: Option<u32>,
    turns: Option<f64>,
    block_tokens: Option<u32>,
    system_prompts: Option<u32>,
    system_tokens: Option<u32>,
    added_tokens: Option<u32>,
    output_tokens: Option<u32>,
    arrivals_ms: Option<u32>,
    tool_ms: Option<u32>,
    person_ms: Option<u32>,
    person_share: Option<f64>,
}

impl Shape {
    /// Reads the JSON text.
    pub(super) fn parse(text: &str) -> Result<SessionShape, Code> {
        let shape: Self = serde_json::from_str(text).map_err(|e| invalid(format!("shape: {e}")))?;
        let default = SessionShape::default();
        let time = |ms: Option<u32>, or: Micros| ms.map_or(or, |ms| Micros::from_millis(ms.into()));
        Ok(SessionShape {
            sessions: shape.sessions.unwrap_or(default.sessions),
            turns: shape.turns.unwrap_or(default.turns),
            block_tokens: shape.block_tokens.unwrap_or(default.block_tokens),
            system_prompts: shape.system_prompts.unwrap_or(default.system_prompts),
            system_tokens: shape.system_tokens.unwrap_or(default.system_tokens),
            added_tokens: shape.added_tokens.unwrap_or(default.added_tokens),
            output_tokens: shape.output_tokens.unwrap_or(default.output_tokens),
            arrivals: time(shape.arrivals_ms, default.arrivals),
            tool: time(shape.tool_ms, default.tool),
            person: time(shape.person_ms, default.person),
            person_share: shape.person_share.unwrap_or(default.person_share),
        })
    }
}
