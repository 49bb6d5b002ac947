//! What admission is worth: the shipped core in front of long contexts under pressure, as rows with goals.
//!
//! Recorded coding sessions come as a closed population to `h100-class` engines; the same sessions, seeds
//! and engines with no gate, with ThunderAgent's controller and with `lease`. Baselines run on engines
//! that compute prompts as they come and on engines that compute the shortest first, and of each figure
//! the better one counts; `lease` has engines that compute the shortest first and give caches up as it
//! tells them, unless a row says otherwise. Figures are means over the seeds. Runs are independent, and
//! as many at once as there are threads; their order does not change a figure.
mod parts;
mod row;
mod runs;
mod settings;
mod variants;

use warmpath_trace::Workload;

pub use row::Row;

use crate::fleet::FleetError;

/// Seeds of every figure.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// The parts, by name.
pub const PARTS: [&str; 6] = ["table", "patience", "blind", "calm", "settings", "large"];

/// The rows of one part of [`PARTS`]; none for another name. About ten seconds to some minutes.
///
/// # Errors
/// When the workload has no session that fits.
pub fn evidence(workload: &Workload, part: &str, threads: usize) -> Result<Vec<Row>, FleetError> {
    let sessions = runs::Sessions::of(workload)?;
    let bench = runs::Bench {
        sessions: &sessions,
        threads: threads.max(1),
    };
    match part {
        "table" => parts::table(&bench),
        "patience" => parts::patience(&bench),
        "blind" => parts::blind(&bench),
        "calm" => parts::calm(&bench),
        "settings" => settings::rows(&bench),
        "large" => parts::large(&bench),
        _ => Ok(Vec::new()),
    }
}
