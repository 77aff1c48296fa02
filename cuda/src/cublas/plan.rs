//! The library's side of a matmul: descriptors, algorithms, the call.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use millstream_core::{DType, Error, Result};

use super::matrix::{Matmul, Matrix};
use crate::context::Context;
use crate::error::cublas_error;
use crate::stream::CudaStream;
use crate::sys::cublaslt::{self as sys, CublasLt, Heuristic, cublaslt, number};

/// The most scratch memory that an algorithm may use.
const WORKSPACE: usize = 32 << 20;

/// Most algorithms want operands that are aligned to so many bytes; some serve any that are aligned to their elements.
const ALIGNED: u32 = 16;

/// The library, whose handle is made at the first use.
#[derive(Default)]
pub(crate) struct Library {
    handle: OnceLock<Result<Arc<Handle>>>,
}

/// A handle of the library for one context.
pub(crate) struct Handle {
    library: &'static CublasLt,
    raw: sys::Handle,
    context: Arc<Context>,
}

// SAFETY: the library allows a handle to be used from several threads at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Library {
    /// Whether it may be there. Once it could not be used, it is not offered any more.
    pub(crate) fn is_there(&self) -> bool {
        match self.handle.get() {
            Some(made) => made.is_ok(),
            None => sys::is_there(),
        }
    }

    /// The handle, made now if need be. The context is current.
    pub(crate) fn handle(&self, context: &Arc<Context>) -> Result<Arc<Handle>> {
        self.handle
            .get_or_init(|| {
                let library = cublaslt().map_err(|why| {
                    Error::unsupported(format!("cuBLASLt is not there: {why}")).suggest(
                        "install the CUDA toolkit or its package libcublas, or name the file in MILLSTREAM_CUBLASLT",
                    )
                })?;
                let mut raw = std::ptr::null_mut();
                // SAFETY: the library writes a handle for the current context.
                match unsafe { (library.create)(&mut raw) } {
                    0 => Ok(Arc::new(Handle { library, raw, context: context.clone() })),
                    code => Err(cublas_error(library, code, "starting cuBLASLt")),
                }
            })
            .clone()
    }

    /// The library's name and version, where it is loaded.
    pub(crate) fn describe(&self) -> String {
        match self.handle.get() {
            // SAFETY: the function takes and changes nothing.
            Some(Ok(handle)) => format!("cuBLASLt {}", unsafe { (handle.library.version)() }),
            _ => "cuBLASLt".into(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.context.loss().is_none() && self.context.enter().is_ok() {
            // SAFETY: nobody else has the handle.
            unsafe { (self.library.destroy)(self.raw) };
        }
    }
}

/// Descriptors and algorithms of one matmul.
pub(crate) struct MatmulPlan {
    handle: Arc<Handle>,
    operation: sys::MatmulDesc,
    layouts: [sys::Layout; 3],
    /// For operands that are aligned, where there is such an algorithm, and for any.
    aligned: Option<Heuristic>,
    any: Option<Heuristic>,
    swapped: bool,
    scale: DType,
}

// SAFETY: the descriptors are not changed after `new`, and the library reads them from any thread.
unsafe impl Send for MatmulPlan {}
// SAFETY: as above.
unsafe impl Sync for MatmulPlan {}

fn data_type(dtype: DType) -> Result<c_int> {
    match dtype {
        DType::F16 => Ok(number::R_16F),
        DType::BF16 => Ok(number::R_16BF),
        DType::F32 => Ok(number::R_32F),
        DType::F64 => Ok(number::R_64F),
        other => Err(Error::internal(format!("cuBLASLt has no matmul of {other}"))),
    }
}

impl MatmulPlan {
    /// Describes the matmul and looks for algorithms. The context is current.
    pub(crate) fn new(handle: Arc<Handle>, matmul: &Matmul) -> Result<MatmulPlan> {
        let compute = if matmul.acc == DType::F64 { number::COMPUTE_64F } else { number::COMPUTE_32F };
        let mut plan = MatmulPlan {
            operation: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
            aligned: None,
            any: None,
            swapped: matmul.swapped,
            scale: matmul.acc,
            handle,
        };
        let library = plan.handle.library;
        let check = |code: i32, doing: &str| if code == 0 { Ok(()) } else { Err(cublas_error(library, code, doing)) };
        let doing = "describing a matmul";
        // SAFETY: the library writes a handle.
        check(unsafe { (library.desc_create)(&mut plan.operation, compute, data_type(matmul.acc)?) }, doing)?;
        for (attribute, matrix) in [(number::DESC_TRANSA, &matmul.a), (number::DESC_TRANSB, &matmul.b)] {
            let value = if matrix.transposed { number::OP_T } else { number::OP_N };
            // SAFETY: the attribute is a number of this size.
            let code =
                unsafe { (library.desc_set)(plan.operation, attribute, (&raw const value).cast(), size_of::<c_int>()) };
            check(code, doing)?;
        }
        let types = [matmul.dtype, matmul.dtype, matmul.out_dtype];
        for (i, matrix) in [&matmul.a, &matmul.b, &matmul.d].into_iter().enumerate() {
            plan.layouts[i] = plan.layout(matrix, types[i], matmul.batches)?;
        }
        let half = matmul.out_dtype.size() == 2;
        plan.aligned = plan.search(ALIGNED, half)?;
        plan.any = plan.search(matmul.dtype.size() as u32, half)?;
        if plan.aligned.is_none() && plan.any.is_none() {
            return Err(Error::unsupported("cuBLASLt has no algorithm for this matmul"));
        }
        Ok(plan)
    }

    fn layout(&self, matrix: &Matrix, dtype: DType, batches: usize) -> Result<sys::Layout> {
        let library = self.handle.library;
        let check =
            |code: i32| if code == 0 { Ok(()) } else { Err(cublas_error(library, code, "describing a matrix")) };
        let mut layout = std::ptr::null_mut();
        let (rows, columns, leading) = (matrix.rows as u64, matrix.columns as u64, matrix.leading as i64);
        // SAFETY: the library writes a handle.
        check(unsafe { (library.layout_create)(&mut layout, data_type(dtype)?, rows, columns, leading) })?;
        if batches > 1 {
            let count = c_int::try_from(batches)
                .map_err(|_| Error::unsupported(format!("cuBLASLt does not take {batches} matrices at once")))?;
            let stride = matrix.batch as i64;
            // SAFETY: the attributes are numbers of these sizes.
            unsafe {
                let value = (&raw const count).cast::<c_void>();
                let counted = (library.layout_set)(layout, number::LAYOUT_BATCH_COUNT, value, size_of::<c_int>());
                let value = (&raw const stride).cast::<c_void>();
                let spaced = (library.layout_set)(layout, number::LAYOUT_BATCH_STRIDE, value, size_of::<i64>());
                if counted != 0 || spaced != 0 {
                    (library.layout_destroy)(layout);
                }
                check(counted)?;
                check(spaced)?;
            }
        }
        Ok(layout)
    }

    /// The library's first choice of an algorithm for operands of this alignment; `None` if there is none.
    fn search(&self, alignment: u32, half_result: bool) -> Result<Option<Heuristic>> {
        let library = self.handle.library;
        let mut preference = std::ptr::null_mut();
        let fail = |code: i32| cublas_error(library, code, "looking for an algorithm");
        // SAFETY: the library writes a handle.
        match unsafe { (library.preference_create)(&mut preference) } {
            0 => {}
            code => return Err(fail(code)),
        }
        let set = |attribute: c_int, value: *const c_void, size: usize| {
            // SAFETY: each attribute below is a number of the size that is said.
            unsafe { (library.preference_set)(preference, attribute, value, size) }
        };
        let workspace = WORKSPACE;
        let mut worst = set(number::PREF_WORKSPACE, (&raw const workspace).cast(), size_of::<usize>());
        // Partial sums of a half result must not be rounded to the half type in between.
        let reduction = if half_result { number::REDUCTION_COMPUTE } else { number::REDUCTION_ANY };
        worst = worst.max(set(number::PREF_REDUCTION, (&raw const reduction).cast(), size_of::<u32>()));
        for attribute in number::PREF_ALIGNMENT {
            worst = worst.max(set(attribute, (&raw const alignment).cast(), size_of::<u32>()));
        }
        let mut result = std::mem::MaybeUninit::<Heuristic>::zeroed();
        let mut count: c_int = 0;
        let [a, b, d] = self.layouts;
        // SAFETY: all handles are live; the library writes at most one answer and their number.
        let code = unsafe {
            let code = (library.heuristic)(
                self.handle.raw,
                self.operation,
                a,
                b,
                d,
                d,
                preference,
                1,
                result.as_mut_ptr(),
                &mut count,
            );
            (library.preference_destroy)(preference);
            code
        };
        if worst != 0 {
            return Err(fail(worst));
        }
        match code {
            // SAFETY: zeros are a valid answer, and the library may have written one.
            0 if count > 0 => Ok(Some(unsafe { result.assume_init() }).filter(|r| r.state == 0)),
            // Not supported: another way must be taken.
            0 | 15 | 8 => Ok(None),
            code => Err(fail(code)),
        }
    }

    /// Bytes of scratch memory that a run needs, whichever algorithm it takes.
    pub(crate) fn workspace(&self) -> usize {
        [self.aligned, self.any].into_iter().flatten().map(|h| h.workspace).max().unwrap_or(0)
    }

    /// Queues the matmul. The context is current; `scratch` has [`MatmulPlan::workspace`] bytes.
    pub(crate) fn run(&self, lhs: u64, rhs: u64, out: u64, scratch: u64, stream: &CudaStream) -> Result<()> {
        let library = self.handle.library;
        let is_aligned = (lhs | rhs | out).is_multiple_of(u64::from(ALIGNED));
        let choice = if is_aligned { self.aligned.or(self.any) } else { self.any };
        let Some(choice) = choice else {
            return Err(Error::unsupported("cuBLASLt has no algorithm for operands that are not aligned to 16 bytes"));
        };
        // The result is 1 * matmul + 0 * what was there, in the accumulators' type.
        let (single, double) = ([1f32, 0f32], [1f64, 0f64]);
        let [alpha, beta]: [*const c_void; 2] = match self.scale {
            DType::F64 => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            _ => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        let (a, b) = if self.swapped { (rhs, lhs) } else { (lhs, rhs) };
        let [la, lb, ld] = self.layouts;
        // SAFETY: the addresses are those of operands that were checked against the operation; with a factor of 0 the old
        // result is not read; the algorithm is for these descriptors and this alignment.
        let code = unsafe {
            (library.matmul)(
                self.handle.raw,
                self.operation,
                alpha,
                a,
                la,
                b,
                lb,
                beta,
                out,
                ld,
                out,
                ld,
                &choice.algo,
                scratch,
                choice.workspace,
                stream.raw(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        // A context that is lost shows here as a failed execution: ask the driver for the reason.
        millstream_core::backend::BackendStream::synchronize(stream)?;
        Err(cublas_error(library, code, "multiplying matrices"))
    }
}

impl Drop for MatmulPlan {
    fn drop(&mut self) {
        let library = self.handle.library;
        // SAFETY: the descriptors are ours; the library keeps no reference to them after a call.
        unsafe {
            for layout in self.layouts {
                if !layout.is_null() {
                    (library.layout_destroy)(layout);
                }
            }
            if !self.operation.is_null() {
                (library.desc_destroy)(self.operation);
            }
        }
    }
}
