//! Images of the `image` crate: height, width, channels.

use std::ops::Deref;

use image::{DynamicImage, ImageBuffer, Pixel};
use millstream_core::{DType, Element, Error, Result};

use crate::Tensor;

/// A tensor with a copy of an image: height, width, channels.
impl<P: Pixel<Subpixel: Element>, C: Deref<Target = [P::Subpixel]>> From<&ImageBuffer<P, C>> for Tensor {
    #[track_caller]
    fn from(image: &ImageBuffer<P, C>) -> Tensor {
        let shape = [image.height() as usize, image.width() as usize, usize::from(P::CHANNEL_COUNT)];
        // The container may be longer than the image.
        let used = shape.iter().product::<usize>();
        Tensor::from_shape(shape, image.get(..used).unwrap_or(image))
    }
}

/// A tensor with a copy of an image in its own kind of pixels: height, width, channels.
impl From<&DynamicImage> for Tensor {
    #[track_caller]
    fn from(image: &DynamicImage) -> Tensor {
        match image {
            DynamicImage::ImageLuma8(i) => i.into(),
            DynamicImage::ImageLumaA8(i) => i.into(),
            DynamicImage::ImageRgb8(i) => i.into(),
            DynamicImage::ImageRgba8(i) => i.into(),
            DynamicImage::ImageLuma16(i) => i.into(),
            DynamicImage::ImageLumaA16(i) => i.into(),
            DynamicImage::ImageRgb16(i) => i.into(),
            DynamicImage::ImageRgba16(i) => i.into(),
            DynamicImage::ImageRgb32F(i) => i.into(),
            DynamicImage::ImageRgba32F(i) => i.into(),
            other => (&other.to_rgba32f()).into(),
        }
    }
}

/// # Other crates' images
impl Tensor {
    /// The tensor as an image of the `image` crate: height, width and one to four channels, or no axis of channels for a grey one;
    /// in u8, u16, or, with three or four channels, f32. With the feature `image`.
    ///
    /// ```
    /// use image::{DynamicImage, Rgb, RgbImage};
    /// use millstream::Tensor;
    /// let photo = RgbImage::from_pixel(4, 2, Rgb([10, 20, 30]));
    /// let x = Tensor::from(&photo);
    /// assert_eq!(x.shape(), [2, 4, 3]);
    /// let DynamicImage::ImageRgb8(inverted) = (255 - x).to_image()? else { unreachable!() };
    /// assert_eq!(inverted.get_pixel(3, 1), &Rgb([245, 235, 225]));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// A shape or a dtype that no image has; also as [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_image(&self) -> Result<DynamicImage> {
        self.check()?;
        let (height, width, channels) = match *self.sizes() {
            [h, w] => (h, w, 1),
            [h, w, c @ 1..=4] => (h, w, c),
            _ => {
                let error = Error::shape(format!("an image of shape {:?}", self.sizes()));
                return Err(error.in_op("to_image").suggest("height, width, and one to four channels behind them"));
            }
        };
        let (Ok(h), Ok(w)) = (u32::try_from(height), u32::try_from(width)) else {
            return Err(Error::shape(format!("an image of {height} x {width} is too large")).in_op("to_image"));
        };
        let image = match (self.dtype(), channels) {
            (DType::U8, 1) => buffer(self, w, h)?.map(DynamicImage::ImageLuma8),
            (DType::U8, 2) => buffer(self, w, h)?.map(DynamicImage::ImageLumaA8),
            (DType::U8, 3) => buffer(self, w, h)?.map(DynamicImage::ImageRgb8),
            (DType::U8, _) => buffer(self, w, h)?.map(DynamicImage::ImageRgba8),
            (DType::U16, 1) => buffer(self, w, h)?.map(DynamicImage::ImageLuma16),
            (DType::U16, 2) => buffer(self, w, h)?.map(DynamicImage::ImageLumaA16),
            (DType::U16, 3) => buffer(self, w, h)?.map(DynamicImage::ImageRgb16),
            (DType::U16, _) => buffer(self, w, h)?.map(DynamicImage::ImageRgba16),
            (DType::F32, 3) => buffer(self, w, h)?.map(DynamicImage::ImageRgb32F),
            (DType::F32, 4) => buffer(self, w, h)?.map(DynamicImage::ImageRgba32F),
            (dtype, n) => {
                let error = Error::dtype(format!("no image has {n} channels of {dtype}"));
                return Err(error.in_op("to_image").suggest("clip to 0..255 and cast to u8"));
            }
        };
        image.ok_or_else(|| Error::internal("an image has other elements than its tensor"))
    }
}

#[track_caller]
fn buffer<P: Pixel<Subpixel: Element>>(
    tensor: &Tensor,
    width: u32,
    height: u32,
) -> Result<Option<ImageBuffer<P, Vec<P::Subpixel>>>> {
    Ok(ImageBuffer::from_raw(width, height, tensor.to_vec()?))
}
