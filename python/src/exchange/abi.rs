//! DLPack's structures, as its C header lays them out (version 1).

use std::ffi::{CStr, c_char, c_int, c_void};

use millstream::DType;

/// The version that is spoken here.
pub const VERSION: Version = Version { major: 1, minor: 1 };
/// The memory must not be written.
pub const READ_ONLY: u64 = 1;
/// The memory was copied for whoever takes it, and is his alone.
pub const IS_COPIED: u64 = 2;

/// The host's memory.
pub const CPU: i32 = 1;
/// Memory of an NVIDIA GPU.
pub const CUDA: i32 = 2;
/// Host memory that is pinned for NVIDIA GPUs.
pub const CUDA_HOST: i32 = 3;

pub const UNVERSIONED_NAME: &CStr = c"dltensor";
pub const VERSIONED_NAME: &CStr = c"dltensor_versioned";
pub const TABLE_NAME: &CStr = c"dlpack_exchange_api";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The kind of device.
    pub kind: i32,
    pub number: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Type {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    pub data: *mut c_void,
    pub place: Place,
    pub ndim: i32,
    pub dtype: Type,
    pub shape: *mut i64,
    /// In elements; null in old versions says row-major.
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
pub struct Unversioned {
    pub tensor: Tensor,
    pub owner: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

#[repr(C)]
pub struct Versioned {
    pub version: Version,
    pub owner: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    pub flags: u64,
    pub tensor: Tensor,
}

/// Tells an error to who called: a context, the kind, the message.
pub type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// The functions by which libraries exchange tensors without a call through Python.
#[repr(C)]
pub struct Table {
    pub version: Version,
    /// A table of an older version.
    pub older: *const Table,
    pub allocate: unsafe extern "C" fn(*const Tensor, *mut *mut Versioned, *mut c_void, SetError) -> c_int,
    pub from_object: unsafe extern "C" fn(*mut c_void, *mut *mut Versioned) -> c_int,
    pub to_object: unsafe extern "C" fn(*mut Versioned, *mut *mut c_void) -> c_int,
    /// A description that is valid only until control returns.
    pub view_object: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    pub stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int,
}

// SAFETY: a table is functions and constants.
unsafe impl Sync for Table {}

impl Type {
    pub fn of(dtype: DType) -> Type {
        let code = match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
            DType::F16 | DType::F32 | DType::F64 => 2,
            DType::BF16 => 4,
            DType::C64 | DType::C128 => 5,
            DType::Bool => 6,
        };
        Type { code, bits: 8 * dtype.size() as u8, lanes: 1 }
    }

    pub fn dtype(self) -> Option<DType> {
        DType::ALL.into_iter().find(|&d| Type::of(d) == self)
    }
}
