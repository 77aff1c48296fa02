//! Every function of the expression language on a device, by what it must equal.

use millstream::core::profiler::RecordKind;
use millstream::{DType, Device, Tensor};

use super::Line;
use super::identities::{ELEMENTS, IDENTITIES, INPUTS, Identity, TAILS};
use crate::eval::{self, Names, Value};
use crate::failure::{Failure, Outcome};

/// The values that the identities name: on the device for the left sides, on the host for the right.
struct Set {
    /// The shape of the values of single elements, in words.
    shape: String,
    left: Names,
    right: Names,
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
        Ok(Set { shape, left, right })
    }
}

/// The identities, and values to check them with.
pub(super) struct Functions {
    device: Device,
    host: Device,
    /// The first serves all identities, the others those of single elements.
    sets: Vec<Set>,
}

impl Functions {
    /// Draws the inputs.
    pub(super) fn new(device: &Device, seed: u64) -> Outcome<Functions> {
        let host = millstream::default_runtime()?.host()?;
        let mut sets = vec![Set::new(device, &host, seed, None)?];
        for &tail in TAILS {
            sets.push(Set::new(device, &host, seed, Some(tail))?);
        }
        Ok(Functions { device: device.clone(), host, sets })
    }

    /// How many identities there are.
    pub(super) fn count() -> usize {
        ELEMENTS.len() + IDENTITIES.len()
    }

    /// Checks one of them, with each set of values that it holds for.
    pub(super) fn check(&self, number: usize) -> Vec<Line> {
        let sets = if number < ELEMENTS.len() { self.sets.len() } else { 1 };
        let Some(identity) = ELEMENTS.iter().chain(IDENTITIES).nth(number) else { return Vec::new() };
        self.sets.iter().take(sets).map(|set| self.line(identity, set)).collect()
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
        let expected = on(&self.host, eval::compute(right, &set.right)?)?;
        if result.shape() != expected.shape() {
            return Err(Failure::failed(format!("the shapes are {:?} and {:?}", result.shape(), expected.shape())));
        }
        let (got, want) = (self.numbers(&result)?, self.numbers(&expected)?);
        line.elements = got.len();
        line.bound = share * want.iter().fold(1f64, |m, v| if v.is_finite() { m.max(v.abs()) } else { m });
        for (at, (g, w)) in got.iter().zip(&want).enumerate() {
            let distance = if g == w || g.is_nan() && w.is_nan() { 0.0 } else { (g - w).abs() };
            if distance.is_nan() || distance > line.max_err {
                line.max_err = distance;
            }
            if distance.is_nan() || distance > line.bound {
                return Err(Failure::failed(format!("element {at} is {g:?}, not {w:?} within {:.2e}", line.bound)));
            }
        }
        Ok(())
    }

    /// The elements as f64; of complex ones the real parts and then the imaginary ones.
    fn numbers(&self, tensor: &Tensor) -> Outcome<Vec<f64>> {
        let tensor = tensor.to(&self.host);
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
