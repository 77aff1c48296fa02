//! What is a matmul for cuBLAS and what is not, and the epilogue as a map; no library is needed for this.

use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar};

use super::matrix::{Matmul, Matrix};
use super::split::SplitEpilogue;

fn operand(input: u16, dtype: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(input, dtype);
    b.finish(&[x])
}

fn rounded(acc: DType, to: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.push(Node::Acc, acc);
    let y = b.cast(x, to);
    b.finish(&[y])
}

/// `dims` are m, n, k; strides are along m and k, k and n, m and n.
fn op(dims: [usize; 3], dtype: DType, a: [isize; 2], b: [isize; 2], c: [isize; 2], epilogue: Expr) -> Op {
    let acc = if dtype.size() == 2 { DType::F32 } else { dtype };
    let out = epilogue.dtype(epilogue.outputs()[0]);
    let inputs = vec![Access::new(dtype, &[a[0], 0, a[1]]), Access::new(dtype, &[0, b[1], b[0]])];
    let outputs = vec![Access::new(out, &[c[0], c[1], 0])];
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: operand(0, dtype),
        rhs: operand(1, dtype),
        acc,
        epilogue,
        accuracy: Default::default(),
    };
    Op::contract(&dims, inputs, outputs, contract).unwrap()
}

const F32: DType = DType::F32;

/// What cuBLAS would compute, element by element, from the strides of a matmul.
fn positions(p: &Matmul, k: usize) -> Vec<(usize, Vec<(usize, usize)>)> {
    let at = |m: &Matrix, row: usize, column: usize| {
        let (r, c) = if m.transposed { (column, row) } else { (row, column) };
        assert!(r < m.rows && c < m.columns);
        r + c * m.leading
    };
    let mut out = Vec::new();
    for i in 0..p.d.rows {
        for j in 0..p.d.columns {
            let pairs = (0..k).map(|x| {
                let (a, b) = (at(&p.a, i, x), at(&p.b, x, j));
                if p.swapped { (b, a) } else { (a, b) }
            });
            out.push((at(&p.d, i, j), pairs.collect()));
        }
    }
    out.sort();
    out
}

fn expected(op: &Op, [m, n, k]: [usize; 3]) -> Vec<(usize, Vec<(usize, usize)>)> {
    let at = |a: &Access, i: [usize; 3]| a.position(&i).unwrap() as usize;
    let mut out = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let pairs = (0..k).map(|x| (at(&op.inputs[0], [i, j, x]), at(&op.inputs[1], [i, j, x])));
            out.push((at(&op.outputs[0], [i, j, 0]), pairs.collect()));
        }
    }
    out.sort();
    out
}

#[test]
fn every_order_of_rows_and_columns_is_the_same_matmul() {
    let dims = [3usize, 5, 7];
    for a in [[7, 1], [9, 1], [1, 3], [1, 4]] {
        for b in [[5, 1], [8, 1], [1, 7], [1, 10]] {
            for c in [[5, 1], [6, 1], [1, 3], [1, 9]] {
                let op = op(dims, F32, a, b, c, Expr::acc(F32));
                let p = Matmul::of(&op).unwrap();
                assert!(p.direct);
                assert_eq!(positions(&p, 7), expected(&op, dims), "{a:?} {b:?} {c:?}");
            }
        }
    }
}

#[test]
fn what_is_no_plain_matrix_is_not_offered() {
    let good = || op([8, 8, 8], F32, [8, 1], [8, 1], [8, 1], Expr::acc(F32));
    assert!(Matmul::of(&good()).is_some());
    for (a, b) in [([16, 2], [8, 1]), ([0, 1], [8, 1]), ([-8, 1], [8, 1]), ([8, 1], [8, -1]), ([4, 1], [8, 1])] {
        assert!(Matmul::of(&op([8, 8, 8], F32, a, b, [8, 1], Expr::acc(F32))).is_none(), "{a:?} {b:?}");
    }
    assert!(Matmul::of(&op([8, 8, 8], DType::I32, [8, 1], [8, 1], [8, 1], Expr::acc(DType::I32))).is_none());
    assert!(Matmul::of(&op([8, 0, 8], F32, [8, 1], [8, 1], [8, 1], Expr::acc(F32))).is_none());
    let mut guarded = good();
    let guard = Guard { coefficients: [1, 0, 0].as_slice().into(), offset: 0, limit: 4 };
    guarded.inputs[0].guards.push(guard);
    assert!(Matmul::of(&guarded).is_none());
}

#[test]
fn half_types_are_summed_in_single_precision_and_written_as_either() {
    for dtype in [DType::F16, DType::BF16] {
        for out in [dtype, F32] {
            let op = op([8, 8, 8], dtype, [8, 1], [8, 1], [8, 1], rounded(F32, out));
            let p = Matmul::of(&op).unwrap();
            assert_eq!((p.dtype, p.acc, p.out_dtype, p.direct), (dtype, F32, out, true));
        }
        // The other half type is an epilogue like any other.
        let other = if dtype == DType::F16 { DType::BF16 } else { DType::F16 };
        let op = op([8, 8, 8], dtype, [8, 1], [8, 1], [8, 1], rounded(F32, other));
        let p = Matmul::of(&op).unwrap();
        assert_eq!((p.out_dtype, p.direct), (F32, false));
    }
}

#[test]
fn an_output_that_cublas_cannot_write_goes_through_scratch_memory() {
    let op = op([4, 5, 6], F32, [6, 1], [5, 1], [-5, 1], Expr::acc(F32));
    let p = Matmul::of(&op).unwrap();
    assert!(!p.direct);
    let split = SplitEpilogue::of(&op, &p).unwrap().unwrap();
    assert_eq!((split.bytes, split.inputs.len()), (4 * 4 * 5, 0));
    assert_eq!(split.op.inputs.len(), 1);
    assert_eq!((p.d.leading, p.d.transposed, p.swapped), (5, false, true));
}

#[test]
fn an_epilogue_becomes_a_map_over_the_sums_and_its_own_inputs() {
    let mut b = ExprBuilder::new();
    let (sum, bias, factor) = (b.push(Node::Acc, F32), b.input(3, F32), b.param(0, F32));
    let y = b.binary(Binary::Mul, sum, factor).unwrap();
    let y = b.binary(Binary::Add, y, bias).unwrap();
    let zero = b.constant(Scalar::zero(F32));
    let y = b.binary(Binary::Max, y, zero).unwrap();
    let epilogue = b.finish(&[y, sum]);
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: operand(0, F32),
        rhs: operand(1, F32),
        acc: F32,
        epilogue,
        accuracy: Default::default(),
    };
    let f = |s: &[isize]| Access::new(F32, s);
    let inputs = vec![f(&[6, 0, 1]), f(&[0, 1, 5]), f(&[1, 0, 0]), f(&[0, 1, 0])];
    let op = Op::contract(&[4, 5, 6], inputs, vec![f(&[5, 1, 0]), f(&[1, 4, 0])], contract).unwrap();
    let p = Matmul::of(&op).unwrap();
    let split = SplitEpilogue::of(&op, &p).unwrap().unwrap();
    assert_eq!(split.inputs, [3]);
    assert_eq!(&split.op.dims[..], [4, 5]);
    assert_eq!(&split.op.inputs[0].strides[..], [5, 1]);
    assert_eq!(&split.op.inputs[1].strides[..], [0, 1]);
    assert_eq!(split.op.outputs.len(), 2);
    assert_eq!(split.op.params(), 1);
    split.op.check().unwrap();
}

#[test]
fn one_batch_dimension_is_a_strided_batch_and_may_be_shared() {
    let contract = Contract {
        m: 1,
        n: 2,
        k: 3,
        lhs: operand(0, F32),
        rhs: operand(1, F32),
        acc: F32,
        epilogue: Expr::acc(F32),
        accuracy: Default::default(),
    };
    let f = |s: &[isize]| Access::new(F32, s);
    let inputs = vec![f(&[100, 6, 0, 1]), f(&[0, 0, 1, 5])];
    let op = Op::contract(&[3, 4, 5, 6], inputs, vec![f(&[20, 5, 1, 0])], contract).unwrap();
    let p = Matmul::of(&op).unwrap();
    assert_eq!((p.batches, p.direct), (3, true));
    // Row-major: our right operand comes first.
    assert_eq!((p.swapped, p.a.batch, p.b.batch, p.d.batch), (true, 0, 100, 20));
}
