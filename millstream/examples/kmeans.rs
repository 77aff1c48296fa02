//! K-means: 3,000 points are drawn around three centres, and the centres are found again.
//!
//! ```text
//! round 1: mean squared distance 4.208
//! round 2: mean squared distance 1.983
//! round 3: mean squared distance 1.983
//! [[ 0.1  4. ]
//!  [-4.  -2. ]
//!  [ 5.  -1. ]]
//! ```

use millstream::{DType, Generator, Result, Tensor};

const CENTRES: usize = 3;

fn main() -> Result<()> {
    let mut g = Generator::new(2);
    let truth = Tensor::new([[0.0f32, 4.0], [-4.0, -2.0], [5.0, -1.0]]);
    let points = truth.i(g.integers(3000, 0, 3)) + g.normal([3000, 2], DType::F32);

    // Some of the points to begin with.
    let mut centres = points.i(..CENTRES);
    let mut before = f32::INFINITY;
    for round in 1.. {
        // From every point to every centre: [3000, 1, 2] - [3, 2].
        let distances = (points.unsqueeze(1) - &centres).square().sum(-1);
        let error = distances.min(1).mean(..).item::<f32>()?;
        println!("round {round}: mean squared distance {error:.3}");
        if before - error < 1e-3 {
            break;
        }
        before = error;
        // Each centre becomes the mean of the points that are nearest to it.
        let members = distances.argmin(1).one_hot(CENTRES, DType::F32);
        centres = members.transpose().matmul(&points) / members.sum(0).unsqueeze(1);
    }
    println!("{}", (centres * 10).round() / 10);
    Ok(())
}
