//! Integers, casts and half types.

use half::{bf16, f16};

use crate::host::{Host, Manner};
use crate::support::Random;

/// Applies a function to rows of words.
fn rows<const N: usize>(host: &Host, name: &str, input: &[[u64; N]]) -> Vec<u64> {
    host.call(name, &input.concat())
}

fn floor_div(a: i128, b: i128) -> i128 {
    if b == 0 {
        return 0;
    }
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

fn rem(a: i128, b: i128) -> i128 {
    if b == 0 { 0 } else { a - floor_div(a, b) * b }
}

fn pow(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i128, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

type Operation = fn(i128, i128) -> i128;
/// A function of one value, by name.
type Named<A, R> = (&'static str, fn(A) -> R);

const BINARY: [(&str, Operation); 8] = [
    ("floor_div", floor_div),
    ("rem", rem),
    ("pow", pow),
    ("min", i128::min),
    ("max", i128::max),
    ("add", |a, b| a + b),
    ("sub", |a, b| a - b),
    ("mul", i128::wrapping_mul),
];

#[test]
fn integers_follow_the_rules() {
    let Some(host) = Host::new(Manner::Split) else { return };
    let mut random = Random::new();
    for (kind, read, mask) in [
        ("i32", (|w| i128::from(w as i32)) as fn(u64) -> i128, u64::from(u32::MAX)),
        ("u32", |w| i128::from(w as u32), u64::from(u32::MAX)),
        ("i64", |w| i128::from(w as i64), u64::MAX),
        ("u64", i128::from, u64::MAX),
    ] {
        let input: Vec<[u64; 2]> =
            (0..50_000).map(|_| [random.i64() as u64 & mask, random.i64() as u64 & mask]).collect();
        for (name, want) in BINARY {
            if kind.starts_with('u') && matches!(name, "add" | "sub" | "mul") {
                continue;
            }
            let name = format!("{name}_{kind}");
            for ([a, b], got) in input.iter().zip(rows(&host, &name, &input)) {
                let (a, b) = (read(*a), read(*b));
                assert_eq!(got, want(a, b) as u64 & mask, "{name}({a}, {b})");
            }
        }
        let single: Vec<[u64; 1]> = input.iter().map(|w| [w[0]]).collect();
        let unary: [Named<i128, i128>; 3] = [("neg", |a| -a), ("abs", i128::abs), ("sign", i128::signum)];
        for (name, want) in unary {
            let name = format!("{name}_{kind}");
            for ([a], got) in single.iter().zip(rows(&host, &name, &single)) {
                assert_eq!(got, want(read(*a)) as u64 & mask, "{name}({})", read(*a));
            }
        }
    }
}

#[test]
fn shifts_by_the_width_or_more_leave_nothing_but_the_sign() {
    let Some(host) = Host::new(Manner::Split) else { return };
    let mut random = Random::new();
    for width in [8u32, 16, 32, 64] {
        let ones = u64::MAX >> (64 - width);
        let kinds = if width == 64 { ["i64", "u64"] } else { ["i32", "u32"] };
        for (kind, signed) in kinds.into_iter().zip([true, false]) {
            // As registers hold them: extended by their sign, or by zeros.
            let extend = |v: u64| {
                let v = v & ones;
                let sign = signed && v >> (width - 1) & 1 == 1;
                let word = if sign { v | !ones } else { v };
                if width == 64 { word } else { word & u64::from(u32::MAX) }
            };
            let input: Vec<[u64; 3]> = (0..20_000)
                .map(|_| {
                    let amount = match random.word() % 4 {
                        0 => random.word(),
                        _ => random.word() % (u64::from(width) + 3),
                    };
                    [extend(random.i64() as u64), extend(amount), width.into()]
                })
                .collect();
            for ([x, amount, _], got) in input.iter().zip(rows(&host, &format!("shl_{kind}"), &input)) {
                let n = amount & ones;
                let want = if n < width.into() { x << n & ones } else { 0 };
                assert_eq!(got & ones, want, "{x:#x} << {n} in {width} bits of {kind}");
            }
            for ([x, amount, _], got) in input.iter().zip(rows(&host, &format!("shr_{kind}"), &input)) {
                let n = amount & ones;
                let v = x & ones;
                let negative = signed && v >> (width - 1) & 1 == 1;
                let wide = if negative { i128::from(v) - (1i128 << width) } else { v.into() };
                let want = (wide >> n.min(127)) as u64 & ones;
                assert_eq!(got & ones, want, "{x:#x} >> {n} in {width} bits of {kind}");
                assert_eq!(got, extend(got), "{x:#x} >> {n} leaves the range of {width} bits");
            }
        }
    }
}

#[test]
fn wrapping_keeps_the_low_bits() {
    let Some(host) = Host::new(Manner::Split) else { return };
    let mut random = Random::new();
    let input: Vec<[u64; 1]> = (0..10_000).map(|_| [random.i64() as u32 as u64]).collect();
    let functions: [Named<u64, u64>; 4] = [
        ("wrap_i8", |w| w as i8 as u32 as u64),
        ("wrap_i16", |w| w as i16 as u32 as u64),
        ("wrap_u8", |w| w as u8 as u64),
        ("wrap_u16", |w| w as u16 as u64),
    ];
    for (name, want) in functions {
        for ([x], got) in input.iter().zip(rows(&host, name, &input)) {
            assert_eq!(got, want(*x), "{name}({x:#x})");
        }
    }
}

/// Words of 32 bits of a signed result.
fn word(v: i32) -> u64 {
    v as u32 as u64
}

#[test]
fn floats_become_integers_by_truncation_within_the_range() {
    for manner in [Manner::Split, Manner::Loose] {
        let Some(host) = Host::new(manner) else { return };
        let mut random = Random::new();
        let mut single: Vec<f32> = (0..50_000).map(|_| random.f32()).collect();
        single.extend((0..50_000).map(|_| random.i64() as f32));
        let mut double: Vec<f64> = (0..50_000).map(|_| random.f64()).collect();
        double.extend((0..50_000).map(|_| random.i64() as f64 + random.unit()));
        let functions: [Named<f64, u64>; 9] = [
            ("i8", |x| word((x as i8).into())),
            ("i16", |x| word((x as i16).into())),
            ("i32", |x| word(x as i32)),
            ("i64", |x| x as i64 as u64),
            ("u8", |x| (x as u8).into()),
            ("u16", |x| (x as u16).into()),
            ("u32", |x| (x as u32).into()),
            ("u64", |x| x as u64),
            ("bool", |x| (x != 0.0).into()),
        ];
        for (name, want) in functions {
            let input: Vec<[u64; 1]> = single.iter().map(|x| [x.to_bits().into()]).collect();
            for (x, got) in single.iter().zip(rows(&host, &format!("f32_to_{name}"), &input)) {
                assert_eq!(got, want((*x).into()), "{x:e} as {name}");
            }
            let input: Vec<[u64; 1]> = double.iter().map(|x| [x.to_bits()]).collect();
            for (x, got) in double.iter().zip(rows(&host, &format!("f64_to_{name}"), &input)) {
                assert_eq!(got, want(*x), "{x:e} as {name}");
            }
        }
    }
}

/// As f32 rounded to odd, from an exact sum of a float and whether there is more.
fn odd(x: f64, more: bool) -> f32 {
    let y = x as f32;
    if x.is_nan() || x.is_infinite() {
        return y;
    }
    let down = f64::from(y).abs() > x.abs();
    let inexact = f64::from(y) != x || more;
    f32::from_bits((y.to_bits() - u32::from(down)) | u32::from(inexact))
}

fn integer_as_odd(v: i128) -> f32 {
    // The lowest bits count only as being there or not.
    let low = v.unsigned_abs() & 0xfff;
    let kept = (v.unsigned_abs() - low) as f64;
    let size = if v.unsigned_abs() < 1 << 50 { odd(v.unsigned_abs() as f64, false) } else { odd(kept, low != 0) };
    if v < 0 { -size } else { size }
}

/// Whether a half type's bits are what they should be; any NaN is a NaN.
fn same(got: u64, want: u16, exponent: u16) -> bool {
    let nan = |w: u16| w & 0x7fff > exponent;
    got == u64::from(want) || (nan(got as u16) && nan(want))
}

#[test]
fn half_types_are_rounded_once() {
    let Some(host) = Host::new(Manner::Loose) else { return };
    let mut random = Random::new();
    let check = |name: &str, input: &[u64], want: &dyn Fn(u64) -> f32| {
        for (kind, exponent) in [("f16", 0x7c00u16), ("bf16", 0x7f80)] {
            for (&w, got) in input.iter().zip(host.call(&format!("{name}_to_{kind}"), input)) {
                let x = want(w);
                let want = if kind == "f16" { f16::from_f32(x).to_bits() } else { bf16::from_f32(x).to_bits() };
                assert!(same(got, want, exponent), "{name} {w:#x} to {kind}: {got:#x}, not {want:#x}");
            }
        }
    };
    let mut bits: Vec<u64> = (0..60_000).map(|_| random.f32().to_bits().into()).collect();
    // Around every tie of f16, subnormal ones as well, and ties of bf16.
    for half in 0..0x7c00u16 {
        let (low, high) = (f16::from_bits(half).to_f32(), f16::from_bits(half + 1).to_f32());
        let tie = if high.is_finite() { (low + high) / 2.0 } else { 65520.0 };
        bits.extend([tie, tie.next_up(), tie.next_down(), -tie].map(|x| u64::from(x.to_bits())));
        bits.push(u64::from(half) << 16 | 0x8000);
        bits.push(u64::from(half) << 16 | 0x8001);
    }
    check("f32", &bits, &|w| f32::from_bits(w as u32));
    let mut doubles: Vec<u64> = bits
        .iter()
        .map(|&w| f64::from(f32::from_bits(w as u32)).to_bits().wrapping_add(random.word() % 5).wrapping_sub(2))
        .collect();
    doubles.extend((0..20_000).map(|_| random.f64().to_bits()));
    check("f64", &doubles, &|w| odd(f64::from_bits(w), false));
    let integers: Vec<u64> = (0..100_000)
        .map(|_| match random.word() % 2 {
            0 => random.i64() as u64,
            // A tie and its neighbours.
            _ => {
                ((random.word() % 4096 + 4096) << (random.word() % 50)).wrapping_add(random.word() % 3).wrapping_sub(1)
            }
        })
        .collect();
    check("i64", &integers, &|w| integer_as_odd((w as i64).into()));
    check("u64", &integers, &|w| integer_as_odd(w.into()));
    let words: Vec<u64> = integers.iter().map(|w| w & u64::from(u32::MAX)).collect();
    check("i32", &words, &|w| integer_as_odd((w as i32).into()));
    check("u32", &words, &|w| integer_as_odd(w.into()));
}

#[test]
fn every_half_number_has_its_value() {
    let Some(host) = Host::new(Manner::Loose) else { return };
    let all: Vec<u64> = (0..0x10000).collect();
    for (name, value) in [
        ("f16_to_f32", (|w| f16::from_bits(w).to_f32()) as fn(u16) -> f32),
        ("bf16_to_f32", |w| bf16::from_bits(w).to_f32()),
    ] {
        for (&w, got) in all.iter().zip(host.call(name, &all)) {
            let (got, want) = (f32::from_bits(got as u32), value(w as u16));
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{name}({w:#x}) = {got}");
        }
    }
}
