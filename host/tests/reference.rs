//! Host functions against plain Rust, at sizes around every change of method, with one thread and with two.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millstream_core::what::{Fork, Serial};
use millstream_core::{DType, HostFunction};
use millstream_host::{
    Indexed, Order, Put, ScatterShape, Side, isin, mask, nonzero, scatter, searchsorted, sort, topk, unique,
};

/// Two threads, of which each takes the next task.
struct Two;

impl Fork for Two {
    fn run(&self, tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let task = next.fetch_add(1, Relaxed);
                if task >= tasks {
                    return;
                }
                f(task);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
    }
}

struct Random(u64);

impl Random {
    fn fresh() -> Random {
        let seed = RandomState::new().build_hasher().finish() | 1;
        println!("seed {seed}");
        Random(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 16) as usize % n.max(1)
    }
}

/// Memory that is aligned for everything.
struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    fn poisoned(len: usize) -> Bytes {
        Bytes { words: vec![u128::from_ne_bytes([0xa5; 16]); len.div_ceil(16)], len }
    }

    fn of<T: Copy>(values: &[T]) -> Bytes {
        let mut bytes = Bytes::poisoned(size_of_val(values));
        // SAFETY: as many bytes, of plain numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr().cast(), bytes.words.as_mut_ptr().cast::<u8>(), bytes.len)
        };
        bytes
    }

    fn read(&self) -> &[u8] {
        // SAFETY: the words have as many bytes.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    fn write(&mut self) -> &mut [u8] {
        // SAFETY: the words have as many bytes.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }

    fn list<T: Copy>(&self) -> Vec<T> {
        // SAFETY: only asked for numbers, which all bytes are.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<T>(), self.len / size_of::<T>()).to_vec() }
    }
}

/// The wanted outputs, after a look that both numbers of threads give the same.
fn run(function: &HostFunction, inputs: &[&Bytes], wanted: &[bool]) -> Vec<Bytes> {
    let inputs: Vec<&[u8]> = inputs.iter().map(|b| b.read()).collect();
    let once = |fork: &dyn Fork| {
        let mut memory: Vec<Bytes> = function.outputs.iter().map(|o| Bytes::poisoned(o.bytes())).collect();
        let mut outputs: Vec<Option<&mut [u8]>> =
            memory.iter_mut().zip(wanted).map(|(m, &w)| w.then(|| m.write())).collect();
        function.run(&inputs, &mut outputs, fork).unwrap();
        memory
    };
    let (one, two) = (once(&Serial), once(&Two));
    for (a, b) in one.iter().zip(&two) {
        assert!(a.read() == b.read(), "{} depends on the threads", function.name());
    }
    one
}

/// An element type with its promised order.
trait Case: Copy + Send + Sync {
    const DTYPE: DType;
    fn compare(self, other: Self) -> Ordering;
    /// An element of some kind: many ties, special values, all bits, few bits.
    fn any(r: &mut Random, kind: usize) -> Self;
}

macro_rules! integers {
    ($($type:ty, $dtype:ident);*) => {
        $(impl Case for $type {
            const DTYPE: DType = DType::$dtype;
            fn compare(self, other: Self) -> Ordering {
                self.cmp(&other)
            }
            fn any(r: &mut Random, kind: usize) -> Self {
                match kind {
                    0 => r.below(5) as $type,
                    1 => [<$type>::MIN, <$type>::MAX, 0, 1][r.below(4)],
                    2 => r.bits() as $type,
                    _ => (r.bits() & 0xfff0) as $type,
                }
            }
        })*
    };
}
integers!(u8, U8; i8, I8; u16, U16; i16, I16; u32, U32; i32, I32; u64, U64; i64, I64);

macro_rules! floats {
    ($($type:ty, $bits:ty, $dtype:ident);*) => {
        $(impl Case for $type {
            const DTYPE: DType = DType::$dtype;
            fn compare(self, other: Self) -> Ordering {
                self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
            fn any(r: &mut Random, kind: usize) -> Self {
                let unit = (r.bits() >> 11) as f64 / (1u64 << 53) as f64;
                match kind {
                    0 => [0.0, -0.0, 1.0, -1.0, <$type>::NAN, -<$type>::NAN, <$type>::INFINITY][r.below(7)],
                    1 => if r.below(3) == 0 { [0.0, -0.0][r.below(2)] } else { unit as $type - 0.5 },
                    2 => <$type>::from_bits(r.bits() as $bits),
                    _ => if r.below(1000) == 0 { unit as $type * 1e30 } else { 1.0 + unit as $type * 1e-3 },
                }
            }
        })*
    };
}
floats!(f32, u32, F32; f64, u64, F64);

fn same<T: Copy>(a: &[T], b: &[T]) -> bool {
    Bytes::of(a).read() == Bytes::of(b).read()
}

fn sorts<T: Case>(r: &mut Random, rows: usize, n: usize, kind: usize) {
    let x: Vec<T> = (0..rows * n).map(|_| T::any(r, kind)).collect();
    sorts_these(&x, rows, n, kind);
}

fn sorts_these<T: Case>(x: &[T], rows: usize, n: usize, kind: usize) {
    let given = Bytes::of(x);
    for order in [Order::Ascending, Order::Descending] {
        let mut indices: Vec<i64> = Vec::new();
        for row in x.chunks_exact(n) {
            let mut list: Vec<i64> = (0..n as i64).collect();
            list.sort_by(|&a, &b| {
                let o = row[a as usize].compare(row[b as usize]);
                if order == Order::Descending { o.reverse() } else { o }
            });
            indices.extend(list);
        }
        let values = |indices: &[i64], k: usize| -> Vec<T> {
            indices.iter().enumerate().map(|(i, &p)| x[i / k * n + p as usize]).collect()
        };
        let say = format!("{} {rows}x{n} of kind {kind}, {order:?}", T::DTYPE.name());
        let f = sort(T::DTYPE, rows, n, order).unwrap();
        for wanted in [[true, false], [false, true], [true, true]] {
            let got = run(&f, &[&given], &wanted);
            assert!(!wanted[0] || same(&got[0].list::<T>(), &values(&indices, n)), "values of {say}");
            assert!(!wanted[1] || got[1].list::<i64>() == indices, "indices of {say}");
        }
        for k in [0, 1, 3, 64, n / 9, n / 3, n - 1].into_iter().filter(|&k| k < n) {
            let top: Vec<i64> = indices.chunks_exact(n).flat_map(|row| row[..k].iter().copied()).collect();
            let got = run(&topk(T::DTYPE, rows, n, k, order).unwrap(), &[&given], &[true, true]);
            assert!(got[1].list::<i64>() == top, "indices of the first {k} of {say}");
            assert!(same(&got[0].list::<T>(), &values(&top, k.max(1))), "the first {k} of {say}");
        }
    }
}

#[test]
fn rows_of_every_length_are_sorted_stably_and_keep_their_bits() {
    let mut r = Random::fresh();
    for (rows, n) in [(3, 1), (3, 2), (5, 17), (2, 99), (2, 100), (3, 257), (2, 300), (2, 601), (5, 4096), (1, 65535)] {
        for kind in 0..4 {
            sorts::<f32>(&mut r, rows, n, kind);
            sorts::<i64>(&mut r, rows, n, kind);
            if n < 5000 {
                sorts::<f64>(&mut r, rows, n, kind);
                sorts::<u8>(&mut r, rows, n, kind);
                sorts::<i8>(&mut r, rows, n, kind);
                sorts::<u16>(&mut r, rows, n, kind);
                sorts::<i16>(&mut r, rows, n, kind);
                sorts::<u32>(&mut r, rows, n, kind);
                sorts::<i32>(&mut r, rows, n, kind);
                sorts::<u64>(&mut r, rows, n, kind);
            }
        }
    }
}

#[test]
fn short_rows_of_all_lengths_are_sorted() {
    let mut r = Random::fresh();
    for n in 1..600 {
        sorts::<f32>(&mut r, 1, n, n % 4);
        sorts::<f64>(&mut r, 1, n, (n + 1) % 4);
    }
}

#[test]
fn many_short_rows_are_sorted() {
    let mut r = Random::fresh();
    for n in (1..=24).chain([47, 48, 49, 64, 95, 96, 97]) {
        // Groups of rows that are whole, and some that are not; more than one task.
        for rows in [1 + r.below(15), 16, 17 + r.below(40), 20_000 / n] {
            let kind = r.below(4);
            sorts::<f32>(&mut r, rows, n, kind);
            sorts::<u8>(&mut r, rows, n, kind);
            sorts::<i64>(&mut r, rows, n, kind);
            sorts::<f64>(&mut r, rows, n, kind);
        }
    }
}

#[test]
fn the_first_of_rows_of_any_length_are_found_for_any_number() {
    let mut r = Random::fresh();
    for _ in 0..60 {
        let (rows, n) = (1 + r.below(3), 97 + r.below(1200));
        let kind = r.below(4);
        sorts::<f32>(&mut r, rows, n, kind);
        sorts::<i32>(&mut r, rows, n, kind);
    }
}

#[test]
fn rows_in_some_order_or_of_few_values_are_sorted() {
    let mut r = Random::fresh();
    for n in [5000usize, 200_000] {
        let middle = n as i32 / 2;
        let of = |f: &mut dyn FnMut(i32) -> i32| -> Vec<i32> { (0..n as i32).map(f).collect() };
        for (kind, x) in [
            of(&mut |i| -i),
            of(&mut |_| 3),
            of(&mut |i| (i - middle).abs() << 12),
            of(&mut |i| i % 1000),
            of(&mut |_| (r.below(3) as i32) << 29),
            of(&mut |i| if i % 2 == 0 { 0 } else { i.wrapping_mul(1 << 20) }),
        ]
        .into_iter()
        .enumerate()
        {
            sorts_these(&x, 1, n, kind);
            let floats: Vec<f32> = x.iter().map(|&v| v as f32).collect();
            sorts_these(&floats, 1, n, kind);
        }
    }
}

#[test]
fn long_rows_are_sorted_like_short_ones() {
    let mut r = Random::fresh();
    for kind in 0..4 {
        sorts::<f32>(&mut r, 2, 65536, kind);
        let n = 65536 + r.below(40000);
        sorts::<f64>(&mut r, 1, n, kind);
        sorts::<i8>(&mut r, 1, 65537, kind);
        sorts::<u16>(&mut r, 1, 70000, kind);
        sorts::<i64>(&mut r, 1, 98304 + 1, kind);
    }
}

#[test]
fn a_long_row_of_few_leading_digits_is_parted_again() {
    let mut r = Random::fresh();
    // Nearly all share the first digit.
    sorts::<f32>(&mut r, 1, (1 << 21) + 3000, 3);
}

#[test]
fn complex_numbers_are_sorted_by_their_parts() {
    let mut r = Random::fresh();
    for n in [5, 1000, 66000] {
        let x: Vec<[f32; 2]> = (0..n).map(|_| [r.below(3) as f32, f32::any(&mut r, 1)]).collect();
        let wide: Vec<[f64; 2]> = x.iter().map(|v| v.map(f64::from)).collect();
        let mut indices: Vec<i64> = (0..n as i64).collect();
        indices.sort_by(|&a, &b| {
            let (a, b) = (x[a as usize], x[b as usize]);
            a[0].compare(b[0]).then(a[1].compare(b[1]))
        });
        for (dtype, bytes) in [(DType::C64, Bytes::of(&x)), (DType::C128, Bytes::of(&wide))] {
            let f = sort(dtype, 1, n, Order::Ascending).unwrap();
            let got = run(&f, &[&bytes], &[true, true]);
            assert!(got[1].list::<i64>() == indices);
            let alone = run(&f, &[&bytes], &[true, false]);
            assert!(alone[0].read() == got[0].read());
            if dtype == DType::C64 {
                let sorted: Vec<[f32; 2]> = indices.iter().map(|&p| x[p as usize]).collect();
                assert!(same(&got[0].list::<[f32; 2]>(), &sorted));
            }
        }
    }
}

#[test]
fn sorted_and_equal_rows_stay_as_they_are() {
    for n in [50, 1000, 70000] {
        let x: Vec<i32> = (0..n).collect();
        let f = sort(DType::I32, 1, n as usize, Order::Ascending).unwrap();
        assert!(run(&f, &[&Bytes::of(&x)], &[true, false])[0].list::<i32>() == x);
        let zeros: Vec<f32> = (0..n).map(|i| if i % 3 == 0 { -0.0 } else { 0.0 }).collect();
        let f = sort(DType::F32, 1, n as usize, Order::Descending).unwrap();
        assert!(same(&run(&f, &[&Bytes::of(&zeros)], &[true, false])[0].list::<f32>(), &zeros));
    }
}

#[test]
fn picked_elements_come_in_order_whatever_their_width() {
    let mut r = Random::fresh();
    for n in [0, 1, 7, 16383, 16384, 16385, 40000, 50000 + r.below(50000)] {
        for rare in [1, 2, 50, n + 1] {
            let truth: Vec<bool> = (0..n).map(|_| r.below(rare) == 0).collect();
            let picks: Vec<usize> = (0..n).filter(|&i| truth[i]).collect();
            let given = Bytes::of(&truth);
            for (dtype, row) in [
                (DType::U8, 1),
                (DType::F16, 1),
                (DType::F32, 1),
                (DType::F64, 1),
                (DType::C128, 1),
                (DType::U8, 3),
                (DType::U8, 4),
                (DType::I32, 5),
                (DType::I32, 0),
            ] {
                let bytes = dtype.size() * row;
                let x: Vec<u8> = (0..n * bytes).map(|_| r.bits() as u8).collect();
                let got = run(&mask(dtype, n, row, picks.len()), &[&Bytes::of(&x), &given], &[true]);
                let expected: Vec<u8> = picks.iter().flat_map(|&i| x[i * bytes..(i + 1) * bytes].to_vec()).collect();
                assert!(got[0].read() == expected, "{n} rows of {bytes} bytes");
            }
            let wide = [1, 3, 100][r.below(3)];
            for shape in [vec![n], vec![n / wide, wide], vec![n / wide, wide, 1], vec![1, n / wide, 1, wide]] {
                let len: usize = shape.iter().product();
                let picks = &picks[..picks.partition_point(|&p| p < len)];
                let f = nonzero(&shape, picks.len());
                let got = run(&f, &[&Bytes::of(&truth[..len])], &vec![true; shape.len()]);
                let flat: Vec<usize> = (0..picks.len())
                    .map(|i| {
                        got.iter().zip(&shape).fold(0, |at, (list, n)| at * n + list.list::<i64>()[i..][0] as usize)
                    })
                    .take(if len > 20000 { 50 } else { len })
                    .collect();
                assert!(flat == picks[..flat.len()], "{shape:?}");
            }
            // A count that is wrong is an error.
            let f = mask(DType::U8, n, 1, picks.len() + 1);
            assert!(f.run(&[&vec![0; n], given.read()], &mut [Some(&mut vec![0; picks.len() + 1])], &Serial).is_err());
        }
    }
}

#[test]
fn values_are_put_in_order_whatever_lies_behind_the_axis() {
    let mut r = Random::fresh();
    for _ in 0..60 {
        let (k, each) = (r.below(60), r.below(2) == 0);
        let outer = if each { 1 + r.below(3) } else { 1 };
        let (n, inner) = (1 + r.below(40), [1, 2, 63, 64, 65, 200][r.below(6)]);
        let of = if each { Indexed::Elements } else { Indexed::Axes([n].into_iter().collect()) };
        let sizes = ScatterShape { outer, n, inner, k, indices: of };
        let x: Vec<f32> = (0..outer * n * inner).map(|_| f32::any(&mut r, 1)).collect();
        let v: Vec<f32> = (0..outer * k * inner).map(|_| f32::any(&mut r, 1)).collect();
        let count = outer * k * if each { inner } else { 1 };
        let mut indices: Vec<i64> = (0..count).map(|_| r.below(2 * n) as i64 - n as i64).collect();
        let (mut put, mut sum) = (x.clone(), x.clone());
        for o in 0..outer {
            for j in 0..k {
                for i in 0..inner {
                    let index = indices[if each { (o * k + j) * inner + i } else { o * k + j }];
                    let index = if index < 0 { index.wrapping_add(n as i64) } else { index };
                    if (0..n as i64).contains(&index) {
                        let at = (o * n + index as usize) * inner + i;
                        put[at] = v[(o * k + j) * inner + i];
                        sum[at] += v[(o * k + j) * inner + i];
                    }
                }
            }
        }
        let inputs = [&Bytes::of(&x), &Bytes::of(&indices), &Bytes::of(&v)];
        let got = |how| run(&scatter(DType::F32, sizes.clone(), how), &inputs, &[true])[0].list::<f32>();
        assert!(same(&got(Put::Last), &put), "{sizes:?}");
        assert!(same(&got(Put::Sum), &sum), "{sizes:?}");
        // Halves that hold these sums exactly.
        let few = |list: &[f32]| list.iter().map(|v| half::f16::from_f32((v * 8.0).round())).collect::<Vec<_>>();
        let wide = |list: &[f32]| list.iter().map(|v| (v * 8.0).round()).collect::<Vec<_>>();
        let halves = [&Bytes::of(&few(&x)), &Bytes::of(&indices), &Bytes::of(&few(&v))];
        let floats = [&Bytes::of(&wide(&x)), &Bytes::of(&indices), &Bytes::of(&wide(&v))];
        let a = run(&scatter(DType::F16, sizes.clone(), Put::Sum), &halves, &[true])[0].list::<half::f16>();
        let b = run(&scatter(DType::F32, sizes.clone(), Put::Sum), &floats, &[true])[0].list::<f32>();
        assert!(a.iter().zip(&b).all(|(a, b)| a.to_f32() == *b), "{sizes:?}");
        // One index that the axis does not have.
        if count > 0 {
            let at = r.below(count);
            indices[at] = [i64::MIN, i64::MAX, n as i64, -(n as i64) - 1][r.below(4)];
            let inputs = [Bytes::of(&x), Bytes::of(&indices), Bytes::of(&v)];
            let inputs: Vec<&[u8]> = inputs.iter().map(Bytes::read).collect();
            let mut out = Bytes::poisoned(4 * x.len());
            let function = scatter(DType::F32, sizes.clone(), Put::Last);
            let error = function.run(&inputs, &mut [Some(out.write())], &Serial).unwrap_err();
            assert!(error.to_string().contains(&indices[at].to_string()), "{error}");
        }
    }
}

#[test]
fn sets_and_searches_hold_for_long_lists() {
    let mut r = Random::fresh();
    for (n, kind) in [(1, 0), (3000, 0), (70000, 1), (100_000, 3)] {
        let x: Vec<f32> = (0..n).map(|_| f32::any(&mut r, kind)).collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| x[a].compare(x[b]));
        let (mut values, mut first, mut counts, mut inverse) = (vec![], vec![], vec![], vec![0i64; n]);
        for &at in &order {
            if values.last().is_none_or(|&last: &f32| last != x[at]) {
                values.push(x[at]);
                first.push(at as i64);
                counts.push(0i64);
            }
            *counts.last_mut().unwrap() += 1;
            inverse[at] = values.len() as i64 - 1;
        }
        let total = values.len();
        let f = unique(DType::F32, n).unwrap();
        for all in [true, false] {
            let got = run(&f, &[&Bytes::of(&x)], &[true, all, all, all, true]);
            assert_eq!(got[4].list::<i64>(), [total as i64]);
            assert!(same(&got[0].list::<f32>()[..total], &values), "{n} of kind {kind}");
            if all {
                assert!(got[1].list::<i64>()[..total] == first);
                assert!(got[2].list::<i64>() == inverse);
                assert!(got[3].list::<i64>()[..total] == counts);
            }
        }
        let sorted: Vec<f32> = order.iter().map(|&i| x[i]).collect();
        let asked: Vec<f32> = (0..5000).map(|_| f32::any(&mut r, kind)).collect();
        for side in [Side::Left, Side::Right] {
            let expected: Vec<i64> = asked
                .iter()
                .map(|v| {
                    let behind = |s: &f32| {
                        s.compare(*v) == Ordering::Less || side == Side::Right && s.compare(*v) == Ordering::Equal
                    };
                    sorted.partition_point(behind) as i64
                })
                .collect();
            let f = searchsorted(DType::F32, n, 5000, side);
            assert!(run(&f, &[&Bytes::of(&sorted), &Bytes::of(&asked)], &[true])[0].list::<i64>() == expected);
        }
        let among = run(&isin(DType::F32, 5000, n), &[&Bytes::of(&asked), &Bytes::of(&x)], &[true])[0].list::<bool>();
        for (v, found) in asked.iter().zip(among) {
            let at = sorted.partition_point(|s| s.compare(*v) == Ordering::Less);
            assert_eq!(found, sorted.get(at).is_some_and(|s| s == v), "{v}");
        }
    }
}
