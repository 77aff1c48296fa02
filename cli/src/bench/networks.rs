//! Forward passes of networks: `resnet50_f32_N`, with `_wino` at the end Winograd's algorithm is allowed, and `mobilenet_f32_N`.

// The networks of the library's examples, which show how they are written.
#[path = "../../../millstream/examples/shared/layers.rs"]
mod layers;
#[path = "../../../millstream/examples/mobilenet/network.rs"]
mod mobilenet;
#[path = "../../../millstream/examples/resnet50/network.rs"]
mod resnet50;

use millstream::{Accuracy, DType, Device, Result, Tensor};

pub use layers::{Work, images, taps};

/// The forms of the names, for people.
pub const FORMS: [(&str, &str); 2] = [
    (
        "resnet50_f32_N",
        "a forward pass of ResNet-50's shape for N images, weights in the pack cache; _wino: Winograd allowed",
    ),
    ("mobilenet_f32_N", "a forward pass of MobileNetV2's shape for N images, weights in the pack cache"),
];

/// More images than this at once are a slip of the pen.
pub const MOST_IMAGES: usize = 4096;

/// Whose shape a network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// ResNet-50's, with convolutions of this accuracy.
    ResNet50(Accuracy),
    /// MobileNetV2's.
    MobileNet,
}

/// A forward pass of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The network's shape.
    pub shape: Shape,
    /// How many images.
    pub batch: usize,
}

/// The case of that name, if it is a network's.
pub fn parse(name: &str) -> Option<Pass> {
    let (shape, batch) = match name.split_once("_f32_")? {
        ("resnet50", rest) => match rest.strip_suffix("_wino") {
            Some(batch) => (Shape::ResNet50(Accuracy::Winograd), batch),
            None => (Shape::ResNet50(Accuracy::Full), rest),
        },
        ("mobilenet", batch) => (Shape::MobileNet, batch),
        _ => return None,
    };
    let batch = batch.parse().ok().filter(|n| (1..=MOST_IMAGES).contains(n))?;
    Some(Pass { shape, batch })
}

/// The algorithms that a network allows may take as little as one part in this many of its arithmetic.
pub fn saving(shape: Shape) -> u64 {
    if shape == Shape::ResNet50(Accuracy::Winograd) { super::conv::WINOGRAD_SAVES } else { 1 }
}

/// A network with its weights.
pub enum Network {
    /// Of ResNet-50's shape.
    ResNet50(Box<resnet50::Network>),
    /// Of MobileNetV2's shape.
    MobileNet(Box<mobilenet::Network>),
}

impl Network {
    /// Random weights on a device, always the same.
    pub fn new(shape: Shape, device: &Device) -> Result<Network> {
        Ok(match shape {
            Shape::ResNet50(accuracy) => Network::ResNet50(resnet50::Network::new(device, accuracy)?.into()),
            Shape::MobileNet => Network::MobileNet(mobilenet::Network::new(device)?.into()),
        })
    }

    /// The same network in another dtype.
    pub fn cast(&self, dtype: DType) -> Result<Network> {
        Ok(match self {
            Network::ResNet50(network) => Network::ResNet50(network.cast(dtype)?.into()),
            Network::MobileNet(network) => Network::MobileNet(network.cast(dtype)?.into()),
        })
    }

    /// The classes' values for images.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Network::ResNet50(network) => network.forward(x),
            Network::MobileNet(network) => network.forward(x),
        }
    }

    /// What it takes for one image.
    pub fn work(&self) -> Work {
        match self {
            Network::ResNet50(network) => network.work(),
            Network::MobileNet(network) => network.work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_network_and_the_images() {
        let pass = |shape, batch| Some(Pass { shape, batch });
        assert_eq!(parse("resnet50_f32_1"), pass(Shape::ResNet50(Accuracy::Full), 1));
        assert_eq!(parse("resnet50_f32_32_wino"), pass(Shape::ResNet50(Accuracy::Winograd), 32));
        assert_eq!(parse("mobilenet_f32_8"), pass(Shape::MobileNet, 8));
        assert_eq!(parse("mobilenet_f32_8_wino"), None);
    }
}
