//! The files as text.

use crate::host::{files, head};

const PRELUDE: &str = "alias c64 = vec2<f32>;\nalias words4 = vec4<u32>;\nfn zero_word() -> u32 {\n    return 0u;\n}\n";

fn library(wanted: impl Fn(&str) -> bool) -> String {
    files().into_iter().filter(|(name, _)| wanted(name)).map(|(_, text)| text).collect()
}

fn validate(text: &str) {
    let module = naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{}", e.emit_to_string(text)));
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{}", e.emit_to_string(text)));
}

#[test]
fn what_needs_only_32_bits_is_wgsl() {
    validate(&(PRELUDE.to_string() + &library(|name| !name.ends_with("64"))));
}

#[test]
fn what_needs_64_bit_integers_is_wgsl() {
    validate(&(PRELUDE.to_string() + &library(|name| !name.ends_with("_f64"))));
}

#[test]
fn all_is_wgsl() {
    validate(&(PRELUDE.to_string() + "alias c128 = vec2<f64>;\n" + &library(|_| true)));
}

#[test]
fn every_function_says_what_it_gives_and_has_one_name() {
    let mut names = std::collections::BTreeSet::new();
    for (file, text) in files() {
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() < 300, "{file} has {} lines", lines.len());
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("fn ")) {
            let head = head(line).unwrap_or_else(|| panic!("{file}: {line}"));
            assert!(i > 0 && lines[i - 1].starts_with("// "), "{} of {file} has no comment", head.name);
            assert!(names.insert(head.name.clone()), "{} exists twice", head.name);
        }
    }
}

#[test]
fn the_list_names_every_file() {
    let listed = include_str!("../../src/library/files.in");
    for (file, _) in files() {
        assert!(listed.contains(&format!("include_str!(\"{file}.wgsl\")")), "{file} is not in files.in");
    }
}
