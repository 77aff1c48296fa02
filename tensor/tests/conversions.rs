//! Arrays of `ndarray` and images of `image` become tensors and come back.

use image::{DynamicImage, GrayImage, ImageBuffer, Luma, Rgb, RgbImage, Rgba};
use millstream::{DType, ErrorKind, Result, Tensor};
use ndarray::{Array, Array2, Axis, Ix3, array, s};

#[test]
fn arrays_of_any_layout_keep_their_elements() -> Result<()> {
    let a = Array::from_iter(0i32..24).into_shape_with_order((2, 3, 4)).unwrap();
    let x = Tensor::from(&a);
    assert_eq!((x.dtype(), x.dims()?), (DType::I32, &[2, 3, 4][..]));
    assert_eq!(x.to_ndarray::<i32>()?.into_dimensionality::<Ix3>().unwrap(), a);
    // Views: transposed, cut, backwards.
    let view = a.view().permuted_axes([2, 0, 1]);
    assert_eq!(Tensor::from(&view).to_ndarray::<i32>()?, view.into_dyn());
    let view = a.slice(s![.., ..;-1, 1..3]);
    assert_eq!(Tensor::from(&view).to_ndarray::<i32>()?, view.into_dyn());
    assert_eq!(x.permute([2, 0, 1]).to_ndarray::<i32>()?, a.view().permuted_axes([2, 0, 1]).into_dyn());
    let mean = Tensor::from(&array![[1.0f64, 2.0], [3.0, 6.0]]).mean(0).to_ndarray::<f64>()?;
    assert_eq!(mean, array![[1.0f64, 2.0], [3.0, 6.0]].mean_axis(Axis(0)).unwrap().into_dyn());
    assert_eq!(Tensor::from(&Array2::<f32>::zeros((0, 3))).shape(), [0, 3]);
    assert_eq!(Tensor::new(2.5f32).to_ndarray::<f32>()?, ndarray::arr0(2.5f32).into_dyn());
    assert!(x.to_ndarray::<f32>().is_err_and(|e| e.kind() == ErrorKind::DType));
    Ok(())
}

#[test]
fn images_are_height_width_channels() -> Result<()> {
    let photo = RgbImage::from_fn(5, 3, |x, y| Rgb([x as u8, y as u8, 7]));
    let x = Tensor::from(&photo);
    assert_eq!(x.dims()?, [3, 5, 3]);
    assert_eq!(x.i((2, 4)).to_vec::<u8>()?, [4, 2, 7]);
    assert_eq!(x.to_image()?, DynamicImage::ImageRgb8(photo.clone()));
    assert_eq!(x.to_image()?, DynamicImage::from(photo));
    let grey = x.i((.., .., 0)).to_image()?;
    assert_eq!(grey, DynamicImage::ImageLuma8(GrayImage::from_fn(5, 3, |x, _| Luma([x as u8]))));
    // A view is written in its own order.
    assert_eq!(x.permute([1, 0, 2]).to_image()?.width(), 3);
    Ok(())
}

#[test]
fn every_kind_of_pixel_comes_back() -> Result<()> {
    let rgb = DynamicImage::ImageRgb8(RgbImage::from_fn(4, 2, |x, y| Rgb([50 * x as u8, 100 * y as u8, 3])));
    let kinds = [
        rgb.to_luma8().into(),
        rgb.to_luma_alpha8().into(),
        rgb.to_rgba8().into(),
        rgb.to_luma16().into(),
        rgb.to_luma_alpha16().into(),
        rgb.to_rgb16().into(),
        rgb.to_rgba16().into(),
        DynamicImage::ImageRgb32F(rgb.to_rgb32f()),
        DynamicImage::ImageRgba32F(rgb.to_rgba32f()),
        rgb,
    ];
    for image in kinds {
        assert_eq!(Tensor::from(&image).to_image()?, image);
    }
    // A buffer may be longer than its image.
    let long = ImageBuffer::<Rgba<u8>, Vec<u8>>::from_raw(1, 1, vec![1, 2, 3, 4, 5]).unwrap();
    assert_eq!(Tensor::from(&long).to_vec::<u8>()?, [1, 2, 3, 4]);
    Ok(())
}

#[test]
fn what_is_no_image_is_an_error() {
    for wrong in [Tensor::zeros(4, DType::U8), Tensor::zeros([2, 2, 5], DType::U8), Tensor::zeros([2, 2, 0], DType::U8)]
    {
        assert!(wrong.to_image().is_err_and(|e| e.kind() == ErrorKind::Shape && e.op() == Some("to_image")));
    }
    for wrong in [Tensor::zeros([2, 2], DType::F32), Tensor::zeros([2, 2, 3], DType::I64)] {
        assert!(wrong.to_image().is_err_and(|e| e.kind() == ErrorKind::DType));
    }
}
