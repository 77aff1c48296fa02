//! The heat equation on a plate: the upper edge is hot, a hole in the middle is cold. A step reads four shifted views in one kernel,
//! and the plate is written in place.
//!
//! ```text
//! @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
//!  :=**####%%%%%%%%%%%############%%%%%%%%%%%####**=:
//!  .:-=++*************++++++++++++*************++=-:.
//!   .:--===+++++++====------------====+++++++===--:.
//!   ..::-----==-----::............::-----==-----::..
//!    ..:::::---:::::.              .:::::---:::::..
//!     ....:::::::...                ...:::::::....
//!      ............                  ............
//!        ........                      ........
//!
//!
//!
//!
//! between the edge and the hole: 35.0 degrees
//! ```

// A lint that takes 1..-1 for an empty range; here it ends before the last.
#![allow(clippy::reversed_empty_ranges)]

use millstream::{DType, Result, Tensor};

fn main() -> Result<()> {
    let (height, width) = (26, 52);
    let mut plate = Tensor::zeros([height, width], DType::F32);
    plate.set(0, 100.0)?;
    for _ in 0..2000 {
        let (up, down) = (plate.i((..-2, 1..-1)), plate.i((2.., 1..-1)));
        let (left, right) = (plate.i((1..-1, ..-2)), plate.i((1..-1, 2..)));
        plate.set((1..-1, 1..-1), &((up + down + left + right) / 4))?;
        plate.set((9..14, 20..32), 0.0)?;
        plate.eval()?;
    }
    for row in (&plate / 10.1).floor().cast(DType::U8).to_vec2::<u8>()?.iter().step_by(2) {
        let line: String = row.iter().map(|&level| b" .:-=+*#%@"[usize::from(level)] as char).collect();
        println!("{}", line.trim_end());
    }
    let centre = plate.i((6, 26)).item::<f32>()?;
    println!("between the edge and the hole: {centre:.1} degrees");
    Ok(())
}
