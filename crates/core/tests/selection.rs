//! Costs and choices against the published selector, row by row.
use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use warmpath_core::WorkerId;
use warmpath_core::score::kv::{KvConfig, KvCost, KvLoad, KvRow, KvTurn, Prefill, Role};
use warmpath_core::score::softmax::{Temperature, pick, probabilities};
use warmpath_core::score::{Eligibility, LabelId, TieBreaker};

mod support;

#[derive(Deserialize)]
struct Case {
    id: u32,
    bs: u32,
    isl: u32,
    w: Vec<Vec<f64>>,
    #[serde(default)]
    cfg: BTreeMap<String, f64>,
    role: Option<String>,
    #[serde(default)]
    plain_decode: bool,
    #[serde(default = "tracked")]
    track_prefill: bool,
    #[serde(default)]
    shared: Vec<(u32, u32)>,
    #[serde(default)]
    taints: Vec<Vec<String>>,
    #[serde(default)]
    preferred: BTreeMap<String, f64>,
    #[serde(default)]
    required: Vec<String>,
    allowed: Option<Vec<u32>>,
    pin: Option<(u32, u32)>,
    cost: Vec<(u32, u32, f64)>,
    #[serde(default)]
    best: Vec<(u32, u32)>,
    out: Option<Outcome>,
    error: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Outcome {
    first: (u32, u32),
    blocks: u32,
    overlap: f64,
    cached: f64,
    raw: f64,
    max_raw: f64,
    decode_blocks: f64,
}

fn tracked() -> bool {
    true
}

fn label(name: &str) -> LabelId {
    const NAMES: [&str; 5] = ["model=8b", "zone=a", "zone=b", "gpu=h100", "model=70b"];
    let known = NAMES.iter().position(|n| *n == name);
    LabelId(known.unwrap_or_else(|| panic!("new label {name}")) as u32)
}

fn config(case: &Case) -> KvConfig {
    let mut config = KvConfig::default();
    for (name, value) in &case.cfg {
        let field = match name.as_str() {
            "credit" => &mut config.overlap_credit,
            "decay" => &mut config.credit_decay,
            "prefill_scale" => &mut config.prefill_scale,
            "request_weight" => &mut config.request_weight,
            "host" => &mut config.host_credit,
            "disk" => &mut config.disk_credit,
            "shared" => &mut config.shared_credit,
            other => panic!("new field {other}"),
        };
        *field = *value;
    }
    config.validate().expect("golden weights are allowed");
    config
}

fn turn<'a>(case: &Case, shared: &'a [Range<u32>]) -> KvTurn<'a> {
    let role = match (case.role.as_deref(), case.plain_decode) {
        (None | Some("aggregated"), false) => Role::Aggregated,
        (Some("prefill"), false) => Role::Prefill,
        (Some("decode"), false) => Role::Decode,
        (Some("decode"), true) => Role::PlainDecode,
        other => panic!("new role {other:?}"),
    };
    let prefill = match case.track_prefill {
        true => Prefill::Tracked,
        false => Prefill::Untracked,
    };
    KvTurn {
        block_tokens: case.bs,
        prompt_tokens: case.isl,
        role,
        prefill,
        shared,
    }
}

struct Row {
    rank: (u32, u32),
    kv: KvRow,
    labels: Vec<LabelId>,
}

fn rows(case: &Case) -> Vec<Row> {
    let labels = |w: u32| -> Vec<LabelId> {
        let of_worker = case.taints.get(w as usize);
        of_worker
            .iter()
            .flat_map(|t| t.iter())
            .map(|t| label(t))
            .collect()
    };
    let row = |r: &Vec<f64>| Row {
        rank: (r[0] as u32, r[1] as u32),
        labels: labels(r[0] as u32),
        kv: KvRow {
            device: r[2],
            host: r[3],
            disk: r[4],
            external: r[5],
            pool: 0.0,
            load: r.get(9).map(|&requests| KvLoad {
                prefill_tokens: r[6],
                decode_blocks: r[7],
                additional_blocks: r[8],
                requests,
            }),
        },
    };
    case.w.iter().map(row).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

fn outcome(case: &Case, cost: &KvCost, eligible: &[&Row], first: &Row) -> Outcome {
    let raw = |row: &Row| row.kv.cached_blocks() * f64::from(case.bs);
    Outcome {
        first: first.rank,
        blocks: case.isl.div_ceil(case.bs),
        overlap: cost.overlap(&first.kv),
        cached: cost.cached_tokens(&first.kv),
        raw: raw(first),
        max_raw: eligible.iter().map(|r| raw(r)).fold(0.0, f64::max),
        decode_blocks: cost.projected_blocks(&first.kv),
    }
}

fn check(case: &Case) {
    let shared: Vec<_> = case.shared.iter().map(|&(a, b)| a..b).collect();
    let allowed: Option<Vec<_>> = case
        .allowed
        .as_ref()
        .map(|ids| ids.iter().map(|&w| WorkerId(w)).collect());
    let required: Vec<_> = case.required.iter().map(|l| label(l)).collect();
    let preferred: Vec<_> = case.preferred.iter().map(|(l, w)| (label(l), *w)).collect();
    let asks = Eligibility {
        allowed: allowed.as_deref(),
        required: &required,
        preferred: &preferred,
        pin: case.pin.map(|(w, r)| (WorkerId(w), r)),
    };
    if let Err(refused) = asks.validate() {
        assert_eq!(Some(refused.to_string()), case.error, "case {}", case.id);
        return;
    }
    let rows = rows(case);
    let admitted = |r: &&Row| asks.admits(WorkerId(r.rank.0), r.rank.1, &r.labels);
    let eligible: Vec<_> = rows.iter().filter(admitted).collect();
    let prefills = eligible.iter().map(|r| r.kv.prefill_tokens());
    let least = prefills.fold(f64::INFINITY, f64::min);
    let cost = KvCost::new(config(case), turn(case, &shared), least);
    let costs: Vec<_> = eligible
        .iter()
        .map(|r| cost.of(&r.kv, asks.preference(&r.labels)))
        .collect();
    assert_eq!(costs.len(), case.cost.len(), "case {}", case.id);
    for ((row, found), (worker, rank, expected)) in eligible.iter().zip(&costs).zip(&case.cost) {
        assert_eq!(row.rank, (*worker, *rank));
        assert!(
            close(*found, *expected),
            "case {}: {found} for {expected}",
            case.id
        );
    }
    let cheapest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let is_best = |(row, c): (&&Row, &f64)| (*c == cheapest).then_some(row.rank);
    let best: Vec<_> = eligible.iter().zip(&costs).filter_map(is_best).collect();
    assert_eq!(best, case.best, "case {}", case.id);
    let Some(expected) = &case.out else {
        let none = "no endpoints available to route work";
        assert_eq!((eligible.len(), case.error.as_deref()), (0, Some(none)));
        return;
    };
    let chosen = TieBreaker::new(u64::from(case.id)).cheapest(costs.iter().copied());
    assert!(best.contains(&eligible[chosen.expect("a choice")].rank));
    let first = eligible
        .iter()
        .find(|r| r.rank == best[0])
        .expect("the best is eligible");
    assert_eq!(
        &outcome(case, &cost, &eligible, first),
        expected,
        "case {}",
        case.id
    );
}

#[test]
fn every_golden_selection_is_reproduced() {
    let cases = support::golden::<Case>("selection");
    assert_eq!(cases.len(), 1_500);
    cases.iter().for_each(check);
}

#[derive(Deserialize)]
struct SoftmaxCase {
    cost: Vec<f64>,
    t: f64,
    u: f64,
    p: Vec<f64>,
    pick: usize,
}

#[test]
fn every_golden_draw_is_reproduced() {
    let cases = support::golden::<SoftmaxCase>("softmax");
    assert_eq!(cases.len(), 160);
    let mut found = Vec::new();
    for case in cases {
        let temperature = Temperature::new(case.t).expect("above zero");
        probabilities(&case.cost, temperature, &mut found);
        assert_eq!(found.len(), case.p.len());
        let far = found
            .iter()
            .zip(&case.p)
            .find(|(a, b)| (**a - **b).abs() > 1e-15);
        assert_eq!(far, None);
        assert_eq!(pick(&found, case.u), Some(case.pick));
    }
}
