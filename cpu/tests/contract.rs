//! Contractions of every form against the reference, on every instruction set, on one thread and on two.

mod common;

use common::{Alignment, Random, backends, check, check_with, default_stream, extent, run_reporting};
use millstream_core::backend::Backend;
use millstream_core::how::{Candidate, Traffic, cost};
use millstream_core::what::HostTensor;
use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar, Unary};
use millstream_cpu::{CpuBackend, CpuOptions, Isa};

fn input(n: u16, dtype: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(n, dtype);
    b.finish(&[x])
}

/// Row-major strides.
fn dense(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * shape[d + 1] as isize;
    }
    strides
}

fn plain(dtype: DType, acc: DType) -> Contract {
    Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: input(0, dtype),
        rhs: input(1, dtype),
        acc,
        epilogue: Expr::acc(acc),
        accuracy: Default::default(),
    }
}

fn matmul(m: usize, n: usize, k: usize, contract: Contract, out: DType) -> Op {
    let a = Access::new(contract.lhs.dtype(contract.lhs.outputs()[0]), &[k as isize, 0, 1]);
    let b = Access::new(contract.rhs.dtype(contract.rhs.outputs()[0]), &[0, 1, n as isize]);
    let c = Access::new(out, &[n as isize, 1, 0]);
    Op::contract(&[m, n, k], vec![a, b], vec![c], contract).unwrap()
}

#[test]
fn matmuls_of_every_dtype_agree_with_the_reference() {
    let mut random = Random::new();
    for dtype in DType::ALL {
        let acc = dtype.compute();
        let mut b = ExprBuilder::new();
        let sum = b.push(Node::Acc, acc);
        let out = b.cast(sum, dtype);
        let epilogue = b.finish(&[out]);
        for (m, n, k) in [(17, 19, 23), (1, 40, 33), (40, 1, 33), (1, 1, 100)] {
            check(
                &matmul(m, n, k, Contract { epilogue: epilogue.clone(), ..plain(dtype, acc) }, dtype),
                &mut random,
                &[],
            );
        }
    }
}

#[test]
fn larger_products_with_several_blocks_agree() {
    let mut random = Random::new();
    for (m, n, k) in [(150, 170, 300), (3, 500, 260), (200, 2, 700), (64, 64, 64)] {
        check(&matmul(m, n, k, plain(DType::F32, DType::F32), DType::F32), &mut random, &[]);
    }
    check(&matmul(70, 90, 110, plain(DType::F64, DType::F64), DType::F64), &mut random, &[]);
}

#[test]
fn a_matrix_times_a_few_vectors_agrees() {
    let mut random = Random::new();
    let mut known = 0;
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let acc = dtype.compute();
        let rounded = || {
            let mut b = ExprBuilder::new();
            let sum = b.push(Node::Acc, acc);
            let out = b.cast(sum, dtype);
            b.finish(&[out])
        };
        for (m, n, k) in [(37, 2, 93), (9, 5, 16), (130, 8, 7), (2, 2, 3001), (1, 3, 40), (70, 4, 1), (4, 300, 31)] {
            let contract = Contract { epilogue: rounded(), ..plain(dtype, acc) };
            let op = matmul(m, n, k, contract.clone(), dtype);
            check(&op, &mut random, &[]);
            // The other matrix has contiguous K, and results are transposed.
            let a = Access::new(dtype, &[k as isize, 0, 1]);
            let b = Access::new(dtype, &[0, k as isize, 1]);
            let c = Access::new(dtype, &[1, m as isize, 0]);
            let turned = Op::contract(&[m, n, k], vec![a, b], vec![c], contract).unwrap();
            check(&turned, &mut random, &[]);
            let few = |op: &Op| backends()[0].variants(op).iter().any(|v| v.variant.family.name() == "few");
            known += usize::from(few(&op)) + usize::from(few(&turned));
        }
    }
    assert!(known >= 40, "{known} of 56");
}

#[test]
fn narrow_operands_are_summed_in_a_wider_type() {
    let mut random = Random::new();
    for (dtype, acc) in [
        (DType::I8, DType::I32),
        (DType::U8, DType::I32),
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
        (DType::F32, DType::F64),
        (DType::I32, DType::F64),
        (DType::Bool, DType::I64),
        (DType::U16, DType::F32),
    ] {
        check(&matmul(13, 21, 34, plain(dtype, acc), acc), &mut random, &[]);
    }
}

/// A product of operands of these dtypes, each cast to that of the sum where it is another.
fn mixed(lhs: DType, rhs: DType, acc: DType) -> Contract {
    let cast = |n: u16, dtype: DType| {
        let mut b = ExprBuilder::new();
        let x = b.input(n, dtype);
        let x = if dtype == acc { x } else { b.cast(x, acc) };
        b.finish(&[x])
    };
    Contract { lhs: cast(0, lhs), rhs: cast(1, rhs), ..plain(acc, acc) }
}

#[test]
fn narrow_integers_of_any_sign_are_multiplied_exactly() {
    let mut random = Random::new();
    let narrow = [DType::I8, DType::U8, DType::I16, DType::U16];
    for lhs in narrow {
        for rhs in narrow {
            for acc in [DType::I32, DType::I8, DType::U16, DType::U32, DType::I64] {
                // Around whole panels and whole groups of four.
                let (m, n, k) = (31 + random.below(13), 30 + random.below(6), 61 + random.below(9));
                let (mi, ni, ki) = (m as isize, n as isize, k as isize);
                let a = Access::new(lhs, [&[ki, 0, 1], &[1, 0, mi], &[-ki, 0, 1], &[2 * ki, 0, 2]][random.below(4)]);
                let b = Access::new(rhs, [&[0, 1, ni], &[0, ki, 1], &[0, -1, ni], &[0, 2, 2 * ni]][random.below(4)]);
                let c = Access::new(acc, [&[ni, 1, 0], &[1, mi, 0], &[2 * ni, 2, 0]][random.below(3)]);
                let op = Op::contract(&[m, n, k], vec![a, b], vec![c], mixed(lhs, rhs, acc));
                check(&op.unwrap(), &mut random, &[]);
            }
        }
    }
}

#[test]
fn bytes_are_multiplied_exactly_over_several_blocks_of_k() {
    let mut random = Random::new();
    for (lhs, rhs, acc) in [
        (DType::I8, DType::I8, DType::I32),
        (DType::U8, DType::U8, DType::I32),
        (DType::I8, DType::U8, DType::I8),
        (DType::U8, DType::I8, DType::U32),
    ] {
        // A block has 1024 or 2048 indices of K.
        for k in [1023, 1025, 2048, 2050, 4099] {
            let (m, n) = (2 + random.below(40), 2 + random.below(70));
            let a = Access::new(lhs, &[k as isize, 0, 1]);
            let right = if k % 2 == 0 { [0, 1, n as isize] } else { [0, k as isize, 1] };
            let b = Access::new(rhs, &right);
            let c = Access::new(acc, &[n as isize, 1, 0]);
            check(&Op::contract(&[m, n, k], vec![a, b], vec![c], mixed(lhs, rhs, acc)).unwrap(), &mut random, &[]);
        }
    }
}

#[test]
fn a_launch_says_why_narrow_numbers_were_multiplied_one_at_a_time() {
    let mut random = Random::new();
    let op = matmul(64, 48, 40, plain(DType::I16, DType::I32), DType::I32);
    let inputs: Vec<_> = op.inputs.iter().map(|a| random.tensor(a.dtype, extent(a, &op.dims).0)).collect();
    for backend in backends().into_iter().filter(|b| matches!(b.isa(), Isa::Avx512 | Isa::Avx2)) {
        let stream = default_stream(&backend);
        let is_dot = |c: &Candidate| c.variant.family.name() == "dot";
        let candidates: Vec<Candidate> = backend.variants(&op).into_iter().filter(is_dot).collect();
        assert_eq!(candidates.len(), 1);
        for candidate in candidates {
            let run = |alignment| run_reporting(&backend, &*stream, &op, &candidate, &inputs, &[], alignment);
            let ((one, planned), (other, reason)) = (run(Alignment::Aligned), run(Alignment::Misaligned));
            assert_eq!(planned, None, "{}", candidate.label());
            assert!(reason.is_some_and(|r| r.contains("odd addresses")), "{}: {reason:?}", candidate.label());
            assert!(one == other, "{}", candidate.label());
        }
    }
}

#[test]
fn ways_are_offered_only_where_they_run() {
    let strided = |m: usize, n: usize, k: usize, right: [isize; 3], dtype: DType, acc: DType| {
        let a = Access::new(dtype, &[k as isize, 0, 1]);
        let (b, c) = (Access::new(dtype, &right), Access::new(acc, &[n as isize, 1, 0]));
        Op::contract(&[m, n, k], vec![a, b], vec![c], mixed(dtype, dtype, acc)).unwrap()
    };
    let plain = |m, n, k| strided(m, n, k, [0, 1, n as isize], DType::F32, DType::F32);
    for backend in backends() {
        let families =
            |op: &Op| backend.variants(op).iter().map(|v| v.variant.family.name().to_string()).collect::<Vec<_>>();
        // A matrix times a vector is read once, which the cost model knows; of one with gaps in both directions, no line can be read as a whole.
        for (m, n, k) in
            [(1, 300, 200), (300, 1, 200), (1, 4096, 64), (64, 1, 4096), (1, 2000, 3000), (8, 1, 8), (1, 8, 8)]
        {
            let op = plain(m, n, k);
            let profile = backend.reference_profile().unwrap();
            let seconds = |v: &Candidate| cost(&op, Some(&v.traffic), profile).seconds;
            let ways =
                backend.variants(&op).into_iter().filter(|v| ["gemv", "packed"].contains(&v.variant.family.name()));
            let best = ways.min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap();
            assert_eq!(best.variant.family.name(), "gemv", "{m} x {n} x {k} on {}", backend.isa().name());
        }
        assert!(!families(&strided(1, 300, 200, [0, 2, 600], DType::F32, DType::F32)).iter().any(|f| f == "gemv"));
        // Kernels that read unpacked operands want contiguous columns of the right one, in the type of the sum.
        let is_small = |op: &Op| families(op).iter().any(|f| f == "small");
        assert!(is_small(&plain(16, 16, 16)) == (backend.isa() != Isa::Portable), "{:?}", backend.isa());
        assert!(!is_small(&strided(16, 16, 16, [0, 16, 1], DType::F32, DType::F32)));
        assert!(!is_small(&strided(16, 16, 16, [0, 1, 16], DType::BF16, DType::F32)) && !is_small(&plain(64, 64, 64)));
        // Bytes are multiplied several at a time where there are enough of them, and that is what the cost model chooses.
        let bytes = strided(64, 64, 64, [0, 1, 64], DType::I8, DType::I32);
        let several = matches!(backend.isa(), Isa::Avx512 | Isa::Avx2);
        assert_eq!(families(&bytes).iter().any(|f| f == "dot"), several, "{:?}", backend.isa());
        if several {
            let profile = backend.reference_profile().unwrap();
            let seconds = |v: &Candidate| cost(&bytes, Some(&v.traffic), profile).seconds;
            let variants = backend.variants(&bytes);
            let best = variants.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap();
            assert_eq!(best.variant.family.name(), "dot");
        }
        assert!(!families(&strided(8, 8, 8, [0, 1, 8], DType::I8, DType::I32)).iter().any(|f| f == "dot"));
    }
}

#[test]
fn batches_of_bytes_may_be_broadcast() {
    let mut random = Random::new();
    let (b, m, n, k) = (3usize, 35usize, 34usize, 66usize);
    let (mk, kn, mn) = ((m * k) as isize, (k * n) as isize, (m * n) as isize);
    for (left, right) in [(mk, kn), (0, kn), (mk, 0), (0, 0)] {
        let contract = Contract { m: 1, n: 2, k: 3, ..mixed(DType::I8, DType::U8, DType::I32) };
        let inputs =
            vec![Access::new(DType::I8, &[left, k as isize, 0, 1]), Access::new(DType::U8, &[right, 0, 1, n as isize])];
        let c = Access::new(DType::I32, &[mn, n as isize, 1, 0]);
        check(&Op::contract(&[b, m, n, k], inputs, vec![c], contract).unwrap(), &mut random, &[]);
    }
}

#[test]
fn sums_of_bytes_are_scaled_in_their_epilogue() {
    let mut random = Random::new();
    let (m, n, k) = (39usize, 45usize, 130usize);
    // f32(acc) * p0 + bias, and the sums themselves; the sums wrap at the bits they have.
    for acc in [DType::I32, DType::I16, DType::U8, DType::U32] {
        let mut e = ExprBuilder::new();
        let sum = e.push(Node::Acc, acc);
        let (value, scale, bias) = (e.cast(sum, DType::F32), e.param(0, DType::F32), e.input(2, DType::F32));
        let product = e.binary(Binary::Mul, value, scale).unwrap();
        let total = e.binary(Binary::Add, product, bias).unwrap();
        let epilogue = e.finish(&[total, sum]);
        for out in [[n as isize, 1, 0], [1, m as isize, 0]] {
            let contract = Contract { epilogue: epilogue.clone(), ..mixed(DType::I8, DType::I8, acc) };
            let inputs = vec![
                Access::new(DType::I8, &[k as isize, 0, 1]),
                Access::new(DType::I8, &[0, 1, n as isize]),
                Access::new(DType::F32, &[0, 1, 0]),
            ];
            let outputs = vec![Access::new(DType::F32, &out), Access::new(acc, &[n as isize, 1, 0])];
            let op = Op::contract(&[m, n, k], inputs, outputs, contract).unwrap();
            check(&op, &mut random, &[Scalar::new(0.125f32)]);
        }
    }
}

#[test]
fn transposed_reversed_and_spread_layouts_agree() {
    let mut random = Random::new();
    let (m, n, k) = (11isize, 18isize, 14isize);
    let lefts = [[k, 0, 1], [1, 0, m], [-k, 0, 1], [3 * k, 0, 2], [0, 0, 1], [1, 0, 0]];
    let rights = [[0, 1, n], [0, k, 1], [0, -1, n], [0, 2, 3 * n], [0, 0, 1]];
    let results = [[n, 1, 0], [1, m, 0], [2 * n, 2, 0], [-n, 1, 0]];
    for (i, a) in lefts.iter().enumerate() {
        for (j, b) in rights.iter().enumerate() {
            let c = results[(i + j) % results.len()];
            let access = |s: &[isize]| Access::new(DType::F32, s);
            let dims = [m as usize, n as usize, k as usize];
            let op = Op::contract(&dims, vec![access(a), access(b)], vec![access(&c)], plain(DType::F32, DType::F32));
            check(&op.unwrap(), &mut random, &[]);
        }
    }
}

#[test]
fn batches_may_be_broadcast_and_have_several_dimensions() {
    let mut random = Random::new();
    let (b1, b2, m, n, k) = (3usize, 2usize, 9usize, 17usize, 12usize);
    let (ki, ni, mk, kn, mn) = (k as isize, n as isize, (m * k) as isize, (k * n) as isize, (m * n) as isize);
    let c = Access::new(DType::F32, &[2 * mn, mn, ni, 1, 0]);
    let lefts = [[2 * mk, mk, ki, 0, 1], [mk, 0, ki, 0, 1], [0, mk, ki, 0, 1], [0, 0, ki, 0, 1]];
    let rights = [[2 * kn, kn, 0, 1, ni], [0, 0, 0, 1, ni], [kn, 3 * kn, 0, 1, ni]];
    for a in lefts {
        for b in rights {
            let contract = Contract { m: 2, n: 3, k: 4, ..plain(DType::F32, DType::F32) };
            let accesses = vec![Access::new(DType::F32, &a), Access::new(DType::F32, &b)];
            check(&Op::contract(&[b1, b2, m, n, k], accesses, vec![c.clone()], contract).unwrap(), &mut random, &[]);
        }
    }
}

#[test]
fn an_operand_that_only_some_matrices_of_a_batch_have_agrees() {
    let mut random = Random::new();
    let (b, m, n, k) = (3usize, 20usize, 70usize, 33usize);
    let (ki, ni) = (k as isize, n as isize);
    // The same matrix for each product but the first, which has none.
    let guard = Guard { coefficients: [1, 0, 0, 0].as_slice().into(), offset: -1, limit: 2 };
    let some = |strides: &[isize]| Access {
        guards: [guard.clone()].into_iter().collect(),
        ..Access::new(DType::F32, strides)
    };
    let all = |own: isize, strides: [isize; 3]| Access::new(DType::F32, &[&[own], &strides[..]].concat());
    let (left, right) = ([ki, 0, 1], [0, 1, ni]);
    let c = Access::new(DType::F32, &[(m * n) as isize, ni, 1, 0]);
    let contract = Contract { m: 1, n: 2, k: 3, ..plain(DType::F32, DType::F32) };
    for inputs in [
        vec![some(&[0, ki, 0, 1]), all((k * n) as isize, right)],
        vec![all((m * k) as isize, left), some(&[0, 0, 1, ni])],
        vec![some(&[0, ki, 0, 1]), all(0, right)],
    ] {
        check(&Op::contract(&[b, m, n, k], inputs, vec![c.clone()], contract.clone()).unwrap(), &mut random, &[]);
    }
}

#[test]
fn groups_of_several_dimensions_that_do_not_join_agree() {
    let mut random = Random::new();
    // out[a, b, c, d] = sum over e, f of x[b, e, a, f] * y[f, d, e, c]
    let (a, b, c, d, e, f) = (4usize, 3, 5, 6, 2, 7);
    let (x, y) = (dense(&[b, e, a, f]), dense(&[f, d, e, c]));
    let left = [x[2], x[0], 0, 0, x[1], x[3]];
    let right = [0, 0, y[3], y[1], y[2], y[0]];
    let z = dense(&[a, b, c, d]);
    for (dtype, acc) in
        [(DType::F32, DType::F32), (DType::F16, DType::F32), (DType::I64, DType::I64), (DType::C64, DType::C64)]
    {
        let contract = Contract { m: 0, n: 2, k: 4, ..plain(dtype, acc) };
        for out in [[z[0], z[1], z[2], z[3], 0, 0], [1, 4, 72, 12, 0, 0]] {
            let dims = [a, b, c, d, e, f];
            let accesses = vec![Access::new(dtype, &left), Access::new(dtype, &right)];
            let op = Op::contract(&dims, accesses, vec![Access::new(acc, &out)], contract.clone()).unwrap();
            check(&op, &mut random, &[]);
        }
    }
}

/// The parts of a two-dimensional convolution.
struct Convolution {
    batch: usize,
    channels: usize,
    filters: usize,
    size: [usize; 2],
    window: [usize; 2],
    stride: usize,
    dilation: usize,
    padding: usize,
    channels_last: bool,
    /// Whether the image is read from its last row and column on.
    mirrored: bool,
}

impl Convolution {
    /// out[n, f, h, w] = sum over c, r, s of filter[f, c, r, s] * image[n, c, h * stride + r - padding, ...]
    fn op(&self, dtype: DType) -> Op {
        let Convolution {
            batch, channels: c, filters: f, size, window, stride, dilation, padding, channels_last, ..
        } = *self;
        let out = |d: usize| (size[d] + 2 * padding - dilation * (window[d] - 1) - 1) / stride + 1;
        let (oh, ow) = (out(0), out(1));
        let (h, w) = (size[0], size[1]);
        let image = if channels_last { [h * w * c, 1, w * c, c] } else { [c * h * w, h * w, w, 1] }.map(|s| s as isize);
        let filter = dense(&[f, c, window[0], window[1]]);
        let (st, di, pad) = (stride as isize, dilation as isize, padding as isize);
        // Dimensions: n | f | oh, ow | c, r, s
        let dims = [batch, f, oh, ow, c, window[0], window[1]];
        let left = Access::new(dtype, &[0, filter[0], 0, 0, filter[1], filter[2], filter[3]]);
        let guard = |at: usize, by: usize, limit: usize| {
            let mut coefficients = [0isize; 7];
            coefficients[at] = st;
            coefficients[by] = di;
            Guard { coefficients: coefficients.as_slice().into(), offset: -pad, limit }
        };
        let mut right =
            Access::new(dtype, &[image[0], 0, image[2] * st, image[3] * st, image[1], image[2] * di, image[3] * di]);
        if padding > 0 {
            right.base = -pad * (image[2] + image[3]);
            right.guards = [guard(2, 5, h), guard(3, 6, w)].into_iter().collect();
        }
        if self.mirrored {
            right.base = (h as isize - 1 + pad) * image[2] + (w as isize - 1 + pad) * image[3];
            [2, 3, 5, 6].into_iter().for_each(|d| right.strides[d] *= -1);
        }
        let o = dense(&[batch, f, oh, ow]);
        let result = Access::new(dtype, &[o[0], o[1], o[2], o[3], 0, 0, 0]);
        let acc = dtype.compute();
        let mut b = ExprBuilder::new();
        let sum = b.push(Node::Acc, acc);
        let value = b.cast(sum, dtype);
        let epilogue = b.finish(&[value]);
        let contract = Contract {
            m: 1,
            n: 2,
            k: 4,
            lhs: input(0, dtype),
            rhs: input(1, dtype),
            acc,
            epilogue,
            accuracy: Default::default(),
        };
        Op::contract(&dims, vec![left, right], vec![result], contract).unwrap()
    }

    fn check(&self, dtype: DType, random: &mut Random) {
        let op = self.op(dtype);
        let image = self.batch * self.channels * self.size[0] * self.size[1];
        let filter = extent(&op.inputs[0], &op.dims).0;
        let inputs = [random.tensor(dtype, filter), random.tensor(dtype, image)];
        check_with(&op, &inputs, &[]);
    }
}

/// What cases differ from.
const BASE: Convolution = Convolution {
    batch: 2,
    channels: 3,
    filters: 5,
    size: [9, 11],
    window: [3, 3],
    stride: 1,
    dilation: 1,
    padding: 1,
    channels_last: false,
    mirrored: false,
};

#[test]
fn convolutions_with_padding_stride_and_dilation_agree() {
    let mut random = Random::new();
    let base = BASE;
    base.check(DType::F32, &mut random);
    base.check(DType::F16, &mut random);
    base.check(DType::I32, &mut random);
    Convolution { padding: 0, ..base }.check(DType::F32, &mut random);
    Convolution { stride: 2, padding: 2, ..base }.check(DType::F32, &mut random);
    Convolution { dilation: 2, padding: 3, ..base }.check(DType::F32, &mut random);
    Convolution { channels_last: true, ..base }.check(DType::F32, &mut random);
    Convolution { channels_last: true, stride: 2, ..base }.check(DType::F64, &mut random);
    Convolution { window: [1, 1], padding: 0, ..base }.check(DType::F32, &mut random);
    Convolution { size: [3, 2], padding: 4, ..base }.check(DType::F32, &mut random);
    // Every number of vectors in a panel of channels, several panels, and K of several passes.
    for filters in [16, 64, 65, 100] {
        for channels_last in [false, true] {
            Convolution { batch: 1, channels: 33, filters, channels_last, ..base }.check(DType::F32, &mut random);
        }
    }
}

#[test]
fn operands_may_be_expressions_of_several_inputs_and_parameters() {
    let mut random = Random::new();
    // lhs = relu(a * p0 + b), rhs = cast(q: i8) - p1
    let mut e = ExprBuilder::new();
    let (a, shift) = (e.input(0, DType::F32), e.input(1, DType::F32));
    let scale = e.param(0, DType::F32);
    let product = e.binary(Binary::Mul, a, scale).unwrap();
    let sum = e.binary(Binary::Add, product, shift).unwrap();
    let zero = e.constant(Scalar::new(0f32));
    let relu = e.binary(Binary::Max, sum, zero).unwrap();
    let lhs = e.finish(&[relu]);
    let mut e = ExprBuilder::new();
    let q = e.input(2, DType::I8);
    let q = e.cast(q, DType::F32);
    let offset = e.param(1, DType::F32);
    let value = e.binary(Binary::Sub, q, offset).unwrap();
    let rhs = e.finish(&[value]);
    let (m, n, k) = (23usize, 37usize, 41usize);
    for shift in [[0, 0, 1], [1, 0, 0], [k as isize, 0, 1], [1, 0, m as isize]] {
        let contract = Contract { lhs: lhs.clone(), rhs: rhs.clone(), ..plain(DType::F32, DType::F32) };
        let inputs = vec![
            Access::new(DType::F32, &[k as isize, 0, 1]),
            Access::new(DType::F32, &shift),
            Access::new(DType::I8, &[0, 1, n as isize]),
        ];
        let op =
            Op::contract(&[m, n, k], inputs, vec![Access::new(DType::F32, &[n as isize, 1, 0])], contract).unwrap();
        check(&op, &mut random, &[Scalar::new(1.25f32), Scalar::new(-3.5f32)]);
    }
}

#[test]
fn epilogues_add_bias_and_residual_activate_and_write_several_outputs() {
    let mut random = Random::new();
    let (m, n, k) = (29usize, 45usize, 31usize);
    let ni = n as isize;
    let mut e = ExprBuilder::new();
    let acc = e.push(Node::Acc, DType::F32);
    let (bias, residual) = (e.input(2, DType::F32), e.input(3, DType::F16));
    let with_bias = e.binary(Binary::Add, acc, bias).unwrap();
    let active = e.unary(Unary::Tanh, with_bias).unwrap();
    let residual = e.cast(residual, DType::F32);
    let total = e.binary(Binary::Add, active, residual).unwrap();
    let half = e.cast(total, DType::BF16);
    let scale = e.param(0, DType::F32);
    let positive = e.binary(Binary::Gt, with_bias, scale).unwrap();
    let epilogue = e.finish(&[half, with_bias, positive]);
    for bias in [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, -2, 0]] {
        for outputs in [[[ni, 1, 0], [ni, 1, 0], [ni, 1, 0]], [[1, m as isize, 0], [ni, 1, 0], [2 * ni, 2, 0]]] {
            let contract = Contract { epilogue: epilogue.clone(), ..plain(DType::F32, DType::F32) };
            let inputs = vec![
                Access::new(DType::F32, &[k as isize, 0, 1]),
                Access::new(DType::F32, &[0, 1, ni]),
                Access::new(DType::F32, &bias),
                Access::new(DType::F16, &[ni, 1, 0]),
            ];
            let dtypes = [DType::BF16, DType::F32, DType::Bool];
            let outputs = outputs.iter().zip(dtypes).map(|(s, d)| Access::new(d, s)).collect();
            let op = Op::contract(&[m, n, k], inputs, outputs, contract).unwrap();
            check(&op, &mut random, &[Scalar::new(0.25f32)]);
        }
    }
}

/// Steps of all sorts on f32: values used twice, an operand on either side, functions of one value and of two.
fn single_precision_epilogue() -> Expr {
    let mut e = ExprBuilder::new();
    let acc = e.push(Node::Acc, DType::F32);
    let (bias, residual) = (e.input(2, DType::F32), e.input(3, DType::F32));
    let scale = e.param(0, DType::F32);
    let half = e.constant(Scalar::new(0.5f32));
    let x = e.binary(Binary::Add, bias, acc).unwrap();
    let square = e.binary(Binary::Mul, x, x).unwrap();
    let smooth = e.unary(Unary::Tanh, square).unwrap();
    let from = e.binary(Binary::Sub, residual, smooth).unwrap();
    let active = e.binary(Binary::Max, from, half).unwrap();
    let ratio = e.binary(Binary::Div, scale, active).unwrap();
    let power = e.binary(Binary::Pow, ratio, half).unwrap();
    let total = e.binary(Binary::Add, power, x).unwrap();
    let low = e.binary(Binary::Min, total, residual).unwrap();
    e.finish(&[low, x, square])
}

#[test]
fn epilogues_of_single_precision_agree_at_all_edges_of_a_tile() {
    let mut random = Random::new();
    let epilogue = single_precision_epilogue();
    for (m, n, k) in [(29, 45, 31), (8, 8, 5), (9, 7, 40), (65, 49, 70), (3, 130, 9), (300, 33, 20)] {
        let ni = n as isize;
        for bias in [[0, 1, 0], [1, 0, 0], [0, 0, 0], [ni, 1, 0], [0, -2, 0]] {
            let contract = Contract { epilogue: epilogue.clone(), ..plain(DType::F32, DType::F32) };
            let inputs = vec![
                Access::new(DType::F32, &[k as isize, 0, 1]),
                Access::new(DType::F32, &[0, 1, ni]),
                Access::new(DType::F32, &bias),
                Access::new(DType::F32, &[ni + 3, 1, 0]),
            ];
            let outputs = [[ni, 1, 0], [ni + 1, 1, 0], [2 * ni, 1, 0]];
            let outputs = outputs.iter().map(|s| Access::new(DType::F32, s)).collect();
            let op = Op::contract(&[m, n, k], inputs, outputs, contract).unwrap();
            check(&op, &mut random, &[Scalar::new(0.75f32)]);
        }
    }
}

#[test]
fn convolutions_by_single_elements_agree_with_few_pixels_or_with_pixels_left_out() {
    let mut random = Random::new();
    let base = Convolution { channels: 260, filters: 37, size: [7, 7], window: [1, 1], padding: 0, ..BASE };
    base.check(DType::F32, &mut random);
    Convolution { stride: 2, size: [13, 14], ..base }.check(DType::F32, &mut random);
    Convolution { stride: 3, size: [31, 10], batch: 1, ..base }.check(DType::F32, &mut random);
    Convolution { stride: 2, size: [13, 14], channels_last: true, ..base }.check(DType::F32, &mut random);
    // Windows that overlap although pixels are two apart.
    Convolution { stride: 2, size: [13, 14], window: [3, 3], ..base }.check(DType::F32, &mut random);
}

#[test]
fn prices_know_how_fast_narrow_integers_are_multiplied() {
    // With a bias in another type: what counts is what is multiplied.
    let op = |dtype: DType| {
        let mut e = ExprBuilder::new();
        let sum = e.push(Node::Acc, DType::I32);
        let (value, bias) = (e.cast(sum, DType::F32), e.input(2, DType::F32));
        let total = e.binary(Binary::Add, value, bias).unwrap();
        let contract = Contract { epilogue: e.finish(&[total]), ..mixed(dtype, dtype, DType::I32) };
        let inputs = [(dtype, [1024, 0, 1]), (dtype, [0, 1, 1024]), (DType::F32, [0, 1, 0])];
        let inputs = inputs.map(|(dtype, strides)| Access::new(dtype, &strides)).to_vec();
        Op::contract(&[1024; 3], inputs, vec![Access::new(DType::F32, &[1024, 1, 0])], contract).unwrap()
    };
    for backend in common::backends() {
        let profile = backend.reference_profile().unwrap();
        let seconds = |dtype: DType| cost(&op(dtype), None, profile).floor;
        for narrow in [DType::I8, DType::U8, DType::I16] {
            let faster = profile.rate(narrow) / profile.rate(DType::I32);
            let (got, whole) = (seconds(narrow), seconds(DType::I32));
            assert!((whole / got / faster - 1.0).abs() < 1e-6, "{narrow}: {got} of {whole}, {faster} times the rate");
        }
    }
}

#[test]
fn prices_know_of_kernels_for_edges_and_of_blocks_that_are_not_full() {
    let (m, n) = (29, 70);
    let op = matmul(m, n, 400, plain(DType::F32, DType::F32), DType::F32);
    for backend in common::backends() {
        let seconds = |v: &Candidate| cost(&op, Some(&v.traffic), backend.reference_profile().unwrap()).seconds;
        let packed: Vec<Candidate> =
            backend.variants(&op).into_iter().filter(|v| v.variant.family.name() == "packed").collect();
        assert!(!packed.is_empty());
        for v in packed {
            let far = v.traffic.tile.blocks.last().unwrap();
            assert!(far.m <= m && far.n <= n, "{}", v.label());
            let whole = Candidate { traffic: Traffic { edges: None, ..v.traffic.clone() }, ..v.clone() };
            // Kernels in plain Rust have one size.
            let less = if backend.isa() == Isa::Portable {
                seconds(&v) <= seconds(&whole)
            } else {
                seconds(&v) < seconds(&whole)
            };
            assert!(less, "{} on {}", v.label(), backend.isa().name());
        }
    }
}

#[test]
fn what_lies_in_the_border_of_an_image_is_left_out() {
    // Ways that read the image in place, and that copy it.
    let mut copies = [0, 0];
    let mut random = Random::new();
    // Of the last panel of filters there is more than one vector: single ones have a price of their own.
    let base = Convolution { channels: 70, filters: 108, size: [7, 7], ..BASE };
    // Planes whose elements crowd L1, and windows of which some see nothing but the border.
    let crowded = Convolution { channels: 6, size: [32, 32], batch: 1, ..base };
    let outside = Convolution { channels: 5, size: [4, 9], padding: 5, ..base };
    for case in [Convolution { size: [14, 15], batch: 1, ..base }, crowded, outside, base] {
        for channels_last in [false, true] {
            let case = Convolution { channels_last, ..case };
            case.check(DType::F32, &mut random);
            let op = case.op(DType::F32);
            for backend in common::backends() {
                let seconds = |v: &Candidate| cost(&op, Some(&v.traffic), backend.reference_profile().unwrap()).seconds;
                let ways: Vec<Candidate> =
                    backend.variants(&op).into_iter().filter(|v| v.variant.family.name() == "direct").collect();
                assert!(backend.isa() == Isa::Portable || !ways.is_empty());
                for v in ways {
                    let all = op.dims.iter().product::<usize>() as u64;
                    let left_out = v.traffic.computed.is_some_and(|n| n >= op.multiply_adds() && n < all);
                    let traffic = Traffic { computed: None, ..v.traffic.clone() };
                    let everything = Candidate { traffic, ..v.clone() };
                    assert!(left_out && seconds(&v) < seconds(&everything), "{}", v.label());
                    // Channels first, results are transposed, too.
                    let transposed = if channels_last { 0 } else { 4 * op.output_len(0) as u64 };
                    copies[usize::from(v.traffic.copied > transposed)] += 1;
                }
            }
        }
    }
    // With the short vectors of NEON, multiply-adds weigh so much that a copy is the cheaper way for all of these.
    let both = cfg!(target_arch = "x86_64") && common::backends().iter().any(|b| b.isa() != Isa::Portable);
    assert!(!both || copies.iter().all(|&n| n > 0), "{copies:?}");
}

#[test]
fn convolutions_whose_filters_are_packed_in_portions_agree() {
    let mut random = Random::new();
    // More than 2 MiB of filters, and an image without a border, which is read in place.
    let base = Convolution { channels: 250, filters: 260, size: [5, 5], padding: 0, ..BASE };
    for channels_last in [false, true] {
        Convolution { channels_last, ..base }.check(DType::F32, &mut random);
    }
}

#[test]
fn convolutions_of_images_that_are_read_backwards_agree() {
    let mut random = Random::new();
    let base = Convolution { channels: 5, filters: 19, ..BASE };
    for (padding, stride, window) in [(0, 1, 3), (1, 1, 3), (2, 2, 3), (0, 1, 1), (0, 2, 1)] {
        let case = Convolution { padding, stride, window: [window; 2], mirrored: true, ..base };
        let op = case.op(DType::F32);
        let known = |b: &CpuBackend| b.variants(&op).iter().any(|v| v.variant.family.name() == "direct");
        // Single elements at every pixel are a matrix, which is packed.
        let meant = window > 1 || stride > 1;
        assert!(!meant || common::backends().iter().all(|b| b.isa() == Isa::Portable || known(b)), "{op:?}");
        case.check(DType::F32, &mut random);
    }
}

#[test]
fn an_empty_sum_is_zero_before_the_epilogue_and_empty_results_touch_nothing() {
    let mut random = Random::new();
    let mut e = ExprBuilder::new();
    let acc = e.push(Node::Acc, DType::F32);
    let seven = e.constant(Scalar::new(7f32));
    let value = e.binary(Binary::Add, acc, seven).unwrap();
    let epilogue = e.finish(&[value]);
    for (m, n, k) in [(3, 5, 0), (0, 5, 3), (3, 0, 3), (0, 0, 0)] {
        check(&matmul(m, n, k, plain(DType::F32, DType::F32), DType::F32), &mut random, &[]);
        let contract = Contract { epilogue: epilogue.clone(), ..plain(DType::F32, DType::F32) };
        check(&matmul(m, n, k, contract, DType::F32), &mut random, &[]);
    }
}

#[test]
fn operands_and_epilogues_may_ask_for_the_index() {
    let mut random = Random::new();
    // lhs: a[m1, m2, k] where k <= m2, else 0; result plus n.
    let mut e = ExprBuilder::new();
    let a = e.input(0, DType::F32);
    let (row, column) = (e.push(Node::Index(1), DType::I64), e.push(Node::Index(3), DType::I64));
    let below = e.binary(Binary::Le, column, row).unwrap();
    let zero = e.constant(Scalar::new(0f32));
    let masked = e.select(below, a, zero).unwrap();
    let lhs = e.finish(&[masked]);
    let mut e = ExprBuilder::new();
    let acc = e.push(Node::Acc, DType::F32);
    let n = e.push(Node::Index(2), DType::I64);
    let n = e.cast(n, DType::F32);
    let value = e.binary(Binary::Add, acc, n).unwrap();
    let epilogue = e.finish(&[value]);
    let (m1, m2, n, k) = (3usize, 7usize, 19usize, 8usize);
    for left in [[(m2 * k) as isize, k as isize, 0, 1], [1, 3, 0, 21]] {
        let contract = Contract {
            m: 0,
            n: 2,
            k: 3,
            lhs: lhs.clone(),
            rhs: input(1, DType::F32),
            acc: DType::F32,
            epilogue: epilogue.clone(),
            accuracy: Default::default(),
        };
        let inputs = vec![Access::new(DType::F32, &left), Access::new(DType::F32, &[0, 0, 1, n as isize])];
        let output = Access::new(DType::F32, &[(m2 * n) as isize, n as isize, 1, 0]);
        check(&Op::contract(&[m1, m2, n, k], inputs, vec![output], contract).unwrap(), &mut random, &[]);
    }
}

#[test]
fn truth_values_are_joined_by_and_and_or() {
    let mut random = Random::new();
    check(&matmul(31, 33, 6, plain(DType::Bool, DType::Bool), DType::Bool), &mut random, &[]);
    check(&matmul(5, 6, 300, plain(DType::Bool, DType::Bool), DType::Bool), &mut random, &[]);
    check(&matmul(9, 12, 20, plain(DType::F32, DType::Bool), DType::Bool), &mut random, &[]);
}

#[test]
fn an_epilogue_input_may_be_guarded() {
    let mut random = Random::new();
    // The bias exists for the columns 3 to 9 only; others read 0.5.
    let mut e = ExprBuilder::new();
    let acc = e.push(Node::Acc, DType::F32);
    let bias = e.input(2, DType::F32);
    let value = e.binary(Binary::Sub, acc, bias).unwrap();
    let contract = Contract { epilogue: e.finish(&[value]), ..plain(DType::F32, DType::F32) };
    let (m, n, k) = (4usize, 20usize, 6usize);
    let guard = Guard { coefficients: [0, 1, 0].as_slice().into(), offset: -3, limit: 7 };
    let bias = Access {
        base: -3,
        guards: [guard].into_iter().collect(),
        fill: Scalar::new(0.5f32),
        ..Access::new(DType::F32, &[0, 1, 0])
    };
    let inputs = vec![Access::new(DType::F32, &[k as isize, 0, 1]), Access::new(DType::F32, &[0, 1, n as isize]), bias];
    let op = Op::contract(&[m, n, k], inputs, vec![Access::new(DType::F32, &[n as isize, 1, 0])], contract).unwrap();
    let tensors: Vec<HostTensor> = [m * k, k * n, 7].into_iter().map(|len| random.tensor(DType::F32, len)).collect();
    check_with(&op, &tensors, &[]);
}

#[test]
fn random_contractions_agree() {
    let mut random = Random::new();
    for _ in 0..25 {
        let rank = |r: &mut Random| r.below(3);
        let groups = [rank(&mut random), rank(&mut random), rank(&mut random), rank(&mut random)];
        let dims: Vec<usize> = (0..groups.iter().sum()).map(|_| 1 + random.below(9)).collect();
        let (m, n) = (groups[0], groups[0] + groups[1]);
        let k = n + groups[2];
        // Operands lie in memory in a random order of their dimensions, some of them broadcast or reversed.
        let layout = |ignored: std::ops::Range<usize>, output: bool, random: &mut Random| {
            let mut order: Vec<usize> = (0..dims.len()).filter(|d| !ignored.contains(d)).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
            let mut strides = vec![0isize; dims.len()];
            let mut step = 1 + (random.below(4) == 0) as isize;
            for d in order {
                match random.below(8) {
                    0 if !output => continue,
                    1 => strides[d] = -step,
                    _ => strides[d] = step,
                }
                step *= dims[d] as isize;
            }
            strides
        };
        let a = layout(n..k, false, &mut random);
        let b = layout(m..n, false, &mut random);
        let c = layout(k..dims.len(), true, &mut random);
        let dtype = [DType::F32, DType::F64, DType::I32, DType::BF16][random.below(4)];
        let acc = dtype.compute();
        let mut e = ExprBuilder::new();
        let sum = e.push(Node::Acc, acc);
        let out = e.cast(sum, dtype);
        let epilogue = e.finish(&[out]);
        let contract = Contract {
            m,
            n,
            k,
            lhs: input(0, dtype),
            rhs: input(1, dtype),
            acc,
            epilogue,
            accuracy: Default::default(),
        };
        let op = Op::contract(
            &dims,
            vec![Access::new(dtype, &a), Access::new(dtype, &b)],
            vec![Access::new(dtype, &c)],
            contract,
        );
        check(&op.unwrap(), &mut random, &[]);
    }
}

/// Each way to compute some convolutions, with filters that are not cached: what the cost model says by which kernels are chosen,
/// and the clock, on `T` threads.
#[test]
#[ignore = "prints timings"]
fn ways_to_convolve() {
    let mut random = Random::new();
    let threads = std::env::var("T").ok().and_then(|t| t.parse().ok()).unwrap_or(1);
    let backend = CpuBackend::open(CpuOptions { threads: Some(threads), isa: None }).unwrap();
    let stream = common::default_stream(&backend);
    let square = |channels, filters, size, window, stride| Convolution {
        batch: 1,
        channels,
        filters,
        size: [size; 2],
        window: [window; 2],
        stride,
        padding: window / 2,
        ..BASE
    };
    for case in [
        square(3, 64, 224, 7, 2),
        square(64, 64, 56, 3, 1),
        square(128, 128, 28, 3, 1),
        square(256, 256, 14, 3, 1),
        square(512, 512, 7, 3, 1),
        square(256, 1024, 14, 1, 1),
        square(64, 256, 56, 1, 1),
        square(512, 2048, 7, 1, 1),
    ] {
        for channels_last in [false, true] {
            let op = Convolution { channels_last, ..case }.op(DType::F32);
            let shape = format!("{:?}{}", &op.dims[1..], if channels_last { ", channels last" } else { "" });
            let inputs: Vec<_> = op.inputs.iter().map(|a| random.tensor(DType::F32, extent(a, &op.dims).0)).collect();
            for variant in backend.variants(&op) {
                let priced = cost(&op, Some(&variant.traffic), backend.reference_profile().unwrap());
                let mut best = f64::INFINITY;
                for _ in 0..5 {
                    let begin = std::time::Instant::now();
                    common::run(&backend, &*stream, &op, &variant, &inputs, &[], common::Alignment::Aligned);
                    best = best.min(begin.elapsed().as_secs_f64());
                }
                println!(
                    "{shape}: {}: priced {:.3} ms, took {:.3} ms",
                    variant.label(),
                    priced.seconds * 1e3,
                    best * 1e3
                );
            }
        }
    }
}
