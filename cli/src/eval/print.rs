//! Tensors as text, in the manner of NumPy.

use half::{bf16, f16};
use millstream::{DType, Tensor};

use crate::failure::Outcome;

/// Tensors of more elements are printed in part.
const WHOLE: usize = 1000;

/// More elements are never printed.
const MOST: usize = 100_000;

/// How many items are shown at each end of a dimension of which a part is left out.
const EDGE: usize = 3;

/// Shape and dtype.
pub fn describe(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.dtype(), tensor.shape())
}

/// Shape, dtype and values. Computes the tensor.
pub fn text(tensor: &Tensor) -> Outcome<String> {
    let bytes = tensor.to_bytes()?;
    let (shape, dtype) = (tensor.shape().as_slice(), tensor.dtype());
    let head = describe(tensor);
    if tensor.is_empty() {
        return Ok(format!("{head}\n[]"));
    }
    let cut = tensor.len() > WHOLE;
    // Many short dimensions are never cut; then nobody would read it all.
    if shape.iter().map(|&size| if cut { size.min(2 * EDGE) } else { size }).product::<usize>() > MOST {
        return Ok(format!("{head}\n(too many elements to print; -o writes them to a file)"));
    }
    let indices = shown(shape, cut);
    let element = |index: usize| {
        let start = index * dtype.size();
        bytes.get(start..start + dtype.size()).map_or_else(String::new, |b| number(dtype, b))
    };
    let cells: Vec<String> = indices.into_iter().map(element).collect();
    let width = cells.iter().map(|c| c.chars().count()).max().unwrap_or_default();
    let mut out = format!("{head}\n");
    write(&mut out, shape, cut, &mut cells.iter(), width, 0);
    Ok(out)
}

/// The indices of a dimension that are shown, and whether some are left out.
fn indices(size: usize, cut: bool) -> (Vec<usize>, bool) {
    if cut && size > 2 * EDGE {
        ((0..EDGE).chain(size - EDGE..size).collect(), true)
    } else {
        ((0..size).collect(), false)
    }
}

/// The row-major indices of the elements that are shown, in order.
fn shown(shape: &[usize], cut: bool) -> Vec<usize> {
    shape.iter().fold(vec![0], |found, &size| {
        let (list, _) = indices(size, cut);
        found.iter().flat_map(|p| list.iter().map(move |i| p * size + i)).collect()
    })
}

fn write<'a>(
    out: &mut String,
    shape: &[usize],
    cut: bool,
    cells: &mut impl Iterator<Item = &'a String>,
    width: usize,
    depth: usize,
) {
    let Some((&size, inner)) = shape.split_first() else {
        if let Some(cell) = cells.next() {
            *out += &if depth == 0 { cell.clone() } else { format!("{cell:>width$}") };
        }
        return;
    };
    let (list, left_out) = indices(size, cut);
    let line = "\n".repeat(inner.len()) + &" ".repeat(depth + 1);
    out.push('[');
    for i in 0..list.len() {
        if i > 0 {
            *out += if inner.is_empty() { ", " } else { "," };
            if !inner.is_empty() {
                *out += &line;
            }
        }
        if left_out && i == EDGE {
            *out += "...";
            *out += if inner.is_empty() { ", " } else { "," };
            if !inner.is_empty() {
                *out += &line;
            }
        }
        write(out, inner, cut, cells, width, depth + 1);
    }
    out.push(']');
}

/// One element.
fn number(dtype: DType, bytes: &[u8]) -> String {
    macro_rules! read {
        ($t:ty) => {
            bytes.try_into().map(<$t>::from_ne_bytes).unwrap_or_default()
        };
    }
    match dtype {
        DType::Bool => (bytes.first() != Some(&0)).to_string(),
        DType::I8 => read!(i8).to_string(),
        DType::I16 => read!(i16).to_string(),
        DType::I32 => read!(i32).to_string(),
        DType::I64 => read!(i64).to_string(),
        DType::U8 => read!(u8).to_string(),
        DType::U16 => read!(u16).to_string(),
        DType::U32 => read!(u32).to_string(),
        DType::U64 => read!(u64).to_string(),
        DType::F16 => half(f32::from(f16::from_bits(read!(u16))), |v| f16::from_f32(v).to_f32()),
        DType::BF16 => half(f32::from(bf16::from_bits(read!(u16))), |v| bf16::from_f32(v).to_f32()),
        DType::F32 => plain(format!("{:?}", read!(f32))),
        DType::F64 => plain(format!("{:?}", read!(f64))),
        DType::C64 | DType::C128 => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let (real, imaginary) = (number(dtype.real(), real), number(dtype.real(), imaginary));
            let plus = if imaginary.starts_with('-') { "" } else { "+" };
            format!("{real}{plus}{imaginary}i")
        }
    }
}

/// The fewest digits that give the same half-precision number again.
fn half(value: f32, round: impl Fn(f32) -> f32) -> String {
    let digits = (1..=9).map(|d| format!("{value:.*e}", d - 1)).find(|t| t.parse().is_ok_and(|v| round(v) == value));
    let shortest = digits.and_then(|t| t.parse::<f32>().ok()).unwrap_or(value);
    plain(format!("{shortest:?}"))
}

fn plain(text: String) -> String {
    if text == "NaN" { "nan".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(tensor: &Tensor) -> String {
        text(tensor).unwrap_or_else(|f| panic!("{f}"))
    }

    #[test]
    fn small_tensors_are_printed_whole() {
        assert_eq!(lines(&Tensor::scalar(2i64)), "i64 []\n2");
        assert_eq!(lines(&Tensor::from_shape([2, 2], &[1i32, 2, 30, 4])), "i32 [2, 2]\n[[ 1,  2],\n [30,  4]]");
        assert_eq!(lines(&Tensor::from_shape([2, 1, 1], &[true, false])), "bool [2, 1, 1]\n[[[ true]],\n\n [[false]]]");
        assert_eq!(lines(&Tensor::from_shape::<f32>(&[0], &[])), "f32 [0]\n[]");
        assert_eq!(lines(&Tensor::from_shape::<f32>(&[2, 0], &[])), "f32 [2, 0]\n[]");
        let wide = Tensor::zeros([0, 1usize << 40], DType::F32);
        assert_eq!(lines(&wide), format!("f32 [0, {}]\n[]", 1u64 << 40));
    }

    #[test]
    fn long_tensors_are_cut_in_the_middle() {
        assert_eq!(lines(&Tensor::arange(0, 2000)), "i64 [2000]\n[   0,    1,    2, ..., 1997, 1998, 1999]");
        let text = lines(&Tensor::arange(0, 1 << 20).reshape([1024, 1024]));
        assert_eq!(text.lines().count(), 1 + 7);
        assert!(text.len() < 600, "{text}");
        let text = lines(&Tensor::zeros([2; 18], DType::U8));
        assert!(text.contains("too many elements"), "{text}");
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        let third = f16::from_f32(1.0 / 3.0);
        assert_eq!(lines(&Tensor::from_slice(&[third])), "f16 [1]\n[0.3333]");
        assert_eq!(lines(&Tensor::from_slice(&[f32::NAN, f32::INFINITY, 0.1])), "f32 [3]\n[nan, inf, 0.1]");
        assert_eq!(lines(&Tensor::from_slice(&[bf16::from_f32(-2.5)])), "bf16 [1]\n[-2.5]");
    }
}
