//! The table of functions in the documentation, written from the code.

use super::{Binary, DType, Unary};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/functions.md");

const HEAD: &str = "\
# Functions of single elements and their error bounds

This table is written from the code by a test (`MILLSTREAM_GOLDEN=write cargo test -p millstream-core table` writes it anew).

Bounds are in units in the last place of the result, for f32 and f64; 0.5 means rounded correctly. On GPUs a bound of 2 is 4, and where a
shading language divides only nearly right, quotients, reciprocals and roots are within 2.5. Half types are computed in f32 and rounded
once. Subnormal results may be zero on GPUs. Functions of complex numbers that are not in the table are made of others, with an error
of some ten roundoffs of the modulus.

";

/// A bound as people write it.
fn bound(ulp: f64) -> String {
    if ulp == 0.0 { "exact".into() } else { ulp.to_string() }
}

/// The families of dtypes that an operation takes.
fn families(exists: impl Fn(DType) -> bool) -> String {
    let all = [("bool", DType::Bool), ("integers", DType::I32), ("floats", DType::F32), ("complex", DType::C64)];
    let taken: Vec<&str> = all.into_iter().filter(|(_, d)| exists(*d)).map(|(name, _)| name).collect();
    taken.join(", ")
}

fn table() -> String {
    let mut text = String::from(HEAD);
    text += "| function | gives | of | bound |\n|---|---|---|---|\n";
    for &op in Unary::ALL {
        let of = families(|d| op.result(d).is_some());
        text += &format!("| `{}(x)` | {} | {of} | {} |\n", op.name(), op.about(), bound(op.ulp()));
    }
    for &op in Binary::ALL {
        let of = families(|d| op.result(d).is_some());
        text += &format!("| `{}(x, y)` | {} | {of} | {} |\n", op.name(), op.about(), bound(op.ulp()));
    }
    text
}

#[test]
fn the_table_of_functions_is_that_of_the_code() {
    let text = table();
    if std::env::var("MILLSTREAM_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(PATH, &text).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == text, "docs/functions.md is old: MILLSTREAM_GOLDEN=write cargo test -p millstream-core table");
}
