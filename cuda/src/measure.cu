// Kernels that only measure: how fast memory, caches and arithmetic are. Each takes its addresses, then words.

struct Words { unsigned int w[4]; };

// to[i] = from[i], 16 bytes at a time; w[0], w[1]: the number of these.
extern "C" __global__ void __launch_bounds__(512) ms_copy(float4* to, const float4* from, const Words args) {
    const unsigned long long count = args.w[0] | (unsigned long long)args.w[1] << 32;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = from[i];
}

// Reads `from` w[2] times; w[0], w[1]: the number of 16-byte pieces. The sum goes where nobody expects it to be needed.
extern "C" __global__ void __launch_bounds__(512) ms_read(float4* to, const float4* from, const Words args) {
    const unsigned long long count = args.w[0] | (unsigned long long)args.w[1] << 32;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    float4 a = make_float4(0, 0, 0, 0), b = a;
    for (unsigned int round = 0; round < args.w[2]; ++round) {
        unsigned long long i = first;
        for (; i + stride < count; i += 2 * stride) {
            // Past the L1 cache, so that every round comes from behind it.
            const float4 x = __ldcg(from + i), y = __ldcg(from + i + stride);
            a.x += x.x; a.y += x.y; a.z += x.z; a.w += x.w;
            b.x += y.x; b.y += y.y; b.z += y.z; b.w += y.w;
        }
        if (i < count) a.x += __ldcg(from + i).x;
    }
    const float sum = a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
    if (sum == 1.2345678e30f) to[0] = a;
}

template <class T> __device__ __forceinline__ void fma_chains(T* out, const Words args) {
    // Enough independent chains for any scheduler; the factors come from outside, so that nothing is computed ahead.
    const T x = T(1) + T(args.w[1]) * T(1e-9), y = T(threadIdx.x) * T(1e-9);
    T c[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) c[i] = T(i) + y;
    for (unsigned int step = 0; step < args.w[0]; ++step) {
#pragma unroll
        for (int i = 0; i < 8; ++i) c[i] = c[i] * x + y;
    }
    T sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += c[i];
    if (sum == T(1.2345678e30)) out[0] = sum;
}

// w[0] steps of 8 multiply-adds in every thread.
extern "C" __global__ void __launch_bounds__(512) ms_fma32(float* out, const Words args) { fma_chains<float>(out, args); }
extern "C" __global__ void __launch_bounds__(512) ms_fma64(double* out, const Words args) { fma_chains<double>(out, args); }

// w[0] steps of 8 products in every warp, 16 by 16 times 16 by 8 each, of bf16 or f16.
template <bool brain> __device__ __forceinline__ void products(float* out, const Words args) {
#if __CUDA_ARCH__ >= 800
    const unsigned int a = 0x3c003c00u + threadIdx.x, b = 0x3c003c00u + args.w[1];
    float c[8][4] = {};
    for (unsigned int step = 0; step < args.w[0]; ++step) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (brain)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
                             : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : "r"(a), "r"(b));
            else
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"
                             : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : "r"(a), "r"(b));
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
    if (sum == 1.2345678e30f) out[0] = sum;
#endif
}
// The same of f64: 8 by 4 times 4 by 8.
extern "C" __global__ void __launch_bounds__(512) ms_product_f64(double* out, const Words args) {
#if __CUDA_ARCH__ >= 800
    const double a = 1.0 + threadIdx.x * 1e-9, b = 1.0 + args.w[1];
    double c[8][2] = {};
    for (unsigned int step = 0; step < args.w[0]; ++step) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(c[i][0]), "+d"(c[i][1]) : "d"(a), "d"(b));
    }
    double sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += c[i][0] + c[i][1];
    if (sum == 1.2345678e30) out[0] = sum;
#endif
}
extern "C" __global__ void __launch_bounds__(512) ms_product_bf16(float* out, const Words args) { products<true>(out, args); }
extern "C" __global__ void __launch_bounds__(512) ms_product_f16(float* out, const Words args) { products<false>(out, args); }

// Waits for w[0] thousand clocks.
extern "C" __global__ void ms_spin(const Words args) {
    const long long start = clock64(), length = 1000ll * args.w[0];
    while (clock64() - start < length) {}
}

// Writes where w[0], w[1] say, for tests of what happens when a kernel writes where it must not.
extern "C" __global__ void ms_poke(const Words args) {
    *(volatile int*)(args.w[0] | (unsigned long long)args.w[1] << 32) = 1;
}

extern "C" __global__ void ms_nothing(const Words args) {}
