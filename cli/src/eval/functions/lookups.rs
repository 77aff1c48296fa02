//! Tensors made of others, lookups, running reductions, random numbers.

use millstream::{DType, Generator, Tensor};

use super::super::arguments::Arguments;
use super::super::trouble::Trouble;
use super::Function;

/// The parts of a tensor that was taken apart, one after the other, as expressions know only single tensors.
fn joined(parts: millstream::Result<Vec<Tensor>>, axis: isize) -> Result<Tensor, Trouble> {
    let parts = parts.map_err(|e| Trouble::new(0, e.to_string()))?;
    Ok(Tensor::concat(parts.iter().collect::<Vec<_>>(), axis))
}

/// A running reduction or another function of a tensor and an axis.
macro_rules! along {
    ($($name:ident $about:literal),* $(,)?) => {
        &[$(Function {
            name: stringify!($name),
            form: "x, axis=-1",
            about: $about,
            call: |a| Ok(a.tensor("x")?.$name(a.int_or("axis", -1)?)),
        }),*]
    };
}

pub(super) const SCANS: &[Function] = along! {
    cumsum "the sum of each element and all before it",
    cumprod "the product of each element and all before it",
    cummax "the largest of each element and all before it",
    cummin "the smallest of each element and all before it",
    diff "the difference of each element and the one before it",
};

pub(super) const LOOKUPS: &[Function] = &[
    Function {
        name: "take",
        form: "x, indices, axis=0",
        about: "the slices of an axis at these indices",
        call: |a| Ok(a.tensor("x")?.take(&a.tensor("indices")?, a.int_or("axis", 0)?)),
    },
    Function {
        name: "take_along_axis",
        form: "x, indices, axis=-1",
        about: "the elements of an axis, with an index for each of the result",
        call: |a| Ok(a.tensor("x")?.take_along_axis(&a.tensor("indices")?, a.int_or("axis", -1)?)),
    },
    Function {
        name: "index",
        form: "x, i, j=none",
        about: "the elements at indices i of the first axis and j of the second",
        call: |a| {
            let (x, i) = (a.tensor("x")?, a.tensor("i")?);
            Ok(if a.has("j") { x.index([&i, &a.tensor("j")?]) } else { x.index([&i]) })
        },
    },
    Function {
        name: "scatter",
        form: "x, axis, indices, values",
        about: "values put along an axis, with an index for each",
        call: |a| {
            let (x, axis, indices) = (a.tensor("x")?, a.int("axis")?, a.tensor("indices")?);
            Ok(x.scatter(axis, &indices, &a.values(&x)?))
        },
    },
    Function {
        name: "scatter_add",
        form: "x, axis, indices, values",
        about: "values added along an axis, with an index for each",
        call: |a| {
            let (x, axis, indices) = (a.tensor("x")?, a.int("axis")?, a.tensor("indices")?);
            Ok(x.scatter_add(axis, &indices, &a.values(&x)?))
        },
    },
    Function {
        name: "index_put",
        form: "x, values, i, j=none",
        about: "values at indices i of the first axis and j of the second",
        call: |a| {
            let (x, i) = (a.tensor("x")?, a.tensor("i")?);
            let values = a.values(&x)?;
            Ok(if a.has("j") { x.index_put([&i, &a.tensor("j")?], &values) } else { x.index_put([&i], &values) })
        },
    },
    Function {
        name: "index_add",
        form: "x, values, i, j=none",
        about: "values added at indices i of the first axis and j of the second",
        call: |a| {
            let (x, i) = (a.tensor("x")?, a.tensor("i")?);
            let values = a.values(&x)?;
            Ok(if a.has("j") { x.index_add([&i, &a.tensor("j")?], &values) } else { x.index_add([&i], &values) })
        },
    },
    Function {
        name: "embedding",
        form: "table, indices",
        about: "the rows of a table at these indices",
        call: |a| Ok(a.tensor("table")?.embedding(&a.tensor("indices")?)),
    },
    Function {
        name: "one_hot",
        form: "x, classes, dtype=f32",
        about: "1 at the index, 0 elsewhere, along a new last axis",
        call: |a| {
            let (x, classes) = (a.tensor("x")?, a.count_or("classes", 0)?);
            Ok(x.one_hot(classes, a.dtype_if("dtype")?.unwrap_or(DType::F32)))
        },
    },
];

fn both(a: &mut Arguments<'_>) -> Result<(Tensor, Tensor, isize), Trouble> {
    Ok((a.tensor("x")?, a.tensor("y")?, a.int_or("axis", 0)?))
}

pub(super) const JOINS: &[Function] = &[
    Function {
        name: "concat",
        form: "x, y, axis=0",
        about: "one after the other along an axis",
        call: |a| both(a).map(|(x, y, axis)| Tensor::concat([&x, &y], axis)),
    },
    Function {
        name: "stack",
        form: "x, y, axis=0",
        about: "side by side along a new axis",
        call: |a| both(a).map(|(x, y, axis)| Tensor::stack([&x, &y], axis)),
    },
    Function {
        name: "unstack",
        form: "x, axis=0",
        about: "the views along an axis, one after the other",
        call: |a| {
            let (x, axis) = (a.tensor("x")?, a.int_or("axis", 0)?);
            joined(x.unstack(axis), 0)
        },
    },
    Function {
        name: "split",
        form: "x, sizes, axis=0",
        about: "views of so many indices each, one after the other",
        call: |a| {
            let (x, sizes, axis) = (a.tensor("x")?, a.sizes("sizes")?, a.int_or("axis", 0)?);
            joined(x.split(&sizes, axis), axis)
        },
    },
    Function {
        name: "broadcast_all",
        form: "x, y",
        about: "both broadcast to one shape, one after the other",
        call: |a| joined(Tensor::broadcast_all([&a.tensor("x")?, &a.tensor("y")?]), 0),
    },
    Function {
        name: "repeat",
        form: "x, times, axis=0",
        about: "each element so many times in a row",
        call: |a| Ok(a.tensor("x")?.repeat(a.count_or("times", 1)?, a.int_or("axis", 0)?)),
    },
    Function {
        name: "tile",
        form: "x, times",
        about: "the whole so many times along each axis",
        call: |a| Ok(a.tensor("x")?.tile(&a.sizes("times")?)),
    },
    Function {
        name: "roll",
        form: "x, shifts, axes",
        about: "shifted; what leaves at one end comes in at the other",
        call: |a| Ok(a.tensor("x")?.roll(&a.ints("shifts")?, &a.ints("axes")?)),
    },
    Function {
        name: "moveaxis",
        form: "x, from, to",
        about: "an axis at another position",
        call: |a| Ok(a.tensor("x")?.moveaxis(a.int("from")?, a.int("to")?)),
    },
    Function {
        name: "swapaxes",
        form: "x, a, b",
        about: "two axes exchanged",
        call: |a| Ok(a.tensor("x")?.swapaxes(a.int("a")?, a.int("b")?)),
    },
    Function {
        name: "flatten",
        form: "x, first=0, last=-1",
        about: "neighbouring axes as one",
        call: |a| Ok(a.tensor("x")?.flatten(a.int_or("first", 0)?, a.int_or("last", -1)?)),
    },
];

fn generator(a: &mut Arguments<'_>) -> Result<Generator, Trouble> {
    Ok(Generator::new(a.int_or("seed", 0)? as u64))
}

pub(super) const RANDOM: &[Function] = &[
    Function {
        name: "uniform",
        form: "shape, seed=0, dtype=f32",
        about: "random numbers from 0 up to but without 1",
        call: |a| Ok(generator(a)?.uniform(&a.sizes("shape")?, a.dtype_if("dtype")?.unwrap_or(DType::F32))),
    },
    Function {
        name: "normal",
        form: "shape, seed=0, dtype=f32",
        about: "random numbers with mean 0 and variance 1",
        call: |a| Ok(generator(a)?.normal(&a.sizes("shape")?, a.dtype_if("dtype")?.unwrap_or(DType::F32))),
    },
    Function {
        name: "integers",
        form: "shape, low, high, seed=0",
        about: "random integers from low up to but without high",
        call: |a| {
            let (low, high) = (a.int("low")? as i64, a.int("high")? as i64);
            Ok(generator(a)?.integers(&a.sizes("shape")?, low, high))
        },
    },
    Function {
        name: "permutation",
        form: "n, seed=0",
        about: "the numbers from 0 up to but without n in a random order",
        call: |a| {
            let n = a.count("n")?;
            Ok(generator(a)?.permutation(n))
        },
    },
    Function {
        name: "shuffle",
        form: "x, axis=0, seed=0",
        about: "the slices of an axis in a random order",
        call: |a| {
            let (x, axis) = (a.tensor("x")?, a.int_or("axis", 0)?);
            Ok(generator(a)?.shuffle(&x, axis))
        },
    },
    Function {
        name: "bernoulli",
        form: "shape, probability, seed=0",
        about: "true with this probability",
        call: |a| Ok(generator(a)?.bernoulli(&a.sizes("shape")?, a.float_or("probability", 0.5)?)),
    },
    Function {
        name: "dropout",
        form: "x, probability, seed=0",
        about: "0 with this probability, else larger, as in training",
        call: |a| {
            let (x, mut generator) = (a.tensor("x")?, generator(a)?);
            Ok(x.dropout(a.float_or("probability", 0.5)?, &mut generator))
        },
    },
];
