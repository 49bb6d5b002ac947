//! What was asked for on the command line?
use std::path::PathBuf;

use crate::rows::Size;
use crate::workload::Naming;

pub(crate) const HELP: &str = "\
Measures Warmpath's prefix index beside public ones, interleaved in one process.

  npm run bench:peers -- [options]

  --json FILE      also write the rows there
  --only NAME      only scenarios of that name, or with a row whose name contains it; repeatable
  --rounds N       how often everything is measured (default 3)
  --quick          an eighth of every size, one round: shows that it works; goals are not checked
  --names KIND     how engines name blocks: opaque (default), or chain, by their chain hash
  --data DIR       the folder of the traces (default: $WARMPATH_DATA, else ../shared/data);
                   without it, rows on traces are skipped
  --list           print the names of scenarios and rows
  --help           print this
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Measure(Options),
    List,
    Help,
}

/// How to measure.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) json: Option<PathBuf>,
    pub(crate) only: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) size: Size,
    pub(crate) naming: Naming,
    pub(crate) data: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        let data = std::env::var_os("WARMPATH_DATA");
        Self {
            json: None,
            only: Vec::new(),
            rounds: 0,
            size: Size::Full,
            naming: Naming::Opaque,
            data: data.map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from),
        }
    }
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    let mut rounds = None;
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let next = arguments.next();
            next.ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--json" => options.json = Some(value()?.into()),
            "--only" => options.only.push(value()?),
            "--rounds" => rounds = Some(parse_rounds(&value()?)?),
            "--quick" => options.size = Size::Quick,
            "--names" => options.naming = parse_naming(&value()?)?,
            "--data" => options.data = value()?.into(),
            "--list" => return Ok(Command::List),
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(format!("there is no option {other}")),
        }
    }
    options.rounds = rounds.unwrap_or(match options.size {
        Size::Full => 3,
        Size::Quick => 1,
    });
    Ok(Command::Measure(options))
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    let rounds = text.parse().ok().filter(|&n| n > 0);
    rounds.ok_or_else(|| format!("--rounds takes a number above zero, not {text}"))
}

fn parse_naming(text: &str) -> Result<Naming, String> {
    match text {
        "opaque" => Ok(Naming::Opaque),
        "chain" => Ok(Naming::Chain),
        _ => Err(format!("--names takes opaque or chain, not {text}")),
    }
}
