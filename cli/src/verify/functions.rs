//! Every function of the expression language on a device, by what it must equal.

use millstream::core::profiler::RecordKind;
use millstream::{DType, Device, Tensor};

use super::Line;
use super::identities::{
    AWKWARD_FLOATS, AWKWARD_LENGTHS, ELEMENTS, FLOATS, IDENTITIES, INPUTS, INTEGERS, Identity, TAILS,
};
use crate::eval::{self, Names, Value};
use crate::failure::{Failure, Outcome};

/// The values that the identities name: on the device for the left sides, on the host for the right.
struct Set {
    /// The shape of the values of single elements, in words.
    shape: String,
    left: Names,
    right: Names,
    /// What an error is a share of.
    share: Share,
    /// The values of the right side with zeros for subnormals, on a device that may take them for that.
    flushed: Option<Names>,
}

/// What an error is a share of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// The right side's largest magnitude or 1, whichever is more.
    Largest,
    /// Each element's own magnitude or 1; the right side is rounded to the dtype of the left.
    Each,
}

impl Set {
    /// Draws the inputs; with a length and a dtype only those of single elements.
    fn new(device: &Device, host: &Device, seed: u64, tail: Option<(usize, DType)>) -> Outcome<Set> {
        // Sums with the seed must fit into 64 bits.
        let mut right = Names::from([("SEED".to_string(), Value::Int((seed >> 2) as i64))]);
        let mut left = Names::new();
        let shape = tail.map_or("[4, 6]".to_string(), |(n, _)| format!("[{n}]"));
        for &(name, text) in INPUTS {
            let elements = text.contains("[4, 6]") || text == "complex(x, y)";
            if tail.is_some() && !elements {
                continue;
            }
            let mut value = on(host, eval::compute(&text.replace("[4, 6]", &shape), &right)?)?;
            if let Some((_, dtype)) = tail
                && value.dtype() == DType::F32
            {
                value = value.cast(dtype);
            }
            left.insert(name.to_string(), Value::Tensor(value.to(device)));
            let double = match value.dtype() {
                DType::F32 | DType::F64 => Some(DType::F64),
                DType::C64 | DType::C128 => Some(DType::C128),
                _ => None,
            };
            if let Some(double) = double {
                right.insert(name.to_uppercase(), Value::Tensor(value.cast(double)));
            }
            right.insert(name.to_string(), Value::Tensor(value));
        }
        Ok(Set { shape, left, right, share: Share::Largest, flushed: None })
    }

    /// Awkward values of a dtype: two tensors of this length, of which the second changes slowly, so that all pairs occur.
    fn awkward(device: &Device, host: &Device, all: &Tensor, length: usize) -> Outcome<Set> {
        let (count, dtype) = (all.len(), all.dtype());
        let names = if dtype.is_float() { ["h", "k"] } else { ["m", "o"] };
        let (mut left, mut right, mut flushed) = (Names::new(), Names::new(), Names::new());
        for (name, every) in names.into_iter().zip([1, count]) {
            let at: Vec<i64> = (0..length).map(|i| (i / every % count) as i64).collect();
            let value = all.take(&Tensor::from_slice(&at), 0).to(host);
            left.insert(name.to_string(), Value::Tensor(value.to(device)));
            right.insert(name.to_string(), Value::Tensor(value.clone()));
            if dtype.is_float() {
                let wide = value.cast(DType::F64);
                let normal = wide.abs().ge(tiny(dtype)).logical_or(&wide.isnan());
                flushed.insert(name.to_uppercase(), Value::Tensor(normal.where_(&wide, &(&wide * 0.0))));
                right.insert(name.to_uppercase(), Value::Tensor(wide));
            }
        }
        let flushed = (dtype.is_float() && !device.is_host()).then_some(flushed);
        Ok(Set { shape: format!("[{length}]"), left, right, share: Share::Each, flushed })
    }
}

/// The awkward values of each float dtype.
fn floats() -> impl Iterator<Item = Tensor> {
    let all = Tensor::from_slice(AWKWARD_FLOATS);
    [DType::F16, DType::BF16, DType::F32, DType::F64].into_iter().map(move |dtype| all.cast(dtype))
}

/// The ends of each integer dtype, and what lies around zero.
fn integers() -> impl Iterator<Item = Tensor> {
    DType::ALL.into_iter().filter(|d| d.is_integer()).map(|dtype| {
        let zero = Tensor::zeros([1], dtype);
        let least = if matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64) {
            zero.not().shl(8 * dtype.size() as i64 - 1)
        } else {
            zero.clone()
        };
        let most = least.not();
        let some = Tensor::from_slice(&[0i64, 1, 2, 3, 7, 100, -1, -2, -7]).cast(dtype);
        Tensor::concat([&some, &least, &(&least + 1), &most, &(&most - 1)], 0)
    })
}

/// The smallest normal number among intermediate values of a dtype: half types are computed in f32.
fn tiny(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE.into() }
}

/// How far apart two neighbours of a dtype are, as a share of them.
fn step(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f32::EPSILON.into(),
    }
}

/// How far apart two numbers are; infinitely where one is NaN or infinite and the other is not the same.
fn distance(g: f64, w: f64) -> f64 {
    match g == w || g.is_nan() && w.is_nan() {
        true => 0.0,
        false if (g - w).is_nan() => f64::INFINITY,
        false => (g - w).abs(),
    }
}

/// The identities, and values to check them with.
pub(super) struct Functions {
    device: Device,
    host: Device,
    /// The first serves all identities, the others those of single elements.
    sets: Vec<Set>,
    floats: Vec<Set>,
    integers: Vec<Set>,
}

impl Functions {
    /// Draws the inputs.
    pub(super) fn new(device: &Device, seed: u64) -> Outcome<Functions> {
        let host = millstream::default_runtime()?.host()?;
        let mut sets = vec![Set::new(device, &host, seed, None)?];
        for &tail in TAILS {
            sets.push(Set::new(device, &host, seed, Some(tail))?);
        }
        // A kernel for each function and dtype is much where a driver in software compiles it: other devices get one length.
        let lengths = if device.is_host() { AWKWARD_LENGTHS } else { &AWKWARD_LENGTHS[..1] };
        let awkward = |all: &Tensor| {
            lengths.iter().map(|&length| Set::awkward(device, &host, all, length)).collect::<Outcome<Vec<_>>>()
        };
        let floats = floats().map(|t| awkward(&t)).collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
        let integers = integers().map(|t| awkward(&t)).collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(Functions { device: device.clone(), host, sets, floats, integers })
    }

    /// How many identities there are.
    pub(super) fn count() -> usize {
        ELEMENTS.len() + IDENTITIES.len() + FLOATS.len() + INTEGERS.len()
    }

    /// Checks one of them, with each set of values that it holds for.
    pub(super) fn check(&self, number: usize) -> Vec<Line> {
        let groups = [
            (ELEMENTS, &self.sets[..]),
            (IDENTITIES, &self.sets[..1]),
            (FLOATS, &self.floats[..]),
            (INTEGERS, &self.integers[..]),
        ];
        let mut all = groups.into_iter().flat_map(|(list, sets)| list.iter().map(move |identity| (identity, sets)));
        let Some((identity, sets)) = all.nth(number) else { return Vec::new() };
        sets.iter().map(|set| self.line(identity, set)).collect()
    }

    fn line(&self, identity: &Identity, set: &Set) -> Line {
        let name = eval::called(identity.0).into_iter().next().unwrap_or_default();
        let mut line = Line::empty(format!("{name}()"), DType::F32, self.device.name());
        line.cases = 1;
        if let Err(why) = self.compare(identity, set, &mut line) {
            line.passed = false;
            line.failure = Some(format!("{} is not {} of shape {}: {why}", identity.0, identity.1, set.shape));
        }
        line
    }

    fn compare(&self, Identity(left, right, share): &Identity, set: &Set, line: &mut Line) -> Outcome {
        let result = on(&self.device, eval::compute(left, &set.left)?)?;
        line.dtype = result.dtype();
        let profiler = self.device.profiler();
        let was_on = profiler.is_on();
        profiler.clear();
        profiler.start();
        let computed = result.eval();
        let placed = profiler.records().into_iter().find(|r| r.kind == RecordKind::Placed);
        if !was_on {
            profiler.stop();
        }
        computed?;
        if let Some(record) = placed {
            line.native = false;
            line.reason = Some(record.note);
        }
        let expected = self.expected(right, &set.right, set.share, line.dtype)?;
        if result.shape() != expected.shape() {
            return Err(Failure::failed(format!("the shapes are {:?} and {:?}", result.shape(), expected.shape())));
        }
        let wide = [&result, &expected].iter().all(|t| matches!(t.dtype(), DType::I64 | DType::U64));
        let (got, want) = (self.numbers(&result, wide)?, self.numbers(&expected, wide)?);
        let flushed = match &set.flushed {
            Some(names) => Some(self.numbers(&self.expected(right, names, set.share, line.dtype)?, wide)?),
            None => None,
        };
        line.elements = got.len();
        let largest = want.iter().fold(1f64, |m, v| if v.is_finite() { m.max(v.abs()) } else { m });
        for (at, (&g, &w)) in got.iter().zip(&want).enumerate() {
            let (mut bound, mut apart) = (share * largest, distance(g, w));
            if set.share == Share::Each {
                let own = if w.is_finite() { w.abs().max(1.0) } else { 1.0 };
                bound = if *share > 0.0 { (share + step(line.dtype)) * own } else { 0.0 };
            }
            if let Some(flushed) = &flushed {
                // A subnormal result may be zero, too.
                bound += tiny(line.dtype);
                apart = apart.min(flushed.get(at).map_or(f64::INFINITY, |&f| distance(g, f)));
            }
            if super::nearness(apart, bound) >= super::nearness(line.max_err, line.bound) {
                (line.max_err, line.bound) = (apart, bound);
            }
            if apart > bound {
                return Err(Failure::failed(format!("element {at} is {g:?}, not {w:?} within {bound:.2e}")));
            }
        }
        Ok(())
    }

    /// The right side of an identity whose left side has this dtype.
    fn expected(&self, right: &str, names: &Names, share: Share, dtype: DType) -> Outcome<Tensor> {
        let expected = on(&self.host, eval::compute(right, names)?)?;
        Ok(if share == Share::Each { expected.cast(dtype) } else { expected })
    }

    /// The elements as f64; of complex ones the real parts and then the imaginary ones; of wide integers, which a f64 does not hold, the upper
    /// halves and then the lower ones.
    fn numbers(&self, tensor: &Tensor, wide: bool) -> Outcome<Vec<f64>> {
        let tensor = tensor.to(&self.host);
        if wide {
            let numbers = |half: Tensor| half.cast(DType::F64).to_vec::<f64>();
            return Ok([numbers(tensor.shr(32))?, numbers(tensor.and(0xffff_ffffu32))?].concat());
        }
        if !tensor.dtype().is_complex() {
            return Ok(tensor.cast(DType::F64).to_vec::<f64>()?);
        }
        let wide = tensor.cast(DType::C128);
        let mut all = wide.real().to_vec::<f64>()?;
        all.extend(wide.imag().to_vec::<f64>()?);
        Ok(all)
    }
}

/// The tensor, to be computed on a device. One made of nothing would be computed anywhere: a condition that lies on the
/// device draws it there.
fn on(device: &Device, tensor: Tensor) -> Outcome<Tensor> {
    if tensor.device()?.same(device) {
        return Ok(tensor);
    }
    let yes = Tensor::from_slice(&[true]).reshape(()).to(device);
    Ok(yes.where_(&tensor, &tensor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_expressions_has_an_identity() {
        let mut missing: Vec<&str> = eval::names().collect();
        for Identity(left, ..) in ELEMENTS.iter().chain(IDENTITIES) {
            let called = eval::called(left);
            missing.retain(|name| !called.iter().any(|c| c == name));
        }
        assert!(missing.is_empty(), "no identity calls {missing:?}");
    }

    #[test]
    fn the_identities_hold_on_the_host() {
        let host = millstream::default_runtime().unwrap().host().unwrap();
        let seed = millstream_core::conformance::Options::default().seed;
        let functions = Functions::new(&host, seed).unwrap();
        let failures: Vec<String> =
            (0..Functions::count()).flat_map(|n| functions.check(n)).filter_map(|line| line.failure).collect();
        assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    }

    #[test]
    fn functions_of_elements_are_checked_with_tails_and_in_two_dtypes() {
        let host = millstream::default_runtime().unwrap().host().unwrap();
        let functions = Functions::new(&host, 1).unwrap();
        let gelu = ELEMENTS.iter().position(|i| i.0 == "gelu(x)").unwrap();
        let lines = functions.check(gelu);
        assert!(lines.iter().any(|l| l.dtype == DType::F32 && l.elements > 4 && l.elements % 4 != 0));
        assert!(lines.iter().any(|l| l.dtype == DType::F32 && l.elements < 4));
        assert!(lines.iter().any(|l| l.dtype == DType::F64));
        assert!(lines.iter().all(|l| l.passed));
        assert_eq!(functions.check(ELEMENTS.len()).len(), 1);
    }

    #[test]
    fn functions_of_elements_are_checked_with_awkward_values_of_every_dtype() {
        let host = millstream::default_runtime().unwrap().host().unwrap();
        let functions = Functions::new(&host, 1).unwrap();
        let first = ELEMENTS.len() + IDENTITIES.len();
        let dtypes =
            |n: usize| functions.check(n).iter().map(|l| l.dtype).collect::<std::collections::HashSet<_>>().len();
        assert_eq!((dtypes(first), dtypes(first + FLOATS.len())), (4, 8));
        let [all, one, _] = &functions.floats[..3] else { panic!("three lengths") };
        assert_eq!((one.shape.as_str(), all.shape.as_str()), ("[1]", "[1027]"));
        let least = integers().map(|t| t.min(..).cast(DType::F64).item::<f64>().unwrap()).fold(0.0, f64::min);
        assert_eq!(least, i64::MIN as f64);
        let mut line = Line::empty("neg".into(), DType::F32, "cpu");
        let wrong = functions.compare(&Identity("neg(h)", "where(H == -inf, 6e4, -H)", 1e-3), all, &mut line);
        assert!(wrong.is_err());
    }

    #[test]
    fn a_wrong_result_is_found() {
        let host = millstream::default_runtime().unwrap().host().unwrap();
        let functions = Functions::new(&host, 1).unwrap();
        let mut line = Line::empty("sin".into(), DType::F32, "cpu");
        let wrong = functions
            .compare(&Identity("sin(x)", "cos(X)", 1e-3), &functions.sets[0], &mut line)
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("element") && wrong.contains("within"), "{wrong}");
        let nan = functions.compare(&Identity("x / 0 * 0", "X", 1e9), &functions.sets[0], &mut line);
        assert!(nan.is_err());
        let shape =
            functions.compare(&Identity("sum(x, 1)", "X", 0.0), &functions.sets[0], &mut line).unwrap_err().to_string();
        assert!(shape.contains("shapes"), "{shape}");
    }
}
