//! The arena: one block of memory for all intermediate values of a plan, laid out by when each is needed; and borrowers, which
//! need none because a result's memory is not used yet.

/// A value that needs memory from one step to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub bytes: usize,
    /// The first step that touches it.
    pub from: usize,
    /// The last step that touches it.
    pub to: usize,
}

/// Bytes that live at each step.
fn needed(spans: &[Span]) -> Vec<usize> {
    let steps = spans.iter().map(|s| s.to + 1).max().unwrap_or(0);
    let mut needed = vec![0usize; steps];
    spans.iter().for_each(|s| needed[s.from..=s.to].iter_mut().for_each(|n| *n += s.bytes));
    needed
}

/// The most bytes that live at any time of a span's life.
fn crowd(span: &Span, needed: &[usize]) -> usize {
    needed[span.from..=span.to].iter().copied().max().unwrap_or(0)
}

/// Places spans so that no two that live at once overlap. Gives each one's offset, and the size of the whole.
///
/// They are placed one after the other, each at the lowest offset that is free during its life: the largest first or, where
/// that leaves gaps, those first that live when most memory is needed, or those that live first; whatever takes least.
pub(crate) fn lay_out(spans: &[Span], alignment: usize) -> (Vec<usize>, usize) {
    let round = |n: usize| n.div_ceil(alignment) * alignment;
    let spans: Vec<Span> = spans.iter().map(|s| Span { bytes: round(s.bytes), ..*s }).collect();
    let needed = needed(&spans);
    let least = needed.iter().copied().max().unwrap_or(0);
    let largest = |i: usize| std::cmp::Reverse(spans[i].bytes);
    let mut best = place(&spans, |i| (largest(i), 0));
    if best.1 > least {
        let crowded = place(&spans, |i| (std::cmp::Reverse(crowd(&spans[i], &needed)), largest(i)));
        let early = place(&spans, |i| (spans[i].from, largest(i)));
        for other in [crowded, early] {
            if other.1 < best.1 {
                best = other;
            }
        }
    }
    best
}

/// Steps that one list of [`Overlaps`] is for.
const STEPS: usize = 64;

/// Spans by when they live, so that those that meet another are found without a look at all.
struct Overlaps<'a> {
    spans: &'a [Span],
    /// For each stretch of steps, the spans that live in it, and those of them that begin there.
    living: Vec<Vec<usize>>,
    begun: Vec<Vec<usize>>,
}

impl<'a> Overlaps<'a> {
    fn new(spans: &'a [Span]) -> Overlaps<'a> {
        let lists = spans.iter().map(|s| s.to / STEPS + 1).max().unwrap_or(0);
        Overlaps { spans, living: vec![Vec::new(); lists], begun: vec![Vec::new(); lists] }
    }

    fn add(&mut self, i: usize) {
        let s = self.spans[i];
        self.begun[s.from / STEPS].push(i);
        self.living[s.from / STEPS..=s.to / STEPS].iter_mut().for_each(|list| list.push(i));
    }

    /// Those of the added spans that live at some step of this one's life.
    fn with(&self, s: Span) -> impl Iterator<Item = usize> {
        let (first, last) = (s.from / STEPS, s.to / STEPS);
        let near = self.living[first].iter().chain(self.begun[first + 1..=last].iter().flatten());
        near.copied().filter(move |&j| self.spans[j].from <= s.to && s.from <= self.spans[j].to)
    }
}

/// Places spans in the order of their keys.
fn place<K: Ord>(spans: &[Span], key: impl Fn(usize) -> K) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&i| key(i));
    let mut offsets = vec![0; spans.len()];
    let mut placed = Overlaps::new(spans);
    let mut total = 0;
    for i in order {
        let s = spans[i];
        let mut taken: Vec<(usize, usize)> =
            placed.with(s).map(|j| (offsets[j], offsets[j] + spans[j].bytes)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + s.bytes <= start {
                break;
            }
            at = at.max(end);
        }
        offsets[i] = at;
        total = total.max(at + s.bytes);
        placed.add(i);
    }
    (offsets, total)
}

/// Memory that nobody needs before a step: a result's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Donor {
    pub bytes: usize,
    /// The first step that touches it.
    pub from: usize,
}

/// Gives each span the donor whose memory it takes, if any: it fits, is over before the donor's own time begins, and no two
/// borrowers of a donor live at once. Those that live when most memory is needed come first.
pub(crate) fn borrow(spans: &[Span], may_borrow: impl Fn(usize) -> bool, donors: &[Donor]) -> Vec<Option<usize>> {
    let mut borrowed = vec![None; spans.len()];
    let needed = needed(spans);
    let mut order: Vec<(usize, usize)> = (0..spans.len())
        .filter(|&i| may_borrow(i) && spans[i].bytes > 0)
        .map(|i| (crowd(&spans[i], &needed), i))
        .collect();
    order.sort_by_key(|&(most, i)| (std::cmp::Reverse(most), std::cmp::Reverse(spans[i].bytes), i));
    // The smallest that will do.
    let mut smallest: Vec<usize> = (0..donors.len()).collect();
    smallest.sort_by_key(|&h| donors[h].bytes);
    let mut borrowers: Vec<Vec<Span>> = vec![Vec::new(); donors.len()];
    for (_, i) in order {
        let s = spans[i];
        let large = smallest.partition_point(|&h| donors[h].bytes < s.bytes);
        let alone = |h: usize| borrowers[h].iter().all(|g| g.to < s.from || s.to < g.from);
        if let Some(h) = smallest[large..].iter().copied().find(|&h| s.to < donors[h].from && alone(h)) {
            borrowers[h].push(s);
            borrowed[i] = Some(h);
        }
    }
    borrowed
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

    #[test]
    fn a_chain_of_equal_values_takes_turns_with_its_result() {
        // The last step writes the result: every second value lies in it, and the arena has room for one.
        let spans: Vec<Span> = (0..10).map(|i| Span { bytes: 100, from: i, to: i + 1 }).collect();
        let borrowed = borrow(&spans, |_| true, &[Donor { bytes: 100, from: 10 }]);
        let left: Vec<Span> = (0..10).filter(|&i| borrowed[i].is_none()).map(|i| spans[i]).collect();
        assert_eq!(left.len(), 5);
        assert_eq!(lay_out(&left, 64).1, 128);
    }

    #[test]
    fn many_short_lives_are_laid_out_without_comparing_all() {
        // Compared pair by pair, so many would take minutes.
        let spans: Vec<Span> = (0..400_000).map(|i| Span { bytes: 64 + 64 * (i % 7), from: i, to: i + 3 }).collect();
        let start = std::time::Instant::now();
        let (_, total) = lay_out(&spans, 64);
        assert!(total < 64 * 7 * 8 && start.elapsed().as_secs() < 20, "{total} bytes after {:?}", start.elapsed());
    }

    proptest! {
        #[test]
        fn borrowers_fit_and_disturb_nobody(
            list in prop::collection::vec((0usize..500, 0usize..20, 0usize..6), 0..40),
            donors in prop::collection::vec((0usize..500, 0usize..25), 0..4),
        ) {
            let spans: Vec<Span> = list.iter().map(|&(bytes, from, len)| Span { bytes, from, to: from + len }).collect();
            let donors: Vec<Donor> = donors.iter().map(|&(bytes, from)| Donor { bytes, from }).collect();
            let borrowed = borrow(&spans, |i| i % 3 != 0, &donors);
            for (i, a) in spans.iter().enumerate() {
                let Some(h) = borrowed[i] else { continue };
                prop_assert!(i % 3 != 0 && a.bytes <= donors[h].bytes && a.to < donors[h].from);
                for (j, b) in spans.iter().enumerate().skip(i + 1) {
                    prop_assert!(borrowed[j] != Some(h) || a.to < b.from || b.to < a.from);
                }
            }
        }

        #[test]
        fn values_that_live_at_once_do_not_overlap(list in prop::collection::vec((0usize..500, 0usize..300, 0usize..150), 0..60)) {
            let spans: Vec<Span> = list.iter().map(|&(bytes, from, len)| Span { bytes, from, to: from + len }).collect();
            let (offsets, total) = lay_out(&spans, 64);
            for (i, a) in spans.iter().enumerate() {
                prop_assert_eq!(offsets[i] % 64, 0);
                prop_assert!(offsets[i] + a.bytes <= total);
                for (j, b) in spans.iter().enumerate().skip(i + 1) {
                    let at_once = a.from <= b.to && b.from <= a.to;
                    let disjoint = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                    prop_assert!(!at_once || disjoint || a.bytes == 0 || b.bytes == 0);
                }
            }
        }
    }
}
