//! The `millstream` command: see what the devices of a machine give, time them, check them, compute with them.

mod args;
mod bench;
mod devices;
mod eval;
mod failure;
mod interrupt;
mod output;
mod table;
mod trace;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{Exit, Outcome};

fn main() -> ExitCode {
    let cli = Cli::parse();
    quiet_drivers();
    configure(&cli);
    let outcome = trace::around(|| match &cli.command {
        None => bench::tour(&cli.tour),
        Some(Command::Devices(args)) => devices::run(args),
        Some(Command::Bench(args)) => bench::run(args),
        Some(Command::Verify(args)) => verify::run(args),
        Some(Command::Eval(args)) => eval::run(args),
    });
    finish(outcome.and_then(|()| output::flush()))
}

/// A layer of Mesa's Vulkan drivers asks the desktop which device it prefers. Where there is none it complains on standard error, and is
/// left out here.
fn quiet_drivers() {
    let unset = |name: &str| std::env::var_os(name).is_none();
    if unset("XDG_RUNTIME_DIR") && unset("NODEVICE_SELECT") {
        // SAFETY: this is the first thing that main does: no other thread runs that could read the environment.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// Options that the library takes from the environment, so that child processes get them too.
fn configure(cli: &Cli) {
    let (device, threads) = match &cli.command {
        None => (&cli.tour.device, None),
        Some(Command::Devices(_)) => return,
        Some(Command::Bench(a)) => (&a.device, a.threads),
        Some(Command::Verify(a)) => (&a.device, a.threads),
        Some(Command::Eval(a)) => (&a.device, a.threads),
    };
    if let Some(name) = device {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::set_var("MILLSTREAM_DEVICE", name) };
    }
    if let Some(n) = threads {
        // SAFETY: as above.
        unsafe { std::env::set_var("MILLSTREAM_THREADS", n.to_string()) };
    }
}

fn finish(outcome: Outcome) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::from(Exit::Ok as u8) };
    if failure.message.is_some() {
        // What was printed before belongs before the error, where both go to one stream.
        let _ = output::flush();
        output::note(failure.to_string());
    }
    ExitCode::from(failure.exit as u8)
}
