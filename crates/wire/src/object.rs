//! Which page is this object of a store a part of, and which part?
//!
//! The keys of four writers, told apart by their shape. A page is named by a hash in hex; the rest of
//! the key says which rank's part of it the object holds. Borrowed, nothing is allocated.

use warmpath_core::pool::Part;

/// Who writes such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// vLLM's store connector.
    Vllm,
    /// vLLM on Ascend.
    Ascend,
    /// SGLang's hierarchical cache.
    Sglang,
    /// LMCache.
    LmCache,
}

/// Which half of a page's keys and values the object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// Both.
    Both,
    /// Keys; of latent attention, all there is.
    Key,
    /// Values.
    Value,
}

/// How a page is cut into objects, and which cut this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Tensor-parallel rank.
    pub tensor: u32,
    /// Pipeline rank.
    pub pipeline: u32,
    /// Prefill-context-parallel rank.
    pub prefill_context: u32,
    /// Decode-context-parallel rank.
    pub decode_context: u32,
    /// Cache group.
    pub group: u32,
}

/// The key of one object, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectKey<'a> {
    /// Who wrote it.
    pub scheme: Scheme,
    /// What the writer put in front: model, and whatever sets caches apart. Pages of different spaces
    /// have nothing to do with each other.
    pub space: &'a str,
    /// The hash that names the page, in hex as it stands.
    pub page: &'a str,
    /// Which part of the page it holds.
    pub cut: Cut,
    /// Which half.
    pub half: Half,
}

impl<'a> ObjectKey<'a> {
    /// Takes a key apart; `None` for what none of the writers would write.
    #[must_use]
    pub fn parse(key: &'a str) -> Option<Self> {
        match key.contains('@') {
            true => vllm(key).or_else(|| ascend(key)).or_else(|| lmcache(key)),
            false => sglang(key),
        }
    }

    /// Which object of its page it is.
    #[must_use]
    pub fn part(&self) -> Part {
        let Cut {
            tensor,
            pipeline,
            prefill_context,
            decode_context,
            group,
        } = self.cut;
        Part {
            tensor,
            pipeline,
            prefill_context,
            decode_context,
            group,
            half: u32::from(self.half == Half::Value),
        }
    }

    /// The page's name as engines put it into events: the last 8 bytes of its hash, or for SGLang the
    /// first 8.
    #[must_use]
    pub fn page_name(&self) -> Option<u64> {
        let digits = self.page;
        let eight = match (self.scheme, digits.len() > 16) {
            (_, false) => digits,
            (Scheme::Sglang, true) => &digits[..16],
            (_, true) => &digits[digits.len() - 16..],
        };
        u64::from_str_radix(eight, 16).ok()
    }
}

/// `[prefix@]model@tp_rank:r@pcp{n}@dcp{n}@pp_rank:{n}@group:{g}@{hash}`.
fn vllm(key: &str) -> Option<ObjectKey<'_>> {
    let (rest, page) = hash_behind(key)?;
    let (rest, group) = numbered(rest, "group:")?;
    let (rest, pipeline) = numbered(rest, "pp_rank:")?;
    let (rest, decode_context) = numbered(rest, "dcp")?;
    let (rest, prefill_context) = numbered(rest, "pcp")?;
    let (space, tensor) = numbered(rest, "tp_rank:")?;
    let cut = Cut {
        tensor,
        pipeline,
        prefill_context,
        decode_context,
        group,
    };
    Some(whole(Scheme::Vllm, space, page, cut))
}

/// `model@pcp{n}@dcp{n}@head_or_tp_rank:{n}@pp_rank:{n}[@group:{g}]@{hash}`.
fn ascend(key: &str) -> Option<ObjectKey<'_>> {
    let (rest, page) = hash_behind(key)?;
    let (rest, group) = numbered(rest, "group:").unwrap_or((rest, 0));
    let (rest, pipeline) = numbered(rest, "pp_rank:")?;
    let (rest, tensor) = numbered(rest, "head_or_tp_rank:")?;
    let (rest, decode_context) = numbered(rest, "dcp")?;
    let (space, prefill_context) = numbered(rest, "pcp")?;
    let cut = Cut {
        tensor,
        pipeline,
        prefill_context,
        decode_context,
        group,
    };
    Some(whole(Scheme::Ascend, space, page, cut))
}

/// `model@world_size@worker_id@{hash}@dtype[@tag%value...]`.
fn lmcache(key: &str) -> Option<ObjectKey<'_>> {
    // Tags stand at the end, and a model's name may have the separator in it.
    let end = key
        .find('%')
        .map_or(key.len(), |at| key[..at].rfind('@').unwrap_or(at));
    let mut parts = key[..end].rsplitn(5, '@');
    let (_dtype, page) = (parts.next()?, parts.next()?);
    let worker = parts.next()?.parse().ok()?;
    let _world: u32 = parts.next()?.parse().ok()?;
    let cut = Cut {
        tensor: worker,
        ..Cut::default()
    };
    let page = Some(page).filter(|page| is_hex(page))?;
    Some(whole(Scheme::LmCache, parts.next()?, page, cut))
}

/// `[prefix_]{hash}_{tp}[_{pp}]_k` and `_v`; `[prefix_]{hash}_[{pp}]_k` where attention is latent.
fn sglang(key: &str) -> Option<ObjectKey<'_>> {
    let (rest, half) = key.rsplit_once('_')?;
    let half = match half {
        "k" => Half::Key,
        "v" => Half::Value,
        _ => return None,
    };
    let page_at = rest
        .split('_')
        .scan(0, |at, part| {
            let from = *at;
            *at += part.len() + 1;
            Some((from, part))
        })
        .filter(|(_, part)| part.len() == 64 && is_hex(part))
        .map(|(from, _)| from)
        .last()?;
    let (page, ranks) = rest[page_at..].split_at(64);
    let mut ranks = ranks.split('_').skip(1);
    let mut rank = || match ranks.next() {
        None | Some("") => Some(0),
        Some(digits) => digits.parse().ok(),
    };
    let cut = Cut {
        tensor: rank()?,
        pipeline: rank()?,
        ..Cut::default()
    };
    if ranks.next().is_some() {
        return None;
    }
    Some(ObjectKey {
        half,
        ..whole(
            Scheme::Sglang,
            rest[..page_at].trim_end_matches('_'),
            page,
            cut,
        )
    })
}

fn whole<'a>(scheme: Scheme, space: &'a str, page: &'a str, cut: Cut) -> ObjectKey<'a> {
    ObjectKey {
        scheme,
        space,
        page,
        cut,
        half: Half::Both,
    }
}

fn hash_behind(key: &str) -> Option<(&str, &str)> {
    let (rest, page) = key.rsplit_once('@')?;
    is_hex(page).then_some((rest, page))
}

/// The number behind `label` in the last part.
fn numbered<'a>(rest: &'a str, label: &str) -> Option<(&'a str, u32)> {
    let (rest, part) = rest.rsplit_once('@')?;
    Some((rest, part.strip_prefix(label)?.parse().ok()?))
}

fn is_hex(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}
