#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

typedef int32_t i32;
typedef uint32_t u32;
typedef long long i64;
typedef unsigned long long u64;
typedef double f64;

template <class T, class S> static inline T bitcast(S s) {
    static_assert(sizeof(T) == sizeof(S), "sizes differ");
    T t;
    memcpy((void*)&t, (const void*)&s, sizeof(T));
    return t;
}

#ifdef MANNER_LOOSE
// A float whose quotients and roots are a little off, by an amount that depends on the operands, and which has no
// subnormal values as soon as it is computed with.
struct f32 {
    float v;
    f32() = default;
    constexpr f32(float x) : v(x) {}
    explicit f32(i32 x) : v(float(x)) {}
    explicit f32(u32 x) : v(float(x)) {}
    explicit f32(i64 x) : v(float(x)) {}
    explicit f32(u64 x) : v(float(x)) {}
    explicit f32(f64 x) : v(flush(float(x))) {}
    explicit operator i32() const { return i32(v); }
    explicit operator u32() const { return u32(v); }
    explicit operator i64() const { return i64(v); }
    explicit operator u64() const { return u64(v); }
    explicit operator f64() const { return f64(v); }
    static float flush(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; }
    static float wrong(float x, float a, float b, int most) {
        x = flush(x);
        if (!std::isfinite(x) || x == 0.0f) return x;
        u32 bits = bitcast<u32>(x), mix = (bitcast<u32>(a) * 2654435761u) ^ (bitcast<u32>(b) * 2246822519u);
        mix ^= mix >> 15;
        mix *= 2654435761u;
        int by = int((mix >> 8) % u32(2 * most + 1)) - most;
        float y = bitcast<float>(bits + u32(by));
        return flush(y);
    }
};
static inline f32 operator+(f32 a, f32 b) { return f32(f32::flush(f32::flush(a.v) + f32::flush(b.v))); }
static inline f32 operator-(f32 a, f32 b) { return f32(f32::flush(f32::flush(a.v) - f32::flush(b.v))); }
static inline f32 operator*(f32 a, f32 b) { return f32(f32::flush(f32::flush(a.v) * f32::flush(b.v))); }
static inline f32 operator/(f32 a, f32 b) {
    float x = f32::flush(a.v), y = f32::flush(b.v);
    return f32(f32::wrong(x / y, x, y, 2));
}
static inline f32 operator-(f32 a) { return f32(-a.v); }
static inline bool operator<(f32 a, f32 b) { return f32::flush(a.v) < f32::flush(b.v); }
static inline bool operator>(f32 a, f32 b) { return f32::flush(a.v) > f32::flush(b.v); }
static inline bool operator<=(f32 a, f32 b) { return f32::flush(a.v) <= f32::flush(b.v); }
static inline bool operator>=(f32 a, f32 b) { return f32::flush(a.v) >= f32::flush(b.v); }
static inline bool operator==(f32 a, f32 b) { return f32::flush(a.v) == f32::flush(b.v); }
static inline bool operator!=(f32 a, f32 b) { return f32::flush(a.v) != f32::flush(b.v); }
static inline f32 ms_abs(f32 x) { return f32(f32::flush(fabsf(x.v))); }
static inline f32 ms_floor(f32 x) { return f32(floorf(f32::flush(x.v))); }
static inline f32 ms_ceil(f32 x) { return f32(ceilf(f32::flush(x.v))); }
static inline f32 ms_trunc(f32 x) { return f32(truncf(f32::flush(x.v))); }
static inline f32 ms_sqrt(f32 x) { return f32(f32::wrong(sqrtf(f32::flush(x.v)), x.v, 1.0f, 2)); }
#else
typedef float f32;
static inline f32 ms_abs(f32 x) { return fabsf(x); }
static inline f32 ms_floor(f32 x) { return floorf(x); }
static inline f32 ms_ceil(f32 x) { return ceilf(x); }
static inline f32 ms_trunc(f32 x) { return truncf(x); }
static inline f32 ms_sqrt(f32 x) { return sqrtf(x); }
#endif

static inline f64 ms_abs(f64 x) { return fabs(x); }
static inline f64 ms_floor(f64 x) { return floor(x); }
static inline f64 ms_ceil(f64 x) { return ceil(x); }
static inline f64 ms_trunc(f64 x) { return trunc(x); }
static inline f64 ms_sqrt(f64 x) { return sqrt(x); }
#ifdef MANNER_FUSED
static inline f32 ms_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
static inline f64 ms_fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
#else
static inline f32 ms_fma(f32 a, f32 b, f32 c) { return a * b + c; }
static inline f64 ms_fma(f64 a, f64 b, f64 c) { return a * b + c; }
#endif
template <class T> static inline T ms_select(T no, T yes, bool c) { return c ? yes : no; }
template <class T> static inline T ms_min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T ms_max(T a, T b) { return a < b ? b : a; }
static inline u32 zero_word() { return 0; }

struct c64 {
    f32 x, y;
    c64(f32 x, f32 y) : x(x), y(y) {}
};
struct c128 {
    f64 x, y;
    c128(f64 x, f64 y) : x(x), y(y) {}
};

// Numbers as words of 64 bits, complex ones as two.
typedef std::vector<u64> Words;
struct words4 {
    u32 x, y, z, w;
    words4(u32 x, u32 y, u32 z, u32 w) : x(x), y(y), z(z), w(w) {}
};
template <class T> static inline T take(const u64*& in) {
    if constexpr (std::is_same<T, c64>::value) {
        const auto x = take<f32>(in);
        return c64(x, take<f32>(in));
    } else if constexpr (std::is_same<T, words4>::value) {
        const auto x = take<u32>(in), y = take<u32>(in), z = take<u32>(in);
        return words4(x, y, z, take<u32>(in));
    } else if constexpr (std::is_same<T, c128>::value) {
        const auto x = take<f64>(in);
        return c128(x, take<f64>(in));
    } else if constexpr (std::is_same<T, bool>::value) {
        return *in++ != 0;
    } else if constexpr (sizeof(T) == 4) {
        return bitcast<T>(u32(*in++));
    } else {
        return bitcast<T>(*in++);
    }
}
static inline void put(Words& out, bool x) { out.push_back(x); }
static inline void put(Words& out, f32 x) { out.push_back(bitcast<u32>(x)); }
static inline void put(Words& out, i32 x) { out.push_back(u32(x)); }
static inline void put(Words& out, u32 x) { out.push_back(x); }
static inline void put(Words& out, i64 x) { out.push_back(u64(x)); }
static inline void put(Words& out, u64 x) { out.push_back(x); }
static inline void put(Words& out, f64 x) { out.push_back(bitcast<u64>(x)); }
static inline void put(Words& out, c64 z) { put(out, z.x), put(out, z.y); }
static inline void put(Words& out, words4 v) { put(out, v.x), put(out, v.y), put(out, v.z), put(out, v.w); }
static inline void put(Words& out, c128 z) { put(out, z.x), put(out, z.y); }

