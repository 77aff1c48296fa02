//! `millstream eval`, as a user runs it.

mod common;

use common::Folder;

/// A version 1.0 file with this dictionary and data.
fn npy(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((dictionary.len() as u16).to_le_bytes());
    out.extend(dictionary.as_bytes());
    out.extend(data);
    out
}

fn floats(values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", values.len()), &data)
}

#[test]
fn numbers_arrays_and_functions_are_computed() {
    let folder = Folder::new();
    for (expression, output) in [
        ("1+1", "i64 []\n2\n"),
        ("2**-1", "f32 []\n0.5\n"),
        ("-[1, 2] * 3", "i64 [2]\n[-3, -6]\n"),
        ("7 // 2 == 3", "bool []\ntrue\n"),
        ("[[1, 2], [3, 4]] @ [1, 1]", "i64 [2]\n[3, 7]\n"),
        ("cast([1.5, -1.5], i8)", "i8 [2]\n[ 1, -1]\n"),
    ] {
        assert_eq!(folder.run(&["eval", expression]).exits(0).out, output, "{expression}");
    }
}

#[test]
fn names_are_files_numbers_and_arrays() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("a.npy"), floats(&[1.0, 2.0, 3.0])).unwrap();
    let run = folder.run(&["eval", "x * s + y", "x=a.npy", "s=2", "y=[10, 20, 30]"]);
    assert_eq!(run.exits(0).out, "f32 [3]\n[12.0, 24.0, 36.0]\n");
}

#[test]
fn results_go_to_files_and_come_back() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("a.npy"), floats(&[4.0, 9.0])).unwrap();
    let run = folder.run(&["eval", "sqrt(x)", "x=a.npy", "-o", "b.npy"]).exits(0);
    assert_eq!(run.out, "f32 [2] -> b.npy\n");
    assert_eq!(folder.run(&["eval", "x+0", "x=b.npy"]).exits(0).out, "f32 [2]\n[2.0, 3.0]\n");
    let files = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(files, 2, "nothing else is left");
}

#[test]
fn mistakes_exit_with_2_and_show_the_place() {
    let folder = Folder::new();
    for (expression, position, part) in [
        ("1 + foo(2)", "column 5", "no function"),
        ("1 + y", "column 5", "y=file.npy"),
        ("(1 + 2", "column 1", "never closed"),
        ("[1, 2] + [1, 2, 3]", "column 8", "do not fit"),
        ("1 +", "column 4", "missing"),
        ("", "column 1", "empty"),
        ("reshape([1,2,3], [7])", "column 1", "reshape"),
    ] {
        folder.run(&["eval", expression]).exits(2).says(position).says(part);
    }
    folder.run(&["eval", "x", "x"]).exits(2).says("gives no name a value");
    folder.run(&["eval", "x", "x=1", "x=2"]).exits(2).says("twice");
    folder.run(&["eval", "x", "x=[[1,2],[3]]"]).exits(2).says("rectangular");
}

#[test]
fn files_that_are_not_what_they_claim_exit_with_2() {
    let folder = Folder::new();
    let whole = floats(&[1.0, 2.0]);
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.0.join(name), bytes).unwrap();
    write("empty.npy", b"");
    write("text.npy", b"this is no array at all");
    write("short.npy", &whole[..whole.len() - 1]);
    write("object.npy", &npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", &[0; 8]));
    write("huge.npy", &npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 9), }\n", &[0; 8]));
    for (name, part) in [
        ("missing.npy", "missing.npy"),
        ("empty.npy", "ends after 0 bytes"),
        ("text.npy", "no npy file"),
        ("short.npy", "has 7 there"),
        ("object.npy", "never loaded"),
        ("huge.npy", "too large"),
    ] {
        folder.run(&["eval", "x", &format!("x={name}")]).exits(2).says(name).says(part);
    }
}

#[test]
fn long_and_deep_expressions_do_not_break_it() {
    let folder = Folder::new();
    let deep = "(".repeat(100_000) + "41" + &")".repeat(100_000) + "+1";
    assert_eq!(folder.run_with(&["eval", "-"], deep.as_bytes()).exits(0).out, "i64 []\n42\n");
    folder.run_with(&["eval", "-"], "(".repeat(1 << 20).as_bytes()).exits(2).says("column");
    folder.run_with(&["eval", "-"], "sin(".repeat(1 << 18).as_bytes()).exits(2);
    folder.run_with(&["eval", "-"], "[".repeat(1 << 20).as_bytes()).exits(2);
    let long = "1".to_string() + &"+1".repeat(1 << 19);
    assert_eq!(folder.run_with(&["eval", "-"], long.as_bytes()).exits(0).out, "i64 []\n524289\n");
    let chain = "x".to_string() + &"+x".repeat(5000);
    assert_eq!(folder.run_with(&["eval", "-", "x=[1.0]"], chain.as_bytes()).exits(0).out, "f32 [1]\n[5001.0]\n");
    folder.run_with(&["eval", "-"], b"\xff\xfe1").exits(2).says("standard input");
}

#[test]
fn the_plan_is_explained() {
    let run = Folder::new().run(&["eval", "tanh(x * 2.0 + 1.0)", "x=[1.0, 2.0]", "--explain"]).exits(0);
    assert!(run.out.lines().count() > 3, "{}", run.out);
}

#[test]
fn functions_are_listed() {
    let run = Folder::new().run(&["eval", "--list"]).exits(0);
    for part in ["softmax(x, axis=-1)", "where(condition, a, b)", "bf16"] {
        assert!(run.out.contains(part), "{part}");
    }
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    folder.run(&["eval", "1", "-o", "no/such/folder/x.npy"]).exits(1).says("no/such/folder");
    folder.run(&["eval", "cast(1, bf16)", "-o", "x.npy"]).exits(2).says("f32");
    assert!(!folder.0.join("x.npy").exists());
}
