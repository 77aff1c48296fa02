//! A formula of any text over tensors that it fits gives a plan or an error.

use millstream::{DType, ErrorKind, Tensor};

/// Four bytes for the sizes of labels, then the formula. Whether it was accepted.
pub fn check(data: &[u8]) -> bool {
    let Some((sizes, formula)) = data.split_first_chunk::<4>() else { return false };
    let formula = String::from_utf8_lossy(formula);
    let size = |c: char| usize::from(sizes[c as usize % 4] % 4);
    let from = formula.split("->").next().unwrap_or_default();
    // A dimension for each letter, and one more of size 2 for an ellipsis.
    let shape = |part: &str| -> Vec<usize> {
        let hidden = part.contains("...").then_some(2);
        hidden.into_iter().chain(part.chars().filter(|c| c.is_alphabetic()).map(size)).take(10).collect()
    };
    let operands: Vec<Tensor> = from.split(',').take(12).map(|part| Tensor::ones(shape(part), DType::F32)).collect();
    let result = Tensor::einsum(&formula, operands.iter().collect::<Vec<_>>());
    match result.explain() {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Argument | ErrorKind::Shape), "{formula:?}: {error}");
            false
        }
    }
}
