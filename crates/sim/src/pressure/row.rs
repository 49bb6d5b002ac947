//! One figure and what was asked of it.
use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Stable.
    pub name: String,
    /// What is claimed, in words.
    pub text: String,
    /// The figure.
    pub value: f64,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<&'static str>,
    /// The figure over that of the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Whether the ratio, or without a peer the figure, is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

impl Row {
    pub(super) fn new(name: String, text: String, value: f64, unit: &'static str) -> Self {
        Self {
            name: format!("admission.{name}"),
            text,
            value,
            unit,
            peer: None,
            ratio: None,
            goal: None,
            holds: None,
        }
    }

    pub(super) fn beside(mut self, peer: &'static str, value: f64) -> Self {
        self.peer = Some(peer);
        self.ratio = Some(self.value / value);
        self
    }

    pub(super) fn at_least(mut self, least: f64) -> Self {
        self.goal = Some(format!(">= {least}"));
        self.holds = Some(self.judged() >= least);
        self
    }

    pub(super) fn at_most(mut self, most: f64) -> Self {
        self.goal = Some(format!("<= {most}"));
        self.holds = Some(self.judged() <= most);
        self
    }

    /// At most one of so many parts.
    pub(super) fn at_most_part(mut self, parts: u32) -> Self {
        self.goal = Some(format!("<= 1/{parts}"));
        self.holds = Some(self.judged() * f64::from(parts) <= 1.0);
        self
    }

    fn judged(&self) -> f64 {
        self.ratio.unwrap_or(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_judged_where_there_is_a_peer() {
        let row = || Row::new("a".to_owned(), String::new(), 3.0, "s");
        assert_eq!(row().at_most(2.0).holds, Some(false));
        let beside = row().beside("b", 2.0);
        assert_eq!(beside.ratio, Some(1.5));
        assert_eq!(beside.clone().at_most(2.0).holds, Some(true));
        assert_eq!(beside.clone().at_most_part(2).holds, Some(false));
        assert_eq!(beside.at_least(1.6).holds, Some(false));
        assert_eq!(row().goal, None);
    }
}
