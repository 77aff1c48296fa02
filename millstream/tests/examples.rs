//! The short examples print what their first lines show.

use std::path::PathBuf;
use std::process::Command;

/// The text between "```text" and "```" at the beginning of an example.
fn shown(source: &str) -> String {
    let lines = source.lines().map_while(|l| l.strip_prefix("//!")).map(|l| l.strip_prefix(' ').unwrap_or(l));
    let lines: Vec<&str> = lines.skip_while(|l| *l != "```text").skip(1).take_while(|l| *l != "```").collect();
    lines.join("\n")
}

/// An example, which lies beside the folder of tests. `cargo test` builds it; before `cargo test --test examples`, `cargo build --examples`
/// does.
fn program(name: &str) -> Command {
    let folder = std::env::current_exe().ok().and_then(|p| Some(p.parent()?.parent()?.join("examples")));
    let program: PathBuf = folder.unwrap_or_default().join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.is_file(), "{} was not built: cargo build --examples", program.display());
    let mut command = Command::new(program);
    command.env_remove("MILLSTREAM_DEVICE");
    command
}

fn check(name: &str, source: &str) {
    let output = program(name).output().expect("it starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    assert!(shown(source) == printed.trim_end(), "{name} prints\n{printed}\nand shows\n{}", shown(source));
}

macro_rules! examples {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), include_str!(concat!("../examples/", stringify!($name), ".rs")));
        })*
    };
}
examples!(filter generate heat kmeans mlp monte_carlo pipeline);

/// A program that knows nothing of traces writes one when the environment asks for it.
#[test]
fn a_trace_is_written_when_a_program_ends() {
    let file = std::env::temp_dir().join(format!("millstream-trace-{}.json", std::process::id()));
    let status = program("kmeans").env("MILLSTREAM_TRACE", &file).output().expect("it starts").status;
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    assert!(status.success() && text.contains("traceEvents") && text.contains("contract"), "{text:.300}");
}
