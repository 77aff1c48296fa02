//! The library as a program of this machine: its text becomes C++, and a child process applies its functions to arrays.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How exact the imitated device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As a processor: products and the sums they feed are fused where the library asks for it.
    Fused,
    /// Nothing is fused.
    Split,
    /// As shading languages allow: nothing fused, f32 quotients and roots up to 2.5 ulp off, f32 subnormals taken for zero.
    Loose,
}

/// Every file of the library by name, but for its list.
pub fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/library");
    let mut list: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "wgsl"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    list.sort();
    list
}

/// A function's head.
#[derive(Clone, Debug)]
pub struct Head {
    pub name: String,
    pub parameters: Vec<(String, String)>,
    pub result: String,
}

/// The head on a line `fn name(a: T, b: T) -> T {`, if it is one.
pub fn head(line: &str) -> Option<Head> {
    let (name, rest) = line.strip_prefix("fn ")?.split_once('(')?;
    let (list, rest) = rest.split_once(") -> ")?;
    let parameters = list
        .split(',')
        .filter_map(|p| p.split_once(':'))
        .map(|(name, kind)| (name.trim().to_string(), kind.trim().to_string()))
        .collect();
    Some(Head { name: name.to_string(), parameters, result: rest.strip_suffix(" {")?.to_string() })
}

fn cpp_head(head: &Head) -> String {
    let list: Vec<_> = head.parameters.iter().map(|(name, kind)| format!("{kind} {name}")).collect();
    format!("static inline {} {}({})", head.result, head.name, list.join(", "))
}

/// A line of the notation in C++.
fn cpp_line(line: &str) -> String {
    if let Some(head) = head(line) {
        return cpp_head(&head) + " {";
    }
    let mut out = String::new();
    let mut rest = line.split("//").next().unwrap_or("");
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_alphabetic() || first == '_' {
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
            let signed = !rest.starts_with("0x") && rest[..end].ends_with('e');
            end + if signed { rest[end + 1..].find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(0) + 1 } else { 0 }
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        out += &match word {
            "let" | "var" | "const" => {
                let (name, end) = rest.trim_start().split_at(rest.trim_start().find([' ', ':']).unwrap_or(0));
                let kind = end.strip_prefix(": ").map(|k| k.split_once(' ').unwrap_or((k, "")));
                let (kind, after) = kind.unwrap_or(("auto", end));
                rest = after;
                let start = if word == "var" { "" } else { "const " };
                let start = if line.starts_with("const") { "static constexpr " } else { start };
                format!("{start}{kind} {name} ")
            }
            "abs" | "floor" | "ceil" | "trunc" | "sqrt" | "fma" | "min" | "max" | "select" => format!("ms_{word}"),
            _ if first.is_ascii_digit() => number(word),
            other => other.to_string(),
        };
    }
    out
}

fn number(word: &str) -> String {
    let hex = word.starts_with("0x");
    if let Some(digits) = word.strip_suffix("lf") {
        digits.to_string()
    } else if let Some(digits) = word.strip_suffix("lu") {
        format!("{digits}ull")
    } else if let Some(digits) = word.strip_suffix("li") {
        format!("{digits}ll")
    } else if word.ends_with('f') && !hex {
        format!("f32({word})")
    } else {
        word.to_string()
    }
}

/// The program: all functions, and a `main` that applies the one of a given name to a file of words.
fn program() -> String {
    let mut text = String::from(include_str!("host.cpp"));
    let mut heads = Vec::new();
    let mut bodies = String::new();
    for (_, file) in files() {
        for line in file.lines() {
            if line.starts_with("const ") {
                text += &(cpp_line(line) + "\n");
                continue;
            }
            heads.extend(head(line));
            bodies += &(cpp_line(line) + "\n");
        }
    }
    for head in &heads {
        text += &format!("{};\n", cpp_head(head));
    }
    text += &bodies;
    text += "static bool apply(const std::string& name, const u64* in, const u64* end, Words& out) {\n";
    for head in &heads {
        text += &format!("    if (name == \"{}\") {{\n        while (in < end) {{\n", head.name);
        for (i, (_, kind)) in head.parameters.iter().enumerate() {
            text += &format!("            const auto a{i} = take<{kind}>(in);\n");
        }
        let list: Vec<_> = (0..head.parameters.len()).map(|i| format!("a{i}")).collect();
        text += &format!("            put(out, {}({}));\n", head.name, list.join(", "));
        text += if head.parameters.is_empty() { "            in++;\n" } else { "" };
        text += "        }\n        return true;\n    }\n";
    }
    text + "    return false;\n}\n" + include_str!("main.cpp")
}

/// The library, compiled.
pub struct Host {
    binary: PathBuf,
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl Host {
    /// Compiles the library, once for each manner; `None`, with the reason printed, where there is no C++ compiler.
    pub fn new(manner: Manner) -> Option<Host> {
        static BINARIES: [OnceLock<Option<PathBuf>>; 3] = [const { OnceLock::new() }; 3];
        let binary = BINARIES[manner as usize].get_or_init(|| compile(manner)).clone();
        if binary.is_none() {
            println!("skipped: there is no C++ compiler");
        }
        Some(Host { binary: binary? })
    }

    /// The function of this name applied to each `width` words of `input` (one for each number, two for a complex one).
    pub fn call(&self, name: &str, input: &[u64]) -> Vec<u64> {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let path = self.binary.with_extension(format!("{}-{call}", std::process::id()));
        let bytes: Vec<u8> = input.iter().flat_map(|w| w.to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
        let output = Command::new(&self.binary).arg(name).arg(&path).output().unwrap();
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "{name}: {:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
        output.stdout.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect()
    }
}

/// The program's path. One of the same text that was compiled before is taken as it is.
fn compile(manner: Manner) -> Option<PathBuf> {
    let text = program();
    let mut hasher = DefaultHasher::new();
    (&text, manner as usize).hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join(format!("library-{:016x}", hasher.finish()));
    if binary.exists() {
        return Some(binary);
    }
    let own = |extension: &str| binary.with_extension(format!("{}.{extension}", std::process::id()));
    let (source, fresh) = (own("cpp"), own("out"));
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new("g++");
    command.args(["-O1", "-std=c++17", "-ffp-contract=off", "-fwrapv", "-Wall", "-Werror"]);
    command.args(["-Wno-unused-function", "-Wno-unused-but-set-variable", "-o"]).arg(&fresh).arg(&source);
    command.arg(format!("-DMANNER_{}", format!("{manner:?}").to_uppercase()));
    if manner == Manner::Fused && has_fma() {
        command.arg("-mfma");
    }
    let output = command.output();
    let _ = std::fs::remove_file(&source);
    let output = output.ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Another process may have been faster; it made the same.
    std::fs::rename(&fresh, &binary).unwrap();
    Some(binary)
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    false
}
