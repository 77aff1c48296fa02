//! What people write in their first hour, in all its forms: each line compiles and does what it says.
#![allow(clippy::op_ref, clippy::needless_borrows_for_generic_args, clippy::reversed_empty_ranges)]

use millstream::{
    Complex, Compression, DType, Device, Devices, Ellipsis, ErrorKind, Generator, NewAxis, Order, Reduction, Result,
    Tensor, bf16, compile, compile_all, default_runtime, f16, step,
};

fn x() -> Tensor {
    Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])
}

#[test]
fn tensors_are_made_of_what_is_at_hand() -> Result<()> {
    assert_eq!(x().to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(Tensor::new(3i32).rank(), 0);
    assert_eq!(Tensor::new([[[1u8; 2]; 3]; 4]).shape(), [4, 3, 2]);
    assert_eq!(Tensor::new(vec![vec![1i64, 2], vec![3, 4]]).shape(), [2, 2]);
    assert_eq!(Tensor::new(&[1i16, 2][..]).dtype(), DType::I16);
    assert_eq!(Tensor::new([true, false]).dtype(), DType::Bool);
    assert_eq!(Tensor::new([f16::ONE, f16::ZERO]).dtype(), DType::F16);
    assert_eq!(Tensor::new([bf16::ONE]).dtype(), DType::BF16);
    assert_eq!(Tensor::new([Complex::new(1.0f64, 2.0)]).dtype(), DType::C128);
    assert_eq!(Tensor::from(vec![1.0f32, 2.0]).shape(), [2]);
    assert_eq!(Tensor::from([1.0f32, 2.0]).shape(), [2]);
    assert_eq!(Tensor::from(&[1.0f32, 2.0][..]).shape(), [2]);
    assert_eq!(Tensor::from_vec((0..6).collect::<Vec<i32>>(), [2, 3]).shape(), [2, 3]);
    assert_eq!(Tensor::from_vec(vec![1.0f32; 6], (2usize, ())).shape(), [2, 3]);
    assert_eq!(Tensor::from_shape([2, -1], &[1.0f32; 6]).shape(), [2, 3]);
    let ragged = Tensor::new(vec![vec![1, 2], vec![3]]);
    assert!(ragged.check().is_err_and(|e| e.op() == Some("new") && e.location().is_some()));
    for shape in [Tensor::zeros(4, DType::F32), Tensor::zeros([4], DType::F32), Tensor::zeros(vec![4u32], DType::F32)] {
        assert_eq!(shape.shape(), [4]);
    }
    assert_eq!(Tensor::ones(x().shape(), DType::F32).shape(), [2, 2]);
    Ok(())
}

#[test]
fn devices_go_by_name() -> Result<()> {
    let y = x().to("cpu");
    assert_eq!(y.device()?.name(), "cpu");
    assert_eq!(x().to(&Device::named("cpu")?).sum(..).item::<f32>()?, 10.0);
    assert_eq!(x().to(Device::best()?).sum(..).item::<f32>()?, 10.0);
    assert_eq!(x().to("best").sum(..).item::<f32>()?, 10.0);
    assert_eq!(x().to("auto").sum(..).item::<f32>()?, 10.0);
    let name = String::from("cpu");
    assert_eq!(x().to(&name).sum(..).item::<f32>()?, 10.0);
    Ok(())
}

#[test]
fn tensors_are_printed_as_numpy_prints_them() {
    assert_eq!(format!("{}", x()), "[[1. 2.]\n [3. 4.]]");
    let shown = format!("{:?}", x() + 1.0);
    for part in ["f32", "[2, 2]", "pending add"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert!(format!("{:?}", x()).contains("cpu"));
}

#[test]
fn an_index_is_what_numpy_takes() -> Result<()> {
    let x = Tensor::arange(0, 12).reshape([3, 4]);
    assert_eq!(x.i((.., 1..)).shape(), [3, 3]);
    assert_eq!(x.i((-1, ..)).to_vec::<i64>()?, [8, 9, 10, 11]);
    assert_eq!(x.i(1).to_vec::<i64>()?, [4, 5, 6, 7]);
    assert_eq!(x.i(1usize).to_vec::<i64>()?, x.i(1u8).to_vec::<i64>()?);
    assert_eq!(x.i((2usize, -1)).item::<i64>()?, 11);
    assert_eq!(x.i((1..3, ..=1)).to_vec2::<i64>()?, [[4, 5], [8, 9]]);
    assert_eq!(x.i((0usize..2, 1i32..)).shape(), [2, 3]);
    assert_eq!(x.i((.., NewAxis, 0)).shape(), [3, 1]);
    assert_eq!(x.i((Ellipsis, 0)).to_vec::<i64>()?, [0, 4, 8]);
    assert_eq!(x.i((step(.., 2), step(.., -2))).to_vec2::<i64>()?, [[3, 1], [11, 9]]);
    assert_eq!(x.i(&x.gt(9)).to_vec::<i64>()?, [10, 11]);
    assert_eq!(x.i(x.sum(1).gt(20)).shape(), [2, 4]);
    assert_eq!(x.i(&Tensor::new([2, 0])).i((.., 0)).to_vec::<i64>()?, [8, 0]);
    assert_eq!(x.i(([0, 2], [1, -1])).to_vec::<i64>()?, [1, 11]);
    assert_eq!(x.i((.., vec![3usize, 0])).shape(), [3, 2]);
    assert!(x.i((5, ..)).check().is_err_and(|e| e.op() == Some("i") && e.location().is_some()));
    let mut z = x.clone();
    z.set((.., 0), 7)?;
    z.set(&z.gt(9), 0)?;
    assert_eq!(z.to_vec2::<i64>()?, [[7, 1, 2, 3], [7, 5, 6, 7], [7, 9, 0, 0]]);
    Ok(())
}

#[test]
fn axes_and_indices_are_integers_of_any_type() -> Result<()> {
    let x = Tensor::arange(0, 12).reshape([3, 4]);
    let (pos, t, n) = (1usize, 2usize, 3usize);
    assert_eq!(x.slice(0, pos..pos + t).shape(), [2, 4]);
    assert_eq!(x.slice(0usize, 1isize..).shape(), [2, 4]);
    assert_eq!(x.slice(-1, ..=-2).shape(), [3, 3]);
    assert_eq!(x.select(0, n - 1).to_vec::<i64>()?, [8, 9, 10, 11]);
    assert_eq!(x.select(1u8, -1i64).to_vec::<i64>()?, [3, 7, 11]);
    let axes: Vec<usize> = (0..x.rank()).rev().collect();
    assert_eq!(x.permute(&axes).shape(), [4, 3]);
    assert_eq!(x.permute([-1, 0]).shape(), [4, 3]);
    let f = x.cast(DType::F32);
    for y in [f.softmax(1), f.softmax(1usize), f.softmax(-1isize), f.softmax(-1i64)] {
        assert!((y.sum(..).item::<f32>()? - 3.0).abs() < 1e-6);
    }
    assert_eq!(f.layernorm(-1, 1e-5).shape(), f.layernorm(1..2usize, 1e-5).shape());
    assert_eq!(f.layernorm([0u32, 1], 1e-5).shape(), [3, 4]);
    assert_eq!(f.rmsnorm(1usize, 1e-5).shape(), [3, 4]);
    assert_eq!(f.log_softmax(1u32).shape(), f.cumsum(0usize).shape());
    assert_eq!(x.unsqueeze(1usize).squeeze(1).shape(), [3, 4]);
    assert_eq!(x.flip([0usize, 1]).i((0, 0)).item::<i64>()?, 11);
    assert_eq!(x.roll(1, 0usize).i((0, 0)).item::<i64>()?, 8);
    assert_eq!(x.swapaxes(0usize, -1).shape(), x.moveaxis(0u8, 1i8).shape());
    assert_eq!(x.take(&Tensor::new([0]), 1usize).shape(), x.repeat(1, 1).i((.., ..1)).shape());
    assert_eq!(x.unstack(0usize)?.len(), 3);
    assert_eq!(x.split(&[1, 2], 0usize)?.len(), 2);
    assert_eq!(x.argsort(1usize, Order::Ascending).shape(), x.diff(0u64).i((0, NewAxis)).broadcast([3, 4]).shape());
    assert_eq!(x.flatten(0usize, -1).shape(), [12]);
    Ok(())
}

#[test]
fn reductions_take_one_axis_some_or_all() -> Result<()> {
    let x = x();
    assert_eq!(x.sum(1).to_vec::<f32>()?, [3.0, 7.0]);
    assert_eq!(x.sum(-1isize).to_vec::<f32>()?, x.sum(1usize).to_vec::<f32>()?);
    assert_eq!(x.sum([0, 1]).item::<f32>()?, 10.0);
    assert_eq!(x.sum(..).item::<f32>()?, 10.0);
    assert_eq!(x.sum(1..).to_vec::<f32>()?, [3.0, 7.0]);
    assert_eq!(x.sum(&[0usize][..]).to_vec::<f32>()?, x.sum(vec![0i32]).to_vec::<f32>()?);
    assert_eq!(x.sum_keepdim(-1).shape(), [2, 1]);
    assert_eq!((x.mean(..).item::<f32>()?, x.max(..).item::<f32>()?, x.min(..).item::<f32>()?), (2.5, 4.0, 1.0));
    assert_eq!((x.argmax(..).item::<i64>()?, x.argmin(1).to_vec::<i64>()?), (3, vec![0, 0]));
    assert!(x.gt(3.0).any(..).item::<bool>()? && x.gt(0.0).all([0, 1]).item::<bool>()?);
    assert_eq!((x.var(..).item::<f32>()?, x.std(..).item::<f32>()?), (1.25, 1.25f32.sqrt()));
    assert_eq!(x.var_corrected(1.0, 1).to_vec::<f32>()?, [0.5, 0.5]);
    assert_eq!((x.prod(..).item::<f32>()?, x.norm(..).item::<f32>()?), (24.0, 30f32.sqrt()));
    assert!((x.logsumexp(..).item::<f32>()? - 4.44019).abs() < 1e-4);
    for y in [x.mean_keepdim(0), x.max_keepdim(0), x.min_keepdim(0), x.argmax_keepdim(0), x.any_keepdim(0)] {
        assert_eq!(y.shape(), [1, 2]);
    }
    for y in [x.all_keepdim(1), x.var_keepdim(1), x.std_keepdim(1), x.prod_keepdim(1), x.norm_keepdim(1)] {
        assert_eq!(y.shape(), [2, 1]);
    }
    Ok(())
}

#[test]
fn numbers_stand_on_either_side() -> Result<()> {
    let (x, y) = (x(), x().transpose());
    let mut z = 2.0 * &x - &y / x.shape()[0] % 3;
    assert_eq!(z.to_vec::<f32>()?, [1.5, 2.5, 5.0, 6.0]);
    z += 1.0;
    assert_eq!(z.to_vec::<f32>()?, [2.5, 3.5, 6.0, 7.0]);
    let m = x.gt(0.0) & !y.isnan();
    assert_eq!(m.where_(&x, 0.0).to_vec::<f32>()?, x.to_vec::<f32>()?);
    assert_eq!(m.where_(1, 0).dtype(), DType::I64);
    // A method of the result finds its type, though nothing says what kind of float 1.0 is.
    assert_eq!((1.0 - &x).abs().to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0]);
    assert_eq!((1 - x.clone()).abs().dtype(), DType::F32);

    macro_rules! right {
        ($($number:expr),*) => {
            $(assert_eq!((&x + $number).to_vec::<f32>()?, [3.0, 4.0, 5.0, 6.0], "{}", stringify!($number));)*
        };
    }
    right!(2.0f64, 2.0f32, f16::from_f32(2.0), bf16::from_f32(2.0), 2i8, 2i16, 2i32, 2i64, 2i128, 2isize);
    right!(2u8, 2u16, 2u32, 2u64, 2usize, &Tensor::new(2.0f32), Tensor::new(2.0f32));
    macro_rules! left {
        ($($number:expr),*) => {
            $(assert_eq!(($number - &x).to_vec::<f32>()?, [1.0, 0.0, -1.0, -2.0], "{}", stringify!($number));
            assert_eq!(($number - x.clone()).dtype(), DType::F32);)*
        };
    }
    left!(2.0f64, 2i64, f16::from_f32(2.0), bf16::from_f32(2.0), Tensor::new(2.0f32), &Tensor::new(2.0f32));
    let i = Complex::new(0.0f32, 1.0);
    assert_eq!((i * &x).dtype(), DType::C64);
    assert_eq!((&x * i).imag().to_vec::<f32>()?, x.to_vec::<f32>()?);
    assert_eq!((Complex::new(0.0f64, 1.0) * x.cast(DType::F64)).dtype(), DType::C128);
    let halves = x.cast(DType::F16);
    assert_eq!((f16::from_f32(0.5) * &halves).dtype(), DType::F16);
    assert_eq!((&halves / bf16::from_f32(2.0)).dtype(), DType::F16);
    assert_eq!((2.0 * x.cast(DType::BF16)).dtype(), DType::BF16);
    Ok(())
}

#[test]
fn every_operator_also_assigns() -> Result<()> {
    let mut z = Tensor::new([6.0f32, 8.0]);
    z += &Tensor::new([1.0f32, 1.0]);
    z -= 1;
    z *= 2.0f32;
    z /= f16::from_f32(4.0);
    z %= 3usize;
    assert_eq!(z.to_vec::<f32>()?, [0.0, 1.0]);
    z += Tensor::new(1.0f32);
    assert_eq!((-&z).to_vec::<f32>()?, [-1.0, -2.0]);
    assert_eq!((-z).to_vec::<f32>()?, [-1.0, -2.0]);
    let mut bits = Tensor::new([0b1100u8, 0b1010]);
    bits &= 0b0110;
    bits |= 1u8;
    bits ^= &Tensor::new([1u8, 0]);
    bits <<= 2;
    bits >>= Tensor::new(1u8);
    assert_eq!(bits.to_vec::<u8>()?, [0b1000, 0b0110]);
    assert_eq!((!&bits).to_vec::<u8>()?, [0b1111_0111, 0b1111_1001]);
    assert_eq!((&bits << 1).to_vec::<u8>()?, [0b1_0000, 0b1100]);
    assert_eq!((&bits >> 1u32).to_vec::<u8>()?, [0b100, 0b11]);
    assert_eq!((1 << Tensor::new([0i64, 3])).to_vec::<i64>()?, [1, 8]);
    let t = Tensor::new([true, false]);
    assert_eq!((&t ^ true).to_vec::<bool>()?, [false, true]);
    assert_eq!((true & &t | !&t).to_vec::<bool>()?, [true, true]);
    let parts = [Tensor::new([1, 2]), Tensor::new([3, 4]), Tensor::new([5, 6])];
    assert_eq!(parts.iter().sum::<Tensor>().to_vec::<i32>()?, [9, 12]);
    assert_eq!(parts.iter().product::<Tensor>().to_vec::<i32>()?, [15, 48]);
    assert_eq!(parts.into_iter().map(|p| p * 2).sum::<Tensor>().to_vec::<i32>()?, [18, 24]);
    Ok(())
}

#[test]
fn integers_do_what_the_operators_promise() -> Result<()> {
    let x = Tensor::new([i32::MIN, -7, 7]);
    let zero = Tensor::new([0, 0, 0]);
    assert_eq!((&x / &zero).to_vec::<f32>()?, [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY]);
    assert_eq!(x.floor_div(&zero).to_vec::<i32>()?, [0, 0, 0]);
    assert_eq!((&x % &zero).to_vec::<i32>()?, [0, 0, 0]);
    assert_eq!(x.floor_div(-1).to_vec::<i32>()?, [i32::MIN, 7, -7]);
    assert_eq!((&x % 3).to_vec::<i32>()?, [1, 2, 1]);
    assert_eq!((&x - 1).to_vec::<i32>()?, [i32::MAX, -8, 6]);
    assert_eq!((-&x).to_vec::<i32>()?, [i32::MIN, 7, -7]);
    assert_eq!((Tensor::new([255u8]) + 1).to_vec::<u8>()?, [0]);
    assert_eq!((&x << 40).to_vec::<i32>()?, [0, 0, 0]);
    assert_eq!((&x >> 40).to_vec::<i32>()?, [-1, -1, 0]);
    Ok(())
}

#[test]
fn one_size_of_a_shape_is_inferred() -> Result<()> {
    let x = Tensor::arange(0, 12);
    assert_eq!(x.reshape((2, ())).shape(), [2, 6]);
    assert_eq!(x.reshape([2, -1]).shape(), [2, 6]);
    assert_eq!(x.reshape(((), 3usize)).shape(), [4, 3]);
    assert_eq!(x.reshape(-1).shape(), [12]);
    assert_eq!(x.reshape(vec![2usize, 6]).shape(), x.reshape(&[2u32, 6]).shape());
    assert_eq!(x.i(0).reshape(()).rank(), 0);
    let failed = x.reshape([5, -1]);
    assert!(failed.check().is_err_and(|e| e.to_string().contains("12 elements do not fill the shape")));
    Ok(())
}

#[test]
fn tensors_are_joined_from_any_list() -> Result<()> {
    let parts = vec![x(), x() + 4.0];
    let twice = [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]];
    assert_eq!(Tensor::concat(&parts, 0).to_vec2::<f32>()?, twice);
    assert_eq!(Tensor::concat([&parts[0], &parts[1]], 0usize).to_vec2::<f32>()?, twice);
    assert_eq!(Tensor::concat(parts.iter(), 0).to_vec2::<f32>()?, twice);
    assert_eq!(Tensor::concat(&parts[..], -2).to_vec2::<f32>()?, twice);
    assert_eq!(Tensor::concat(parts.iter().map(|p| p * 1), 0).to_vec2::<f32>()?, twice);
    assert_eq!(Tensor::stack(parts.iter(), 0).shape(), [2, 2, 2]);
    assert_eq!(Tensor::stack(&parts, -1).to_vec3::<f32>()?[0][0], [1.0, 5.0]);
    assert_eq!(Tensor::stack(x().rows()?, 0).to_vec2::<f32>()?, x().to_vec2::<f32>()?);
    assert_eq!(Tensor::concat(parts, 1u8).shape(), [2, 4]);
    Ok(())
}

#[test]
fn nothing_is_some_or_a_bare_bool() -> Result<()> {
    let x = Tensor::new([[-1.0f32, 0.5, 3.0]]);
    assert_eq!(x.clip(0.0, 1.0).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    assert_eq!(x.clip(0, &Tensor::new([1.0f32, 0.25, 2.0])).to_vec::<f32>()?, [0.0, 0.25, 2.0]);
    assert_eq!(x.sort(-1, Order::Descending).to_vec::<f32>()?, [3.0, 0.5, -1.0]);
    assert_eq!(x.argsort(-1, Order::Ascending).to_vec::<i64>()?, [0, 1, 2]);
    let (values, indices) = x.topk(1, 1, Order::Descending);
    assert_eq!((values.item::<f32>()?, indices.item::<i64>()?), (3.0, 2));
    Ok(())
}

#[test]
fn values_are_read_as_nested_vectors() -> Result<()> {
    let x = x();
    let v: Vec<Vec<f32>> = x.to_vec2()?;
    assert_eq!(v, [[1.0, 2.0], [3.0, 4.0]]);
    let mut sums = Vec::new();
    for row in x.rows()? {
        sums.push(row.sum(..).item::<f32>()?);
    }
    assert_eq!(sums, [3.0, 7.0]);
    assert_eq!(x.rows()?.len(), 2);
    assert!(Tensor::new(1).rows().is_err());
    let v: Vec<Vec<Vec<i64>>> = Tensor::arange(0, 8).reshape([2, 2, 2]).to_vec3()?;
    assert_eq!(v[1][0], [4, 5]);
    assert!(x.to_vec3::<f32>().is_err());
    Ok(())
}

#[test]
fn compiled_functions_borrow() -> Result<()> {
    struct Layer {
        w: Tensor,
        b: Tensor,
    }
    impl Layer {
        fn apply(&self, x: &Tensor) -> Tensor {
            x.matmul(&self.w) + &self.b
        }
    }
    let (w, b) = (x(), Tensor::new([1.0f32, -1.0]));
    let f = compile(|x| x.matmul(&w) + &b);
    assert_eq!(f.call(&x())?.to_vec::<f32>()?, [8.0, 9.0, 16.0, 21.0]);
    let layer = Layer { w: w.clone(), b: b.clone() };
    let g = compile(|x| layer.apply(x));
    assert_eq!(g.call(&x())?.to_vec::<f32>()?, [8.0, 9.0, 16.0, 21.0]);
    let both = compile_all(|[x, y]: [&Tensor; 2]| [x + y, layer.apply(x)]);
    let [sum, _] = both.call_all([&w, &w])?;
    assert_eq!(sum.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    Ok(())
}

/// Whether an error speaks of this operation and of a line of this file.
fn speaks<T>(result: Result<T>, op: &str, line: u32) -> bool {
    let Err(error) = result else { return false };
    let here = error.location().is_some_and(|l| l.file().ends_with("first_hour.rs") && l.line() == line);
    here && error.op() == Some(op) || panic!("{op}, line {line}: {error}")
}

#[test]
fn errors_carry_the_line_of_the_call() {
    let x = x();
    assert!(speaks(x.to_vec::<i32>(), "to_vec", line!()));
    assert!(speaks(x.to_vec2::<f64>(), "to_vec2", line!()));
    assert!(speaks(x.to_vec3::<f32>(), "to_vec3", line!()));
    assert!(speaks(x.item::<f32>(), "item", line!()));
    assert!(speaks(x.unstack(5), "unstack", line!()));
    assert!(speaks(x.split(&[5], 0), "split", line!()));
    assert!(speaks(Tensor::new(1).rows().map(|_| ()), "rows", line!()));
    assert!(speaks(Tensor::load_npy("no/such.npy"), "load_npy", line!()));
    assert!(speaks(Tensor::load_npz("no/such.npz"), "load_npz", line!()));
    assert!(speaks(Tensor::load_safetensors("no/such.safetensors"), "load_safetensors", line!()));
    assert!(speaks(Tensor::from_npy_bytes(&[1]), "from_npy_bytes", line!()));
    assert!(speaks(Tensor::from_npz_bytes(&[1]), "from_npz_bytes", line!()));
    assert!(speaks(Tensor::from_safetensors_bytes(&[1]), "from_safetensors_bytes", line!()));
    assert!(speaks(x.save_npy("no/such/folder/x.npy"), "save_npy", line!()));
    assert!(speaks(Tensor::save_npz("no/such/x.npz", &[("x", &x)], Compression::Stored), "save_npz", line!()));
    assert!(speaks(Tensor::save_safetensors("no/such/x.st", &[("x", &x)]), "save_safetensors", line!()));
    assert!(speaks(Device::named("abacus:0"), "named", line!()));
    let mut y = x.clone();
    assert!(speaks(y.assign(&Tensor::zeros([3], DType::F32)), "assign", line!()));
    assert!(speaks(y.slice_assign(7, .., 0), "slice_assign", line!()));
    assert!(speaks(y.set((7, ..), 0), "set", line!()));
}

#[test]
fn an_unknown_device_is_told_which_there_are() {
    for name in ["abacus:0", "cuda:99"] {
        let error = Device::named(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.to_string().contains("cpu"), "{error}");
        assert!(x().to(name).check().is_err_and(|e| e.location().is_some_and(|l| l.file().ends_with("first_hour.rs"))));
    }
}

#[test]
fn functions_made_of_others_complain_in_their_own_name() {
    let (x, y) = (x(), Tensor::zeros([3], DType::F32));
    let failed = |t: Tensor, op: &str| {
        let error = t.check().unwrap_err();
        assert_eq!(error.op(), Some(op), "{error}");
        assert!(error.location().is_some_and(|l| l.file().ends_with("first_hour.rs")), "{error}");
        assert!(error.chain().is_empty(), "{error}");
    };
    failed(x.cross_entropy(&Tensor::new([0.5f32, 1.0]), Reduction::Mean), "cross_entropy");
    failed(x.nll_loss(&y, Reduction::Mean), "nll_loss");
    failed(x.mse_loss(&y, Reduction::Mean), "mse_loss");
    failed(Tensor::from_shape([3], &[1, 2]), "from_shape");
    failed(Tensor::from_vec(vec![1, 2], [3]), "from_vec");
    failed(x.where_(1.0, 0.0), "where");
    failed(x.gt(0.0).where_(&x, &y), "where");
    failed(x.softmax(9), "softmax");
    failed(x.log_softmax(9), "log_softmax");
    failed(x.layernorm(9, 1e-5), "layernorm");
    failed(x.rmsnorm(9, 1e-5), "rmsnorm");
    failed(x.mean(9), "mean");
    failed(x.std_keepdim([0, 0]), "std_keepdim");
    failed(x.norm(9), "norm");
    failed(x.clip(&y, 1.0), "clip");
    failed(x.lerp(&y, 0.5), "lerp");
    failed(x.fmod(&y), "fmod");
    failed(x.isclose(&y, Default::default()), "isclose");
    failed(x.logaddexp(&y), "logaddexp");
    failed(x.logical_and(&y), "logical_and");
    failed(Tensor::polar(&x, &y), "polar");
    failed(Tensor::stack([&x, &y], 0), "stack");
    failed(Tensor::linspace(0.0, 300.0, 3, DType::U8), "linspace");
    failed(x.eq(&y), "eq");
    failed(x.bitwise_and(&y), "bitwise_and");
    failed(Tensor::new([1, 2]).remainder(&Tensor::new([1, 2, 3])), "remainder");
    failed(Generator::new(1).normal(3, DType::I32), "normal");
    failed(Generator::new(1).uniform([2, -1], DType::F32), "uniform");
}

#[test]
fn the_shape_of_a_failed_tensor_speaks_of_its_error() {
    let failed = x() + Tensor::zeros([3], DType::F32);
    assert!(failed.dims().is_err_and(|e| e.op() == Some("add")));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| failed.shape()[0]));
    let message = caught.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("shape error in add") && message.contains("first_hour.rs"), "{message}");
    assert_eq!(x().dims().unwrap(), [2, 2]);
}

#[test]
fn tensors_of_several_devices_are_told_once() -> Result<()> {
    let runtime = default_runtime()?;
    let others: Vec<String> =
        runtime.list().into_iter().filter(|(n, ok)| ok.is_ok() && n != "cpu").map(|l| l.0).collect();
    let Some(device) = others.iter().find_map(|name| runtime.device(name).ok()) else { return Ok(()) };
    let there = x().to(&device).copy();
    let here = x().to("cpu").copy();
    Tensor::eval_all([&there, &here])?;
    for _ in 0..3 {
        assert_eq!((&there + &here).sum(..).item::<f32>()?, 20.0);
    }
    let told: Vec<_> = runtime.profiler().warnings().into_iter().filter(|w| w.text.contains(device.name())).collect();
    assert_eq!(told.iter().filter(|w| w.text.contains("several devices")).count(), 1, "{told:?}");
    Ok(())
}
