//! The tensor: a lazily computed, immutable value seen through a layout.

use std::panic::Location;
use std::sync::Arc;

use crate::arguments::{Integer, IntoDevice, NewShape, Shape, axis_of};
use crate::graph::volatile::{is_volatile, snapshot};
use crate::graph::{Fusion, Inputs, Node, attempt};
use crate::nested::Nested;
use crate::plan;
use millstream_core::{Buffer, DType, Device, Element, Error, Event, Layout, Mode, Result, Runtime, Stream};

/// An n-dimensional array of one element type.
///
/// Operations are lazy: they describe a value, and a read, [`Tensor::eval`] or a bound on the waiting graph computes it, as
/// few fused kernels as the planner finds. Tensors are immutable, cheap to clone and can be shared between threads.
///
/// A mistake in shapes or types does not panic: it gives a tensor that carries the error, with the file and line of the
/// call, through everything computed from it, to the first read. [`Tensor::check`] asks at once.
///
/// ```
/// use millstream::Tensor;
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = (2.0 * &x + 1.0).sum(1);
/// assert_eq!(y.to_vec::<f32>()?, [8.0, 16.0]);
/// assert_eq!(y.to_string(), "[ 8. 16.]");
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// | to | methods |
/// |---|---|
/// | make one | [`new`](Tensor::new), [`from_vec`](Tensor::from_vec), [`zeros`](Tensor::zeros), [`full`](Tensor::full), [`arange`](Tensor::arange), [`linspace`](Tensor::linspace), [`eye`](Tensor::eye), [`Generator`](crate::Generator), [`load_npy`](Tensor::load_npy), [`load_safetensors`](Tensor::load_safetensors) |
/// | read it | [`to_vec`](Tensor::to_vec), [`to_vec2`](Tensor::to_vec2), [`item`](Tensor::item), [`rows`](Tensor::rows), `{}`; [`save_npy`](Tensor::save_npy), [`save_safetensors`](Tensor::save_safetensors) |
/// | ask what it is | [`shape`](Tensor::shape), [`dims`](Tensor::dims), [`dtype`](Tensor::dtype), [`device`](Tensor::device), [`check`](Tensor::check), `{:?}` |
/// | compute and place it | [`eval`](Tensor::eval), [`eval_all`](Tensor::eval_all), [`to`](Tensor::to), [`keep`](Tensor::keep), [`explain`](Tensor::explain), [`compile`](crate::compile) |
/// | take a part | [`i`](Tensor::i), [`slice`](Tensor::slice), [`select`](Tensor::select), [`mask`](Tensor::mask), [`take`](Tensor::take) |
/// | change a part | [`set`](Tensor::set), [`assign`](Tensor::assign), [`slice_assign`](Tensor::slice_assign), [`scatter_add`](Tensor::scatter_add), [`index_put`](Tensor::index_put) |
/// | rearrange | [`reshape`](Tensor::reshape), [`permute`](Tensor::permute), [`transpose`](Tensor::transpose), [`unsqueeze`](Tensor::unsqueeze), [`concat`](Tensor::concat), [`stack`](Tensor::stack), [`roll`](Tensor::roll), [`pad`](Tensor::pad) |
/// | compute by element | `+ - * / %`, [`exp`](Tensor::exp), [`tanh`](Tensor::tanh), [`clip`](Tensor::clip), [`where_`](Tensor::where_), [`cast`](Tensor::cast), [`gt`](Tensor::gt), [`isnan`](Tensor::isnan) |
/// | reduce | [`sum`](Tensor::sum), [`mean`](Tensor::mean), [`max`](Tensor::max), [`argmax`](Tensor::argmax), [`var`](Tensor::var), [`norm`](Tensor::norm), [`cumsum`](Tensor::cumsum), [`quantile`](Tensor::quantile) |
/// | multiply and solve | [`matmul`](Tensor::matmul), [`einsum`](Tensor::einsum), [`solve`](Tensor::solve), [`svd`](Tensor::svd), [`fft`](Tensor::fft) |
/// | build networks | [`softmax`](Tensor::softmax), [`layernorm`](Tensor::layernorm), [`attention`](Tensor::attention), [`conv2d`](Tensor::conv2d), [`max_pool2d`](Tensor::max_pool2d), [`cross_entropy`](Tensor::cross_entropy) |
/// | sort and search | [`sort`](Tensor::sort), [`topk`](Tensor::topk), [`searchsorted`](Tensor::searchsorted), [`unique_values`](Tensor::unique_values), [`nonzero`](Tensor::nonzero) |
///
/// The methods below stand in groups: [creation](#creation), [what a tensor is](#what-a-tensor-is),
/// [devices and evaluation](#devices-and-evaluation), [reading](#reading-values), [indexing](#indexing), [views](#views),
/// [numbers and ranges](#numbers-ranges-grids-triangles), [joining](#joining-repeating-taking-apart), [padding](#padding-and-windows),
/// [assignment](#assignment), [looking up](#looking-up), [scattering](#scattering), [choices](#choices-and-bounds),
/// [functions](#functions-of-one-number), [operators and comparisons](#functions-of-two-numbers-and-comparisons),
/// [activations and tests](#functions-made-of-others-tests-complex-parts-activations), [reductions](#reductions),
/// [softmax and layer norm](#softmax-and-layer-norm), [running sums](#running-sums-products-and-extremes), [quantiles](#medians-and-quantiles),
/// [sorting and sets](#sorting-searching-and-sets), [matmuls](#matmuls), [contractions](#contractions), [linear algebra](#linear-algebra),
/// [Fourier transforms](#fourier-transforms), [normalisations and losses](#normalisations-losses-resizing), [attention](#attention),
/// [convolutions](#convolutions), [pooling](#pooling), files: [npy](#files-npy), [npz](#files-npz), [safetensors](#files-safetensors).
#[derive(Clone)]
#[must_use = "a tensor is computed lazily and never changes: what a method gives has to be used"]
pub struct Tensor {
    pub(crate) node: Arc<Node>,
    pub(crate) layout: Layout,
}

/// # Creation
impl Tensor {
    /// A tensor of a number, a list of numbers, or lists of lists, as arrays, slices or vectors.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert_eq!(Tensor::new(2.5f64).item::<f64>()?, 2.5);
    /// assert!(Tensor::new(vec![vec![1, 2], vec![3]]).check().is_err());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn new<N: Nested>(values: N) -> Tensor {
        let (mut shape, mut list) = (Vec::new(), Vec::new());
        match values.flatten(0, &mut shape, &mut list) {
            Ok(()) => Tensor::of("new", &shape, &list),
            Err(error) => Tensor::failed(error.in_op("new").at(Location::caller())),
        }
    }

    /// A one-dimensional tensor with a copy of these values.
    #[track_caller]
    pub fn from_slice<T: Element>(values: &[T]) -> Tensor {
        Tensor::of("from_slice", &[values.len()], values)
    }

    /// A tensor of this shape with these values, row-major.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_vec((0..6).collect(), (2, ()));
    /// assert_eq!(x.to_vec2::<i32>()?, [[0, 1, 2], [3, 4, 5]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(values: Vec<T>, shape: impl Into<NewShape>) -> Tensor {
        match shape.into().sizes_of(values.len()) {
            Ok(shape) => Tensor::of("from_vec", &shape, &values),
            Err(error) => Tensor::failed(error.in_op("from_vec").at(Location::caller())),
        }
    }

    /// A tensor of this shape with a copy of these values, row-major.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let m = Tensor::from_shape([2, 2], &[1i32, 2, 3, 4]);
    /// assert_eq!(m.transpose().to_vec::<i32>()?, [1, 3, 2, 4]);
    /// assert!(Tensor::from_shape(3, &[1i32]).check().is_err());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn from_shape<T: Element>(shape: impl Into<NewShape>, values: &[T]) -> Tensor {
        match shape.into().sizes_of(values.len()) {
            Ok(shape) => Tensor::of("from_shape", &shape, values),
            Err(error) => Tensor::failed(error.in_op("from_shape").at(Location::caller())),
        }
    }

    /// Elements in a shape, by the method of that name.
    #[track_caller]
    fn of<T: Element>(op: &'static str, shape: &[usize], values: &[T]) -> Tensor {
        // SAFETY: elements are plain data without padding; their bytes may be read.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        Tensor::of_bytes(op, shape, T::DTYPE, bytes)
    }

    /// A tensor of this shape and dtype from the bytes of its elements, row-major, as they lie in this machine's memory.
    #[track_caller]
    pub fn from_bytes(shape: impl Into<NewShape>, dtype: DType, bytes: &[u8]) -> Tensor {
        match shape.into().sizes() {
            Ok(shape) => Tensor::of_bytes("from_bytes", &shape, dtype, bytes),
            Err(error) => Tensor::failed(error.in_op("from_bytes").at(Location::caller())),
        }
    }

    #[track_caller]
    fn of_bytes(op: &'static str, shape: &[usize], dtype: DType, bytes: &[u8]) -> Tensor {
        let location = Location::caller();
        let make = || {
            let layout = Layout::contiguous(shape)?;
            if layout.len() * dtype.size() != bytes.len() {
                let (size, given) = (dtype.size(), bytes.len());
                let given = if given.is_multiple_of(size) {
                    format!("{} elements", given / size)
                } else {
                    format!("{given} bytes of elements of {size}")
                };
                return Err(Error::shape(format!("{given} for the shape {shape:?}, which has {}", layout.len())));
            }
            if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
                return Err(Error::dtype("a bool element has a byte other than 0 and 1")
                    .suggest("read the data as u8 and compare it with 0"));
            }
            let runtime = crate::default_runtime()?;
            let buffer = Buffer::from_bytes(&runtime.host()?, bytes, Mode::Automatic)?;
            Ok((layout, buffer, runtime.default_device()?))
        };
        Tensor::leaf(make(), dtype, op, location)
    }

    /// A tensor over a buffer that exists already.
    #[track_caller]
    pub fn from_buffer(buffer: Buffer, dtype: DType, layout: Layout) -> Tensor {
        let location = Location::caller();
        let fits = layout.span().end.checked_mul(dtype.size()).is_some_and(|end| end <= buffer.len());
        if !fits {
            let error = Error::shape(format!("the layout reaches beyond the buffer's {} bytes", buffer.len()));
            return Tensor::failed(error.in_op("from_buffer").at(location));
        }
        let device = buffer.device();
        let node = Node::ready(Ok(buffer), layout.shape().into(), dtype, Some(device), location);
        Tensor { node, layout }
    }
}

/// # What a tensor is
impl Tensor {
    /// The sizes. A tensor that carries an error has none; indexing its shape panics with that error. See [`Tensor::dims`].
    pub fn shape(&self) -> Shape<'_> {
        Shape::new(self.layout.shape(), self.node.error())
    }

    /// The sizes, or the error that the tensor carries.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3], DType::F32);
    /// assert_eq!(x.dims()?, [2, 3]);
    /// assert!(x.matmul(&x).dims().is_err());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn dims(&self) -> Result<&[usize]> {
        self.check()?;
        Ok(self.layout.shape())
    }

    /// The sizes as the library itself uses them.
    pub(crate) fn sizes(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.node.dtype
    }

    /// The layout over the value it shows.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The device it is or will be computed on.
    pub fn device(&self) -> Result<Device> {
        match &self.node.device {
            Some(device) => Ok(device.clone()),
            None => crate::default_runtime()?.default_device(),
        }
    }

    /// The error that the tensor carries, if it does. Computes nothing.
    pub fn check(&self) -> Result<()> {
        self.node.error().map_or(Ok(()), |e| Err(e.clone()))
    }
}

/// # Devices and evaluation
///
/// Nothing is computed until a read, one of these methods, or a bound on the waiting graph asks for it. The guide of the crate
/// `millstream` says when values are computed and which of them are kept.
impl Tensor {
    /// The same value for computing on another device, given as such or by its name. It moves when it is needed there.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0]).to("cpu");
    /// assert_eq!((&x + &x).to_vec::<f32>()?, [2.0, 4.0]);
    /// assert!(x.to("abacus:0").check().is_err());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn to(&self, device: impl IntoDevice) -> Tensor {
        let location = Location::caller();
        let device = device.device();
        Tensor::build("to", || {
            self.check()?;
            let device = &device?;
            if self.node.device.as_ref().is_some_and(|d| d.same(device)) {
                return Ok(self.clone());
            }
            if matches!(self.node.kind.fusion(), Fusion::Free) && self.node.value().is_none() {
                let node = Node::pending(
                    self.node.kind.clone(),
                    self.node.shape.clone(),
                    self.node.dtype,
                    Some(device.clone()),
                    Inputs::new(),
                    location,
                );
                return Ok(Tensor { node, layout: self.layout.clone() });
            }
            if is_volatile(self) {
                // What moves later would be what lies there later.
                return Ok(snapshot(self)?.to(device));
            }
            let whole = Tensor { node: self.node.clone(), layout: Layout::contiguous(&self.node.shape)? };
            let buffer = plan::value(&whole, None)?;
            let node =
                Node::ready(Ok(buffer), self.node.shape.clone(), self.node.dtype, Some(device.clone()), location);
            Ok(Tensor { node, layout: self.layout.clone() })
        })
    }

    /// Computes the value now and waits for it.
    pub fn eval(&self) -> Result<()> {
        Tensor::eval_all([self])
    }

    /// Computes several values in one plan, so that what they share is computed once, and waits for them.
    pub fn eval_all<T: AsRef<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Result<()> {
        let tensors: Vec<T> = tensors.into_iter().collect();
        let tensors: Vec<&Tensor> = tensors.iter().map(T::as_ref).collect();
        plan::evaluate(&tensors, plan::Trigger::Eval, None)?;
        tensors.iter().try_for_each(|t| t.node.value().and_then(|v| v.as_ref().ok()).map_or(Ok(()), Buffer::wait))
    }

    /// Queues the computation and returns at once; the event completes when the value is there.
    ///
    /// On a device whose own stream queues, as GPUs' do, the work goes there, in the order of the calls; else to a stream
    /// of its own.
    pub fn eval_async(&self) -> Result<Event> {
        let device = self.device()?;
        if !device.stream().is_synchronous() {
            let event = self.eval_on(device.stream())?;
            device.stream().flush()?;
            return Ok(event);
        }
        let stream = device.take_stream(millstream_core::Priority::Normal)?;
        let queued = self.eval_on(&stream);
        device.return_stream(stream);
        queued
    }

    /// Queues the computation on a stream of the tensor's device; the event completes when the value is there. A device may
    /// gather work before it begins: [`Stream::flush`] or any wait makes it begin.
    pub fn eval_on(&self, stream: &Stream) -> Result<Event> {
        plan::evaluate(&[self], plan::Trigger::Eval, Some(stream))?;
        Ok(self.event().unwrap_or_else(Event::completed))
    }

    /// This tensor, computed, as one that is used many times, such as a model's weights: devices may keep it in the order in
    /// which their kernels read it as well, so that matmuls and convolutions need not pack it again. That takes about as much
    /// memory again for each way in which it is used, at most four times as much (plus 64 KiB), counted in the device's pool,
    /// until the value is dropped. Results are the same, bit by bit. The CPU keeps operands so; other devices do nothing.
    ///
    /// ```
    /// use millstream::Tensor;
    /// # fn main() -> millstream::Result<()> {
    /// let weights = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).keep()?;
    /// let x = Tensor::new([[1.0f32, 1.0], [0.0, 1.0]]);
    /// assert_eq!(x.matmul(&weights).to_vec::<f32>()?, [4.0, 6.0, 3.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn keep(&self) -> Result<Tensor> {
        self.buffer()?.keep();
        Ok(self.clone())
    }

    /// What the plan for this value looks like: kernels, fusion, tiles, bytes, predicted time, kernel text.
    pub fn explain(&self) -> Result<String> {
        plan::explain(&[self])
    }

    /// In which way each step of the plan for this value is computed, by the names of [`Tensor::explain`], and in how many seconds by the cost
    /// model, as it compares ways.
    pub fn ways(&self) -> Result<Vec<(String, f64)>> {
        plan::ways(self)
    }

    /// The runtime that tensors use which name no device.
    pub fn runtime() -> Result<&'static Runtime> {
        crate::default_runtime()
    }

    /// The event of the write of the value, if it was queued and may still be running.
    fn event(&self) -> Option<Event> {
        self.node.value().and_then(|v| v.as_ref().ok()).and_then(Buffer::event)
    }
}

/// # Reading values
///
/// A read computes what it needs and waits for it.
impl Tensor {
    /// The elements in row-major order. `T` must be the tensor's element type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        attempt("to_vec", || self.elements())
    }

    /// The elements of a matrix, row by row.
    #[track_caller]
    pub fn to_vec2<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        attempt("to_vec2", || {
            self.check()?;
            let [_, columns] = *self.sizes() else { return Err(self.not_of_rank(2)) };
            Ok(rows(&self.elements()?, self.sizes()[0], columns, <[T]>::to_vec))
        })
    }

    /// The elements of a tensor of three dimensions, matrix by matrix and row by row.
    #[track_caller]
    pub fn to_vec3<T: Element>(&self) -> Result<Vec<Vec<Vec<T>>>> {
        attempt("to_vec3", || {
            self.check()?;
            let [n, r, c] = *self.sizes() else { return Err(self.not_of_rank(3)) };
            Ok(rows(&self.elements()?, n, r * c, |matrix| rows(matrix, r, c, <[T]>::to_vec)))
        })
    }

    fn not_of_rank(&self, rank: usize) -> Error {
        Error::shape(format!("the shape {:?} has not {rank} dimensions", self.sizes()))
    }

    fn elements<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_type::<T>()?;
        let dense = self.dense();
        let buffer = plan::value(&dense, None)?;
        dense.copy_out(&buffer)
    }

    /// Like [`Tensor::to_vec`], without blocking the thread while the value is computed.
    pub async fn to_vec_async<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_type::<T>()?;
        let dense = self.dense();
        dense.eval_async()?.await?;
        let buffer = plan::value(&dense, None)?;
        let host = buffer.device().host();
        let resident = buffer.on(&host, host.stream())?;
        for event in resident.events()? {
            event.await?;
        }
        dense.copy_out(&buffer)
    }

    /// The only element of a tensor of one.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        attempt("item", || {
            self.check()?;
            if self.len() != 1 {
                let (shape, len) = (self.sizes(), self.len());
                return Err(Error::shape(format!("item needs one element; the shape {shape:?} has {len}")));
            }
            self.elements::<T>()?.first().copied().ok_or_else(|| Error::internal("a tensor of one element has none"))
        })
    }

    /// The bytes of the elements in row-major order.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        attempt("to_bytes", || {
            self.check()?;
            let dense = self.dense();
            let buffer = plan::value(&dense, None)?;
            let host = buffer.device().host();
            buffer.with_host(&host, |bytes| bytes[dense.byte_range()].to_vec())
        })
    }

    /// The buffer that holds the value, computed if need be. The tensor's elements lie in it by [`Tensor::layout`].
    pub fn buffer(&self) -> Result<Buffer> {
        plan::value(self, None)
    }

    fn expect_type<T: Element>(&self) -> Result<()> {
        self.check()?;
        if T::DTYPE != self.dtype() {
            return Err(Error::dtype(format!("the tensor holds {}, not {}", self.dtype(), T::DTYPE)).suggest(format!(
                "read it as {0}, or convert it first with cast(DType::{1:?})",
                self.dtype(),
                T::DTYPE
            )));
        }
        Ok(())
    }

    /// This tensor, or a contiguous copy of it to be.
    pub(crate) fn dense(&self) -> Tensor {
        if self.layout.is_contiguous() { self.clone() } else { self.copy() }
    }

    fn byte_range(&self) -> std::ops::Range<usize> {
        // A view without elements may begin anywhere.
        let start = if self.is_empty() { 0 } else { self.layout.offset() * self.dtype().size() };
        start..start + self.len() * self.dtype().size()
    }

    fn copy_out<T: Element>(&self, buffer: &Buffer) -> Result<Vec<T>> {
        let host = buffer.device().host();
        let (len, range) = (self.len(), self.byte_range());
        buffer.with_host(&host, |bytes| {
            let bytes = &bytes[range];
            let mut out: Vec<T> = Vec::with_capacity(len);
            let to = out.as_mut_ptr().cast::<u8>();
            // SAFETY: `bytes` holds `len` elements of T, and `out` has room for them. Those of bool are made valid, because others may
            // have written them.
            unsafe {
                if T::DTYPE == DType::Bool {
                    bytes.iter().enumerate().for_each(|(i, &b)| to.add(i).write(u8::from(b != 0)));
                } else {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                }
                out.set_len(len);
            }
            out
        })
    }

    /// The axis counted from the front; negative ones count from the end.
    pub(crate) fn axis(&self, axis: impl Integer) -> Result<usize> {
        axis_of(axis.number(), self.rank())
    }
}

/// What is made of each row of a matrix.
fn rows<T, R>(elements: &[T], count: usize, row: usize, make: impl Fn(&[T]) -> R) -> Vec<R> {
    (0..count).map(|i| make(&elements[i * row..(i + 1) * row])).collect()
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

impl<T: Element> From<Vec<T>> for Tensor {
    #[track_caller]
    fn from(values: Vec<T>) -> Tensor {
        Tensor::from_slice(&values)
    }
}

impl<T: Element> From<&[T]> for Tensor {
    #[track_caller]
    fn from(values: &[T]) -> Tensor {
        Tensor::from_slice(values)
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Tensor {
    #[track_caller]
    fn from(values: [T; N]) -> Tensor {
        Tensor::from_slice(&values)
    }
}
