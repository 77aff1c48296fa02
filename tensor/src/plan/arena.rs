//! The arena: one block of memory for all intermediate values of a plan, laid out by when each is needed.

/// A value that needs memory from one step to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub bytes: usize,
    /// The first step that touches it.
    pub from: usize,
    /// The last step that touches it.
    pub to: usize,
}

/// Places spans so that no two that live at once overlap. Gives each one's offset, and the size of the whole.
///
/// The largest are placed first, each at the lowest place that is free during its life.
pub(crate) fn lay_out(spans: &[Span], alignment: usize) -> (Vec<usize>, usize) {
    let round = |n: usize| n.div_ceil(alignment) * alignment;
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(spans[i].bytes), i));
    let mut offsets = vec![0; spans.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        let s = spans[i];
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&j| spans[j].from <= s.to && s.from <= spans[j].to)
            .map(|&j| (offsets[j], offsets[j] + round(spans[j].bytes)))
            .collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + round(s.bytes) <= start {
                break;
            }
            at = at.max(end);
        }
        offsets[i] = at;
        total = total.max(at + round(s.bytes));
        placed.push(i);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_chain_needs_room_for_two() {
        let spans: Vec<Span> = (0..10).map(|i| Span { bytes: 100, from: i, to: i + 1 }).collect();
        let (_, total) = lay_out(&spans, 64);
        assert_eq!(total, 256);
    }

    proptest! {
        #[test]
        fn values_that_live_at_once_do_not_overlap(list in prop::collection::vec((0usize..500, 0usize..20, 0usize..6), 0..40)) {
            let spans: Vec<Span> = list.iter().map(|&(bytes, from, len)| Span { bytes, from, to: from + len }).collect();
            let (offsets, total) = lay_out(&spans, 64);
            for (i, a) in spans.iter().enumerate() {
                prop_assert_eq!(offsets[i] % 64, 0);
                prop_assert!(offsets[i] + a.bytes <= total);
                for (j, b) in spans.iter().enumerate().skip(i + 1) {
                    let at_once = a.from <= b.to && b.from <= a.to;
                    let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                    prop_assert!(!at_once || apart || a.bytes == 0 || b.bytes == 0);
                }
            }
        }
    }
}
