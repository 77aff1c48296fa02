//! The names of operations, element types and operand forms.

/// A block kernel.
///
/// `n` is the number of elements. `dst`, `a`, `b`, `c` point to elements of the types that the resolving function
/// states; an operand that the kernel does not have may be dangling or null, a single-value operand points to one element.
///
/// # Safety
/// `dst` is writable for `n` results, each operand is readable for its elements, all are aligned to their element. An
/// operand that is a block either does not overlap `dst` or is exactly `dst` with elements of the same size (in
/// place); a single value may lie anywhere.
pub type BlockFn = unsafe fn(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);

/// The type of an element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// One byte, 0 or 1.
    Bool,
    /// i8.
    I8,
    /// i16.
    I16,
    /// i32.
    I32,
    /// i64.
    I64,
    /// u8.
    U8,
    /// u16.
    U16,
    /// u32.
    U32,
    /// u64.
    U64,
    /// IEEE half; only casts, arithmetic is in f32.
    F16,
    /// bfloat16; only casts, arithmetic is in f32.
    Bf16,
    /// f32.
    F32,
    /// f64.
    F64,
    /// Two f32: real, imaginary.
    C64,
    /// Two f64: real, imaginary.
    C128,
}

impl Elem {
    /// Every element type.
    pub const ALL: [Elem; 15] = [
        Elem::Bool,
        Elem::I8,
        Elem::I16,
        Elem::I32,
        Elem::I64,
        Elem::U8,
        Elem::U16,
        Elem::U32,
        Elem::U64,
        Elem::F16,
        Elem::Bf16,
        Elem::F32,
        Elem::F64,
        Elem::C64,
        Elem::C128,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Elem::Bool | Elem::I8 | Elem::U8 => 1,
            Elem::I16 | Elem::U16 | Elem::F16 | Elem::Bf16 => 2,
            Elem::I32 | Elem::U32 | Elem::F32 => 4,
            Elem::I64 | Elem::U64 | Elem::F64 | Elem::C64 => 8,
            Elem::C128 => 16,
        }
    }

    /// The unsigned integer of a signed one's width: where an operation does not see the sign, one kernel serves both.
    pub(super) const fn without_sign(self) -> Elem {
        match self {
            Elem::I8 => Elem::U8,
            Elem::I16 => Elem::U16,
            Elem::I32 => Elem::U32,
            Elem::I64 => Elem::U64,
            other => other,
        }
    }

    /// Whether it is an integer.
    pub const fn is_integer(self) -> bool {
        matches!(self, Elem::I8 | Elem::I16 | Elem::I32 | Elem::I64 | Elem::U8 | Elem::U16 | Elem::U32 | Elem::U64)
    }
}

/// An operation of one operand. The result has the operand's type, except `Abs` and `Imag` of a complex number (its real type).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// -x; integers wrap.
    Neg,
    /// |x|; integers wrap.
    Abs,
    /// -1, 0 or 1; keeps a float's signed zero and NaN.
    Sign,
    /// The square root.
    Sqrt,
    /// 1 / sqrt(x).
    Rsqrt,
    /// 1 / x.
    Recip,
    /// e^x.
    Exp,
    /// e^x - 1.
    Expm1,
    /// ln x.
    Log,
    /// ln(1 + x).
    Log1p,
    /// sin x.
    Sin,
    /// cos x.
    Cos,
    /// tan x.
    Tan,
    /// asin x; NaN outside of -1 to 1.
    Asin,
    /// acos x; NaN outside of -1 to 1.
    Acos,
    /// atan x.
    Atan,
    /// sinh x.
    Sinh,
    /// cosh x.
    Cosh,
    /// asinh x.
    Asinh,
    /// acosh x; NaN below 1.
    Acosh,
    /// atanh x; NaN outside of -1 to 1.
    Atanh,
    /// 2^x.
    Exp2,
    /// log2 x.
    Log2,
    /// log10 x.
    Log10,
    /// tanh x.
    Tanh,
    /// The error function.
    Erf,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// Rounds down; integers stay.
    Floor,
    /// Rounds up; integers stay.
    Ceil,
    /// Rounds towards zero; integers stay.
    Trunc,
    /// Rounds to nearest, halves to even; integers stay.
    Round,
    /// Bitwise not; of a bool, the logical one.
    Not,
    /// The imaginary part of a complex number.
    Imag,
}

impl UnaryOp {
    /// Every unary operation.
    pub const ALL: [UnaryOp; 33] = [
        UnaryOp::Neg,
        UnaryOp::Abs,
        UnaryOp::Sign,
        UnaryOp::Sqrt,
        UnaryOp::Rsqrt,
        UnaryOp::Recip,
        UnaryOp::Exp,
        UnaryOp::Expm1,
        UnaryOp::Log,
        UnaryOp::Log1p,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Tan,
        UnaryOp::Asin,
        UnaryOp::Acos,
        UnaryOp::Atan,
        UnaryOp::Sinh,
        UnaryOp::Cosh,
        UnaryOp::Asinh,
        UnaryOp::Acosh,
        UnaryOp::Atanh,
        UnaryOp::Exp2,
        UnaryOp::Log2,
        UnaryOp::Log10,
        UnaryOp::Tanh,
        UnaryOp::Erf,
        UnaryOp::Sigmoid,
        UnaryOp::Floor,
        UnaryOp::Ceil,
        UnaryOp::Trunc,
        UnaryOp::Round,
        UnaryOp::Not,
        UnaryOp::Imag,
    ];
}

/// An operation of two operands of one type, with a result of that type but for `Complex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// a + b; integers wrap, of bools: or.
    Add,
    /// a - b; integers wrap.
    Sub,
    /// a * b; integers wrap, of bools: and.
    Mul,
    /// a / b of floats and complex numbers.
    Div,
    /// The smaller; NaN where either is NaN.
    Min,
    /// The larger; NaN where either is NaN.
    Max,
    /// a^b of floats as in C99; of integers wrapping, 0 for a negative exponent unless a is 1 or -1.
    Pow,
    /// The remainder with the divisor's sign, as in Python; of integers 0 where b is 0.
    Rem,
    /// floor(a / b), infinite where a / b is; of integers 0 where b is 0, and MIN / -1 is MIN.
    FloorDiv,
    /// The angle of the point (b, a).
    Atan2,
    /// sqrt(a^2 + b^2); infinite if either is.
    Hypot,
    /// |a| with the sign of b.
    CopySign,
    /// The number next to a in the direction of b. Of f16 and bf16, held as f32: their own next number.
    NextAfter,
    /// The remainder with the dividend's sign, as in C.
    Fmod,
    /// a + ib of f32 and f64.
    Complex,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// a << b; 0 where b, taken as unsigned, is not below the width.
    Shl,
    /// a >> b, arithmetic for signed; all sign bits (0 for unsigned) where b, taken as unsigned, is not below the width.
    Shr,
}

impl BinaryOp {
    /// Every binary operation.
    pub const ALL: [BinaryOp; 20] = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Min,
        BinaryOp::Max,
        BinaryOp::Pow,
        BinaryOp::Rem,
        BinaryOp::FloorDiv,
        BinaryOp::Atan2,
        BinaryOp::Hypot,
        BinaryOp::CopySign,
        BinaryOp::NextAfter,
        BinaryOp::Fmod,
        BinaryOp::Complex,
        BinaryOp::And,
        BinaryOp::Or,
        BinaryOp::Xor,
        BinaryOp::Shl,
        BinaryOp::Shr,
    ];
}

/// A comparison; the result is a block of bools. NaN compares unequal to all and is neither less nor greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// a == b.
    Eq,
    /// a != b.
    Ne,
    /// a < b.
    Lt,
    /// a <= b.
    Le,
    /// a > b.
    Gt,
    /// a >= b.
    Ge,
}

impl CompareOp {
    /// Every comparison.
    pub const ALL: [CompareOp; 6] =
        [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
}

/// Which of two operands are blocks (V) and which single values (S).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Both are blocks.
    VV,
    /// `a` is a block, `b` a single value.
    VS,
    /// `a` is a single value, `b` a block.
    SV,
}

/// Which operands of `a * b + c` are blocks (V) and which single values (S).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FmaForm {
    /// All are blocks.
    VVV,
    /// `b` is a single value.
    VSV,
    /// `c` is a single value.
    VVS,
    /// `b` and `c` are single values.
    VSS,
}

/// A reduction of a block of floats to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum, 0 for none, in several interleaved partial sums on two levels: up to 64 Ki elements its error is that of
    /// fewer than 200 additions.
    Sum,
    /// The sum of the products of two blocks, likewise.
    SumProducts,
    /// The largest, NaN if one is NaN; negative infinity for none.
    Max,
    /// The smallest, NaN if one is NaN; infinity for none.
    Min,
}
