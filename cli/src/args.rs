//! The command line, as people write it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a check failed, a regression was found, or the work itself failed
  2    a mistake in the command or in an input file
  3    the device is not available
  130  interrupted

Environment:
  MILLSTREAM_DEVICE   the device to use where --device names none
  MILLSTREAM_THREADS  the number of CPU threads
  MILLSTREAM_CACHE    the folder that keeps kernels and measured profiles
  MILLSTREAM_TRACE    a file to which a trace of the run is written, for Perfetto or chrome://tracing

Without a command, every device found runs a few standard cases: one table, within a minute.";

/// One tensor program on every processor: see, measure and check what this machine gives.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, about, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What the run without a command takes.
    #[command(flatten)]
    pub tour: Tour,
}

/// Options of the run without a command.
#[derive(Debug, Args)]
pub struct Tour {
    /// Only this device
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
    /// Time for each case [default: so that all ends within a minute]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the devices of this machine, what they can do, and their limits
    #[command(after_help = EXIT_CODES)]
    Devices(Devices),
    /// Times cases through the public tensor API, against the device's measured limit and a reference
    #[command(after_help = EXIT_CODES)]
    Bench(Bench),
    /// Checks every operation and dtype against the reference
    #[command(after_help = EXIT_CODES)]
    Verify(Verify),
    /// Computes an expression over numbers, arrays and files (.npy, .npz, .safetensors)
    #[command(after_help = EXIT_CODES)]
    Eval(Eval),
}

/// Options of `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Measure bandwidths and rates now, even if that was done before
    #[arg(long)]
    pub measure: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Options of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to time, such as matmul_f32_1024x1024x1024; see --list. Without any: the standard cases
    #[arg(value_name = "CASE")]
    pub cases: Vec<String>,
    /// The device to time
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
    /// CPU threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Time for each case
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub seconds: f64,
    /// Switch one idea off, to see what it is worth: fuse, tile, ring, capture, cublas or layout
    #[arg(long, value_name = "IDEA")]
    pub without: Vec<String>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Append the figures to this file
    #[arg(long, value_name = "F")]
    pub save: Option<PathBuf>,
    /// Compare with the figures in this file; a regression beyond noise exits with 1
    #[arg(long, value_name = "F")]
    pub compare: Option<PathBuf>,
    /// How many times the baseline's time is still no regression
    #[arg(long, value_name = "X", default_value = "1.15", value_parser = factor, requires = "compare")]
    pub tolerance: f64,
    /// Time every way that the device offers to compute a case, and say what the cost model's choice costs beside the best of them
    #[arg(long, conflicts_with_all = ["save", "compare", "without"])]
    pub regret: bool,
    /// List the forms of cases
    #[arg(long)]
    pub list: bool,
}

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Only this device
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
    /// CPU threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Begin the random inputs from this number [default: another one each time, which is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Options of `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// The expression, such as 'tanh(x*1.5+y)'; - reads it from standard input
    #[arg(value_name = "EXPR", required_unless_present = "list", allow_hyphen_values = true)]
    pub expression: Option<String>,
    /// Values of names: x=file.npy, x=file.npz:name, x=1.5, `x=[[1,2],[3,4]]`
    #[arg(value_name = "NAME=VALUE")]
    pub bindings: Vec<String>,
    /// Write the result to this .npy, .npz or .safetensors file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The device to compute on
    #[arg(long, value_name = "D")]
    pub device: Option<String>,
    /// CPU threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Print the plan: kernels, fusion, tiles, bytes, predicted time
    #[arg(long)]
    pub explain: bool,
    /// List the functions
    #[arg(long)]
    pub list: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s.is_finite() && (0.0..=3600.0).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0 to 3600 is needed".into()),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(f) if f.is_finite() && f >= 1.0 => Ok(f),
        _ => Err("a factor of at least 1 is needed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_expression_may_begin_with_a_minus() {
        let cli = Cli::try_parse_from(["millstream", "eval", "-x", "x=2"]).unwrap();
        match cli.command {
            Some(Command::Eval(e)) => assert_eq!((e.expression.as_deref(), e.bindings.len()), (Some("-x"), 1)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_and_factors_have_bounds() {
        assert!(seconds("nan").is_err() && seconds("-1").is_err() && seconds("0.5").is_ok());
        assert!(factor("0.9").is_err() && factor("1.2").is_ok());
    }
}
