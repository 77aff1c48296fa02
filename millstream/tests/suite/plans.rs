//! A plan serves graphs of one structure only: whatever an operation is made with is either part of that structure or a
//! number that comes with each run.
//!
//! Each list holds graphs that differ in one thing. They are computed one after the other in one runtime, and backwards in
//! another: if two of them shared a plan that they should not share, one of the two runtimes would give the wrong values.

use crate::common::Random;
use millstream::core::Runtime;
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{AttentionOptions, DType, Device, FftNorm, Generator, Order, Side, Tensor, step};

/// What graphs are made of: `x` and `y` are square, `s` is symmetric and positive definite, `indices` are what they say.
struct Given {
    x: Tensor,
    y: Tensor,
    s: Tensor,
    indices: Tensor,
    seen: Tensor,
    added: Tensor,
}

const N: usize = 6;

impl Given {
    fn on(device: &Device, seed: u64) -> Given {
        let mut random = Random::new(seed);
        let mut matrix = || {
            let data: Vec<f32> = (0..N * N).map(|_| random.unit() as f32).collect();
            Tensor::from_shape(&[N, N], &data).to(device)
        };
        let (x, y, added) = (matrix(), matrix(), matrix());
        let s = x.matmul(&x.transpose()) + Tensor::eye(N, N, 0, DType::F32).to(device);
        s.eval().unwrap();
        let indices: Vec<i64> = (0..N * N).map(|_| random.below(N) as i64).collect();
        let seen: Vec<bool> = (0..N * N).map(|_| random.below(3) > 0).collect();
        Given {
            x,
            y,
            s,
            indices: Tensor::from_shape(&[N, N], &indices).to(device),
            seen: Tensor::from_shape(&[N, N], &seen).to(device),
            added,
        }
    }
}

type Graph = Box<dyn Fn(&Given) -> Tensor>;

fn graphs<const K: usize>(list: [fn(&Given) -> Tensor; K]) -> Vec<Graph> {
    list.into_iter().map(|f| Box::new(f) as Graph).collect()
}

/// Computes the graphs in both orders, each order in a runtime of its own, and compares.
fn each_has_its_own(what: &str, list: &[Graph]) {
    let seed = Random::fresh().bits();
    let given = || {
        let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
        Given::on(&runtime.device("cpu").unwrap(), seed)
    };
    let bytes = |g: &Given, graph: &Graph| graph(g).to_bytes().unwrap_or_else(|e| panic!("{what}: {e}"));
    let forth = given();
    let first: Vec<Vec<u8>> = list.iter().map(|graph| bytes(&forth, graph)).collect();
    let back = given();
    let mut second: Vec<Vec<u8>> = list.iter().rev().map(|graph| bytes(&back, graph)).collect();
    second.reverse();
    for (i, (a, b)) in first.iter().zip(&second).enumerate() {
        assert_eq!(a, b, "{what} {i}: computed first and computed last differ");
        // The lists are such that no two results are alike.
        for (j, other) in first[..i].iter().enumerate() {
            assert_ne!(a, other, "{what}: {i} and {j} are alike");
        }
    }
}

#[test]
fn lookups_differ_in_the_axis_its_length_and_its_step() {
    let list = graphs([
        |g| g.x.take_unchecked(&g.indices, 0).select(-1, 0),
        |g| g.x.take_unchecked(&g.indices, 1).select(-1, 0),
        |g| g.x.take_along_axis_unchecked(&g.indices, 0),
        |g| g.x.take_along_axis_unchecked(&g.indices, 1),
        |g| g.x.slice(0, ..5).take_along_axis_unchecked(&g.indices, 0),
        |g| g.x.slice(0, ..3).take_along_axis_unchecked(&g.indices, 0),
        |g| g.x.slice(0, step(..N as isize, 2)).take_along_axis_unchecked(&g.indices, 0),
        |g| g.x.flip(0).take_along_axis_unchecked(&g.indices, 0),
        |g| g.x.index_unchecked(&[&g.indices, &g.indices.transpose()]),
        |g| g.x.index_unchecked(&[&g.indices.transpose(), &g.indices]),
        |g| g.x.slice(1, ..4).index_unchecked(&[&g.indices, &g.indices.transpose()]),
    ]);
    each_has_its_own("lookup", &list);
}

#[test]
fn scans_differ_in_what_they_do_and_along_which_axis() {
    let list = graphs([
        |g| g.x.cumsum(0),
        |g| g.x.cumsum(1),
        |g| g.x.cumprod(0),
        |g| g.x.cummax(0),
        |g| g.x.cummin(0),
        |g| g.x.flip(0).cumsum(0),
        |g| g.x.slice(0, 1..N as isize).cumsum(0),
    ]);
    each_has_its_own("scan", &list);
}

#[test]
fn attention_differs_in_scale_mask_and_what_a_query_sees() {
    fn attend(g: &Given, options: AttentionOptions<'_>) -> Tensor {
        g.x.attention(&g.y, &g.x, &options)
    }
    let list = graphs([
        |g| attend(g, AttentionOptions::default()),
        |g| attend(g, AttentionOptions { causal: true, ..Default::default() }),
        |g| attend(g, AttentionOptions { scale: Some(3.0), ..Default::default() }),
        |g| attend(g, AttentionOptions { scale: Some(-3.0), ..Default::default() }),
        |g| attend(g, AttentionOptions { mask: Some(&g.seen), ..Default::default() }),
        |g| attend(g, AttentionOptions { mask: Some(&g.seen), causal: true, ..Default::default() }),
        |g| attend(g, AttentionOptions { mask: Some(&g.seen.transpose()), ..Default::default() }),
        |g| attend(g, AttentionOptions { mask: Some(&g.added), ..Default::default() }),
        |g| g.x.attention(&g.y.transpose(), &g.x, &AttentionOptions::default()),
    ]);
    each_has_its_own("attention", &list);
}

#[test]
fn joined_values_differ_in_axis_and_order_of_parts() {
    let list = graphs([
        |g| Tensor::concat(&[&g.x, &g.y], 0),
        |g| Tensor::concat(&[&g.x, &g.y], 1),
        |g| Tensor::concat(&[&g.y, &g.x], 0),
        |g| Tensor::concat(&[&g.x, &g.x], 0),
        |g| Tensor::concat(&[&g.x, &(&g.y * 2.0)], 0),
        |g| Tensor::concat(&[&g.x, &g.y.flip(1)], 0),
        |g| Tensor::concat(&[&g.x.slice(0, ..2), &g.y.slice(0, ..4)], 0),
        |g| Tensor::concat(&[&g.x.slice(0, ..4), &g.y.slice(0, ..2)], 0),
    ]);
    each_has_its_own("concat", &list);
}

#[test]
fn padding_differs_in_amounts_and_in_what_lies_around() {
    let list = graphs([
        |g| g.x.pad(&[(1, 2)], 0),
        |g| g.x.pad(&[(2, 1)], 0),
        |g| g.x.pad(&[(1, 2)], 7),
        |g| g.x.pad(&[(1, 2)], -0.0),
        |g| g.x.pad(&[(1, 2), (0, 0)], 0),
        |g| g.x.pad(&[(1, 2), (0, 0)], 7),
        |g| g.x.pad(&[(1, 1), (1, 0)], 0),
        |g| g.x.pad(&[(1, 1), (1, 0)], 7).sum(1),
        |g| g.x.pad(&[(1, 1), (1, 0)], 8).sum(1),
    ]);
    each_has_its_own("pad", &list);
}

#[test]
fn contractions_differ_in_the_roles_of_dimensions() {
    let list = graphs([
        |g| Tensor::einsum("ij,jk->ik", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->ki", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,kj->ik", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->ij", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->jk", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,ij->ij", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,ij->ji", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->ijk", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->kij", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->i", &[&g.x, &g.y]),
        |g| Tensor::einsum("ij,jk->k", &[&g.x, &g.y]),
    ]);
    each_has_its_own("contract", &list);
}

#[test]
fn host_functions_differ_in_name_mode_numbers_and_output() {
    let list = graphs([
        |g| g.x.sort(0, Order::Ascending),
        |g| g.x.sort(0, Order::Descending),
        |g| g.x.sort(1, Order::Ascending),
        |g| g.x.argsort(0, Order::Ascending),
        |g| g.x.topk(2, 0, Order::Descending).0,
        |g| g.x.topk(3, 0, Order::Descending).0,
        |g| g.x.topk(2, 0, Order::Ascending).0,
        |g| g.x.topk(2, 0, Order::Ascending).1,
        |g| Tensor::arange(0, N as i64).searchsorted(&g.indices, Side::Left),
        |g| Tensor::arange(0, N as i64).searchsorted(&g.indices, Side::Right),
    ]);
    each_has_its_own("sorting", &list);
    let list = graphs([
        |g| g.x.fft(None, 0, FftNorm::Backward).real(),
        |g| g.x.ifft(None, 0, FftNorm::Forward).imag(),
        |g| g.x.fft(None, 0, FftNorm::Ortho).real(),
        |g| g.x.fft(None, 1, FftNorm::Backward).real(),
        |g| g.x.fft(Some(5), 0, FftNorm::Backward).real(),
        |g| g.x.rfft(None, 0, FftNorm::Backward).imag(),
        |g| g.x.ihfft(None, 0, FftNorm::Forward).imag(),
        |g| g.x.irfft(Some(6), 0, FftNorm::Backward),
        |g| g.x.irfft(Some(7), 0, FftNorm::Backward),
    ]);
    each_has_its_own("fft", &list);
    let list = graphs([
        |g| g.s.cholesky(),
        |g| g.s.cholesky_upper(),
        |g| g.s.qr().0,
        |g| g.s.qr().1,
        |g| g.x.qr().0,
        |g| g.x.slice(1, ..3).qr_complete().1,
        |g| g.x.slice(1, ..3).qr().1,
        |g| g.s.inv(),
        |g| g.s.solve(&g.x),
        |g| g.s.eigh().1,
        |g| g.s.eigvalsh(),
        |g| g.x.svd().0,
        |g| g.x.svd().2,
        |g| g.x.pinv(Some(1e-6)),
        |g| g.x.pinv(Some(0.5)),
        |g| g.x.det(),
        |g| g.x.slogdet().1,
    ]);
    each_has_its_own("linear algebra", &list);
}

#[test]
fn outputs_of_one_call_differ_from_those_of_two() {
    let list = graphs([
        |g| {
            let (values, indices) = g.x.topk(3, 0, Order::Descending);
            values + indices.cast(DType::F32)
        },
        |g| {
            let (values, _) = g.x.topk(3, 0, Order::Descending);
            let (_, indices) = g.y.topk(3, 0, Order::Descending);
            values + indices.cast(DType::F32)
        },
        |g| {
            let (_, indices) = g.x.topk(3, 0, Order::Descending);
            let (values, _) = g.y.topk(3, 0, Order::Descending);
            values + indices.cast(DType::F32)
        },
    ]);
    each_has_its_own("outputs", &list);
}

#[test]
fn random_numbers_ranges_reductions_and_views_differ_in_all_they_are_made_with() {
    let list = graphs([
        |g| &g.x + Generator::new(1).uniform(&[N, N], DType::F32),
        |g| &g.x + Generator::new(2).uniform(&[N, N], DType::F32),
        |g| &g.x + Generator::new(1).uniform(&[N, N], DType::F32).transpose(),
        |g| &g.x + Generator::new(1).uniform(&[N, N], DType::F16),
        |g| &g.x + Tensor::arange(0, N as i64),
        |g| &g.x + Tensor::arange(1, N as i64 + 1),
        |g| &g.x + Tensor::arange_by(0.0, 2.0 * N as f64, 2.0, DType::I64),
        |g| &g.x + 1.5,
        |g| &g.x + 2.5,
        |g| g.x.sum(0),
        |g| g.x.sum(1),
        |g| g.x.sum([0, 1]),
        |g| g.x.prod(0),
        |g| g.x.max(0),
        |g| g.x.min(0),
        |g| g.x.argmax(0),
        |g| g.x.argmin(0),
        |g| g.x.cast(DType::F64) * 3.0,
        |g| g.x.cast(DType::F16) * 3.0,
        |g| g.x.cast(DType::BF16) * 3.0,
        |g| g.x.slice(0, 1..4).exp(),
        |g| g.x.slice(0, 2..5).exp(),
        |g| g.x.exp().slice(0, 1..4).cumsum(0),
        |g| g.x.exp().slice(0, 2..5).cumsum(0),
        |g| &g.x.slice(0, ..3) - &g.x.slice(0, 1..4),
        |g| &g.x.slice(0, ..3) - &g.x.slice(0, 3..6),
        |g| &g.x.slice(0, 3..6) * &g.x.slice(0, 3..6),
        |g| g.seen.where_(&g.x, &g.y),
        |g| g.seen.where_(&g.y, &g.x),
    ]);
    each_has_its_own("others", &list);
}
