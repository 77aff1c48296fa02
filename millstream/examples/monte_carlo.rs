//! Monte Carlo: the price of an option as the mean of a million random outcomes, beside the exact one.
//!
//! ```text
//! call: 11.38 +- 0.02
//! exact: 11.36
//!    0 to 80   25.0 % ************
//!   80 to 100  27.2 % *************
//!  100 to 120  22.0 % ***********
//!  120 to 1000 25.8 % ************
//! ```

use millstream::{DType, Generator, Result, Tensor};

fn main() -> Result<()> {
    let (spot, strike, rate, volatility, years) = (100.0, 105.0, 0.02, 0.25, 1.5f64);
    let spread = volatility * years.sqrt();
    let drift = (rate - 0.5 * volatility * volatility) * years;
    let discount = (-rate * years).exp();

    let paths = 1 << 20;
    let z = Generator::new(2026).normal(paths, DType::F64);
    let end = spot * (drift + spread * z).exp();
    let payoff = (&end - strike).maximum(0) * discount;
    // Random numbers, formula and both sums are one kernel: the paths are never in memory.
    let (price, deviation) = (payoff.mean(..), payoff.std(..));
    Tensor::eval_all([&price, &deviation])?;
    let error = deviation.item::<f64>()? / f64::from(paths).sqrt();
    println!("call: {:.2} +- {error:.2}", price.item::<f64>()?);

    // Black and Scholes, with the normal distribution by the error function.
    let d = ((spot / strike).ln() + drift) / spread;
    let normal = (Tensor::new([d + spread, d]) * std::f64::consts::FRAC_1_SQRT_2).erf() / 2 + 0.5;
    let n = normal.to_vec::<f64>()?;
    println!("exact: {:.2}", spot * n[0] - strike * discount * n[1]);

    // How likely the ends are.
    for (low, high) in [(0, 80), (80, 100), (100, 120), (120, 1000)] {
        let share = (end.ge(low) & end.lt(high)).cast(DType::F64).mean(..).item::<f64>()?;
        println!("{low:>4} to {high:<4} {:4.1} % {}", 100.0 * share, "*".repeat((50.0 * share) as usize));
    }
    Ok(())
}
