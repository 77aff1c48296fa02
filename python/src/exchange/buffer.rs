//! The buffer protocol: memory of NumPy's arrays, `bytes`, `array.array`, memory views, both ways.

use std::ffi::{CStr, c_int};

use millstream::{DType, Exported, RawTensor, Sharing, Tensor};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use super::dlpack::{buffer_error, row_major};
use super::{Found, is_frozen};
use crate::dtype;
use crate::error::R;

/// The letters by which the protocol calls a dtype; bfloat16 has none.
fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::Bool => c"?",
        DType::I8 => c"b",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => c"q",
        DType::U8 => c"B",
        DType::U16 => c"H",
        DType::U32 => c"I",
        DType::U64 => c"Q",
        DType::F16 => c"e",
        DType::BF16 => return None,
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
    })
}

/// The dtype that letters with a size mean, if it is one of this machine's.
fn dtype_of(format: &str, size: usize) -> Option<DType> {
    let letters = format.trim_start_matches(['@', '=', if cfg!(target_endian = "little") { '<' } else { '>' }]);
    let letters = if size == 1 { letters.trim_start_matches(['<', '>', '!']) } else { letters };
    let kind = match letters {
        "?" => 'b',
        "b" | "h" | "i" | "l" | "q" | "n" => 'i',
        "B" | "H" | "I" | "L" | "Q" | "N" => 'u',
        "e" | "f" | "d" => 'f',
        "Zf" | "Zd" => 'c',
        _ => return None,
    };
    dtype::by_name(&format!("{kind}{size}"))
}

/// Whether the object gives a buffer.
pub fn has(obj: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::PyObject_CheckBuffer(obj.as_ptr()) != 0 }
}

/// The tensor over an object's buffer; `None` where that says too little.
pub fn import(obj: &Bound<'_, PyAny>) -> R<Option<Found>> {
    // The view keeps the buffer. Unlike a `Py_buffer` it can be let go by threads that do not have the interpreter.
    let Ok(view) = PyMemoryView::from(obj) else { return Ok(None) };
    let mut info = ffi::Py_buffer::new();
    // SAFETY: the structure is ours; what it points to lives as long as the view.
    let status = unsafe { ffi::PyObject_GetBuffer(view.as_ptr(), &mut info, ffi::PyBUF_FULL_RO) };
    if status != 0 {
        return Err(PyErr::fetch(obj.py()).into());
    }
    let read = read(&info);
    // SAFETY: it was filled above, and is not used any more.
    unsafe { ffi::PyBuffer_Release(&mut info) };
    let Some((mut raw, strided)) = read? else { return Ok(None) };
    if !strided {
        // Elements at odd distances: copied by Python, row-major.
        let bytes = view.call_method0("tobytes")?;
        let (shape, dtype) = (raw.shape, raw.dtype);
        return Ok(Some(Found::Copied(Tensor::from_bytes(shape, dtype, bytes.extract::<&[u8]>()?))));
    }
    if raw.sharing == Sharing::ReadOnly && !is_frozen(obj)? {
        raw.sharing = Sharing::Writable;
    }
    // SAFETY: the buffer is there until its view is released, which happens when the tensor lets go of it. Others may write to it if it
    // is not frozen.
    Ok(Some(Found::Shared(unsafe { Tensor::import(raw, Box::new(view.unbind())) }?)))
}

/// What a filled structure says, and whether its strides are whole elements; `None` for elements that the engine does not have.
fn read(info: &ffi::Py_buffer) -> R<Option<(RawTensor, bool)>> {
    // SAFETY: the structure says what is there: a text, and for each dimension a number.
    let (text, shape, strides) = unsafe {
        let text = if info.format.is_null() { c"B" } else { CStr::from_ptr(info.format) };
        let numbers = |at: *mut isize| std::slice::from_raw_parts(at, info.ndim as usize);
        let shape: Vec<usize> = match info.shape.is_null() {
            true if info.ndim == 0 => Vec::new(),
            true => vec![info.len as usize / (info.itemsize as usize).max(1)],
            false => numbers(info.shape).iter().map(|&n| n as usize).collect(),
        };
        let strides = (!info.strides.is_null()).then(|| numbers(info.strides).to_vec());
        (text.to_str().unwrap_or(""), shape, strides)
    };
    let size = info.itemsize as usize;
    let Some(dtype) = dtype_of(text, size).filter(|d| d.size() == size) else { return Ok(None) };
    if !info.suboffsets.is_null() {
        return Err(buffer_error("buffers of pointers have no counterpart"));
    }
    let strided = strides.iter().flatten().all(|s| s % size as isize == 0);
    let strides = match strides {
        Some(strides) => strides.iter().map(|s| s / size as isize).collect(),
        None => row_major(&shape),
    };
    let sharing = if info.readonly != 0 { Sharing::ReadOnly } else { Sharing::Writable };
    let (address, device) = (info.buf as usize as u64, Tensor::runtime()?.host()?);
    Ok(Some((RawTensor { address, shape, strides, dtype, device, sharing }, strided)))
}

/// What an exporter wants to know before it lends.
#[derive(Clone, Copy)]
pub struct Wish {
    /// Whether it is to be written.
    pub writable: bool,
    /// Whether strides are understood.
    pub strided: bool,
    flags: c_int,
}

impl Wish {
    pub fn of(flags: c_int) -> Wish {
        let all = |mask: c_int| flags & mask == mask;
        Wish { writable: all(ffi::PyBUF_WRITABLE), strided: all(ffi::PyBUF_STRIDES), flags }
    }
}

/// Lent memory as the protocol describes it.
struct Owner {
    shape: Vec<isize>,
    strides: Vec<isize>,
    _exported: Exported,
}

/// Fills a structure with lent memory.
///
/// # Safety
/// `view` can be written; its `internal` goes to [`release`] once.
pub unsafe fn fill(view: *mut ffi::Py_buffer, exported: Exported, wish: Wish) -> R<()> {
    let raw = exported.raw();
    let (dtype, address) = (raw.dtype, raw.address);
    let Some(format) = format(dtype) else {
        let name = dtype::name(dtype);
        return Err(buffer_error(format!("buffers have no word for {name}\n  try: x.view or x.astype(float32)")));
    };
    let size = dtype.size() as isize;
    let has = |mask: c_int| wish.flags & mask == mask;
    let rows = contiguous(&raw.shape, &raw.strides, false);
    let columns = contiguous(&raw.shape, &raw.strides, true);
    let refused = (has(ffi::PyBUF_C_CONTIGUOUS) || !wish.strided) && !rows
        || has(ffi::PyBUF_F_CONTIGUOUS) && !columns
        || has(ffi::PyBUF_ANY_CONTIGUOUS) && !rows && !columns;
    if refused {
        return Err(buffer_error("the elements do not lie without gaps in that order\n  try: copy it first"));
    }
    let readonly = c_int::from(raw.sharing == Sharing::ReadOnly);
    let shape: Vec<isize> = raw.shape.iter().map(|&n| n as isize).collect();
    let strides = raw.strides.iter().map(|&s| s * size).collect();
    let len = shape.iter().product::<isize>() * size;
    let mut owner = Box::new(Owner { shape, strides, _exported: exported });
    let (ndim, shape, strides) = (owner.shape.len() as c_int, owner.shape.as_mut_ptr(), owner.strides.as_mut_ptr());
    // SAFETY: the caller gives a structure to write; what it points to lives in `owner` or forever.
    unsafe {
        let view = &mut *view;
        view.buf = address as usize as *mut _;
        view.len = len;
        view.itemsize = size;
        view.readonly = readonly;
        view.ndim = ndim;
        view.format = if has(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
        view.shape = if has(ffi::PyBUF_ND) { shape } else { std::ptr::null_mut() };
        view.strides = if wish.strided { strides } else { std::ptr::null_mut() };
        view.suboffsets = std::ptr::null_mut();
        view.internal = Box::into_raw(owner).cast();
    }
    Ok(())
}

/// Takes back what [`fill`] gave.
///
/// # Safety
/// `view` was filled by it, and is not used any more.
pub unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: as the caller says; null where nothing was filled in.
    unsafe {
        let owner = std::mem::replace(&mut (*view).internal, std::ptr::null_mut());
        if !owner.is_null() {
            drop(Box::from_raw(owner.cast::<Owner>()));
        }
    }
}

/// Whether elements lie without gaps, the last dimension fastest, or the first.
fn contiguous(shape: &[usize], strides: &[isize], columns: bool) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1isize;
    let mut fits = |(&n, &stride): (&usize, &isize)| {
        let fits = n == 1 || stride == expected;
        expected *= n as isize;
        fits
    };
    let dims = shape.iter().zip(strides);
    if columns { dims.into_iter().all(&mut fits) } else { dims.rev().all(&mut fits) }
}
