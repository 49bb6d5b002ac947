//! What are the blocks of a prompt of which only the size and some of the content is known?
//!
//! A transcript has messages, but neither the system prompt nor the tools, and a message says how
//! many tokens its prompt had. So a prompt is a list of spans: the hidden head, then for each
//! request what came since the one before it. A span ends at the token count that the provider
//! reported, and its hash vouches for the content of it and of all spans before. A block belongs to
//! the span that its last token is in.
//!
//! The head is what the first prompt has beyond its visible messages, estimated; it is shared by
//! prompts of the same client, model and kind of agent, as it is in reality up to small differences.
//! Content is hashed and dropped. One span costs 16 bytes.
use std::num::NonZeroU32;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::otel::estimate;
use crate::error::Fault;
use crate::leaf::MAX_BLOCKS;

/// Content that was seen since the last request: a hash and a length, never the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    hash: u64,
    bytes: usize,
}

impl Content {
    /// This, and then that text.
    #[must_use]
    pub(super) fn and(self, text: &str) -> Self {
        Self {
            hash: xxh3_64_with_seed(text.as_bytes(), self.hash),
            bytes: self.bytes.saturating_add(text.len()),
        }
    }
}

/// A span of some prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanId(u32);

#[derive(Clone, Copy, Debug)]
struct Span {
    before: Option<SpanId>,
    /// Tokens of the prompt up to its end.
    until: u32,
    hash: u64,
}

/// The spans of a transcript's prompts.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    spans: Vec<Span>,
}

impl Prompts {
    /// A prompt of `tokens` tokens: that of `before`, and then `content`. Without one before it
    /// begins with the head that `head` names.
    pub(super) fn grow(
        &mut self,
        before: Option<SpanId>,
        head: &str,
        content: Content,
        tokens: u32,
    ) -> SpanId {
        let before = match before {
            None => self.head(head, tokens, content),
            // A prompt that shrank lost something at an unknown place: only the head is sure.
            Some(span) if self.spans[span.0 as usize].until > tokens => self.first(span, tokens),
            Some(span) => Some(span),
        };
        let above = before.map_or(0, |span| self.spans[span.0 as usize].hash);
        self.push(Span {
            before,
            until: tokens,
            hash: xxh3_64_with_seed(&content.hash.to_le_bytes(), above),
        })
    }

    fn head(&mut self, head: &str, tokens: u32, content: Content) -> Option<SpanId> {
        let visible = match content.bytes {
            0 => 0,
            bytes => estimate(bytes),
        };
        let hidden = tokens.saturating_sub(visible);
        (hidden > 0).then(|| {
            self.push(Span {
                before: None,
                until: hidden,
                hash: xxh3_64(head.as_bytes()),
            })
        })
    }

    /// The head of a prompt, if a prompt of `tokens` tokens can have it.
    fn first(&self, span: SpanId, tokens: u32) -> Option<SpanId> {
        let mut first = span;
        while let Some(before) = self.spans[first.0 as usize].before {
            first = before;
        }
        (self.spans[first.0 as usize].until <= tokens).then_some(first)
    }

    fn push(&mut self, span: Span) -> SpanId {
        self.spans.push(span);
        // A transcript has fewer requests than bytes, and 2^32 spans do not fit into memory.
        SpanId(self.spans.len() as u32 - 1)
    }

    /// The full blocks of a prompt; an error if it is too long to be one.
    pub(super) fn blocks(
        &self,
        prompt: SpanId,
        block_tokens: NonZeroU32,
    ) -> Result<Vec<u64>, Fault> {
        let mut span = self.spans[prompt.0 as usize];
        let full = span.until / block_tokens;
        if full as usize > MAX_BLOCKS {
            return Err(Fault::invalid(format!("a prompt of {} tokens", span.until)));
        }
        let mut blocks = vec![0; full as usize];
        for (index, block) in blocks.iter_mut().enumerate().rev() {
            let end = (index as u64 + 1) * u64::from(block_tokens.get());
            while let Some(before) = span.before {
                let before = self.spans[before.0 as usize];
                if u64::from(before.until) < end {
                    break;
                }
                span = before;
            }
            *block = xxh3_64_with_seed(&(index as u64).to_le_bytes(), span.hash);
        }
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: NonZeroU32 = NonZeroU32::new(10).unwrap();

    fn blocks(prompts: &Prompts, prompt: SpanId) -> Vec<u64> {
        prompts.blocks(prompt, BLOCK).expect("short")
    }

    #[test]
    fn a_prompt_that_grows_keeps_its_blocks() {
        let mut prompts = Prompts::default();
        let text = Content::default().and(&"x".repeat(100));
        let first = prompts.grow(None, "head", text, 100);
        let second = prompts.grow(Some(first), "head", text.and("more"), 155);
        let (first, second) = (blocks(&prompts, first), blocks(&prompts, second));
        assert_eq!((first.len(), second.len()), (10, 15));
        assert_eq!(first[..], second[..10]);
    }

    #[test]
    fn sessions_share_the_head_and_nothing_else() {
        let mut prompts = Prompts::default();
        let one = Content::default().and(&"x".repeat(80));
        let two = Content::default().and(&"y".repeat(80));
        let a = prompts.grow(None, "head", one, 100);
        let b = prompts.grow(None, "head", two, 100);
        let c = prompts.grow(None, "other", one, 100);
        let [a, b, c] = [a, b, c].map(|prompt| blocks(&prompts, prompt));
        assert_eq!(a[..8], b[..8]);
        assert!(a[8..].iter().zip(&b[8..]).all(|(a, b)| a != b));
        assert!(a.iter().zip(&c).all(|(a, c)| a != c));
    }

    #[test]
    fn a_prompt_that_shrinks_keeps_the_head() {
        let mut prompts = Prompts::default();
        let text = Content::default().and(&"x".repeat(40));
        let first = prompts.grow(None, "head", text, 50);
        let grown = prompts.grow(Some(first), "head", text.and("a"), 200);
        let shrunk = prompts.grow(Some(grown), "head", text.and("b"), 90);
        let (grown, shrunk) = (blocks(&prompts, grown), blocks(&prompts, shrunk));
        assert_eq!(grown[..4], shrunk[..4]);
        assert!(grown[4..].iter().zip(&shrunk[4..]).all(|(a, b)| a != b));
        let tiny = prompts.grow(Some(first), "head", text, 5);
        assert!(blocks(&prompts, tiny).is_empty());
    }
}
