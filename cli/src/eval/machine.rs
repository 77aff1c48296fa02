//! Runs a program on a stack of values. No recursion: a program's depth is bounded by memory alone.

use std::collections::BTreeMap;

use millstream::{DType, Tensor};

use super::arguments::Arguments;
use super::functions;
use super::parser::{Program, Step};
use super::trouble::Trouble;
use super::value::{Array, Value, fold, pair, wraps};

/// The names' values.
pub type Names = BTreeMap<String, Value>;

/// The tensor that a program describes. It may still be uncomputed, but carries no error.
pub fn run(program: &Program, names: &Names) -> Result<Tensor, Trouble> {
    let result = value(program, names)?;
    let tensor =
        result.tensor(None).ok_or_else(|| Trouble::new(0, "the expression is a dtype or text, not a value"))?;
    checked(tensor, 0)
}

/// The value that a program describes.
pub fn value(program: &Program, names: &Names) -> Result<Value, Trouble> {
    let mut stack: Vec<(Value, usize)> = Vec::new();
    // invariant: the parser gives every step its operands, so the stack never runs dry; a bug there is an error here.
    let dry = |at: usize| Trouble::new(at, "the parser left an operator without operands: a bug in Millstream");
    for (step, at) in program {
        let at = *at;
        let value = match step {
            Step::Int(v) => Value::Int(*v),
            Step::Float(v) => Value::Float(*v),
            Step::Text(text) => Value::Text(text.clone()),
            Step::Name(name) => lookup(name, names, at)?,
            Step::Prefix(sign) => {
                let (x, _) = stack.pop().ok_or_else(|| dry(at))?;
                prefix(sign, x, at)?
            }
            Step::Infix(sign) => {
                let (y, _) = stack.pop().ok_or_else(|| dry(at))?;
                let (x, _) = stack.pop().ok_or_else(|| dry(at))?;
                infix(sign, &x, &y, at)?
            }
            Step::List(count) => {
                let from = stack.len().checked_sub(*count).ok_or_else(|| dry(at))?;
                let items = stack.split_off(from).into_iter().map(|(v, _)| v).collect();
                Value::Array(Array::stack(items).map_err(|text| Trouble::new(at, text))?)
            }
            Step::Call(name, given) => {
                let from = stack.len().checked_sub(given.len()).ok_or_else(|| dry(at))?;
                let values = stack.split_off(from);
                Value::Tensor(call(name, given, values, at)?)
            }
        };
        stack.push((value, at));
    }
    match (stack.pop(), stack.is_empty()) {
        (Some((value, _)), true) => Ok(value),
        _ => Err(dry(0)),
    }
}

fn checked(tensor: Tensor, at: usize) -> Result<Tensor, Trouble> {
    match tensor.check() {
        Ok(()) => Ok(tensor),
        Err(error) => Err(Trouble::from_error(at, &error)),
    }
}

fn lookup(name: &str, names: &Names, at: usize) -> Result<Value, Trouble> {
    if let Some(value) = names.get(name) {
        return Ok(value.clone());
    }
    match name {
        "true" | "True" => return Ok(Value::Bool(true)),
        "false" | "False" => return Ok(Value::Bool(false)),
        "pi" => return Ok(Value::Float(std::f64::consts::PI)),
        "e" => return Ok(Value::Float(std::f64::consts::E)),
        "inf" => return Ok(Value::Float(f64::INFINITY)),
        "nan" => return Ok(Value::Float(f64::NAN)),
        _ => {}
    }
    if let Ok(dtype) = name.parse::<DType>() {
        return Ok(Value::DType(dtype));
    }
    let short: String = name.chars().take(40).collect();
    let hint = match functions::find(name) {
        Some(f) => f.signature(),
        None => format!("give it one after the expression: {short}=file.npy or {short}=1.5"),
    };
    Err(Trouble::new(at, format!("the name {short:?} has no value")).suggest(hint))
}

fn prefix(sign: &str, x: Value, at: usize) -> Result<Value, Trouble> {
    Ok(match (sign, x) {
        ("+", x @ (Value::Int(_) | Value::Float(_) | Value::Array(_) | Value::Tensor(_))) => x,
        ("-", Value::Int(v)) => {
            Value::Int(v.checked_neg().ok_or_else(|| Trouble::new(at, "the number does not fit in 64 bits"))?)
        }
        ("-", Value::Float(v)) => Value::Float(-v),
        ("~", Value::Int(v)) => Value::Int(!v),
        ("~", Value::Bool(v)) => Value::Bool(!v),
        (_, x) => {
            let tensor =
                x.tensor(None).ok_or_else(|| Trouble::new(at, format!("{sign} does not take {}", x.what())))?;
            Value::Tensor(checked(if sign == "~" { tensor.not() } else { tensor.neg() }, at)?)
        }
    })
}

fn infix(sign: &str, x: &Value, y: &Value, at: usize) -> Result<Value, Trouble> {
    if let Some(folded) = fold(sign, x, y) {
        return folded.map_err(|text| Trouble::new(at, text));
    }
    let (a, b) = pair(x, y, wraps(sign)).ok_or_else(|| Trouble::new(at, format!("{sign} does not take a dtype")))?;
    let result = match sign {
        "+" => &a + &b,
        "-" => &a - &b,
        "*" => &a * &b,
        "/" => &a / &b,
        "//" => a.floor_div(&b),
        "%" => &a % &b,
        "**" => a.pow(&b),
        "@" => match y.tensor(Some(a.dtype())) {
            Some(b) => a.matmul(&b),
            None => return Err(Trouble::new(at, "@ takes tensors")),
        },
        "&" => a.and(&b),
        "|" => a.or(&b),
        "^" => a.xor(&b),
        "<<" => a.shl(&b),
        ">>" => a.shr(&b),
        "==" => a.eq(&b),
        "!=" => a.ne(&b),
        "<" => a.lt(&b),
        "<=" => a.le(&b),
        ">" => a.gt(&b),
        ">=" => a.ge(&b),
        _ => return Err(Trouble::new(at, format!("{sign:?} has no meaning here"))),
    };
    Ok(Value::Tensor(checked(result, at)?))
}

fn call(name: &str, given: &[Option<String>], values: Vec<(Value, usize)>, at: usize) -> Result<Tensor, Trouble> {
    let Some(function) = functions::find(name) else {
        let short: String = name.chars().take(40).collect();
        let trouble = Trouble::new(at, format!("there is no function {short:?}"));
        return Err(match functions::like(name) {
            Some(like) => trouble.suggest(format!("{like}; `millstream eval --list` shows all")),
            None => trouble.suggest("`millstream eval --list` shows all functions"),
        });
    };
    let mut arguments = Arguments::new(function, at, values, given)?;
    checked((function.call)(&mut arguments)?, at)
}

#[cfg(test)]
mod tests {
    use super::super::parser::parse;
    use super::*;

    fn eval(text: &str) -> Tensor {
        let names = Names::from([
            ("x".to_string(), Value::Tensor(Tensor::from_shape([2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]))),
            ("b".to_string(), Value::Tensor(Tensor::from_slice(&[1u8, 2, 3]))),
            ("d".to_string(), Value::Tensor(Tensor::from_slice(&[0.1f64, 0.2]))),
        ]);
        match parse(text).and_then(|p| run(&p, &names)) {
            Ok(tensor) => tensor,
            Err(trouble) => panic!("{}", trouble.in_text(text)),
        }
    }

    fn fails(text: &str) -> (usize, String) {
        let names = Names::from([("x".to_string(), Value::Tensor(Tensor::from_shape([2, 3], &[0f32; 6])))]);
        match parse(text).and_then(|p| run(&p, &names)) {
            Ok(tensor) => panic!("{text} gave {tensor:?}"),
            Err(trouble) => (trouble.at, trouble.in_text(text).to_string()),
        }
    }

    #[test]
    fn numbers_fold_exactly_and_meet_tensors_in_their_dtype() {
        assert_eq!(eval("1+2*3").item::<i64>().unwrap(), 7);
        assert_eq!(eval("2**-1").item::<f32>().unwrap(), 0.5);
        assert_eq!(eval("x * (1/2)").to_vec::<f32>().unwrap(), [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        assert_eq!(eval("b + 1").to_vec::<u8>().unwrap(), [2, 3, 4]);
        assert_eq!(eval("1 - b").dtype(), DType::U8);
        assert_eq!(eval("2 ** b").to_vec::<u8>().unwrap(), [2, 4, 8]);
        assert_eq!(eval("b / 2").to_vec::<f32>().unwrap(), [0.5, 1.0, 1.5]);
        assert_eq!(eval("d * 0.1").to_vec::<f64>().unwrap(), [0.1 * 0.1, 0.2 * 0.1], "a fraction keeps its digits");
        assert_eq!(eval("d * [0.1, 0.1]").to_vec::<f64>().unwrap(), [0.1 * 0.1, 0.2 * 0.1]);
        assert_eq!(eval("cast(0.1, f64)").item::<f64>().unwrap(), 0.1);
        assert_eq!(eval("2 < b").to_vec::<bool>().unwrap(), [false, false, true]);
    }

    #[test]
    fn numbers_out_of_range_are_answered_or_refused() {
        for (text, right) in [
            ("b == 257", [false; 3]),
            ("257 == b", [false; 3]),
            ("b > -1", [true; 3]),
            ("-1 < b", [true; 3]),
            ("300 >= b", [true; 3]),
            ("b == [257, 2, -253]", [false, true, false]),
        ] {
            assert_eq!(eval(text).to_vec::<bool>().unwrap(), right, "{text}");
        }
        assert_eq!(eval("clip(b, -1, 300)").to_vec::<u8>().unwrap(), [1, 2, 3]);
        assert_eq!(eval("clamp(b, -1, 300)").to_vec::<u8>().unwrap(), [1, 2, 3]);
        assert_eq!(eval("300 + b").to_vec::<u8>().unwrap(), eval("b + 300").to_vec::<u8>().unwrap());
        assert_eq!(eval("full_like(cast([0], i64), 9007199254740993)").to_vec::<i64>().unwrap(), [(1 << 53) + 1]);
        for text in [
            "full([1], 300, dtype=u8)",
            "full([1], 300.5, dtype=u8)",
            "full([1], nan, dtype=i32)",
            "scalar(-1, dtype=u64)",
            "full_like(cast([0], u8), 300)",
            "full_like(cast([0], u8), -1)",
            "pad(cast([0], u8), [1, 1], 300)",
            "assign(cast([0], u8), 300)",
            "linspace(0, 300, 4, dtype=u8)",
            "arange_by(0, 300, 1, dtype=i8)",
            "geomspace(1, 300, 4, dtype=u8)",
            "logspace(0, 3, 4, dtype=u8)",
        ] {
            let message = fails(text).1;
            assert!(message.contains("does not fit"), "{text}: {message}");
        }
    }

    #[test]
    fn convolutions_and_formulas_are_called_by_name() {
        let image = "reshape(cast(arange(0, 9), f32), [1, 1, 3, 3])";
        let y = eval(&format!("conv2d({image}, ones([1, 1, 2, 2]), bias=[0.5], padding=[1, 0], stride=2)"));
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.5, 20.5]);
        assert_eq!(eval(&format!("max_pool2d({image}, 2, stride=1)")).to_vec::<f32>().unwrap(), [4.0, 5.0, 7.0, 8.0]);
        assert_eq!(eval("einsum('ij,kj->ik', x, x)").to_vec::<f32>().unwrap(), [14.0, 32.0, 32.0, 77.0]);
        assert_eq!(eval("pad(b, [1, 2], 9)").to_vec::<u8>().unwrap(), [9, 1, 2, 3, 9, 9]);
        assert_eq!(fails("einsum('ij, x)").0, 7);
        assert_eq!(fails("sum('ij')").0, 4);
    }

    #[test]
    fn functions_take_arguments_by_position_and_name() {
        assert_eq!(eval("sum(x)").item::<f32>().unwrap(), 21.0);
        assert_eq!(eval("sum(x, 0)").to_vec::<f32>().unwrap(), [5.0, 7.0, 9.0]);
        assert_eq!(eval("sum(x, axis=-1, keep=true)").shape(), [2, 1]);
        assert_eq!(eval("sum(x, axes=[0,1])").item::<f32>().unwrap(), 21.0);
        assert_eq!(eval("max(transpose(x), axis=1)").to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0]);
        assert_eq!(eval("reshape(x, [3, 2])").shape(), [3, 2]);
        assert_eq!(eval("reshape(x, [-1])").shape(), [6]);
        assert_eq!(eval("reshape(x, [3, -1])").shape(), [3, 2]);
        assert_eq!(eval("x @ transpose(x)").to_vec::<f32>().unwrap(), [14.0, 32.0, 32.0, 77.0]);
        assert_eq!(eval("where(x > 3, x, 0)").to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0, 4.0, 5.0, 6.0]);
        assert_eq!(eval("clamp(x, 2, high=5)").to_vec::<f32>().unwrap(), [2.0, 2.0, 3.0, 4.0, 5.0, 5.0]);
        assert_eq!(eval("flip(slice(b, 0, 0, 2), 0)").to_vec::<u8>().unwrap(), [2, 1]);
        assert_eq!(eval("full([2], 7, dtype=u8)").to_vec::<u8>().unwrap(), [7, 7]);
        assert_eq!(eval("zeros([2]) + arange(0, 2)").to_vec::<f32>().unwrap(), [0.0, 1.0]);
        assert_eq!(eval("-(+b)").to_vec::<u8>().unwrap(), [255, 254, 253]);
        assert_eq!(eval("~(b == 1) & (b < 3)").to_vec::<bool>().unwrap(), [false, true, false]);
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        for (text, at, part) in [
            ("1 + y", 4, "has no value"),
            ("1 + sofmax(x)", 4, "softmax"),
            ("x + [1, 2]", 2, "do not fit"),
            ("x + [[1, 2], [3]]", 4, "rectangular"),
            ("2 * sum(x, axis=5)", 4, "out of range"),
            ("sum(x, keep=3)", 12, "true or false"),
            ("sum(x, 0, false, 1)", 17, "does not take"),
            ("sum(x, foo=1)", 11, "foo"),
            ("sum(x, x=1)", 9, "twice"),
            ("sum(axis=0, x)", 12, "follows"),
            ("sum(axis=0)", 0, "needs the argument"),
            ("reshape(x, [-1, -1])", 0, "inferred"),
            ("reshape(x, 1.5)", 11, "whole number"),
            ("cast(x, 3)", 8, "dtype"),
            ("f32", 0, "dtype"),
            ("x @ 3", 2, "matmul"),
            ("x + f32", 2, "dtype"),
            ("sin", 0, "sin(x)"),
            ("9223372036854775807 + 1", 20, "64 bits"),
        ] {
            let (position, message) = fails(text);
            assert_eq!(position, at, "{text}: {message}");
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn long_and_deep_expressions_are_computed() {
        let long = "1".to_string() + &"+1".repeat(200_000);
        assert_eq!(eval(&long).item::<i64>().unwrap(), 200_001);
        let deep = "(".repeat(100_000) + "x" + &")".repeat(100_000);
        assert_eq!(eval(&deep).shape(), [2, 3]);
        assert!(fails(&("[".repeat(1000) + "1" + &"]".repeat(1000))).1.contains("dimensions"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        const PIECES: [&str; 40] = [
            "1",
            "2",
            "0",
            "3.5",
            "1e3",
            "x",
            "b",
            "f16",
            "true",
            "nan",
            "(",
            "(",
            ")",
            ")",
            "[",
            "]",
            ",",
            ",",
            "+",
            "-",
            "*",
            "/",
            "//",
            "%",
            "**",
            "@",
            "<",
            "==",
            "&",
            "<<",
            "~",
            "=",
            "axis",
            "sum(",
            "reshape(",
            "where(",
            "slice(",
            "cast(",
            "full(",
            "transpose(",
        ];
        let names = Names::from([
            ("x".to_string(), Value::Tensor(Tensor::from_shape([2, 3], &[0.5f32; 6]))),
            ("b".to_string(), Value::Tensor(Tensor::from_slice(&[true, false]))),
        ]);
        let seed =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
        let mut state = seed;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut computed = 0;
        for _ in 0..20_000 {
            let length = 1 + next(12);
            let text: Vec<&str> = (0..length).map(|_| PIECES[next(PIECES.len())]).collect();
            let text = text.join(" ");
            match parse(&text).and_then(|p| run(&p, &names)) {
                Ok(_) => computed += 1,
                Err(trouble) => {
                    let message = trouble.in_text(&text).to_string();
                    assert!(!message.contains("a bug"), "seed {seed}: {text}: {message}");
                }
            }
        }
        assert!(computed > 100, "seed {seed}: only {computed} texts made sense");
    }
}
