//! Every function of the expression language on a device, by what it must equal.

use millstream::core::profiler::RecordKind;
use millstream::{DType, Device, Tensor};

use super::Line;
use super::identities::{IDENTITIES, INPUTS, Identity};
use crate::eval::{self, Names, Value};
use crate::failure::{Failure, Outcome};

/// The values that the identities name: on the device for the left sides, on the host for the right.
pub(super) struct Functions {
    device: Device,
    host: Device,
    left: Names,
    right: Names,
}

impl Functions {
    /// Draws the inputs.
    pub(super) fn new(device: &Device, seed: u64) -> Outcome<Functions> {
        let host = millstream::default_runtime()?.host()?;
        // Sums with the seed must fit into 64 bits.
        let mut right = Names::from([("SEED".to_string(), Value::Int((seed >> 2) as i64))]);
        let mut left = Names::new();
        for &(name, text) in INPUTS {
            let value = on(&host, eval::compute(text, &right)?)?;
            left.insert(name.to_string(), Value::Tensor(value.to(device)));
            let double = match value.dtype() {
                DType::F32 => Some(DType::F64),
                DType::C64 => Some(DType::C128),
                _ => None,
            };
            if let Some(double) = double {
                right.insert(name.to_uppercase(), Value::Tensor(value.cast(double)));
            }
            right.insert(name.to_string(), Value::Tensor(value));
        }
        Ok(Functions { device: device.clone(), host, left, right })
    }

    /// How many identities there are.
    pub(super) fn count() -> usize {
        IDENTITIES.len()
    }

    /// Checks one of them.
    pub(super) fn check(&self, number: usize) -> Option<Line> {
        let identity = IDENTITIES.get(number)?;
        let name = eval::called(identity.0).into_iter().next().unwrap_or_default();
        let mut line = Line::empty(format!("{name}()"), DType::F32, self.device.name());
        line.cases = 1;
        if let Err(why) = self.compare(identity, &mut line) {
            line.passed = false;
            line.failure = Some(format!("{} is not {}: {why}", identity.0, identity.1));
        }
        Some(line)
    }

    fn compare(&self, Identity(left, right, share): &Identity, line: &mut Line) -> Outcome {
        let result = on(&self.device, eval::compute(left, &self.left)?)?;
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
        let expected = on(&self.host, eval::compute(right, &self.right)?)?;
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
    let yes = Tensor::from_slice(&[true]).reshape(&[]).to(device);
    Ok(yes.choose(&tensor, &tensor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_expressions_has_an_identity() {
        let mut missing: Vec<&str> = eval::names().collect();
        for Identity(left, ..) in IDENTITIES {
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
            (0..Functions::count()).filter_map(|n| functions.check(n)).filter_map(|line| line.failure).collect();
        assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    }

    #[test]
    fn a_wrong_result_is_found() {
        let host = millstream::default_runtime().unwrap().host().unwrap();
        let functions = Functions::new(&host, 1).unwrap();
        let mut line = Line::empty("sin".into(), DType::F32, "cpu");
        let wrong = functions.compare(&Identity("sin(x)", "cos(X)", 1e-3), &mut line).unwrap_err().to_string();
        assert!(wrong.contains("element") && wrong.contains("within"), "{wrong}");
        let nan = functions.compare(&Identity("x / 0 * 0", "X", 1e9), &mut line);
        assert!(nan.is_err());
        let shape = functions.compare(&Identity("sum(x, 1)", "X", 0.0), &mut line).unwrap_err().to_string();
        assert!(shape.contains("shapes"), "{shape}");
    }
}
