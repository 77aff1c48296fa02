//! Convolutions as the tensor layer makes them have their windows, and nothing else has.

use super::*;
use crate::what::{Binary, DType, ExprBuilder, Scalar, elements, row_major};

/// A convolution as the tensor layer makes it.
#[derive(Clone, Debug)]
struct Conv {
    batch: usize,
    groups: usize,
    channels: usize,
    outputs: usize,
    sizes: Vec<usize>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<usize>,
    last: bool,
    /// Whether images are a dimension of the batch, or of the pixels.
    images_in_batch: bool,
}

fn conv(sizes: &[usize], kernel: &[usize]) -> Conv {
    let ones = vec![1; sizes.len()];
    Conv {
        batch: 2,
        groups: 1,
        channels: 5,
        outputs: 6,
        sizes: sizes.to_vec(),
        kernel: kernel.to_vec(),
        stride: ones.clone(),
        dilation: ones,
        padding: vec![0; sizes.len()],
        last: false,
        images_in_batch: true,
    }
}

fn read(i: u16) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(i, DType::F32);
    b.finish(&[x])
}

/// What each dimension of the convolution's index space is, in the order of a contraction.
#[derive(Clone, Copy, PartialEq)]
enum Dim {
    Image,
    Group,
    Output,
    Pixel(usize),
    Channel,
    Tap(usize),
}

impl Conv {
    fn pixels(&self, i: usize) -> usize {
        (self.sizes[i] + 2 * self.padding[i] - self.dilation[i] * (self.kernel[i] - 1) - 1) / self.stride[i] + 1
    }

    /// The groups of dimensions: batch, m, n, k.
    fn groups(&self) -> [Vec<Dim>; 4] {
        let axes = 0..self.sizes.len();
        let (batch, mut pixels) = if self.images_in_batch {
            (vec![Dim::Image, Dim::Group], vec![])
        } else {
            (vec![Dim::Group], vec![Dim::Image])
        };
        pixels.extend(axes.clone().map(Dim::Pixel));
        let taps: Vec<Dim> = axes.map(Dim::Tap).collect();
        match self.last {
            false => [batch, vec![Dim::Output], pixels, [vec![Dim::Channel], taps].concat()],
            true => [batch, pixels, vec![Dim::Output], [taps, vec![Dim::Channel]].concat()],
        }
    }

    fn op(&self) -> Op {
        let groups = self.groups();
        let order = groups.concat();
        let size = |d: &Dim| match *d {
            Dim::Image => self.batch,
            Dim::Group => self.groups,
            Dim::Output => self.outputs,
            Dim::Channel => self.channels,
            Dim::Pixel(i) => self.pixels(i),
            Dim::Tap(i) => self.kernel[i],
        };
        let dims: Vec<usize> = order.iter().map(size).collect();
        // The image's own strides: of an image, a channel, and each axis.
        let (all, space) = (self.groups * self.channels, elements(&self.sizes));
        let inner = row_major(&self.sizes);
        let (channel, by) = if self.last { (1, all) } else { (space, 1) };
        let step = |i: usize| inner[i] * by as isize;
        let image: Vec<isize> = order
            .iter()
            .map(|d| match *d {
                Dim::Image => (all * space) as isize,
                Dim::Group => (self.channels * channel) as isize,
                Dim::Output => 0,
                Dim::Channel => channel as isize,
                Dim::Pixel(i) => step(i) * self.stride[i] as isize,
                Dim::Tap(i) => step(i) * self.dilation[i] as isize,
            })
            .collect();
        let guards = (0..self.sizes.len()).filter(|&i| self.padding[i] > 0).map(|i| Guard {
            coefficients: order
                .iter()
                .map(|d| match *d {
                    Dim::Pixel(j) if i == j => self.stride[i] as isize,
                    Dim::Tap(j) if i == j => self.dilation[i] as isize,
                    _ => 0,
                })
                .collect(),
            offset: -(self.padding[i] as isize),
            limit: self.sizes[i],
        });
        let before: isize = (0..self.sizes.len()).map(|i| step(i) * self.padding[i] as isize).sum();
        let image = Access { base: -before, guards: guards.collect(), ..Access::new(DType::F32, &image) };
        let taps = elements(&self.kernel);
        let kernel = row_major(&self.kernel);
        let filters: Vec<isize> = order
            .iter()
            .map(|d| match *d {
                Dim::Image | Dim::Pixel(_) => 0,
                Dim::Group => (self.outputs * self.channels * taps) as isize,
                Dim::Output => (self.channels * taps) as isize,
                Dim::Channel => taps as isize,
                Dim::Tap(i) => kernel[i],
            })
            .collect();
        let filters = Access::new(DType::F32, &filters);
        let mut at = 1;
        let mut result = vec![0; dims.len()];
        let k = dims.len() - groups[3].len();
        for d in (0..k).rev() {
            (result[d], at) = (at as isize, at * dims[d]);
        }
        let (m, n) = (groups[0].len(), groups[0].len() + groups[1].len());
        let contract = Contract {
            m,
            n,
            k,
            lhs: read(0),
            rhs: read(1),
            acc: DType::F32,
            epilogue: Expr::acc(DType::F32),
            accuracy: Default::default(),
        };
        let inputs = if self.last { vec![image, filters] } else { vec![filters, image] };
        Op::contract(&dims, inputs, vec![Access::new(DType::F32, &result)], contract).unwrap()
    }
}

/// Every element that the windows say is read is the one that the access reads.
fn describes(windows: &Windows, op: &Op) {
    let a = &op.inputs[windows.image];
    let first: isize = a.base + windows.axes.iter().map(|x| x.before * x.step).sum::<isize>();
    let rest = |d: &usize| windows.axes.iter().all(|x| x.output != Some(*d) && x.tap != Some(*d));
    for i in 0..elements(&op.dims) {
        let (mut left, mut index) = (i, vec![0; op.dims.len()]);
        for d in (0..op.dims.len()).rev() {
            (index[d], left) = (left % op.dims[d], left / op.dims[d]);
        }
        let of = |d: Option<usize>| d.map_or(0, |d| index[d]) as isize;
        let mut at = first;
        let mut inside = true;
        for x in &windows.axes {
            let c = of(x.output) * x.stride as isize + of(x.tap) * x.dilation as isize - x.before;
            inside &= !x.is_padded() || (0..x.size as isize).contains(&c);
            assert!(x.is_padded() || (c as usize) < x.size);
            at += c * x.step;
        }
        at += (0..op.dims.len()).filter(rest).map(|d| index[d] as isize * a.strides[d]).sum::<isize>();
        assert_eq!(a.position(&index), inside.then_some(at), "{windows:?} at {index:?}");
    }
}

/// The windows that share elements or have padding.
fn of(op: &Op) -> Option<Windows> {
    op.windows().iter().find(|w| w.axes.iter().any(|a| a.tap.is_some() || a.is_padded())).cloned()
}

fn recovered(conv: &Conv) -> Windows {
    let op = conv.op();
    let windows = of(&op).unwrap_or_else(|| panic!("no windows in {conv:?}"));
    describes(&windows, &op);
    assert_eq!(windows.side, if conv.last { ImageSide::Left } else { ImageSide::Right });
    assert_eq!(windows.image, usize::from(!conv.last));
    let size = |dims: &[usize]| dims.iter().map(|&d| op.dims[d]).product::<usize>();
    assert_eq!(size(&windows.groups), conv.groups, "{conv:?}");
    assert_eq!(size(&windows.channels), conv.channels, "{conv:?}");
    assert_eq!(elements(&op.dims[windows.outputs.clone()]), conv.outputs);
    assert_eq!(size(&windows.images), if conv.images_in_batch { conv.batch } else { 1 });
    windows
}

#[test]
fn every_convolution_has_its_windows() {
    let mut count = 0;
    for (sizes, kernel) in [(&[23][..], &[5][..]), (&[13, 11], &[3, 4]), (&[7, 8, 9], &[3, 3, 3])] {
        for (stride, dilation, padding) in
            [(1, 1, 0), (2, 1, 0), (1, 2, 0), (1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 1), (3, 2, 2)]
        {
            for (groups, last, images_in_batch) in
                [(1, false, true), (1, false, false), (3, false, true), (1, true, false), (3, true, false)]
            {
                let all = |n: usize| vec![n; sizes.len()];
                let (stride, dilation, padding) = (all(stride), all(dilation), all(padding));
                let conv = Conv { groups, last, images_in_batch, stride, dilation, padding, ..conv(sizes, kernel) };
                let windows = recovered(&conv);
                let axes: Vec<_> = windows.axes.iter().filter(|a| a.tap.is_some()).collect();
                assert_eq!(axes.len(), sizes.len(), "{conv:?}");
                for (i, axis) in axes.iter().enumerate() {
                    let found = (axis.outputs, axis.taps, axis.stride, axis.dilation, axis.before);
                    assert_eq!(
                        found,
                        (conv.pixels(i), kernel[i], conv.stride[i], conv.dilation[i], conv.padding[i] as isize)
                    );
                    assert_eq!(axis.is_padded(), conv.padding[i] > 0);
                    assert!(!axis.is_padded() || axis.size == sizes[i] && axis.after() <= conv.padding[i] as isize);
                }
                count += 1;
            }
        }
    }
    assert_eq!(count, 3 * 8 * 5);
}

#[test]
fn axes_may_differ_from_each_other() {
    let uneven = Conv { stride: vec![1, 2], dilation: vec![3, 1], padding: vec![0, 2], ..conv(&[12, 14], &[2, 5]) };
    for conv in [Conv { last: true, images_in_batch: false, ..uneven.clone() }, uneven] {
        let windows = recovered(&conv);
        let [.., y, x] = &windows.axes[..] else { panic!("{windows:?}") };
        assert_eq!((y.stride, y.dilation, y.before, y.is_padded()), (1, 3, 0, false));
        assert_eq!((x.stride, x.dilation, x.before, x.is_padded()), (2, 1, 2, true));
    }
    // One pixel along an axis, and one tap along the other.
    let windows = recovered(&Conv { padding: vec![1, 1], ..conv(&[1, 9], &[3, 1]) });
    let found: Vec<_> = windows.axes.iter().map(|a| (a.outputs, a.taps, a.before)).collect();
    assert_eq!(found, [(11, 1, 1), (1, 3, 1)]);
}

#[test]
fn a_common_divisor_of_stride_and_dilation_is_no_part_of_what_is_read() {
    let twice = Conv { stride: vec![2], dilation: vec![2], images_in_batch: true, ..conv(&[31], &[3]) };
    let windows = recovered(&twice);
    let axis = windows.axes[0];
    assert_eq!((axis.stride, axis.dilation, axis.step), (1, 1, 2));
    let near = axis.with_step(1).unwrap();
    assert_eq!((near.stride, near.dilation, near.step, near.size), (2, 2, 1, 31));
    assert_eq!((axis.with_step(4), axis.with_step(0)), (None, None));
}

#[test]
fn an_image_read_backwards_begins_at_its_other_end() {
    let mut op = Conv { padding: vec![1], batch: 1, channels: 1, ..conv(&[9], &[3]) }.op();
    let a = &mut op.inputs[1];
    // Element 8 - i - j + 1 for the window i and the tap j.
    a.base = 9;
    a.strides.iter_mut().for_each(|s| *s = -*s);
    a.guards[0].coefficients.iter_mut().for_each(|c| *c = -*c);
    a.guards[0].offset = 9;
    let windows = of(&op).unwrap();
    describes(&windows, &op);
    assert_eq!((windows.axes[0].before, windows.axes[0].step, windows.axes[0].size), (1, -1, 9));
}

#[test]
fn what_is_no_convolution_has_no_windows() {
    // Matmuls, whichever way they are stored, and filters of one pixel.
    let matmul = |left: [isize; 3], right: [isize; 3]| {
        let contract = Contract {
            m: 0,
            n: 1,
            k: 2,
            lhs: read(0),
            rhs: read(1),
            acc: DType::F32,
            epilogue: Expr::acc(DType::F32),
            accuracy: Default::default(),
        };
        let inputs = vec![Access::new(DType::F32, &left), Access::new(DType::F32, &right)];
        Op::contract(&[6, 7, 8], inputs, vec![Access::new(DType::F32, &[7, 1, 0])], contract).unwrap()
    };
    for op in [matmul([8, 0, 1], [0, 1, 7]), matmul([1, 0, 6], [0, 8, 1])] {
        assert_eq!(of(&op), None);
        let read = Windows::with_image(&op, ImageSide::Left).unwrap();
        assert_eq!((read.axes.len(), &read.channels[..], read.axes[0].tap), (1, &[2][..], None));
        // Rows are windows that share nothing, where somebody knows that they have no channels.
        assert_eq!(read.taps_only(&op).unwrap().axes[0].tap, Some(2));
    }
    assert_eq!(of(&conv(&[13, 11], &[1, 1]).op()), None);
    // Patches that share nothing are rows of a matrix.
    assert_eq!(of(&Conv { stride: vec![3, 3], ..conv(&[12, 12], &[3, 3]) }.op()), None);
    // A sum of rows, and a coordinate that two dimensions of the result move.
    let mut map = matmul([8, 0, 1], [0, 1, 7]);
    map.body = Body::Map(read(0));
    assert_eq!(of(&map), None);
    let mut both = Conv { padding: vec![1, 1], ..conv(&[13, 11], &[3, 3]) }.op();
    let y = both.inputs[1].guards[0].coefficients.iter().position(|&c| c != 0).unwrap();
    both.inputs[1].guards[1].coefficients[y] = 1;
    assert_eq!(of(&both), None);
    // Images of another size each.
    let mut other = Conv { padding: vec![1, 1], ..conv(&[13, 11], &[3, 3]) }.op();
    other.inputs[1].guards[0].coefficients[0] = 1;
    assert_eq!(of(&other), None);
}

#[test]
fn filters_need_not_be_stored_plainly() {
    let plain = conv(&[13, 11], &[3, 3]).op();
    let windows = of(&plain).unwrap();
    let mut padded = conv(&[13, 11], &[3, 3]).op();
    padded.inputs[0].guards.push(Guard {
        coefficients: vec![0; padded.dims.len()].into_iter().collect(),
        offset: 0,
        limit: 1,
    });
    padded.inputs[0].fill = Scalar::new(0f32);
    assert_eq!(of(&padded), Some(Windows { filters: None, ..windows.clone() }));
    // Twice what is stored.
    let mut computed = conv(&[13, 11], &[3, 3]).op();
    let Body::Contract(c) = &mut computed.body else { panic!("a convolution is a contraction") };
    let mut b = ExprBuilder::new();
    let w = b.input(0, DType::F32);
    let twice = b.binary(Binary::Add, w, w).unwrap();
    c.lhs = b.finish(&[twice]);
    assert_eq!(of(&computed), Some(Windows { filters: None, ..windows }));
}

#[test]
fn windows_are_recovered_once_and_go_with_the_operation() {
    let op = conv(&[13, 11], &[3, 3]).op();
    let windows = op.windows();
    assert_eq!((windows.len(), op.windows().as_ptr()), (2, windows.as_ptr()));
    assert_eq!(op.clone().windows().as_ptr(), windows.as_ptr());
    // Whether somebody has asked makes no difference between operations.
    let unasked = conv(&[13, 11], &[3, 3]).op();
    assert_eq!((&unasked, unasked.launch_key()), (&op, op.launch_key()));
}
