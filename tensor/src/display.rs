//! How tensors are shown to people: by `{}` their values, as NumPy prints arrays; by `{:?}` what they are.

use std::fmt;

use half::{bf16, f16};
use millstream_core::{DType, Element, Result};
use num_complex::Complex;

use crate::Tensor;

/// Tensors of more elements are shown in part.
const WHOLE: usize = 1000;

/// How many items are shown at each end of a dimension of which a part is left out.
const EDGE: usize = 3;

/// More elements are never shown: many short dimensions leave nothing out.
const MOST: usize = 100_000;

/// Digits after the point.
const DIGITS: usize = 8;

/// Characters in a line.
const LINE: usize = 75;

/// What a tensor is: dtype, shape, device, and whether it has been computed.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.node.error() {
            return write!(f, "Tensor(error: {error})");
        }
        write!(f, "Tensor({}, {:?}", self.dtype(), self.sizes())?;
        if let Ok(device) = self.device() {
            write!(f, ", {}", device.name())?;
        }
        match self.node.value() {
            Some(_) => write!(f, ")"),
            None => write!(f, ", pending {})", self.node.kind.name()),
        }
    }
}

/// The values, as NumPy prints an array. This reads the tensor, and so computes it; an error is shown in place of values.
///
/// ```
/// use millstream::Tensor;
/// let x = Tensor::new([[1.0f32, 2.5], [-3.0, 0.125]]);
/// assert_eq!(x.to_string(), "[[ 1.     2.5  ]\n [-3.     0.125]]");
/// assert_eq!(Tensor::arange(0, 4000).to_string(), "[   0    1    2 ... 3997 3998 3999]");
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "Tensor(error: {error})"),
        }
    }
}

impl Tensor {
    fn shown(&self) -> Result<String> {
        self.check()?;
        let cut = self.len() > WHOLE;
        let kept = |n: usize| if cut { n.min(2 * EDGE) } else { n };
        if self.sizes().iter().map(|&n| kept(n)).product::<usize>() > MOST {
            return Ok(format!("{self:?}"));
        }
        self.eval()?;
        let mut edges = self.clone();
        for (axis, &n) in self.sizes().iter().enumerate() {
            if kept(n) < n {
                edges = Tensor::concat([edges.slice(axis, ..EDGE), edges.slice(axis, n - EDGE..)], axis);
            }
        }
        let cells = edges.cells()?;
        let page = Page { shape: self.sizes(), cut, cells: &cells };
        Ok(page.text())
    }

    /// The elements as texts of one width.
    fn cells(&self) -> Result<Vec<String>> {
        fn whole<T: Element + ToString>(x: &Tensor) -> Result<Vec<String>> {
            Ok(x.to_vec::<T>()?.iter().map(T::to_string).collect())
        }
        let rank = self.rank();
        let cells = match self.dtype() {
            DType::Bool => {
                self.to_vec::<bool>()?.iter().map(|&b| if b { "True" } else { "False" }.to_string()).collect()
            }
            DType::I8 => whole::<i8>(self)?,
            DType::I16 => whole::<i16>(self)?,
            DType::I32 => whole::<i32>(self)?,
            DType::I64 => whole::<i64>(self)?,
            DType::U8 => whole::<u8>(self)?,
            DType::U16 => whole::<u16>(self)?,
            DType::U32 => whole::<u32>(self)?,
            DType::U64 => whole::<u64>(self)?,
            DType::F16 => floats(&self.to_vec::<f16>()?, rank),
            DType::BF16 => floats(&self.to_vec::<bf16>()?, rank),
            DType::F32 => floats(&self.to_vec::<f32>()?, rank),
            DType::F64 => floats(&self.to_vec::<f64>()?, rank),
            DType::C64 => complex(&self.to_vec::<Complex<f32>>()?),
            DType::C128 => complex(&self.to_vec::<Complex<f64>>()?),
        };
        if rank == 0 {
            return Ok(cells);
        }
        let width = cells.iter().map(String::len).max().unwrap_or_default();
        Ok(cells.into_iter().map(|cell| format!("{cell:>width$}")).collect())
    }
}

/// Cells in their brackets.
struct Page<'a> {
    shape: &'a [usize],
    /// Whether the middle of long dimensions is left out.
    cut: bool,
    cells: &'a [String],
}

impl Page<'_> {
    fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, self.cells, 0);
        out
    }

    /// The indices of a dimension that are there, and whether some are left out behind the first ones.
    fn kept(&self, n: usize) -> (usize, bool) {
        if self.cut && n > 2 * EDGE { (2 * EDGE, true) } else { (n, false) }
    }

    fn write(&self, out: &mut String, cells: &[String], depth: usize) {
        let Some(&n) = self.shape.get(depth) else {
            out.push_str(cells.first().map_or("", |c| c));
            return;
        };
        let (kept, cut) = self.kept(n);
        out.push('[');
        if depth + 1 == self.shape.len() {
            self.row(out, cells, cut);
        } else if let Some(each) = cells.len().checked_div(kept).filter(|&each| each > 0) {
            let line = "\n".repeat(self.shape.len() - depth - 1) + &" ".repeat(depth + 1);
            for (i, part) in cells.chunks(each).enumerate() {
                if i > 0 {
                    out.push_str(&line);
                }
                if cut && i == EDGE {
                    out.push_str("...");
                    out.push_str(&line);
                }
                self.write(out, part, depth + 1);
            }
        }
        out.push(']');
    }

    /// Numbers beside each other, in lines that are not too long.
    fn row(&self, out: &mut String, cells: &[String], cut: bool) {
        let indent = self.shape.len();
        let mut used = indent;
        for (i, cell) in cells.iter().enumerate() {
            let dots = cut && i == EDGE;
            let needed = cell.len() + 1 + if dots { 4 } else { 0 };
            if i > 0 {
                if used + needed > LINE {
                    *out += "\n";
                    *out += &" ".repeat(indent);
                    used = indent;
                } else {
                    out.push(' ');
                }
            }
            if dots {
                out.push_str("... ");
            }
            out.push_str(cell);
            used += needed;
        }
    }
}

/// A float type that is shown with as few digits as tell its numbers apart.
trait Shown: Copy {
    fn wide(self) -> f64;

    /// The fewest digits, as `d.ddde±x`.
    fn shortest(self) -> String;
}

macro_rules! shown {
    ($($float:ty, |$x:ident| $wide:expr, $shortest:expr;)*) => {
        $(impl Shown for $float {
            fn wide(self) -> f64 {
                let $x = self;
                $wide
            }

            fn shortest(self) -> String {
                let $x = self;
                $shortest
            }
        })*
    };
}
shown! {
    f64, |x| x, format!("{x:e}");
    f32, |x| x.into(), format!("{x:e}");
    f16, |x| x.into(), fewest(x.into(), |v| f16::from_f64(v).into());
    bf16, |x| x.into(), fewest(x.into(), |v| bf16::from_f64(v).into());
}

/// The fewest digits that a narrow type reads as the same number again.
fn fewest(x: f64, narrow: impl Fn(f64) -> f64) -> String {
    let same = |text: &String| text.parse().is_ok_and(|v| narrow(v) == x);
    (0..9).map(|digits| format!("{x:.digits$e}")).find(same).unwrap_or_else(|| format!("{x:e}"))
}

/// Floats with their points below each other.
fn floats<T: Shown>(values: &[T], rank: usize) -> Vec<String> {
    let finite = || values.iter().map(|v| v.wide().abs()).filter(|v| v.is_finite() && *v != 0.0);
    let (most, least) = (finite().fold(0.0, f64::max), finite().fold(f64::INFINITY, f64::min));
    let scientific = most >= 1e8 || (most > 0.0 && (least < 1e-4 || most / least > 1000.0));
    let parts: Vec<std::result::Result<(String, String), &str>> =
        values.iter().map(|v| digits(*v, scientific && rank > 0 || most >= 1e16 || least < 1e-4)).collect();
    let behind = parts.iter().flatten().map(|(_, behind)| behind.split('e').next().map_or(0, str::len)).max();
    let behind = behind.unwrap_or_default();
    let cell = |part: std::result::Result<(String, String), &str>| match part {
        // Not a number of digits: it stands where the last digit does.
        Err(name) => name.to_string(),
        Ok((before, after)) => match after.split_once('e') {
            Some((after, exponent)) => {
                let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
                format!("{before}.{after:0<behind$}e{sign}{exponent:0>2}")
            }
            // A number alone has a digit behind its point.
            None if rank == 0 && after.is_empty() => format!("{before}.0"),
            None => format!("{before}.{after:<behind$}"),
        },
    };
    parts.into_iter().map(cell).collect()
}

/// What stands before and behind the point, the exponent with it; or the name of what has no digits.
fn digits<T: Shown>(value: T, scientific: bool) -> std::result::Result<(String, String), &'static str> {
    let x = value.wide();
    if x.is_nan() {
        return Err("nan");
    }
    if x.is_infinite() {
        return Err(if x > 0.0 { "inf" } else { "-inf" });
    }
    let shortest = value.shortest();
    let split = |text: &str| {
        let (before, after) = text.split_once('.').unwrap_or((text, ""));
        (before.to_string(), after.trim_end_matches('0').to_string())
    };
    if scientific {
        let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
        let (mut before, mut after) = split(mantissa);
        if after.len() > DIGITS {
            let rounded = format!("{x:.DIGITS$e}");
            (before, after) = split(rounded.split('e').next().unwrap_or(&rounded));
        }
        return Ok((before, format!("{after}e{exponent}")));
    }
    // The shortest digits again, in place.
    let plain = shortest.parse::<f64>().map_or_else(|_| shortest.clone(), |v| format!("{v}"));
    let (before, after) = split(&plain);
    Ok(if after.len() > DIGITS { split(&format!("{x:.DIGITS$}")) } else { (before, after) })
}

/// Complex numbers: both parts with their points below each other.
fn complex<T: Shown>(values: &[Complex<T>]) -> Vec<String> {
    let real = floats(&values.iter().map(|v| v.re).collect::<Vec<_>>(), 1);
    let imaginary = floats(&values.iter().map(|v| v.im).collect::<Vec<_>>(), 1);
    let pair = |(re, im): (String, String)| {
        let im = im.trim_end();
        if im.starts_with('-') { format!("{re}{im}j") } else { format!("{re}+{im}j") }
    };
    real.into_iter().zip(imaginary).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: Element>(shape: &[usize], values: &[T]) -> String {
        Tensor::from_shape(shape, values).to_string()
    }

    #[test]
    fn numbers_stand_as_in_numpy() {
        assert_eq!(text(&[2], &[8.0f32, 16.0]), "[ 8. 16.]");
        assert_eq!(text(&[3], &[1.5f32, -2.25, 0.1]), "[ 1.5  -2.25  0.1 ]");
        assert_eq!(text(&[3], &[1e10f64, 1.0, 0.5]), "[1.e+10 1.e+00 5.e-01]");
        assert_eq!(text(&[2], &[1.5e-7f32, 1.0]), "[1.5e-07 1.0e+00]");
        assert_eq!(text(&[3], &[f32::NAN, f32::INFINITY, 0.1]), "[nan inf 0.1]");
        assert_eq!(text(&[1], &[1.0f64 / 3.0]), "[0.33333333]");
        assert_eq!(text(&[1], &[f16::from_f32(1.0 / 3.0)]), "[0.3333]");
        assert_eq!(text(&[2, 2], &[1, -20, 300, 4]), "[[  1 -20]\n [300   4]]");
        assert_eq!(text(&[2, 1, 1], &[true, false]), "[[[ True]]\n\n [[False]]]");
        assert_eq!(text(&[2], &[Complex::new(1.0f32, 2.0), Complex::new(-3.5, -4.0)]), "[ 1. +2.j -3.5-4.j]");
        assert_eq!(text::<f32>(&[0], &[]), "[]");
        assert_eq!(text::<f32>(&[2, 0], &[]), "[]");
        assert_eq!(Tensor::scalar(8.0f32).to_string(), "8.0");
        assert_eq!(Tensor::scalar(3i64).to_string(), "3");
    }

    #[test]
    fn long_tensors_are_cut_in_the_middle_and_long_lines_broken() {
        let x = Tensor::arange(0, 1 << 20).reshape([1024, 1024]);
        let text = x.to_string();
        assert_eq!(text.lines().count(), 7);
        assert!(text.starts_with("[[      0       1       2 ...    1021    1022    1023]\n"), "{text}");
        let text = Tensor::arange(0, 100).to_string();
        assert!(text.lines().count() > 1 && text.lines().all(|l| l.len() <= LINE), "{text}");
        assert!(Tensor::zeros([2; 18], DType::U8).to_string().starts_with("Tensor(u8, [2, 2"));
    }

    #[test]
    fn errors_are_shown_in_place_of_values() {
        let x = Tensor::zeros([2, 3], DType::F32);
        assert!(x.matmul(&x).to_string().starts_with("Tensor(error: "));
        assert!(format!("{:?}", x.matmul(&x)).starts_with("Tensor(error: "));
    }
}
