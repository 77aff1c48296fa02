//! A stream of signals through two stages: the CPU centres and scales each one, another device, where there is one, looks for a pattern
//! in it. While one signal is searched, the next one is on its way. One of them is broken: that is an error of its own, and the rest goes on.
//!
//! ```text
//! signal 0: best match at 100
//! signal 1: best match at 137
//! signal 2: best match at 174
//! signal 3: shape error in the source: its readings are missing
//! signal 4: best match at 248
//! signal 5: best match at 285
//! 6 signals, 1 failed
//! ```

use millstream::{Conv, DType, Device, Devices, Error, Generator, Pipeline, Result, Tensor};

const LENGTH: usize = 512;

/// The pattern that is looked for: a wave that swells and fades.
fn pattern() -> Tensor {
    let t = Tensor::arange(0, 32).cast(DType::F32);
    (&t * 0.7).sin() * (&t * (std::f32::consts::PI / 31.0)).sin()
}

/// Noise, an offset, and somewhere the pattern; as if it came from a sensor.
fn signal(number: usize) -> Result<Tensor> {
    if number == 3 {
        return Err(Error::shape("its readings are missing"));
    }
    let noise = Generator::new(number as u64).normal([LENGTH], DType::F32) * 0.1 + 20.0;
    let at = 100 + 37 * number;
    let pattern = pattern().pad(&[(at, LENGTH - 32 - at)], 0.0);
    Ok((noise + pattern) * (number + 1) as f32)
}

fn main() -> Result<()> {
    let filter = pattern().reshape([1, 1, 32]);
    let search = Device::best()?;
    let pipeline = Pipeline::new("cpu", |x| (x - x.mean_keepdim(0)) / x.std_keepdim(0)).stage(&search, |x| {
        x.reshape([1, 1, LENGTH]).conv1d(&filter, None, &Conv::new()).reshape([LENGTH - 31]).argmax(0)
    });

    let mut run = pipeline.run((0..6).map(signal))?;
    for (number, result) in run.by_ref().enumerate() {
        match result {
            Ok(place) => println!("signal {number}: best match at {}", place.item::<i64>()?),
            Err(e) => println!("signal {number}: {} in the {}: {}", e.kind(), e.step(), e.error().fault()),
        }
    }
    let numbers = run.statistics();
    println!("{} signals, {} failed", numbers.items, numbers.failed);
    Ok(())
}
