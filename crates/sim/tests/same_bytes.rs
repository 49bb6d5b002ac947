//! A run gives the bytes that it gave before, on any machine and from any door: the addon's test
//! compares with the same file.
//!
//! When figures change on purpose, write the file anew with `WARMPATH_BLESS=1`.
use std::path::Path;

use warmpath_core::scheduler::AdmissionConfig;
use warmpath_sim::EngineConfig;
use warmpath_sim::fleet::{
    EngineModel, FleetConfig, Load, PopulationConfig, SessionShape, generate, simulate,
};
use warmpath_sim::router::{CoreOptions, CoreRouter};

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_run_gives_the_recorded_bytes() {
    let workload = generate(&SessionShape::default(), 1).expect("a shape");
    let config = FleetConfig {
        workers: 2,
        engine: EngineModel::DynamoPoly(EngineConfig {
            num_gpu_blocks: 1_250,
            ..EngineConfig::default()
        }),
        load: Load::Population(PopulationConfig {
            pressure: 1.5,
            warm_up: 30 * SECOND,
            measure: 60 * SECOND,
            ..PopulationConfig::default()
        }),
        seed: 3,
        ..FleetConfig::default()
    };
    let admission = AdmissionConfig::ThunderAgent(Default::default());
    let options = CoreOptions::of_fleet("thunderagent", &config, admission);
    let mut router = CoreRouter::new(options).expect("a router");
    let report = simulate(&workload, &config, &mut router).expect("a run");
    let bytes = serde_json::to_string(&report).expect("a report");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__test__/fixtures/replay/report.json");
    if std::env::var_os("WARMPATH_BLESS").is_some() {
        std::fs::write(&path, format!("{bytes}\n")).expect("a file");
    }
    let recorded = std::fs::read_to_string(&path).expect("the recorded report");
    assert_eq!(recorded.trim_end(), bytes);
}
