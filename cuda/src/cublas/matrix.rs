//! A contraction as a matmul that cuBLAS knows: column-major, with a leading dimension.

use millstream_core::{Access, Body, DType, Expr, Node, Op};

/// A matrix as cuBLAS stores it: `rows` x `columns`, column-major, columns `leading` elements from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) leading: usize,
    /// Whether the matmul wants it transposed.
    pub(crate) transposed: bool,
    /// Elements from one matrix of the batch to the next.
    pub(crate) batch: isize,
}

impl Matrix {
    /// The matrix of `rows` x `columns` elements with these strides, where one of them is 1 and the other leaves room.
    fn of(rows: usize, columns: usize, row_stride: isize, column_stride: isize, batch: isize) -> Option<Matrix> {
        // A dimension of one element has any stride.
        let lies = |long: usize, stride: isize| long == 1 || stride == 1;
        let leading = |count: usize, stride: isize, inner: usize| -> Option<usize> {
            if count == 1 { Some(inner.max(1)) } else { usize::try_from(stride).ok().filter(|&s| s >= inner.max(1)) }
        };
        if lies(rows, row_stride)
            && let Some(leading) = leading(columns, column_stride, rows)
        {
            return Some(Matrix { rows, columns, leading, transposed: false, batch });
        }
        if lies(columns, column_stride)
            && let Some(leading) = leading(rows, row_stride, columns)
        {
            return Some(Matrix { rows: columns, columns: rows, leading, transposed: true, batch });
        }
        None
    }
}

/// A matmul as cuBLAS computes it: `d = a * b`, all column-major. For a row-major result, a and b are our right and left
/// operand, because the transposed result is the matmul of the transposed operands in the other order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matmul {
    /// The numbers of the inputs, and elements to their beginnings.
    pub(crate) lhs: usize,
    pub(crate) rhs: usize,
    pub(crate) lhs_base: isize,
    pub(crate) rhs_base: isize,
    pub(crate) out_base: isize,
    /// The dtype of both operands, of the accumulators, and of what is written.
    pub(crate) dtype: DType,
    pub(crate) acc: DType,
    pub(crate) out_dtype: DType,
    pub(crate) batches: usize,
    /// Whether the result is the operation's output; else it is the accumulators, row-major without gaps.
    pub(crate) direct: bool,
    /// Whether a is our right operand.
    pub(crate) swapped: bool,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) d: Matrix,
}

/// The sizes of a contraction and the strides of its operands: along m and k, along k and n, along the batch.
struct View {
    lhs: [isize; 2],
    rhs: [isize; 2],
    batch: [isize; 2],
    sizes: [usize; 3],
    batches: usize,
}

/// The input that an operand is, as it stands or converted to the accumulators' type.
fn plain_input(expr: &Expr, op: &Op, acc: DType) -> Option<usize> {
    let input = match expr.nodes() {
        [(Node::Input(i), _)] => *i,
        [(Node::Input(i), _), (Node::Cast(_), to)] if *to == acc => *i,
        _ => return None,
    };
    let index = usize::from(input);
    op.inputs.get(index)?.is_plain().then_some(index)
}

/// Whether the only result is the sum, perhaps rounded to a half type: what cuBLAS can write itself.
fn written(op: &Op, operands: DType, acc: DType) -> Option<DType> {
    let Body::Contract(c) = &op.body else { return None };
    let dtype = match (c.epilogue.nodes(), c.epilogue.outputs()) {
        ([(Node::Acc, _)], [_]) => acc,
        ([(Node::Acc, _), (Node::Cast(_), to)], [id]) if id.at() == 1 && *to == operands => *to,
        _ => return None,
    };
    (op.outputs.len() == 1).then_some(dtype)
}

impl Matmul {
    /// The operation as a matmul, where it is one.
    pub(crate) fn of(op: &Op) -> Option<Matmul> {
        let Body::Contract(c) = &op.body else { return None };
        let rank = op.dims.len();
        // At most one dimension of each kind, none of them empty.
        let group = |range: std::ops::Range<usize>| match range.len() {
            0 => Some(None),
            1 => Some(Some(range.start)),
            _ => None,
        };
        let (batch, m, n, k) = (group(0..c.m)?, group(c.m..c.n)?, group(c.n..c.k)?, group(c.k..rank)?);
        if op.dims.contains(&0) {
            return None;
        }
        let (lhs, rhs) = (plain_input(&c.lhs, op, c.acc)?, plain_input(&c.rhs, op, c.acc)?);
        let dtype = op.inputs[lhs].dtype;
        let known = match dtype {
            DType::F16 | DType::BF16 => c.acc == DType::F32,
            DType::F32 | DType::F64 => c.acc == dtype,
            _ => false,
        };
        if !known || op.inputs[rhs].dtype != dtype {
            return None;
        }
        let size = |d: Option<usize>| d.map_or(1, |d| op.dims[d]);
        let stride = |a: &Access, d: Option<usize>| d.map_or(0, |d| a.strides[d]);
        let (l, r) = (&op.inputs[lhs], &op.inputs[rhs]);
        let view = View {
            lhs: [stride(l, m), stride(l, k)],
            rhs: [stride(r, k), stride(r, n)],
            batch: [stride(l, batch), stride(r, batch)],
            sizes: [size(m), size(n), size(k)],
            batches: size(batch),
        };
        let base = |p: &mut Matmul| (p.lhs_base, p.rhs_base) = (l.base, r.base);
        if let Some(out_dtype) = written(op, dtype, c.acc) {
            let out = &op.outputs[0];
            let strides = [stride(out, m), stride(out, n), stride(out, batch)];
            if let Some(mut p) = view.matmul(lhs, rhs, dtype, c.acc, out_dtype, strides) {
                base(&mut p);
                (p.out_base, p.direct) = (out.base, true);
                return Some(p);
            }
        }
        let (rows, columns) = (view.sizes[0] as isize, view.sizes[1] as isize);
        let strides = [columns, 1, rows.checked_mul(columns)?];
        let mut p = view.matmul(lhs, rhs, dtype, c.acc, c.acc, strides)?;
        base(&mut p);
        Some(p)
    }
}

impl View {
    /// The matmul with a result of these strides along m, n and the batch.
    fn matmul(
        &self,
        lhs: usize,
        rhs: usize,
        dtype: DType,
        acc: DType,
        out_dtype: DType,
        [along_m, along_n, batch]: [isize; 3],
    ) -> Option<Matmul> {
        let [m, n, k] = self.sizes;
        if self.batches > 1 && (batch < 0 || self.batch.iter().any(|&b| b < 0)) {
            return None;
        }
        // Column-major as it stands, or row-major, which is the transposed result column-major.
        for swapped in [true, false] {
            let (rows, columns, inner, outer) =
                if swapped { (n, m, along_n, along_m) } else { (m, n, along_m, along_n) };
            let Some(d) = Matrix::of(rows, columns, inner, outer, batch).filter(|d| !d.transposed) else { continue };
            let [l, r] = [self.lhs, self.rhs];
            // The left operand is m x k, the right one k x n; transposed they are k x m and n x k.
            let (a, b) = if swapped {
                (Matrix::of(n, k, r[1], r[0], self.batch[1])?, Matrix::of(k, m, l[1], l[0], self.batch[0])?)
            } else {
                (Matrix::of(m, k, l[0], l[1], self.batch[0])?, Matrix::of(k, n, r[0], r[1], self.batch[1])?)
            };
            return Some(Matmul {
                lhs,
                rhs,
                lhs_base: 0,
                rhs_base: 0,
                out_base: 0,
                dtype,
                acc,
                out_dtype,
                batches: self.batches,
                direct: false,
                swapped,
                a,
                b,
                d,
            });
        }
        None
    }
}
