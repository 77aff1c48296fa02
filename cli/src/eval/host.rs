//! Functions of the expression language that the host computes. Where a function of [`Tensor`](millstream::Tensor) has several
//! results, `part` says which is meant.

use millstream::Side;

use super::functions::Function;
use super::trouble::Trouble;

/// Sorting, searching and sets.
pub const SORTING: &[Function] = &[
    Function {
        name: "sort",
        form: "x, axis=-1, descending=false",
        about: "sorted along an axis, NaN as the largest",
        call: |a| Ok(a.tensor("x")?.sort(a.int_or("axis", -1)?, a.flag_or("descending", false)?)),
    },
    Function {
        name: "argsort",
        form: "x, axis=-1, descending=false",
        about: "where the sorted elements are",
        call: |a| Ok(a.tensor("x")?.argsort(a.int_or("axis", -1)?, a.flag_or("descending", false)?)),
    },
    Function {
        name: "topk",
        form: "x, k, axis=-1, largest=true, part=0",
        about: "the k largest along an axis; part 1: where they are",
        call: |a| {
            let (x, k) = (a.tensor("x")?, a.count("k")?);
            let (values, places) = x.topk(k, a.int_or("axis", -1)?, a.flag_or("largest", true)?);
            a.part([values, places])
        },
    },
    Function {
        name: "searchsorted",
        form: "sorted, x, right=false",
        about: "where each element would have to be inserted",
        call: |a| {
            let (sorted, x) = (a.tensor("sorted")?, a.tensor("x")?);
            let side = if a.flag_or("right", false)? { Side::Right } else { Side::Left };
            Ok(sorted.searchsorted(&x, side))
        },
    },
    Function {
        name: "isin",
        form: "x, test, invert=false",
        about: "true where the element is among those of test",
        call: |a| Ok(a.tensor("x")?.isin(&a.tensor("test")?, a.flag_or("invert", false)?)),
    },
    Function {
        name: "count_nonzero",
        form: "x, axes=all, keep=false",
        about: "how many elements are not zero",
        call: |a| Ok(a.tensor("x")?.count_nonzero(&a.axes()?, a.keep()?)),
    },
    Function {
        name: "nonzero",
        form: "x, axis=0",
        about: "the indices of elements that are not zero, along one axis",
        call: |a| {
            let (x, at) = (a.tensor("x")?, a.at);
            let axis = a.count_or("axis", 0)?;
            let places = x.nonzero().map_err(|e| Trouble::from_error(at, &e))?;
            let rank = places.len();
            places.into_iter().nth(axis).ok_or_else(|| Trouble::new(at, format!("there are {rank} axes, from 0 on")))
        },
    },
    Function {
        name: "mask",
        form: "x, mask",
        about: "the elements where the mask is true",
        call: |a| Ok(a.tensor("x")?.mask(&a.tensor("mask")?)),
    },
    Function {
        name: "unique_all",
        form: "x, part=0",
        about: "distinct elements; parts 1 to 3: first places, inverse, counts",
        call: |a| {
            let (values, first, inverse, counts) = a.tensor("x")?.unique_all();
            a.part([values, first, inverse, counts])
        },
    },
    Function {
        name: "unique_counts",
        form: "x, part=0",
        about: "distinct elements; part 1: how often each occurs",
        call: |a| {
            let (values, counts) = a.tensor("x")?.unique_counts();
            a.part([values, counts])
        },
    },
    Function {
        name: "unique_inverse",
        form: "x, part=0",
        about: "distinct elements; part 1: which of them each element is",
        call: |a| {
            let (values, inverse) = a.tensor("x")?.unique_inverse();
            a.part([values, inverse])
        },
    },
    Function {
        name: "unique_values",
        form: "x",
        about: "distinct elements",
        call: |a| Ok(a.tensor("x")?.unique_values()),
    },
];
