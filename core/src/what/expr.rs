//! Element-wise expressions: what a fused kernel computes for one index.
//!
//! An [`Expr`] is a list of nodes in which each refers only to earlier ones, with one or several outputs. The same form
//! serves `Map` bodies, `Rows` programs (with [`Node::Reduce`]) and the operands and epilogues of contractions.
//!
//! # Semantics
//!
//! Every device computes these, within the error bounds that the functions state.
//!
//! - **Types.** A node has one dtype. The operands of arithmetic and comparisons have the same dtype; comparisons give
//!   `bool`. There are no implicit conversions: the tensor layer inserts casts.
//! - **Integers** wrap around in `Add`, `Sub`, `Mul`, `Neg`, `Abs`. `FloorDiv` rounds toward minus infinity and `Rem` takes
//!   the divisor's sign; division by zero gives 0 for both; `MIN / -1` is `MIN` with remainder 0. Integer `Pow` multiplies
//!   wrapping; a negative exponent gives 0, except for the bases 1 and -1.
//! - **Shifts.** The amount is read as unsigned; an amount of the type's width or more gives 0, or the sign for `Shr` of
//!   signed types.
//! - **Half types.** A node of dtype f16 or bf16 holds an f32: arithmetic does not round it, a `Cast` to the half type, a
//!   store and `NextAfter`, which steps to the next number of the half type, do. A fused chain is therefore at least as exact as the same operations one by one.
//! - **Floats** are IEEE 754 with round to nearest even; no flush to zero is promised either way for subnormal
//!   intermediates. A multiplication and the addition it feeds may be rounded once (fused). `FloorDiv` is the quotient rounded
//!   down, infinite where the quotient is.
//! - **NaN.** `Min` and `Max` give NaN if either operand is NaN, `Reduce` likewise; of -0 and +0 either may be given.
//!   Comparisons with NaN are false, `Ne` is true. `Sign` of NaN is NaN. `ArgMax` and `ArgMin` take the first NaN, if any.
//! - **Casts.** Float to integer truncates and saturates, NaN gives 0; integer to integer wraps; to `bool` is `!= 0`; from
//!   `bool` gives 0 or 1; to a narrower float rounds to nearest even; complex to real takes the real part.
//! - **Bool** takes `And`, `Or`, `Xor`, `Not`, `Min`, `Max`, comparisons; `Add` is or, `Mul` is and.
//! - **Complex** numbers have arithmetic, `Eq`, `Ne`, `Neg`, `Exp`, `Log`, `Sqrt`, `Sin`, `Cos`, `Tanh`, `Recip`; `Abs` and `Imag` of a complex
//!   node have the real dtype, `Complex` of two real ones has the complex dtype.
//! - **Select** evaluates both sides; the one not taken has no effect, whatever it is.

use rustc_hash::FxHashMap;

use super::dtype::{DType, Kind};
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// The index of a node in its expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u32);

impl Id {
    /// The index.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $about:literal])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[doc = $about])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The plain name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// What it gives, in a sentence.
            pub fn about(self) -> &'static str {
                match self { $($name::$variant => concat!($($about),*).trim()),* }
            }
        }
    };
}

names! {
    /// Operations on one value.
    Unary {
        /// `-x`.
        Neg = "neg",
        /// The magnitude.
        Abs = "abs",
        /// -1, 0 or 1 (zeros keep their sign).
        Sign = "sign",
        /// Logical not of bool, bitwise not of integers.
        Not = "not",
        /// The square root.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`.
        Rsqrt = "rsqrt",
        /// `1 / x`.
        Recip = "recip",
        /// e to the power of x.
        Exp = "exp",
        /// `exp(x) - 1`, exact near 0.
        Expm1 = "expm1",
        /// The natural logarithm.
        Log = "log",
        /// `log(1 + x)`, exact near 0.
        Log1p = "log1p",
        /// The sine of radians.
        Sin = "sin",
        /// The cosine of radians.
        Cos = "cos",
        /// The tangent of radians.
        Tan = "tan",
        /// The angle in radians whose sine it is; NaN outside of -1 to 1.
        Asin = "asin",
        /// The angle in radians whose cosine it is; NaN outside of -1 to 1.
        Acos = "acos",
        /// The angle in radians whose tangent it is.
        Atan = "atan",
        /// The hyperbolic sine.
        Sinh = "sinh",
        /// The hyperbolic cosine.
        Cosh = "cosh",
        /// The inverse hyperbolic sine.
        Asinh = "asinh",
        /// The inverse hyperbolic cosine; NaN below 1.
        Acosh = "acosh",
        /// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
        Atanh = "atanh",
        /// 2 to the power of x.
        Exp2 = "exp2",
        /// The logarithm to the base 2; exact for powers of 2.
        Log2 = "log2",
        /// The logarithm to the base 10.
        Log10 = "log10",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
        /// `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
        /// Toward minus infinity.
        Floor = "floor",
        /// Toward plus infinity.
        Ceil = "ceil",
        /// Toward zero.
        Trunc = "trunc",
        /// To nearest, halves to even.
        Round = "round",
        /// The imaginary part of a complex number.
        Imag = "imag",
    }
}

names! {
    /// Operations on two values of one dtype.
    Binary {
        /// Sum.
        Add = "add",
        /// Difference.
        Sub = "sub",
        /// Product.
        Mul = "mul",
        /// Quotient of floats and complex numbers.
        Div = "div",
        /// Quotient rounded toward minus infinity.
        FloorDiv = "floor_div",
        /// Remainder with the divisor's sign.
        Rem = "rem",
        /// Power.
        Pow = "pow",
        /// The angle of the point (second, first) from the positive x axis, from -pi to pi.
        Atan2 = "atan2",
        /// The square root of the sum of squares; infinite if either is, even beside NaN.
        Hypot = "hypot",
        /// The magnitude of the first with the sign of the second.
        CopySign = "copysign",
        /// The number next to the first, in the direction of the second; the second where they are equal.
        NextAfter = "nextafter",
        /// Remainder with the dividend's sign, as in C; always exact.
        Fmod = "fmod",
        /// The complex number of a real and an imaginary part.
        Complex = "complex",
        /// The smaller; NaN if either is.
        Min = "min",
        /// The larger; NaN if either is.
        Max = "max",
        /// Bitwise and; logical for bool.
        And = "and",
        /// Bitwise or; logical for bool.
        Or = "or",
        /// Bitwise exclusive or; logical for bool.
        Xor = "xor",
        /// Shift left.
        Shl = "shl",
        /// Shift right; arithmetic for signed integers.
        Shr = "shr",
        /// Equal.
        Eq = "eq",
        /// Not equal.
        Ne = "ne",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Le = "le",
        /// Greater.
        Gt = "gt",
        /// Greater or equal.
        Ge = "ge",
    }
}

names! {
    /// Reductions of a row to one value.
    Reduce {
        /// The sum; 0 of an empty row.
        Sum = "sum",
        /// The product; 1 of an empty row.
        Prod = "prod",
        /// The largest; the type's lowest value of an empty row.
        Max = "max",
        /// The smallest; the type's highest value of an empty row.
        Min = "min",
        /// The index of the largest (the first of several), an i64; 0 of an empty row.
        ArgMax = "argmax",
        /// The index of the smallest (the first of several), an i64; 0 of an empty row.
        ArgMin = "argmin",
    }
}

impl Unary {
    /// The dtype of the result, or `None` where the operation does not exist.
    pub fn result(self, of: DType) -> Option<DType> {
        use Unary::*;
        match (self, of.kind()) {
            (Neg, Kind::Signed | Kind::Unsigned | Kind::Float | Kind::Complex) => Some(of),
            (Abs, Kind::Signed | Kind::Unsigned | Kind::Float) => Some(of),
            (Abs | Imag, Kind::Complex) => Some(of.real()),
            (Sign, Kind::Signed | Kind::Unsigned | Kind::Float) => Some(of),
            (Not, Kind::Bool | Kind::Signed | Kind::Unsigned) => Some(of),
            (Floor | Ceil | Trunc | Round, Kind::Float) => Some(of),
            (Exp | Log | Sqrt | Sin | Cos | Tanh | Recip, Kind::Float | Kind::Complex) => Some(of),
            (Rsqrt | Expm1 | Log1p | Erf | Sigmoid, Kind::Float) => Some(of),
            (Tan | Asin | Acos | Atan | Sinh | Cosh | Asinh | Acosh | Atanh, Kind::Float) => Some(of),
            (Exp2 | Log2 | Log10, Kind::Float) => Some(of),
            _ => None,
        }
    }

    /// The error that a float device may make beyond the exact value, in units in the last place of the result.
    pub fn ulp(self) -> f64 {
        use Unary::*;
        match self {
            Neg | Abs | Sign | Not | Floor | Ceil | Trunc | Round | Imag => 0.0,
            Sqrt | Recip => 0.5,
            _ => 2.0,
        }
    }

    /// Roughly how many simple operations it costs.
    pub fn flop(self) -> u64 {
        use Unary::*;
        match self {
            Neg | Abs | Sign | Not | Floor | Ceil | Trunc | Round | Imag => 1,
            Sqrt | Rsqrt | Recip => 4,
            _ => 16,
        }
    }
}

impl Binary {
    /// Whether the result is a truth value.
    pub fn is_comparison(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge)
    }

    /// The dtype of the result for operands of this dtype, or `None` where the operation does not exist.
    pub fn result(self, of: DType) -> Option<DType> {
        use Binary::*;
        let kind = of.kind();
        let exists = match self {
            Complex => {
                return match of {
                    DType::F32 => Some(DType::C64),
                    DType::F64 => Some(DType::C128),
                    _ => None,
                };
            }
            Atan2 | Hypot | CopySign | NextAfter | Fmod => kind == Kind::Float,
            Eq | Ne | Add | Mul => true,
            Sub | Pow => kind != Kind::Bool,
            Div => matches!(kind, Kind::Float | Kind::Complex),
            FloorDiv | Rem => matches!(kind, Kind::Signed | Kind::Unsigned | Kind::Float),
            Min | Max | Lt | Le | Gt | Ge => kind != Kind::Complex,
            And | Or | Xor => matches!(kind, Kind::Bool | Kind::Signed | Kind::Unsigned),
            Shl | Shr => matches!(kind, Kind::Signed | Kind::Unsigned),
        };
        exists.then_some(if self.is_comparison() { DType::Bool } else { of })
    }

    /// The error that a float device may make beyond the exact value, in units in the last place of the result.
    pub fn ulp(self) -> f64 {
        match self {
            Binary::Pow | Binary::Atan2 | Binary::Hypot => 2.0,
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div => 0.5,
            _ => 0.0,
        }
    }

    /// Roughly how many simple operations it costs.
    pub fn flop(self) -> u64 {
        match self {
            Binary::Div | Binary::FloorDiv | Binary::Rem | Binary::Fmod | Binary::NextAfter => 4,
            Binary::Hypot => 8,
            Binary::Atan2 => 24,
            Binary::Pow => 32,
            _ => 1,
        }
    }
}

impl Reduce {
    /// The dtype of the result, or `None` where the reduction does not exist.
    pub fn result(self, of: DType) -> Option<DType> {
        match self {
            Reduce::Sum | Reduce::Prod => (of != DType::Bool).then_some(of),
            Reduce::Max | Reduce::Min => (!of.is_complex()).then_some(of),
            Reduce::ArgMax | Reduce::ArgMin => (!of.is_complex()).then_some(DType::I64),
        }
    }

    /// What the reduction of an empty row gives, for values of this dtype.
    pub fn identity(self, of: DType) -> Scalar {
        match self {
            Reduce::Sum => Scalar::zero(of),
            Reduce::Prod => Scalar::one(of),
            Reduce::Max => Scalar::lowest(of),
            Reduce::Min => Scalar::highest(of),
            Reduce::ArgMax | Reduce::ArgMin => Scalar::zero(DType::I64),
        }
    }
}

/// One step of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The operation's input of this number, at the current index.
    Input(u16),
    /// The launch parameter of this number. Its value is not part of the expression.
    Param(u16),
    /// A constant that is part of the expression.
    Const(Scalar),
    /// The current index along this dimension of the index space, an i64.
    Index(u8),
    /// In a contraction's epilogue: the contraction's value.
    Acc,
    /// An operation on one value.
    Unary(Unary, Id),
    /// An operation on two values.
    Binary(Binary, Id, Id),
    /// The second where the first (a bool) is true, else the third.
    Select(Id, Id, Id),
    /// The value in the node's dtype.
    Cast(Id),
    /// In a `Rows` program: the reduction of the value over the row.
    Reduce(Reduce, Id),
    /// A random word, see [`philox`]: that of the first, a u32, under the key that the second and third make, both u32.
    Random(Id, Id, Id),
}

impl Node {
    /// The nodes this one reads.
    pub fn operands(&self) -> impl Iterator<Item = Id> + use<> {
        let list = match *self {
            Node::Unary(_, a) | Node::Cast(a) | Node::Reduce(_, a) => [Some(a), None, None],
            Node::Binary(_, a, b) => [Some(a), Some(b), None],
            Node::Select(a, b, c) | Node::Random(a, b, c) => [Some(a), Some(b), Some(c)],
            _ => [None; 3],
        };
        list.into_iter().flatten()
    }
}

impl Node {
    /// The node with other operands instead of its own.
    pub fn with_operands(self, at: impl Fn(Id) -> Id) -> Node {
        match self {
            Node::Unary(u, a) => Node::Unary(u, at(a)),
            Node::Binary(b, x, y) => Node::Binary(b, at(x), at(y)),
            Node::Select(c, x, y) => Node::Select(at(c), at(x), at(y)),
            Node::Cast(a) => Node::Cast(at(a)),
            Node::Reduce(r, a) => Node::Reduce(r, at(a)),
            Node::Random(c, x, y) => Node::Random(at(c), at(x), at(y)),
            leaf => leaf,
        }
    }
}

/// Simple operations of a random word.
pub(crate) const RANDOM_FLOP: u64 = 100;

/// The random word of number `i` under a key: word `i % 4` of the block of number `i / 4` that Philox-4x32 gives in ten rounds
/// (Salmon, Moraes, Dror, Shaw: Parallel random numbers, 2011). Every device computes the same words.
pub fn philox(i: u32, key: [u32; 2]) -> u32 {
    let mut block = [i >> 2, 0, 0, 0];
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let (a, b) = (0xd251_1f53u64 * u64::from(block[0]), 0xcd9e_8d57u64 * u64::from(block[2]));
        block = [(b >> 32) as u32 ^ block[1] ^ k0, b as u32, (a >> 32) as u32 ^ block[3] ^ k1, a as u32];
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    block[(i & 3) as usize]
}

/// Nodes, their dtypes, and which of them are the results.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Expr {
    nodes: Vec<(Node, DType)>,
    outputs: Vec<Id>,
}

impl Expr {
    /// The expression that is just one input.
    pub fn input(dtype: DType) -> Expr {
        Expr { nodes: vec![(Node::Input(0), dtype)], outputs: vec![Id(0)] }
    }

    /// The expression that is just the contraction's value.
    pub fn acc(dtype: DType) -> Expr {
        Expr { nodes: vec![(Node::Acc, dtype)], outputs: vec![Id(0)] }
    }

    /// All nodes with their dtypes, operands before their users.
    pub fn nodes(&self) -> &[(Node, DType)] {
        &self.nodes
    }

    /// The results, one for each output of the operation.
    pub fn outputs(&self) -> &[Id] {
        &self.outputs
    }

    /// The node of this index.
    pub fn node(&self, id: Id) -> Node {
        self.nodes[id.at()].0
    }

    /// The dtype of this node.
    pub fn dtype(&self, id: Id) -> DType {
        self.nodes[id.at()].1
    }

    /// If the only result is an input as it stands: that input's number.
    pub fn as_input(&self) -> Option<u16> {
        match (&self.nodes[..], &self.outputs[..]) {
            ([(Node::Input(i), _)], [Id(0)]) => Some(*i),
            _ => None,
        }
    }

    /// Whether the only result is the contraction's value as it stands.
    pub fn is_acc(&self) -> bool {
        matches!((&self.nodes[..], &self.outputs[..]), ([(Node::Acc, _)], [Id(0)]))
    }

    /// Whether some node uses the index along this dimension.
    pub fn uses_index(&self, dim: usize) -> bool {
        self.nodes.iter().any(|(n, _)| *n == Node::Index(dim as u8))
    }

    /// Whether this is a program with reductions.
    pub fn has_reduce(&self) -> bool {
        self.nodes.iter().any(|(n, _)| matches!(n, Node::Reduce(..)))
    }

    /// The number of launch parameters it reads: one more than the largest number.
    pub fn params(&self) -> usize {
        self.nodes.iter().map(|(n, _)| if let Node::Param(p) = n { *p as usize + 1 } else { 0 }).max().unwrap_or(0)
    }

    /// Simple operations for one index.
    pub fn flop(&self) -> u64 {
        self.nodes
            .iter()
            .map(|(n, _)| match n {
                Node::Unary(u, _) => u.flop(),
                Node::Binary(b, ..) => b.flop(),
                Node::Select(..) | Node::Reduce(..) => 1,
                Node::Random(..) => RANDOM_FLOP,
                _ => 0,
            })
            .sum()
    }

    /// Which nodes have a value of their own for every element of a row, rather than one for the whole row, given which
    /// inputs do and which dimension is the row's first.
    pub fn varying(&self, input_varies: impl Fn(u16) -> bool, first_inner: usize) -> Vec<bool> {
        let mut varies = Vec::with_capacity(self.nodes.len());
        for (node, _) in &self.nodes {
            let v = match *node {
                Node::Input(i) => input_varies(i),
                Node::Index(d) => d as usize >= first_inner,
                Node::Reduce(..) => false,
                other => other.operands().any(|o| varies[o.at()]),
            };
            varies.push(v);
        }
        varies
    }

    /// Checks that the nodes are in order and their dtypes follow the rules; `accumulator` is the dtype of `Acc`, where allowed.
    pub fn check(&self, inputs: &[DType], accumulator: Option<DType>, rank: usize) -> Result<()> {
        let bad = |i: usize, why: String| Err(Error::internal(format!("node {i} of an expression: {why}")));
        for (i, &(node, dtype)) in self.nodes.iter().enumerate() {
            if node.operands().any(|o| o.at() >= i) {
                return bad(i, "uses a later node".into());
            }
            let of = |id: Id| self.nodes[id.at()].1;
            let expected = match node {
                Node::Input(n) => inputs.get(n as usize).copied(),
                Node::Param(_) => Some(dtype),
                Node::Const(s) => Some(s.dtype()),
                Node::Index(d) => ((d as usize) < rank).then_some(DType::I64),
                Node::Acc => accumulator,
                Node::Unary(u, a) => u.result(of(a)),
                Node::Binary(b, x, y) if of(x) == of(y) => b.result(of(x)),
                Node::Binary(..) => None,
                Node::Select(c, x, y) => (of(c) == DType::Bool && of(x) == of(y)).then(|| of(x)),
                Node::Cast(_) => Some(dtype),
                Node::Random(a, b, c) => [a, b, c].iter().all(|&n| of(n) == DType::U32).then_some(DType::U32),
                Node::Reduce(r, a) => r.result(of(a)),
            };
            if expected != Some(dtype) {
                return bad(i, format!("{node:?} cannot have the dtype {dtype}"));
            }
        }
        match self.outputs.iter().find(|o| o.at() >= self.nodes.len()) {
            Some(o) => bad(o.at(), "is an output but does not exist".into()),
            None => Ok(()),
        }
    }
}

/// Builds expressions; equal nodes are made once, and what is known is folded.
#[derive(Debug, Default)]
pub struct ExprBuilder {
    expr: Expr,
    known: FxHashMap<(Node, DType), Id>,
}

impl ExprBuilder {
    /// An empty one.
    pub fn new() -> ExprBuilder {
        ExprBuilder::default()
    }

    /// The node, made if it is not there yet.
    pub fn push(&mut self, node: Node, dtype: DType) -> Id {
        let nodes = &mut self.expr.nodes;
        *self.known.entry((node, dtype)).or_insert_with(|| {
            nodes.push((node, dtype));
            Id(nodes.len() as u32 - 1)
        })
    }

    /// The dtype of a node made before.
    pub fn dtype(&self, id: Id) -> DType {
        self.expr.dtype(id)
    }

    /// Input number `n`.
    pub fn input(&mut self, n: u16, dtype: DType) -> Id {
        self.push(Node::Input(n), dtype)
    }

    /// Launch parameter number `n`.
    pub fn param(&mut self, n: u16, dtype: DType) -> Id {
        self.push(Node::Param(n), dtype)
    }

    /// A constant.
    pub fn constant(&mut self, value: Scalar) -> Id {
        self.push(Node::Const(value), value.dtype())
    }

    /// An operation on one value; an error where it does not exist for that dtype.
    pub fn unary(&mut self, op: Unary, a: Id) -> Result<Id> {
        let of = self.dtype(a);
        let dtype = op.result(of).ok_or_else(|| Error::dtype(format!("{} does not take {of}", op.name())))?;
        Ok(self.push(Node::Unary(op, a), dtype))
    }

    /// An operation on two values of one dtype; an error where it does not exist for it.
    pub fn binary(&mut self, op: Binary, a: Id, b: Id) -> Result<Id> {
        let (x, y) = (self.dtype(a), self.dtype(b));
        let dtype = (if x == y { op.result(x) } else { None })
            .ok_or_else(|| Error::dtype(format!("{} does not take {x} and {y}", op.name())))?;
        Ok(self.push(Node::Binary(op, a, b), dtype))
    }

    /// `a` where `condition`, else `b`.
    pub fn select(&mut self, condition: Id, a: Id, b: Id) -> Result<Id> {
        let (c, x, y) = (self.dtype(condition), self.dtype(a), self.dtype(b));
        if c != DType::Bool || x != y {
            return Err(Error::dtype(format!("select does not take {c}, {x} and {y}")));
        }
        Ok(self.push(Node::Select(condition, a, b), x))
    }

    /// The value in another dtype; the value itself where it has it already.
    pub fn cast(&mut self, a: Id, dtype: DType) -> Id {
        if self.dtype(a) == dtype { a } else { self.push(Node::Cast(a), dtype) }
    }

    /// The random word of `counter` under a key of two words; all are u32.
    pub fn random(&mut self, counter: Id, key: [Id; 2]) -> Result<Id> {
        let of = [counter, key[0], key[1]].map(|id| self.dtype(id));
        if of != [DType::U32; 3] {
            return Err(Error::dtype(format!(
                "random words are made of u32, not of {}, {} and {}",
                of[0], of[1], of[2]
            )));
        }
        Ok(self.push(Node::Random(counter, key[0], key[1]), DType::U32))
    }

    /// The reduction of a value over the row.
    pub fn reduce(&mut self, op: Reduce, a: Id) -> Result<Id> {
        let of = self.dtype(a);
        let dtype = op.result(of).ok_or_else(|| Error::dtype(format!("{} does not take {of}", op.name())))?;
        Ok(self.push(Node::Reduce(op, a), dtype))
    }

    /// The expression with these results; nodes that no result needs are dropped.
    pub fn finish(self, outputs: &[Id]) -> Expr {
        let nodes = self.expr.nodes;
        let mut needed = vec![false; nodes.len()];
        for o in outputs {
            needed[o.at()] = true;
        }
        for i in (0..nodes.len()).rev().filter(|&i| nodes[i].0.operands().next().is_some()) {
            if needed[i] {
                for o in nodes[i].0.operands() {
                    needed[o.at()] = true;
                }
            }
        }
        let mut ids = vec![Id(0); nodes.len()];
        let mut out = Expr::default();
        for (i, (node, dtype)) in nodes.into_iter().enumerate().filter(|(i, _)| needed[*i]) {
            let node = node.with_operands(|id| ids[id.at()]);
            ids[i] = Id(out.nodes.len() as u32);
            out.nodes.push((node, dtype));
        }
        out.outputs = outputs.iter().map(|o| ids[o.at()]).collect();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_nodes_are_made_once_and_unused_ones_dropped() {
        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F32);
        let unused = b.unary(Unary::Sin, x).unwrap();
        let e1 = b.unary(Unary::Exp, x).unwrap();
        let e2 = b.unary(Unary::Exp, x).unwrap();
        assert_eq!(e1, e2);
        assert_ne!(unused, e1);
        let sum = b.binary(Binary::Add, e1, e2).unwrap();
        let expr = b.finish(&[sum]);
        assert_eq!(expr.nodes().len(), 3);
        assert!(expr.check(&[DType::F32], None, 1).is_ok());
        assert!(expr.check(&[DType::F64], None, 1).is_err());
    }

    #[test]
    fn what_varies_along_a_row_is_known() {
        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F32);
        let m = b.reduce(Reduce::Max, x).unwrap();
        let d = b.binary(Binary::Sub, x, m).unwrap();
        let two = b.binary(Binary::Add, m, m).unwrap();
        let expr = b.finish(&[d, two]);
        assert_eq!(expr.varying(|_| true, 1), [true, false, true, false]);
    }

    #[test]
    fn random_words_are_those_of_the_published_generator() {
        // The known answers that come with the authors' own implementation, for counter and key of zeros.
        let words: Vec<u32> = (0..4).map(|i| philox(i, [0, 0])).collect();
        assert_eq!(words, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    #[test]
    fn operations_that_do_not_exist_are_errors() {
        let mut b = ExprBuilder::new();
        let (c, i, f) = (b.input(0, DType::C64), b.input(1, DType::I32), b.input(2, DType::F32));
        assert!(b.binary(Binary::Lt, c, c).is_err());
        assert!(b.binary(Binary::Add, i, f).is_err());
        assert!(b.unary(Unary::Exp, i).is_err());
        assert!(b.select(i, f, f).is_err());
        let magnitude = b.unary(Unary::Abs, c).unwrap();
        assert_eq!(b.dtype(magnitude), DType::F32);
    }
}
