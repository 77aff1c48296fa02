//! The other commands, as a user runs them.

mod common;

use std::process::Stdio;

use common::{Folder, Run, finish};
use serde_json::Value;

/// Standard output as JSON objects, one a line.
#[track_caller]
fn objects(run: &Run) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}"));
    run.out.lines().map(parse).inspect(|v: &Value| assert!(v.is_object(), "{v}")).collect()
}

#[test]
fn help_and_version_name_the_exit_codes() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).exits(0).out;
    for part in ["devices", "bench", "verify", "eval", "130", "MILLSTREAM_TRACE"] {
        assert!(help.contains(part), "{part} is missing in {help}");
    }
    assert!(folder.run(&["--version"]).exits(0).out.contains(env!("CARGO_PKG_VERSION")));
    assert!(folder.run(&["bench", "--help"]).exits(0).out.contains("--compare"));
}

#[test]
fn mistakes_in_the_command_exit_with_2() {
    let folder = Folder::new();
    for arguments in [
        &["nonsense"][..],
        &["bench", "--seconds", "-1"],
        &["bench", "--threads", "0"],
        &["bench", "--threads", "many"],
        &["bench", "--without", "luck", "addsmall_call"],
        &["bench", "--tolerance", "2"],
        &["eval"],
        &["devices", "extra"],
    ] {
        folder.run(arguments).exits(2);
    }
}

#[test]
fn a_device_that_is_not_there_exits_with_3() {
    let folder = Folder::new();
    folder.run(&["eval", "1+1", "--device", "cuda:99"]).exits(3).says("no such device");
    for arguments in [
        &["bench", "addsmall_call", "--device", "abacus"][..],
        &["verify", "--device", "abacus:0"],
        &["--device", "abacus"],
    ] {
        folder.run(arguments).exits(3).says("millstream devices");
    }
    let mut command = folder.command(&["eval", "[1] + 1"]);
    command.env("MILLSTREAM_DEVICE", "abacus");
    finish(command, b"").exits(3);
}

#[test]
fn devices_are_listed_with_their_limits() {
    let folder = Folder::new();
    let text = folder.run(&["devices"]).exits(0).out;
    assert!(text.starts_with("cpu: ") && text.contains("GB/s") && text.contains("GFLOP/s"), "{text}");
    let objects = objects(&folder.run(&["devices", "--json"]).exits(0));
    let cpu = objects.iter().find(|o| o["device"] == "cpu").expect("a CPU");
    assert_eq!(cpu["available"], true);
    assert!(cpu["profile"]["units"].as_u64().is_some_and(|n| n >= 1));
}

#[test]
fn cases_are_timed_and_checked() {
    let folder = Folder::new();
    let cases =
        ["matmul_f32_64x64x64", "chain_f32_10000", "softmax_f32_16x100", "transpose_f32_100x33", "addsmall_call"];
    let run = folder.run(&[&["bench", "--seconds", "0.01", "--threads", "1", "--json"], &cases[..]].concat()).exits(0);
    let objects = objects(&run);
    assert_eq!(objects.iter().map(|o| o["case"].as_str().unwrap()).collect::<Vec<_>>(), cases);
    for o in &objects {
        assert!(o["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{o}");
        assert_eq!((&o["device"], &o["threads"]), (&"cpu".into(), &1.into()), "{o}");
        let call = o["case"].as_str().unwrap().ends_with("_call");
        for figure in ["limit_fraction", "max_err"] {
            assert_eq!(o[figure].is_null(), call, "{figure} of {o}");
        }
    }
    assert!(objects[0]["gflops"].is_f64() && objects[0]["gbps"].is_null());
    assert!(objects[1]["gbps"].is_f64() && objects[1]["gflops"].is_null());
}

#[test]
fn ideas_can_be_switched_off() {
    let folder = Folder::new();
    for idea in ["fuse", "tile", "ring"] {
        let run = folder.run(&["bench", "chain_f32_1000", "matmul_f32_20x30x40", "--seconds", "0", "--without", idea]);
        assert_eq!(run.exits(0).out.lines().count(), 3, "{idea}");
    }
}

#[test]
fn every_way_to_compute_a_case_is_timed_beside_the_choice() {
    let folder = Folder::new();
    let run = folder.run(&["bench", "matmul_f32_20x30x40", "add_f32_1000", "--seconds", "0", "--regret", "--json"]);
    let objects = objects(&run.exits(0));
    assert_eq!(objects.len(), 2);
    let ways = |o: &Value| o["ways"].as_array().unwrap().clone();
    // A small matmul is packed or read in place; a sum has one way.
    assert!(ways(&objects[0]).len() > 1 && ways(&objects[1]).len() == 1, "{objects:?}");
    for o in &objects {
        let least = ways(o).iter().map(|w| w["ms"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
        assert_eq!((o["best_ms"].as_f64().unwrap(), &o["chosen"]), (least, &ways(o)[0]["way"]));
        assert!(o["regret"].as_f64().is_some_and(|r| r >= 0.0));
    }
    let text = folder.run(&["bench", "add_f32_1000", "--seconds", "0", "--regret"]).exits(0).out;
    assert!(text.contains("0 % at worst"), "{text}");
    folder.run(&["bench", "addsmall_call", "--regret"]).exits(2);
}

#[test]
fn waiting_and_launching_are_timed() {
    let folder = Folder::new();
    let cases = ["event_wake", "event_poll", "launch_prepared", "launch_unprepared", "coldstart", "reshape_call"];
    let objects = objects(&folder.run(&[&["bench", "--seconds", "0", "--json"], &cases[..]].concat()).exits(0));
    assert_eq!(objects.len(), cases.len());
    #[cfg(unix)]
    assert!(objects[0]["cpu_ms"].is_f64(), "{}", objects[0]);
    assert!(objects.iter().all(|o| o["ms"].as_f64().is_some_and(|ms| ms > 0.0) && o["limit_fraction"].is_null()));
}

#[test]
fn unknown_cases_exit_with_2_and_the_list_of_forms() {
    let folder = Folder::new();
    for case in ["matmul_f32_8x8", "sort_f32_8", "add_f32_0", "add_f32_x", "add_f32_99999999999999999"] {
        folder.run(&["bench", case]).exits(2).says("softmax_f32_RxC");
    }
    assert!(folder.run(&["bench", "--list"]).exits(0).out.contains("softmax_f32_RxC"));
}

#[test]
fn figures_are_saved_and_compared() {
    let folder = Folder::new();
    let bench = |more: &[&str]| folder.run(&[&["bench", "add_f32_1000", "--seconds", "0.01"], more].concat());
    bench(&["--save", "base.jsonl"]).exits(0);
    bench(&["--save", "base.jsonl"]).exits(0);
    let path = folder.0.join("base.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2, "the second run is appended");
    let saved: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for field in ["case", "ms", "machine", "date", "commit"] {
        assert!(!saved[field].is_null(), "{field} is missing in {saved}");
    }
    let date = saved["date"].as_str().unwrap();
    assert!(date.starts_with("20") && date.ends_with('Z') && date.len() == 20, "{date}");

    // Against an impossibly fast past it is slower, against an impossibly slow one it is not.
    let with_ms = |ms: f64| {
        let mut row = saved.clone();
        (row["ms"], row["spread_ms"]) = (ms.into(), 0.0.into());
        std::fs::write(&path, format!("{row}\n")).unwrap();
    };
    with_ms(1e-9);
    let run = bench(&["--compare", "base.jsonl"]).exits(1).says("slower");
    assert!(run.out.contains("SLOWER"), "{}", run.out);
    let run = bench(&["--compare", "base.jsonl", "--json"]).exits(1).says("SLOWER");
    assert_eq!(objects(&run).len(), 1, "only JSON goes to standard output");
    with_ms(1e9);
    let run = bench(&["--compare", "base.jsonl"]).exits(0);
    assert!(run.out.contains("faster"), "{}", run.out);
    let run = folder.run(&["bench", "exp_f32_1000", "--seconds", "0", "--compare", "base.jsonl"]).exits(0);
    assert!(run.out.contains("not in the baseline") && run.out.contains("but not run"), "{}", run.out);
}

#[test]
fn a_baseline_that_is_none_exits_with_2() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("bad.jsonl"), "{\"case\": 1}\n").unwrap();
    std::fs::write(folder.0.join("empty.jsonl"), "\n").unwrap();
    for name in ["bad.jsonl", "empty.jsonl", "missing.jsonl"] {
        folder.run(&["bench", "add_f32_10", "--seconds", "0", "--compare", name]).exits(2).says(name);
    }
    folder.run(&["bench", "add_f32_10", "--seconds", "0", "--save", "no/folder.jsonl"]).exits(2).says("no/folder");
}

#[test]
fn a_trace_of_the_run_is_written() {
    let folder = Folder::new();
    let mut command = folder.command(&["eval", "sum([1.0, 2.0] * 3)"]);
    command.env("MILLSTREAM_TRACE", "trace.json");
    finish(command, b"").exits(0);
    let text = std::fs::read_to_string(folder.0.join("trace.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| !events.is_empty()), "{text}");
    let mut command = folder.command(&["eval", "1"]);
    command.env("MILLSTREAM_TRACE", "no/folder/trace.json");
    finish(command, b"").exits(1).says("trace");
}

#[test]
fn drivers_that_miss_a_desktop_say_nothing() {
    let folder = Folder::new();
    let mut command = folder.command(&["devices"]);
    command.env_remove("XDG_RUNTIME_DIR").env_remove("NODEVICE_SELECT");
    assert_eq!(finish(command, b"").exits(0).err, "");
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let folder = Folder::new();
    for arguments in [&["eval", "--list"][..], &["bench", "add_f32_10", "exp_f32_10", "--seconds", "0"], &["devices"]] {
        let mut command = folder.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let folder = Folder::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = folder.command(&["eval", "1+1"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_benchmark_with_130() {
    let folder = Folder::new();
    let mut command = folder.command(&["bench", "add_f32_16777216", "--seconds", "60"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: interrupted"));
}

#[test]
fn every_operation_is_verified() {
    let folder = Folder::new();
    let run = folder.run(&["verify", "--device", "cpu", "--json", "--seed", "1"]).exits(0);
    let objects = objects(&run);
    assert!(objects.len() > 200, "{} rows", objects.len());
    let exp = objects.iter().find(|o| o["op"] == "exp" && o["dtype"] == "f32").expect("exp in f32");
    assert_eq!((&exp["device"], &exp["passed"]), (&"cpu".into(), &true.into()));
    assert!(exp["max_err"].as_f64() <= exp["bound"].as_f64(), "{exp}");
}

#[test]
fn without_a_command_every_device_runs_the_standard_cases() {
    let folder = Folder::new();
    let run = folder.run(&["--seconds", "0"]).exits(0);
    for part in ["device", "matmul_f32_1024x1024x1024", "% of limit"] {
        assert!(run.out.contains(part), "{part} is missing in {}", run.out);
    }
}
