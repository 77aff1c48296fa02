// Stands for CUDA where kernels run on the host: the threads of a group are fibers that take turns, groups run one after the other.
//
// What threads say to one another is as on the GPU: barriers of the group and of warps, shuffles, and the instructions of matrix units, each a
// meeting of the 32 threads of a warp that exchange their registers exactly as the instruction's description says. Shared memory is
// filled with rubbish before each group begins. Between two barriers one thread runs after the other, from the first or from the last on: a
// barrier that is missing shows in the results. What a GPU does with time is not imitated: copies that it would do later are done at once.
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define __device__
#define __forceinline__ inline
#define __global__ __attribute__((visibility("default")))
#define __shared__ static __attribute__((section("ms_shared"), aligned(16)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_ARCH__ 900
#define ms_instructions

struct ms_index {
    unsigned x, y, z;
};
static ms_index threadIdx, blockIdx, gridDim, blockDim;

// What one launch is.
struct ms_Launch {
    unsigned grid[3], threads;
    void* const* addresses;
    const void* words;
};

struct ms_Barrier {
    unsigned arrived, turn;
};
struct ms_Fiber {
    ucontext_t start;
    jmp_buf at;
    bool begun, done;
};
static const unsigned ms_most = 1024, ms_warp = 32;
static const size_t ms_stack = 256 << 10;
static ms_Fiber* ms_fibers;
static jmp_buf ms_scheduler;
static unsigned ms_self, ms_threads;
static bool ms_progress;
static ms_Barrier ms_group, ms_warps[ms_most / ms_warp];
static void (*ms_body)(const ms_Launch*);
static const ms_Launch* ms_launch;

// Lets the others run.
__attribute__((noinline)) static void ms_yield() {
    if (!_setjmp(ms_fibers[ms_self].at)) _longjmp(ms_scheduler, 1);
}
static void ms_wait(ms_Barrier& b, unsigned expected) {
    const unsigned turn = b.turn;
    if (++b.arrived == expected) {
        b.arrived = 0;
        b.turn++;
        ms_progress = true;
    }
    while (b.turn == turn) ms_yield();
}
static unsigned ms_lane() { return ms_self % ms_warp; }
static void __syncwarp() {
    const unsigned first = ms_self - ms_lane(), rest = ms_threads - first;
    ms_wait(ms_warps[ms_self / ms_warp], rest < ms_warp ? rest : ms_warp);
}
static void __syncthreads() { ms_wait(ms_group, ms_threads); }

// What each thread of the warp brought, once all have.
template <class T> struct ms_All {
    const char (*slots)[64];
    T operator[](unsigned lane) const {
        T value;
        memcpy(&value, slots[lane % ms_warp], sizeof(T));
        return value;
    }
};
template <class T> static ms_All<T> ms_share(T mine) {
    static char slots[ms_most / ms_warp][2][ms_warp][64];
    static bool turns[ms_most];
    static_assert(sizeof(T) <= 64, "too much to share at once");
    auto& own = slots[ms_self / ms_warp][turns[ms_self] ^= true];
    memcpy(own[ms_lane()], &mine, sizeof(T));
    __syncwarp();
    return ms_All<T>{own};
}
template <class T> static T __shfl_xor_sync(unsigned, T value, int mask) { return ms_share(value)[ms_lane() ^ mask]; }
template <class T> static T __shfl_sync(unsigned, T value, int lane) { return ms_share(value)[lane]; }

// One thread runs at a time, and only waits give way to another.
static unsigned atomicExch(unsigned* p, unsigned x) {
    const unsigned before = *p;
    *p = x;
    return before;
}
static unsigned __umulhi(unsigned a, unsigned b) { return (uint64_t(a) * b) >> 32; }
static void wait_for_last() {}
static void release() {}
static float f16_to_f32(unsigned bits) {
    const uint16_t low = bits;
    _Float16 h;
    memcpy(&h, &low, 2);
    return h;
}
static unsigned f32_to_f16(float x) {
    const _Float16 h = x;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
}
static float reciprocal(float x) {
    const float tiny = 1.17549435e-38f, r = fabsf(x) < tiny ? copysignf(INFINITY, x) : 1.0f / x;
    return fabsf(r) < tiny ? copysignf(0.0f, r) : r;
}
//- matrix units

// Calls a kernel with addresses for its pointers and the words for its last parameter.
template <class P> struct ms_Argument {
    static P get(const ms_Launch* l, size_t) { return *(const P*)l->words; }
};
template <class T> struct ms_Argument<T*> {
    static T* get(const ms_Launch* l, size_t i) { return (T*)l->addresses[i]; }
};
template <size_t... I> struct ms_Numbers {};
template <size_t N, size_t... I> struct ms_Count : ms_Count<N - 1, N - 1, I...> {};
template <size_t... I> struct ms_Count<0, I...> {
    typedef ms_Numbers<I...> type;
};
template <class... P, size_t... I>
static void ms_apply(void (*kernel)(P...), const ms_Launch* l, ms_Numbers<I...>) {
    kernel(ms_Argument<P>::get(l, I)...);
}
template <class... P> static void ms_call(void (*kernel)(P...), const ms_Launch* l) {
    ms_apply(kernel, l, typename ms_Count<sizeof...(P)>::type());
}

extern char __start_ms_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_ms_shared[] __attribute__((weak, visibility("hidden")));

static void ms_thread() {
    for (;;) {
        ms_body(ms_launch);
        ms_fibers[ms_self].done = true;
        ms_yield();
    }
}
// Runs one group; false if its threads wait for one another.
static bool ms_run_group(bool backwards) {
    static unsigned left, i;
    for (left = ms_threads; left;) {
        ms_progress = false;
        for (i = 0; i < ms_threads; i++) {
            ms_self = backwards ? ms_threads - 1 - i : i;
            ms_Fiber& fiber = ms_fibers[ms_self];
            if (fiber.done) continue;
            threadIdx.x = ms_self;
            if (!_setjmp(ms_scheduler)) {
                if (fiber.begun) _longjmp(fiber.at, 1);
                fiber.begun = true;
                setcontext(&fiber.start);
            }
            if (ms_fibers[ms_self].done) left--, ms_progress = true;
        }
        if (!ms_progress) return false;
    }
    return true;
}
// Runs a launch: 0, or 1 if threads wait for one another.
static int ms_run(void (*body)(const ms_Launch*), const ms_Launch* launch) {
    ms_body = body, ms_launch = launch, ms_threads = launch->threads;
    gridDim = {launch->grid[0], launch->grid[1], launch->grid[2]}, blockDim = {ms_threads, 1, 1};
    const size_t bytes = ms_threads * ms_stack, table = ms_threads * sizeof(ms_Fiber);
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* stacks = (char*)mmap(0, bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
    ms_fibers = (ms_Fiber*)mmap(0, table, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (stacks == MAP_FAILED || ms_fibers == MAP_FAILED) return 2;
    for (unsigned i = 0; i < ms_threads; i++) {
        ucontext_t& start = ms_fibers[i].start;
        getcontext(&start);
        start.uc_stack.ss_sp = stacks + i * ms_stack, start.uc_stack.ss_size = ms_stack;
        makecontext(&start, ms_thread, 0);
    }
    memset(&ms_group, 0, sizeof ms_group), memset(ms_warps, 0, sizeof ms_warps);
    bool fine = true;
    unsigned char rubbish = 0x91;
    for (blockIdx.y = 0; fine && blockIdx.y < gridDim.y; blockIdx.y++)
        for (blockIdx.x = 0; fine && blockIdx.x < gridDim.x; blockIdx.x++) {
            if (__start_ms_shared) memset(__start_ms_shared, rubbish++, __stop_ms_shared - __start_ms_shared);
            for (unsigned i = 0; i < ms_threads; i++) ms_fibers[i].done = false;
            fine = ms_run_group(blockIdx.x & 1);
        }
    munmap(stacks, bytes), munmap(ms_fibers, table);
    return fine ? 0 : 1;
}
