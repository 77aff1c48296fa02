//! What an expression computes with.
//!
//! Numbers and arrays that are written in the expression have no dtype of their own: beside a tensor they take its dtype, as
//! plain numbers do in the library. Alone, whole numbers become i64 and fractions f32. Numbers that meet only numbers are
//! computed exactly, in i64 and f64.

use millstream::core::what::MAX_RANK;
use millstream::{DType, Operand, Scalar, Tensor};

/// A value of the expression.
#[derive(Clone, Debug)]
pub enum Value {
    /// A whole number without a dtype.
    Int(i64),
    /// A fraction without a dtype.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// An array without a dtype.
    Array(Array),
    /// A tensor.
    Tensor(Tensor),
    /// A dtype, for `cast` and the like.
    DType(DType),
    /// Text, for `einsum` and the like.
    Text(String),
}

/// A rectangular array of numbers as they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub numbers: Numbers,
}

/// Numbers of one family.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Truth values.
    Bools(Vec<bool>),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Fractions.
    Floats(Vec<f64>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Numbers::Bools(v) => v.len(),
            Numbers::Ints(v) => v.len(),
            Numbers::Floats(v) => v.len(),
        }
    }

    /// Appends; the wider family wins.
    fn extend(&mut self, other: Numbers) {
        let ints = |v: &[bool]| v.iter().map(|&b| i64::from(b)).collect::<Vec<_>>();
        let floats = |v: &[i64]| v.iter().map(|&i| i as f64).collect::<Vec<_>>();
        if self.len() == 0 {
            *self = other;
            return;
        }
        match (&mut *self, other) {
            (Numbers::Bools(a), Numbers::Bools(b)) => a.extend(b),
            (Numbers::Ints(a), Numbers::Ints(b)) => a.extend(b),
            (Numbers::Floats(a), Numbers::Floats(b)) => a.extend(b),
            (Numbers::Ints(a), Numbers::Bools(b)) => a.extend(ints(&b)),
            (Numbers::Floats(a), Numbers::Ints(b)) => a.extend(floats(&b)),
            (Numbers::Floats(a), Numbers::Bools(b)) => a.extend(floats(&ints(&b))),
            (Numbers::Bools(a), b) => {
                *self = Numbers::Ints(ints(a));
                self.extend(b);
            }
            (Numbers::Ints(a), b) => {
                *self = Numbers::Floats(floats(a));
                self.extend(b);
            }
        }
    }

    /// The dtype beside a tensor of another, or alone: the library's rule for plain numbers.
    fn dtype(&self, beside: Option<DType>) -> DType {
        match (self, beside) {
            (Numbers::Bools(_), _) => DType::Bool,
            (Numbers::Ints(_), None | Some(DType::Bool)) => DType::I64,
            // What the dtype does not hold keeps its value.
            (Numbers::Ints(v), Some(d)) if v.iter().any(|&i| Scalar::whole(i, d).is_none()) => DType::I64,
            (Numbers::Ints(_), Some(d)) => d,
            (Numbers::Floats(_), Some(d)) if d.is_float() || d.is_complex() => d,
            (Numbers::Floats(_), _) => DType::F32,
        }
    }

    /// The element in a dtype.
    fn scalar(&self, i: usize, dtype: DType) -> Scalar {
        let scalar = match self {
            Numbers::Bools(v) => v.get(i).map(|&b| Scalar::from_int(i64::from(b), dtype)),
            Numbers::Ints(v) => v.get(i).map(|&n| Scalar::from_int(n, dtype)),
            Numbers::Floats(v) => v.get(i).map(|&f| Scalar::from_f64(f, dtype)),
        };
        scalar.unwrap_or(Scalar::zero(dtype))
    }
}

impl Array {
    /// Items of one shape, one after the other. The error is a sentence.
    pub fn stack(items: Vec<Value>) -> Result<Array, String> {
        let mut numbers = Numbers::Floats(Vec::new());
        let mut inner: Option<Vec<usize>> = None;
        let count = items.len();
        for (i, item) in items.into_iter().enumerate() {
            let array = item.into_array()?;
            match &inner {
                None => inner = Some(array.shape),
                Some(shape) if *shape == array.shape => {}
                Some(shape) => {
                    return Err(format!(
                        "the array is not rectangular: item {i} has the shape {:?}, those before it {shape:?}",
                        array.shape
                    ));
                }
            }
            numbers.extend(array.numbers);
        }
        let mut shape = vec![count];
        shape.extend(inner.unwrap_or_default());
        if shape.len() > MAX_RANK {
            return Err(format!("arrays have at most {MAX_RANK} dimensions"));
        }
        Ok(Array { shape, numbers })
    }

    /// The tensor in this dtype.
    pub fn tensor(&self, dtype: DType) -> Tensor {
        let size = dtype.size();
        let bytes: Vec<u8> = (0..self.numbers.len())
            .flat_map(|i| self.numbers.scalar(i, dtype).bytes().into_iter().take(size))
            .collect();
        Tensor::from_bytes(&self.shape, dtype, &bytes)
    }
}

impl Value {
    /// The value as an array of no dimensions or more. The error is a sentence.
    fn into_array(self) -> Result<Array, String> {
        let numbers = match self {
            Value::Array(array) => return Ok(array),
            Value::Int(v) => Numbers::Ints(vec![v]),
            Value::Float(v) => Numbers::Floats(vec![v]),
            Value::Bool(v) => Numbers::Bools(vec![v]),
            other => return Err(format!("arrays hold numbers, not {}", other.what())),
        };
        Ok(Array { shape: vec![], numbers })
    }

    /// What it is, in words.
    pub fn what(&self) -> &'static str {
        match self {
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Bool(_) => "a truth value",
            Value::Array(_) => "an array",
            Value::Tensor(_) => "a tensor",
            Value::DType(_) => "a dtype",
            Value::Text(_) => "text",
        }
    }

    /// The dtype, for values that have one of their own.
    pub fn own_dtype(&self) -> Option<DType> {
        match self {
            Value::Tensor(t) => Some(t.dtype()),
            _ => None,
        }
    }

    /// The value as a tensor, beside values of a dtype or alone; `None` for a dtype.
    pub fn tensor(&self, beside: Option<DType>) -> Option<Tensor> {
        if let Value::Array(array) = self {
            return Some(array.tensor(array.numbers.dtype(beside)));
        }
        let numbers = match self {
            Value::Tensor(t) => return Some(t.clone()),
            Value::Int(v) => Numbers::Ints(vec![*v]),
            Value::Float(v) => Numbers::Floats(vec![*v]),
            Value::Bool(v) => Numbers::Bools(vec![*v]),
            _ => return None,
        };
        Some(Tensor::scalar(numbers.scalar(0, numbers.dtype(beside))))
    }

    /// The value as a tensor of exactly this dtype, without a detour through another one where it is written out.
    pub fn cast(&self, dtype: DType) -> Option<Tensor> {
        match self {
            Value::Array(array) => Some(array.tensor(dtype)),
            Value::Int(v) => Some(Tensor::scalar(Scalar::from_int(*v, dtype))),
            Value::Float(v) => Some(Tensor::scalar(Scalar::from_f64(*v, dtype))),
            Value::Bool(v) => Some(Tensor::scalar(Scalar::from_int(i64::from(*v), dtype))),
            Value::Tensor(t) => Some(t.cast(dtype)),
            Value::DType(_) | Value::Text(_) => None,
        }
    }
}

/// Whether an operation gives the same, modulo the width of integers, if its operands are wrapped first.
pub fn wraps(sign: &str) -> bool {
    let names = ["add", "sub", "mul", "and", "or", "xor", "bitwise_and", "bitwise_or", "bitwise_xor"];
    ["+", "-", "*", "&", "|", "^"].contains(&sign) || names.contains(&sign)
}

/// Two values for an operation of the library: a tensor, and what stands beside it. `None` if one is a dtype. With `wrap`, a
/// whole number on the left takes the dtype on the right even where that does not hold it, as it does on the right.
pub fn pair(a: &Value, b: &Value, wrap: bool) -> Option<(Tensor, Beside)> {
    let left = match (a, b.own_dtype()) {
        (Value::Int(v), Some(d)) if wrap && d.is_integer() => Tensor::scalar(Scalar::from_int(*v, d)),
        (_, d) => a.tensor(d)?,
    };
    let right = match b {
        Value::Int(v) => Beside::Int(*v),
        Value::Float(v) => Beside::Float(*v),
        Value::Bool(v) => Beside::Bool(*v),
        other => Beside::Tensor(other.tensor(Some(left.dtype()))?),
    };
    Some((left, right))
}

/// An owned [`Operand`].
#[derive(Debug)]
pub enum Beside {
    /// A tensor.
    Tensor(Tensor),
    /// A whole number.
    Int(i64),
    /// A fraction.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl<'a> From<&'a Beside> for Operand<'a> {
    fn from(value: &'a Beside) -> Operand<'a> {
        match value {
            Beside::Tensor(t) => Operand::Tensor(t),
            Beside::Int(v) => (*v).into(),
            Beside::Float(v) => (*v).into(),
            Beside::Bool(v) => (*v).into(),
        }
    }
}

/// A number from two numbers, exactly; `None` where a tensor must do it. The error is a sentence.
pub fn fold(sign: &str, a: &Value, b: &Value) -> Option<Result<Value, String>> {
    let int = |v: &Value| match v {
        Value::Int(i) => Some(*i),
        Value::Bool(b) => Some(i64::from(*b)),
        _ => None,
    };
    let float = |v: &Value| match v {
        Value::Float(f) => Some(*f),
        other => int(other).map(|i| i as f64),
    };
    if let (Value::Bool(x), Value::Bool(y)) = (a, b)
        && let "&" | "|" | "^" = sign
    {
        return Some(Ok(Value::Bool(match sign {
            "&" => x & y,
            "|" => x | y,
            _ => x ^ y,
        })));
    }
    if let (Some(x), Some(y)) = (int(a), int(b)) {
        return Some(fold_ints(sign, x, y));
    }
    let (x, y) = (float(a)?, float(b)?);
    Some(Ok(match sign {
        "+" => Value::Float(x + y),
        "-" => Value::Float(x - y),
        "*" => Value::Float(x * y),
        "/" => Value::Float(x / y),
        "//" => Value::Float(quotient(x, y)),
        "%" => Value::Float(remainder(x, y)),
        "**" => Value::Float(x.powf(y)),
        "==" => Value::Bool(x == y),
        "!=" => Value::Bool(x != y),
        "<" => Value::Bool(x < y),
        "<=" => Value::Bool(x <= y),
        ">" => Value::Bool(x > y),
        ">=" => Value::Bool(x >= y),
        _ => return Some(Err(format!("{sign} takes whole numbers, not fractions"))),
    }))
}

/// The remainder with the divisor's sign, exact but for the step to that sign.
fn remainder(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}

/// The quotient rounded toward minus infinity: of what is left without the remainder, which divides evenly.
fn quotient(x: f64, y: f64) -> f64 {
    let r = x % y;
    if y == 0.0 || r.is_nan() {
        return (x / y).floor();
    }
    let whole = ((x - r) / y).round();
    if r != 0.0 && (r < 0.0) != (y < 0.0) { whole - 1.0 } else { whole }
}

fn fold_ints(sign: &str, x: i64, y: i64) -> Result<Value, String> {
    let shift = |y: i64| u32::try_from(y).map_err(|_| "a shift needs a number of bits from 0 on".to_string());
    let exact = match sign {
        "+" => x.checked_add(y),
        "-" => x.checked_sub(y),
        "*" => x.checked_mul(y),
        "/" => return Ok(Value::Float(x as f64 / y as f64)),
        // As in the library, a whole number divided by 0 gives 0.
        "//" | "%" if y == 0 => Some(0),
        "//" => x.checked_div(y).map(|q| if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q }),
        "%" => Some(x.checked_rem(y).map_or(0, |r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })),
        "**" => match u32::try_from(y) {
            Ok(y) => x.checked_pow(y),
            Err(_) if y < 0 => return Ok(Value::Float((x as f64).powf(y as f64))),
            Err(_) => None,
        },
        "<<" => Some(x.checked_shl(shift(y)?).unwrap_or(0)),
        ">>" => Some(x.checked_shr(shift(y)?).unwrap_or(if x < 0 { -1 } else { 0 })),
        "&" => Some(x & y),
        "|" => Some(x | y),
        "^" => Some(x ^ y),
        "==" => return Ok(Value::Bool(x == y)),
        "!=" => return Ok(Value::Bool(x != y)),
        "<" => return Ok(Value::Bool(x < y)),
        "<=" => return Ok(Value::Bool(x <= y)),
        ">" => return Ok(Value::Bool(x > y)),
        ">=" => return Ok(Value::Bool(x >= y)),
        _ => return Err(format!("{sign} takes tensors, not numbers")),
    };
    exact
        .map(Value::Int)
        .ok_or_else(|| format!("{x} {sign} {y} does not fit in 64 bits; write one of them as a fraction"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(sign: &str, x: i64, y: i64) -> String {
        match fold(sign, &Value::Int(x), &Value::Int(y)) {
            Some(Ok(v)) => format!("{v:?}"),
            Some(Err(text)) => text,
            None => "none".into(),
        }
    }

    #[test]
    fn whole_numbers_are_exact_and_divide_as_in_python() {
        assert_eq!(ints("+", i64::MAX - 1, 1), format!("Int({})", i64::MAX));
        assert!(ints("+", i64::MAX, 1).contains("64 bits"));
        assert!(ints("//", i64::MIN, -1).contains("64 bits"));
        assert_eq!((ints("//", -7, 2), ints("%", -7, 2)), ("Int(-4)".into(), "Int(1)".into()));
        assert_eq!((ints("//", 7, -2), ints("%", 7, -2)), ("Int(-4)".into(), "Int(-1)".into()));
        assert_eq!((ints("%", i64::MIN, -1), ints("//", 1, 0)), ("Int(0)".into(), "Int(0)".into()));
        assert_eq!((ints("**", 2, 10), ints("**", 2, -1)), ("Int(1024)".into(), "Float(0.5)".into()));
        assert!(ints("**", 2, 64).contains("64 bits"));
        assert_eq!((ints("<<", 1, 70), ints(">>", -5, 70)), ("Int(0)".into(), "Int(-1)".into()));
        assert!(ints("<<", 1, -1).contains("bits"));
    }

    #[test]
    fn fractions_divide_exactly() {
        let float = |sign: &str, x: f64, y: f64| match fold(sign, &Value::Float(x), &Value::Float(y)) {
            Some(Ok(Value::Float(v))) => v,
            other => panic!("{x} {sign} {y}: {other:?}"),
        };
        assert_eq!((float("%", 1e17, 3.0), float("//", 1e17, 3.0)), (1.0, 33_333_333_333_333_332.0));
        assert_eq!((float("%", 1.0, f64::INFINITY), float("//", 1.0, f64::INFINITY)), (1.0, 0.0));
        assert_eq!((float("%", -1.0, f64::INFINITY), float("//", -1.0, f64::INFINITY)), (f64::INFINITY, -1.0));
        assert_eq!((float("//", 7.0, 0.1), float("//", -7.0, 0.1)), (69.0, -70.0));
        assert_eq!((float("%", -7.0, 2.0), float("//", -7.0, 2.0)), (1.0, -4.0));
        assert!(float("%", 1.0, 0.0).is_nan() && float("//", 1.0, 0.0) == f64::INFINITY);
        assert!(float("%", f64::INFINITY, 2.0).is_nan());
    }

    #[test]
    fn arrays_must_be_rectangular_and_widen() {
        let row = |v: &[i64]| Array::stack(v.iter().map(|&i| Value::Int(i)).collect()).map(Value::Array).unwrap();
        let square = Array::stack(vec![row(&[1, 2]), row(&[3, 4])]).unwrap();
        assert_eq!((square.shape, square.numbers), (vec![2, 2], Numbers::Ints(vec![1, 2, 3, 4])));
        assert!(Array::stack(vec![row(&[1, 2]), row(&[3])]).unwrap_err().contains("rectangular"));
        let mixed = Array::stack(vec![Value::Bool(true), Value::Int(2), Value::Float(0.5)]).unwrap();
        assert_eq!(mixed.numbers, Numbers::Floats(vec![1.0, 2.0, 0.5]));
        assert!(Array::stack(vec![Value::DType(DType::F32)]).is_err());
        let empty = Array::stack(vec![]).unwrap();
        assert_eq!(empty.shape, [0]);
    }

    #[test]
    fn literals_take_the_dtype_of_what_they_meet() {
        let floats = Numbers::Floats(vec![0.1]);
        assert_eq!(floats.dtype(Some(DType::F64)), DType::F64);
        assert_eq!(floats.dtype(Some(DType::I8)), DType::F32);
        assert_eq!(Numbers::Ints(vec![1]).dtype(Some(DType::U8)), DType::U8);
        assert_eq!(Numbers::Ints(vec![1]).dtype(Some(DType::Bool)), DType::I64);
    }
}
