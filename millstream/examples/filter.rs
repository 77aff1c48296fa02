//! An image filter: a picture is drawn, blurred, and its edges are found. Shown in characters; `Tensor::from(&photo)` reads a picture
//! of the `image` crate (with the feature `image`).
//!
//! ```text
//!            :-=====-:
//!        :-=+*#%%%%%#*+=-:
//!      :=*#%@@@@%%%@@@@%#*=:       :-===========-:
//!    :=*%@@@%#*+===+*#%@@@%*=:    :=*%%%%%%%%%%%*=:
//!   :=#@@%*+=-:     :-=+*%@@#=:   -*%%%%%%%%%%%%%*-
//!   =#@%*=:             :=*%@#=   =%%+=========+%%=
//!  :*@%=:                 :=%@*:  =%%=         =%%=
//!  -#@*:                   :*@#-  =%%=         =%%=
//!  =%%+.                   .+%%=  =%%=         =%%=
//!  -#@*:                   :*@#-  =%%=         =%%=
//!  :*@%=:                 :=%@*:  =%%+=========+%%=
//!   =#@%*=:             :=*%@#=   -*%%%%%%%%%%%%%*-
//!   :=#@@%*+=-:     :-=+*%@@#=:   :=*%%%%%%%%%%%*=:
//!    :=*%@@@%#*+===+*#%@@@%*=:     :-===========-:
//!      :=*#%@@@@%%%@@@@%#*=:
//!        :-=+*#%%%%%#*+=-:
//! ```

// A lint that takes 1..-1 for an empty range; here it ends before the last.
#![allow(clippy::reversed_empty_ranges)]

use millstream::{Conv, DType, Result, Tensor};

/// Numbers from 0 up as characters from light to dark.
fn show(image: &Tensor) -> Result<()> {
    let levels = image / image.max(..) * 9;
    for row in levels.round().cast(DType::U8).to_vec2::<u8>()? {
        let line: String = row.iter().map(|&level| b" .:-=+*#%@"[usize::from(level)] as char).collect();
        println!("{}", line.trim_end());
    }
    Ok(())
}

fn main() -> Result<()> {
    let (height, width) = (18, 54);
    let y = Tensor::arange(0, height).cast(DType::F32).unsqueeze(1);
    let x = Tensor::arange(0, width).cast(DType::F32);
    let disc = (((&x - 16) / 2).square() + (&y - 9).square()).lt(40);
    let bar = x.gt(34) & x.lt(48) & y.gt(4) & y.lt(13);
    let image = (disc | bar).cast(DType::F32);

    let blur = Tensor::full([1, 1, 3, 3], 1.0f32 / 9.0);
    // How fast brightness changes to the right, and down.
    let right = Tensor::new([[-1.0f32, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]);
    let slopes = Tensor::stack([&right, &right.transpose()], 0).unsqueeze(1);

    // Convolutions take samples, channels, height, width.
    let same = Conv::new().padding(1);
    let soft = image.reshape([1, 1, height, width]).conv2d(&blur, None, &same);
    let edges = soft.conv2d(&slopes, None, &same).square().sum(1).sqrt();
    show(&edges.i((0, 1..-1, 1..-1)))
}
