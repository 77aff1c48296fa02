//! The text of a few kernels, word for word: a change of the generator shows in the change of these files.
//!
//! `MILLSTREAM_GOLDEN=write cargo test -p millstream-codegen --test golden` writes them anew; look at the difference.

use std::path::PathBuf;

use millstream_codegen::{Dialect, Target, generate};
use millstream_core::how::{Block, Family, Split, Tile, Variant};
use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Guard, Op, Reduce, Unary};

fn target(dialect: Dialect) -> Target {
    Target {
        dialect,
        float64: true,
        int64: true,
        max_group: 1024,
        max_grid: 65535,
        shared_memory: 32 << 10,
        max_buffers: 8,
        units: 16,
        matrices: None,
    }
}

fn check(name: &str, op: &Op, variant: &Variant) {
    let languages = [
        (Dialect::Cuda, "cu", include_str!("../src/dialect/prelude.cu")),
        (Dialect::Wgsl, "wgsl", include_str!("../src/dialect/prelude.wgsl")),
    ];
    for (dialect, suffix, prelude) in languages {
        let text = generate(op, variant, &target(dialect)).unwrap().text.clone();
        // What every kernel begins with has a file of its own.
        let text = text.strip_prefix(prelude).unwrap_or_else(|| panic!("{name}.{suffix} has no prelude"));
        let file: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "tests", "golden", &format!("{name}.{suffix}")].iter().collect();
        if std::env::var("MILLSTREAM_GOLDEN").is_ok_and(|v| v == "write") {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = text.lines().zip(golden.lines()).position(|(a, b)| a != b);
        assert!(
            text == golden,
            "{name}.{suffix} differs from line {:?} on; MILLSTREAM_GOLDEN=write writes it anew",
            differs.map(|n| n + 1)
        );
    }
}

fn f32s(strides: &[isize]) -> Access {
    Access::new(DType::F32, strides)
}

#[test]
fn a_scaled_sum_of_two_vectors() {
    let mut b = ExprBuilder::new();
    let (x, y, s) = (b.input(0, DType::F32), b.input(1, DType::F32), b.param(0, DType::F32));
    let scaled = b.binary(Binary::Mul, x, s).unwrap();
    let sum = b.binary(Binary::Add, scaled, y).unwrap();
    let op = Op::map(&[1000], vec![f32s(&[1]), f32s(&[1])], vec![f32s(&[1])], b.finish(&[sum])).unwrap();
    check("scaled_sum", &op, &Variant::plain(Family::new("map")));
}

#[test]
fn a_transposed_copy_of_halves() {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F16);
    let halves = |strides: &[isize]| Access::new(DType::F16, strides);
    let op = Op::map(&[64, 48], vec![halves(&[1, 64])], vec![halves(&[48, 1])], b.finish(&[x])).unwrap();
    let square = Block { m: 32, n: 32, k: 1 };
    check("transposed_copy", &op, &Variant::tiled(Family::new("squares"), Tile::new([square])));
}

#[test]
fn the_softmax_of_short_rows() {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let m = b.reduce(Reduce::Max, x).unwrap();
    let d = b.binary(Binary::Sub, x, m).unwrap();
    let e = b.unary(Unary::Exp, d).unwrap();
    let s = b.reduce(Reduce::Sum, e).unwrap();
    let y = b.binary(Binary::Div, e, s).unwrap();
    let op = Op::rows(&[32, 64], 1, vec![f32s(&[64, 1])], vec![f32s(&[64, 1])], b.finish(&[y])).unwrap();
    let tile = Tile::new([Block { m: 16, n: 16, k: 1 }]);
    check("softmax", &op, &Variant::tiled(Family::new("rows"), tile));
}

#[test]
fn a_matmul_with_a_bias() {
    let mut right = ExprBuilder::new();
    let second = right.input(1, DType::F32);
    let mut epilogue = ExprBuilder::new();
    let acc = epilogue.push(millstream_core::Node::Acc, DType::F32);
    let bias = epilogue.input(2, DType::F32);
    let sum = epilogue.binary(Binary::Add, acc, bias).unwrap();
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: Expr::input(DType::F32),
        rhs: right.finish(&[second]),
        acc: DType::F32,
        epilogue: epilogue.finish(&[sum]),
        accuracy: Default::default(),
    };
    let inputs = vec![f32s(&[96, 0, 1]), f32s(&[0, 1, 80]), f32s(&[0, 1, 0])];
    let op = Op::contract(&[64, 80, 96], inputs, vec![f32s(&[80, 1, 0])], contract).unwrap();
    let blocks = [Block { m: 4, n: 4, k: 1 }, Block { m: 32, n: 32, k: 16 }];
    check("linear", &op, &Variant::tiled(Family::new("tiles"), Tile::new(blocks)));
}

#[test]
fn a_convolution_that_splits_k() {
    let mut right = ExprBuilder::new();
    let second = right.input(1, DType::F32);
    let contract = Contract {
        m: 0,
        n: 1,
        k: 3,
        lhs: Expr::input(DType::F32),
        rhs: right.finish(&[second]),
        acc: DType::F32,
        epilogue: Expr::acc(DType::F32),
        accuracy: Default::default(),
    };
    // 64 filters of 3 x 3 over 64 channels of 56 x 56 pixels, with a border of one.
    let mut image = f32s(&[0, 56, 1, 3136, 56, 1]);
    let guard =
        |coefficients: [isize; 6]| Guard { coefficients: coefficients.as_slice().into(), offset: -1, limit: 56 };
    image.guards = [guard([0, 1, 0, 0, 1, 0]), guard([0, 0, 1, 0, 0, 1])].into_iter().collect();
    image.base = -57;
    let inputs = vec![f32s(&[576, 0, 0, 9, 3, 1]), image];
    let op = Op::contract(&[64, 56, 56, 64, 3, 3], inputs, vec![f32s(&[3136, 56, 1, 0, 0, 0])], contract).unwrap();
    let group = Block { m: 64, n: 64, k: 16 };
    let tile = Tile::new([Block { m: 8, n: 8, k: 1 }, group]);
    check("convolution", &op, &Variant { split: Split::TwoPass, ..Variant::tiled(Family::new("tiles"), tile) });
}
