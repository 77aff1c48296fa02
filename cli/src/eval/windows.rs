//! Convolutions, pooling, padding and sums of products for the expression language.

use millstream::{Accuracy, Channels, Conv, Padding, Pool, Tensor};

use super::arguments::Arguments;
use super::functions::Function;
use super::trouble::Trouble;

/// Where channels stand.
fn channels(a: &mut Arguments<'_>) -> Result<Channels, Trouble> {
    Ok(if a.flag_or("channels_last", false)? { Channels::Last } else { Channels::First })
}

/// The options that all convolutions have.
fn conv(a: &mut Arguments<'_>) -> Result<Conv, Trouble> {
    Ok(Conv::new()
        .stride(a.sizes_or("stride", 1)?)
        .padding(a.sizes_or("padding", 0)?)
        .dilation(a.sizes_or("dilation", 1)?)
        .groups(a.count_or("groups", 1)?)
        .channels(channels(a)?)
        .accuracy(if a.flag_or("winograd", false)? { Accuracy::Winograd } else { Accuracy::Full }))
}

/// The options that all poolings have.
fn pool(a: &mut Arguments<'_>) -> Result<Pool, Trouble> {
    let size = a.sizes("size")?;
    let pool = Pool::new(size.as_slice()).padding(a.sizes_or("padding", 0)?).ceil(a.flag_or("ceil", false)?);
    let pool = pool.channels(channels(a)?);
    Ok(match a.sizes_if("stride")? {
        Some(stride) => pool.stride(stride),
        None => pool,
    })
}

macro_rules! convolution {
    ($name:ident $about:literal) => {
        Function {
            name: stringify!($name),
            form: "x, filters, bias=none, stride=1, padding=0, dilation=1, groups=1, channels_last=false, winograd=false",
            about: $about,
            call: |a| Ok(a.tensor("x")?.$name(&a.tensor("filters")?, a.tensor_if("bias")?.as_ref(), &conv(a)?)),
        }
    };
}

macro_rules! transposed {
    ($name:ident $about:literal) => {
        Function {
            name: stringify!($name),
            form: "x, filters, bias=none, stride=1, padding=0, dilation=1, groups=1, output_padding=0, channels_last=false, winograd=false",
            about: $about,
            call: |a| {
                let output = a.sizes_or("output_padding", 0)?;
                let options = conv(a)?.output_padding(output);
                Ok(a.tensor("x")?.$name(&a.tensor("filters")?, a.tensor_if("bias")?.as_ref(), &options))
            },
        }
    };
}

macro_rules! largest {
    ($name:ident $about:literal) => {
        Function {
            name: stringify!($name),
            form: "x, size, stride=size, padding=0, dilation=1, ceil=false, channels_last=false",
            about: $about,
            call: |a| {
                let dilation = a.sizes_or("dilation", 1)?;
                Ok(a.tensor("x")?.$name(&pool(a)?.dilation(dilation)))
            },
        }
    };
}

macro_rules! mean {
    ($name:ident $about:literal) => {
        Function {
            name: stringify!($name),
            form: "x, size, stride=size, padding=0, ceil=false, count_padding=true, channels_last=false",
            about: $about,
            call: |a| {
                let count = a.flag_or("count_padding", true)?;
                Ok(a.tensor("x")?.$name(&pool(a)?.count_padding(count)))
            },
        }
    };
}

macro_rules! adaptive {
    ($name:ident $about:literal) => {
        Function {
            name: stringify!($name),
            form: "x, out",
            about: $about,
            call: |a| Ok(a.tensor("x")?.$name(a.sizes("out")?.as_slice())),
        }
    };
}

/// The most operands of `einsum` here.
const OPERANDS: [&str; 6] = ["x", "y", "z", "u", "v", "w"];

/// The functions of this file.
pub const WINDOWS: &[Function] = &[
    convolution! { conv1d "the convolution along one axis" },
    convolution! { conv2d "the convolution of images [batch, channels, height, width] with filters [out, channels, height, width]" },
    convolution! { conv3d "the convolution along three axes" },
    transposed! { conv_transpose1d "the transposed convolution along one axis" },
    transposed! { conv_transpose2d "the transposed convolution of images" },
    transposed! { conv_transpose3d "the transposed convolution along three axes" },
    largest! { max_pool1d "the largest elements of windows along one axis" },
    largest! { max_pool2d "the largest elements of windows of images" },
    largest! { max_pool3d "the largest elements of windows along three axes" },
    mean! { avg_pool1d "the means of windows along one axis" },
    mean! { avg_pool2d "the means of windows of images" },
    mean! { avg_pool3d "the means of windows along three axes" },
    adaptive! { adaptive_max_pool1d "the largest elements of so many windows along one axis" },
    adaptive! { adaptive_max_pool2d "the largest elements of so many windows of images" },
    adaptive! { adaptive_max_pool3d "the largest elements of so many windows along three axes" },
    adaptive! { adaptive_avg_pool1d "the means of so many windows along one axis" },
    adaptive! { adaptive_avg_pool2d "the means of so many windows of images" },
    adaptive! { adaptive_avg_pool3d "the means of so many windows along three axes" },
    Function {
        name: "pad",
        form: "x, amounts, value=0",
        about: "a number around the last axes: [before, after] for each",
        call: |a| {
            let x = a.tensor("x")?;
            let value = a.beside_or("value", x.dtype(), 0)?;
            Ok(x.pad(&a.pairs("amounts")?, &value))
        },
    },
    Function {
        name: "pad_with",
        form: "x, amounts, mode=\"reflect\"",
        about: "the last axes extended by themselves; mode: reflect, replicate or circular",
        call: |a| {
            let (x, amounts, at) = (a.tensor("x")?, a.pairs("amounts")?, a.at);
            let mode = if a.has("mode") { a.text("mode")? } else { "reflect".into() };
            let padding = match mode.as_str() {
                "reflect" => Padding::Reflect,
                "replicate" => Padding::Replicate,
                "circular" => Padding::Circular,
                other => {
                    let text = format!("there is no padding {other:?}: there are reflect, replicate and circular");
                    return Err(Trouble::new(at, text));
                }
            };
            Ok(x.pad_with(&amounts, padding))
        },
    },
    Function {
        name: "windows",
        form: "x, size, stride=1, dilation=1",
        about: "a view of all windows along the last axes",
        call: |a| {
            let size = a.sizes("size")?;
            Ok(a.tensor("x")?.windows(size.as_slice(), a.sizes_or("stride", 1)?, a.sizes_or("dilation", 1)?))
        },
    },
    Function {
        name: "einsum",
        form: "formula, x, y=none, z=none, u=none, v=none, w=none",
        about: "sums of products: einsum(\"ij,jk->ik\", x, y)",
        call: |a| {
            let formula = a.text("formula")?;
            let operands = a.tensors(&OPERANDS)?;
            Ok(Tensor::einsum(&formula, operands.iter().collect::<Vec<_>>()))
        },
    },
    Function {
        name: "tensordot",
        form: "x, y, axes, other_axes",
        about: "the sum of products over pairs of axes",
        call: |a| Ok(a.tensor("x")?.tensordot(&a.tensor("y")?, &a.ints("axes")?, &a.ints("other_axes")?)),
    },
    Function {
        name: "vecdot",
        form: "x, y, axis=-1",
        about: "the sum of products along an axis",
        call: |a| Ok(a.tensor("x")?.vecdot(&a.tensor("y")?, a.int_or("axis", -1)?)),
    },
    Function {
        name: "outer",
        form: "x, y",
        about: "every product of two vectors' elements",
        call: |a| Ok(a.tensor("x")?.outer(&a.tensor("y")?)),
    },
];
