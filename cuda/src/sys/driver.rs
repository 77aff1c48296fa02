//! The CUDA driver (`libcuda.so.1`, `nvcuda.dll`): the functions that Millstream calls.
//!
//! Symbols are those of CUDA 11.4, which later drivers keep; what came later is optional.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use super::{Status, Wanted, library, open};

/// A device's number.
pub(crate) type Device = c_int;
/// An address of device memory, or of any memory where addresses are unified.
pub(crate) type DevicePtr = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) struct $name(pub(crate) *mut c_void);

        // SAFETY: a handle is a number until it is given to the driver, which takes it from any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// No object.
            pub(crate) const NULL: $name = $name(std::ptr::null_mut());
        })*
    };
}

handles! {
    /// A context.
    Context,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A loaded module.
    Module,
    /// A kernel of a module.
    Function,
    /// A graph as captured.
    Graph,
    /// A graph ready to run.
    GraphExec,
    /// One node of a graph.
    GraphNode,
}

/// A kernel node's parameters, in the first form that the driver has for them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelNodeParams {
    pub(crate) function: Function,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
    pub(crate) params: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
}

/// A launch with attributes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
    pub(crate) stream: Stream,
    pub(crate) attributes: *const LaunchAttribute,
    pub(crate) count: c_uint,
}

/// One attribute of a launch: its number, and a value of up to 64 bytes that begins with a number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_int,
    pub(crate) pad: c_int,
    pub(crate) value: c_int,
    pub(crate) rest: [c_int; 15],
}

/// What an update of an executable graph says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphUpdateInfo {
    pub(crate) result: c_int,
    pub(crate) error_node: GraphNode,
    pub(crate) error_from: GraphNode,
}

pub(crate) type StreamCallback = unsafe extern "C" fn(Stream, Status, *mut c_void);
pub(crate) type HostFn = unsafe extern "C" fn(*mut c_void);

library! {
    /// The driver's functions.
    pub(crate) struct Driver;
    required {
        fn init as b"cuInit\0"(c_uint) -> Status;
        fn driver_version as b"cuDriverGetVersion\0"(*mut c_int) -> Status;
        fn error_name as b"cuGetErrorName\0"(Status, *mut *const c_char) -> Status;
        fn error_string as b"cuGetErrorString\0"(Status, *mut *const c_char) -> Status;

        fn device_count as b"cuDeviceGetCount\0"(*mut c_int) -> Status;
        fn device_get as b"cuDeviceGet\0"(*mut Device, c_int) -> Status;
        fn device_name as b"cuDeviceGetName\0"(*mut c_char, c_int, Device) -> Status;
        fn device_memory as b"cuDeviceTotalMem_v2\0"(*mut usize, Device) -> Status;
        fn device_attribute as b"cuDeviceGetAttribute\0"(*mut c_int, c_int, Device) -> Status;

        fn primary_retain as b"cuDevicePrimaryCtxRetain\0"(*mut Context, Device) -> Status;
        fn primary_release as b"cuDevicePrimaryCtxRelease_v2\0"(Device) -> Status;
        fn primary_reset as b"cuDevicePrimaryCtxReset_v2\0"(Device) -> Status;
        fn ctx_get_current as b"cuCtxGetCurrent\0"(*mut Context) -> Status;
        fn ctx_set_current as b"cuCtxSetCurrent\0"(Context) -> Status;
        fn ctx_priorities as b"cuCtxGetStreamPriorityRange\0"(*mut c_int, *mut c_int) -> Status;

        fn mem_info as b"cuMemGetInfo_v2\0"(*mut usize, *mut usize) -> Status;
        fn mem_alloc as b"cuMemAlloc_v2\0"(*mut DevicePtr, usize) -> Status;
        fn mem_free as b"cuMemFree_v2\0"(DevicePtr) -> Status;
        fn mem_host_alloc as b"cuMemHostAlloc\0"(*mut *mut c_void, usize, c_uint) -> Status;
        fn mem_host_free as b"cuMemFreeHost\0"(*mut c_void) -> Status;
        fn mem_host_device_pointer as b"cuMemHostGetDevicePointer_v2\0"(*mut DevicePtr, *mut c_void, c_uint) -> Status;
        fn mem_alloc_managed as b"cuMemAllocManaged\0"(*mut DevicePtr, usize, c_uint) -> Status;
        fn pointer_attribute as b"cuPointerGetAttribute\0"(*mut c_void, c_int, DevicePtr) -> Status;
        fn memcpy as b"cuMemcpyAsync\0"(DevicePtr, DevicePtr, usize, Stream) -> Status;
        fn memcpy_up as b"cuMemcpyHtoDAsync_v2\0"(DevicePtr, *const c_void, usize, Stream) -> Status;
        fn memcpy_down as b"cuMemcpyDtoHAsync_v2\0"(*mut c_void, DevicePtr, usize, Stream) -> Status;
        fn memset8 as b"cuMemsetD8Async\0"(DevicePtr, u8, usize, Stream) -> Status;

        fn stream_create as b"cuStreamCreateWithPriority\0"(*mut Stream, c_uint, c_int) -> Status;
        fn stream_priority as b"cuStreamGetPriority\0"(Stream, *mut c_int) -> Status;
        fn stream_destroy as b"cuStreamDestroy_v2\0"(Stream) -> Status;
        fn stream_query as b"cuStreamQuery\0"(Stream) -> Status;
        fn stream_wait_event as b"cuStreamWaitEvent\0"(Stream, Event, c_uint) -> Status;
        fn stream_callback as b"cuStreamAddCallback\0"(Stream, StreamCallback, *mut c_void, c_uint) -> Status;
        fn launch_host as b"cuLaunchHostFunc\0"(Stream, HostFn, *mut c_void) -> Status;

        fn event_create as b"cuEventCreate\0"(*mut Event, c_uint) -> Status;
        fn event_destroy as b"cuEventDestroy_v2\0"(Event) -> Status;
        fn event_record as b"cuEventRecord\0"(Event, Stream) -> Status;
        fn event_query as b"cuEventQuery\0"(Event) -> Status;
        fn event_synchronize as b"cuEventSynchronize\0"(Event) -> Status;
        fn stream_synchronize as b"cuStreamSynchronize\0"(Stream) -> Status;
        fn event_elapsed as b"cuEventElapsedTime\0"(*mut f32, Event, Event) -> Status;

        fn module_load as b"cuModuleLoadDataEx\0"(*mut Module, *const c_void, c_uint, *mut c_int, *mut *mut c_void) -> Status;
        fn module_unload as b"cuModuleUnload\0"(Module) -> Status;
        fn module_function as b"cuModuleGetFunction\0"(*mut Function, Module, *const c_char) -> Status;
        fn function_attribute as b"cuFuncGetAttribute\0"(*mut c_int, c_int, Function) -> Status;
        fn occupancy as b"cuOccupancyMaxActiveBlocksPerMultiprocessor\0"(*mut c_int, Function, c_int, usize) -> Status;
        fn launch as b"cuLaunchKernel\0"(
            Function, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Stream, *mut *mut c_void, *mut *mut c_void
        ) -> Status;

        fn capture_begin as b"cuStreamBeginCapture_v2\0"(Stream, c_int) -> Status;
        fn capture_end as b"cuStreamEndCapture\0"(Stream, *mut Graph) -> Status;
        fn graph_nodes as b"cuGraphGetNodes\0"(Graph, *mut GraphNode, *mut usize) -> Status;
        fn graph_destroy as b"cuGraphDestroy\0"(Graph) -> Status;
        fn graph_instantiate as b"cuGraphInstantiateWithFlags\0"(*mut GraphExec, Graph, c_ulonglong) -> Status;
        fn graph_exec_destroy as b"cuGraphExecDestroy\0"(GraphExec) -> Status;
        fn graph_launch as b"cuGraphLaunch\0"(GraphExec, Stream) -> Status;
        fn graph_set_kernel as b"cuGraphExecKernelNodeSetParams\0"(GraphExec, GraphNode, *const KernelNodeParams) -> Status;
    }
    optional {
        fn wait_value32 as b"cuStreamWaitValue32_v2\0"(Stream, DevicePtr, u32, c_uint) -> Status;
        fn capture_info as b"cuStreamGetCaptureInfo_v2\0"(
            Stream, *mut c_int, *mut u64, *mut Graph, *mut *const GraphNode, *mut usize
        ) -> Status;
        fn launch_ex as b"cuLaunchKernelEx\0"(*const LaunchConfig, Function, *mut *mut c_void, *mut *mut c_void) -> Status;
        fn graph_update as b"cuGraphExecUpdate_v2\0"(GraphExec, Graph, *mut GraphUpdateInfo) -> Status;
    }
}

/// Flags and other numbers of the driver's header.
pub(crate) mod number {
    use std::ffi::{c_int, c_uint};

    pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
    pub(crate) const EVENT_BLOCKING_SYNC: c_uint = 1;
    pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;
    pub(crate) const HOST_PORTABLE: c_uint = 1;
    pub(crate) const HOST_DEVICE_MAP: c_uint = 2;
    pub(crate) const ATTACH_GLOBAL: c_uint = 1;
    pub(crate) const WAIT_VALUE_GEQ: c_uint = 0;
    pub(crate) const CAPTURE_RELAXED: c_int = 2;
    pub(crate) const CAPTURE_ACTIVE: c_int = 1;
    pub(crate) const LAUNCH_OVERLAPPING: c_int = 6;
    pub(crate) const POINTER_MEMORY_TYPE: c_int = 2;
    pub(crate) const POINTER_DEVICE_ORDINAL: c_int = 9;
    pub(crate) const MEMORY_HOST: c_uint = 1;
    pub(crate) const JIT_ERROR_LOG: c_int = 5;
    pub(crate) const JIT_ERROR_LOG_BYTES: c_int = 6;
    pub(crate) const FUNCTION_SHARED_BYTES: c_int = 1;
    pub(crate) const FUNCTION_LOCAL_BYTES: c_int = 3;
    pub(crate) const FUNCTION_REGISTERS: c_int = 4;
}

const LIBRARY: Wanted = Wanted {
    variable: "MILLSTREAM_LIBCUDA",
    names: if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] },
};

/// Why the driver's library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is none, or it does not load; with the loader's words.
    Library(String),
    /// It lacks this function: it is older than CUDA 11.4.
    Symbol(&'static str),
}

/// The driver, loaded at the first call.
pub(crate) fn driver() -> Result<&'static Driver, Missing> {
    static DRIVER: OnceLock<Result<Driver, Missing>> = OnceLock::new();
    let loaded = DRIVER.get_or_init(|| {
        let library = open(&LIBRARY).map_err(Missing::Library)?;
        // SAFETY: a library of this name is NVIDIA's driver.
        unsafe { Driver::bind(library) }.map_err(Missing::Symbol)
    });
    loaded.as_ref().map_err(Clone::clone)
}
