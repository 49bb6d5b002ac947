//! What does a record say of its request?
//!
//! The schema's own fields, as other tools write and read them; see the parent for what is ours.
//! Everything but the id may be absent, since recorders differ in what they know.
use serde::{Deserialize, Serialize};

/// A request and how it went. Times are milliseconds, tokens are counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its id, unique within the trace.
    pub request_id: String,
    /// The id that the client gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_request_id: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// How it was timed.
    #[serde(flatten)]
    pub timing: RequestTiming,
    /// Who served it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerInfo>,
    /// The blocks of its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason_metadata: Option<FinishReason>,
}

/// How a request was timed, in the schema's own fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestTiming {
    /// When it was received, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_received_ms: Option<u64>,
    /// From received to the start of the prefill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_wait_time_ms: Option<f64>,
    /// The prefill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_time_ms: Option<f64>,
    /// From received to the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// From received to the last token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_time_ms: Option<f64>,
    /// Mean time between tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg_itl_ms: Option<f64>,
    /// Share of the prompt that came from a cache, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_hit_rate: Option<f64>,
    /// Expected time of moving cached blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_transfer_estimated_latency_ms: Option<f64>,
    /// Requests that waited when it was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u64>,
}

/// Who served a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// The worker of the prefill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_worker_id: Option<u64>,
    /// Its rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_dp_rank: Option<u64>,
    /// The worker of the decode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_worker_id: Option<u64>,
    /// Its rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_dp_rank: Option<u64>,
}

/// The blocks of a prompt: what a replay needs instead of its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Tokens of a block.
    pub trace_block_size: u32,
    /// Tokens of the prompt.
    pub input_length: u64,
    /// One hash a block, the last one perhaps of a part; each vouches for all before it.
    pub input_sequence_hashes: Vec<u64>,
}

/// How an answer ended; never what was in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishReason {
    /// `stop`, `length`, `tool_calls` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The tools that were called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A tool that was called; never with what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The choice of the answer.
    #[serde(default)]
    pub choice_index: u64,
    /// The call in that choice.
    #[serde(default)]
    pub tool_call_index: u64,
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
