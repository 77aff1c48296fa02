//! Lookups in tables, in every dtype of elements and indices; running reductions; attention.

use super::case::{Case, Operand};
use super::random::{Domain, Random};
use crate::error::Result;
use crate::what::{DType, Lookup, Op, Outside, Reduce, Scalar, row_major};

pub(super) fn cases(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = gathers(random)?;
    out.extend(beyond(random)?);
    out.extend(scans(random)?);
    out.extend(attentions(random)?);
    Ok(out)
}

/// What a table looks like, and how indices are looked up in it.
struct Table {
    layout: &'static str,
    dims: Vec<usize>,
    /// How the table moves along the index space.
    strides: Vec<isize>,
    /// For each axis that is looked up: how its indices lie in the index space, and the axis.
    axes: Vec<(Vec<isize>, Lookup)>,
    /// Elements of the table.
    len: usize,
}

fn tables() -> Vec<Table> {
    let axis = |strides: &[isize], stride: isize, size: usize| (strides.to_vec(), Lookup { stride, size });
    let table = |layout, dims: &[usize], strides: &[isize], axes, len| Table {
        layout,
        dims: dims.into(),
        strides: strides.into(),
        axes,
        len,
    };
    vec![
        // Whole rows of a table of 7 x 19, as an embedding takes them.
        table("rows", &[5, 19], &[0, 1], vec![axis(&[1, 0], 19, 7)], 133),
        // Single elements out of 100.
        table("elements", &[67], &[0], vec![axis(&[1], 1, 100)], 100),
        // Along an axis, with an index for every element of the result.
        table("along", &[4, 9], &[11, 0], vec![axis(&[9, 1], 1, 11)], 44),
        // Two axes at once.
        table("two axes", &[3, 8], &[0, 0], vec![axis(&[8, 1], 6, 5), axis(&[0, 1], 1, 6)], 30),
        // Columns of a table, and indices that lie backwards.
        table("columns", &[6, 5], &[8, 0], vec![axis(&[0, -1], 1, 8)], 48),
        table("one index", &[4], &[1], vec![axis(&[0], 4, 3)], 12),
        table("nothing", &[0, 3], &[0, 1], vec![axis(&[1, 0], 3, 4)], 12),
    ]
}

fn gathers(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let tables = tables();
    for (t, dtype) in DType::ALL.into_iter().enumerate() {
        for (i, table) in tables.iter().enumerate() {
            if dtype != DType::F32 && i != 0 && i != t % tables.len() {
                continue;
            }
            let dtype_of_indices = [DType::I32, DType::I64, DType::U8, DType::I16, DType::U32][(t + i) % 5];
            let mut inputs =
                vec![Operand::sized(dtype, &table.strides, table.len, i % 2).random(random, Domain::Ordinary)?];
            inputs[0].access.fill = random.value(dtype, Domain::Small);
            let outside = if (t + i) % 2 == 0 { Outside::Fill } else { Outside::Error };
            let beyond = i64::from(outside == Outside::Fill);
            for (strides, lookup) in &table.axes {
                let mut operand = Operand::new(dtype_of_indices, &table.dims, strides, 0);
                for element in operand.owned.clone() {
                    // Most indices exist, counted from the front or from the end; some do not, where that is no error.
                    let size = lookup.size as i64;
                    let from = if dtype_of_indices.kind() == crate::Kind::Unsigned { 0 } else { -size - beyond };
                    let value = from + random.below((size + 2 * beyond - from) as usize) as i64;
                    operand.tensor.set(element, Scalar::from_int(value, dtype_of_indices))?;
                }
                inputs.push(operand);
            }
            let output = Operand::new(dtype, &table.dims, &row_major(&table.dims), 0);
            let lookups: Vec<Lookup> = table.axes.iter().map(|(_, l)| *l).collect();
            let name = format!("gather by {dtype_of_indices}");
            out.push(Case::new(name, dtype, table.layout, inputs, vec![output], |i, mut o| {
                Op::gather(&table.dims, i, o.remove(0), &lookups, outside)
            })?);
        }
    }
    Ok(out)
}

/// Lookups with one index that its axis does not have, which is an error; after each, the same lookup with indices that all exist.
fn beyond(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let indices = [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
    for (t, table) in tables().into_iter().filter(|t| !t.dims.contains(&0)).enumerate() {
        for (turn, dtype) in indices.into_iter().enumerate().filter(|(d, _)| t == 0 || d % 3 == t % 3) {
            for wrong in [true, false] {
                let fault = wrong.then(|| random.below(table.axes.len()));
                let mut inputs =
                    vec![Operand::sized(DType::F32, &table.strides, table.len, 0).random(random, Domain::Ordinary)?];
                for (j, (strides, lookup)) in table.axes.iter().enumerate() {
                    let mut operand = Operand::new(dtype, &table.dims, strides, 0);
                    let (size, owned) = (lookup.size as i64, operand.owned.clone());
                    for element in owned.clone() {
                        operand.tensor.set(element, Scalar::from_int(random.below(lookup.size) as i64, dtype))?;
                    }
                    if fault == Some(j) {
                        let below = dtype.kind() != crate::Kind::Unsigned && turn % 2 == 0;
                        let value = if below { -size - 1 } else { size + random.below(5) as i64 };
                        let at = owned.start + random.below(owned.len());
                        operand.tensor.set(at, Scalar::from_int(value, dtype))?;
                    }
                    inputs.push(operand);
                }
                let output = Operand::new(DType::F32, &table.dims, &row_major(&table.dims), 0);
                let lookups: Vec<Lookup> = table.axes.iter().map(|(_, l)| *l).collect();
                let name = format!("gather by {dtype}");
                let layout = if wrong { "beyond the axis" } else { table.layout };
                out.push(Case::new(name, DType::F32, layout, inputs, vec![output], |i, mut o| {
                    Op::gather(&table.dims, i, o.remove(0), &lookups, Outside::Error)
                })?);
            }
        }
    }
    Ok(out)
}

/// Queries, keys, d, e; the batch; whether later keys are hidden; the mask.
type Attending = (&'static str, [usize; 4], [usize; 2], bool, Option<DType>);

fn attentions(random: &mut Random) -> Result<Vec<Case>> {
    let forms: [Attending; 11] = [
        ("square", [17, 17, 8, 8], [2, 2], false, None),
        ("causal", [19, 19, 16, 16], [1, 2], true, None),
        ("few queries", [3, 70, 5, 7], [1, 1], true, None),
        ("seen keys", [9, 33, 12, 4], [2, 1], false, Some(DType::Bool)),
        ("added numbers", [20, 10, 6, 9], [1, 3], false, Some(DType::F32)),
        ("one of each", [1, 1, 1, 1], [1, 1], false, None),
        ("no key", [4, 0, 3, 2], [1, 1], false, None),
        // Whole vectors for matrix units, several blocks of queries and of keys, and the longest heads.
        ("long heads", [21, 45, 256, 192], [1, 1], true, None),
        ("blocks", [70, 133, 64, 64], [1, 2], false, None),
        ("blocks", [130, 150, 32, 40], [1, 1], true, Some(DType::F32)),
        ("a long cache", [1, 600, 128, 128], [1, 2], false, Some(DType::Bool)),
    ];
    let mut out = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for (i, &(layout, [m, n, d, e], [b, h], causal, mask)) in forms.iter().enumerate() {
            if dtype != DType::F32 && (4..7).contains(&i) || dtype == DType::F64 && i >= 7 {
                continue;
            }
            let dims = [b, h, m, n, d, e];
            // Queries as [b, m, h, d], keys shared by all heads, values as they come.
            let [mi, ni, di, ei, hi] = [m, n, d, e, h].map(|x| x as isize);
            let q = [mi * hi * di, di, hi * di, 0, 1, 0];
            let k = [ni * di, 0, 0, di, 1, 0];
            let v = [hi * ni * ei, ni * ei, 0, ei, 0, 1];
            let o = [hi * mi * ei, mi * ei, ei, 0, 0, 1];
            let mut inputs = Vec::new();
            for strides in [q, k, v] {
                inputs.push(Operand::new(dtype, &dims, &strides, i % 2).random(random, Domain::Small)?);
            }
            if let Some(mask) = mask {
                let mask = if mask == DType::Bool { mask } else { dtype };
                let strides = [0, 0, ni, 1, 0, 0];
                inputs.push(Operand::new(mask, &dims, &strides, 0).random(random, Domain::Small)?);
            }
            let output = Operand::new(dtype, &dims, &o, 0);
            let case = Case::new("attention", dtype, layout, inputs, vec![output], |i, mut o| {
                Op::attention(&dims, i, o.remove(0), causal)
            })?;
            out.push(case.with_params(vec![Scalar::from_f64(1.0 / (d as f64).sqrt(), dtype.compute())]));
        }
    }
    Ok(out)
}

fn scans(random: &mut Random) -> Result<Vec<Case>> {
    let spaces: [(&str, &[usize], &[isize]); 8] = [
        ("rows", &[3, 37], &[37, 1]),
        ("long", &[1300], &[1]),
        ("columns", &[5, 40], &[1, 5]),
        ("flipped", &[2, 21], &[21, -1]),
        ("strided", &[2, 3, 9], &[60, 20, 2]),
        ("size 1", &[4, 1], &[1, 1]),
        ("no rows", &[0, 5], &[5, 1]),
        ("empty", &[3, 0], &[0, 1]),
    ];
    let mut out = Vec::new();
    for reduce in [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min] {
        for dtype in DType::ALL.into_iter().filter(|&d| reduce.result(d) == Some(d)) {
            let turn = random.below(spaces.len());
            for (i, (layout, dims, strides)) in spaces.iter().enumerate() {
                if !(matches!(dtype, DType::F32 | DType::I32) || i == 0 || i == turn) {
                    continue;
                }
                let domain = if reduce == Reduce::Prod { Domain::Small } else { Domain::Ordinary };
                let input = Operand::new(dtype, dims, strides, i % 2).random(random, domain)?;
                let output = Operand::new(dtype, dims, &row_major(dims), 0);
                let name = format!("cumulative {}", reduce.name());
                out.push(Case::new(name, dtype, layout, vec![input], vec![output], |mut i, mut o| {
                    Op::scan(dims, i.remove(0), o.remove(0), reduce)
                })?);
            }
            if !dtype.is_complex() {
                let input = Operand::new(dtype, &[4, 23], &[23, 1], 0).random(random, Domain::Any)?;
                let output = Operand::new(dtype, &[4, 23], &[23, 1], 0);
                let name = format!("cumulative {}", reduce.name());
                out.push(Case::new(name, dtype, "any values", vec![input], vec![output], |mut i, mut o| {
                    Op::scan(&[4, 23], i.remove(0), o.remove(0), reduce)
                })?);
            }
        }
    }
    Ok(out)
}
