// Matrix units: each thread brings its registers, and takes from those of the others what the instruction says.
#define ms_matrix_instructions
struct ms_Words {
    uint32_t x[4];
};
struct ms_Rows {
    const void* row;
};
// A type that the text declares later, under a name that it can be called by here.
template <class W> static W ms_load(const void* row, bool turned) {
    if ((uintptr_t)row % 16) __builtin_trap();
    const ms_All<ms_Rows> all = ms_share(ms_Rows{row});
    const unsigned lane = ms_lane();
    uint32_t m[4];
    for (int i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (unsigned j = 0; j < 2; j++) {
            const unsigned r = turned ? (lane % 4) * 2 + j : lane / 4, c = turned ? lane / 4 : (lane % 4) * 2 + j;
            memcpy(&pair[j], (const char*)all[i * 8 + r].row + 2 * c, 2);
        }
        memcpy(&m[i], pair, 4);
    }
    return W(m[0], m[1], m[2], m[3]);
}
// The sum of a matrix unit: products are exact, the sum of eight is cut off, not rounded.
static float ms_cut(double x) {
    const float f = x;
    return fabs((double)f) > fabs(x) ? nextafterf(f, 0.0f) : f;
}
static float ms_bf16(unsigned bits) {
    const uint32_t wide = bits << 16;
    float x;
    memcpy(&x, &wide, 4);
    return x;
}
template <class V, class W> static V ms_times(W a, uint32_t b0, uint32_t b1, V c, float (*number)(unsigned)) {
    struct Mine {
        uint32_t a[4], b[2];
    };
    const ms_All<Mine> all = ms_share(Mine{{a.x, a.y, a.z, a.w}, {b0, b1}});
    const unsigned row = ms_lane() / 4, column = (ms_lane() % 4) * 2;
    float* sums[4] = {&c.x, &c.y, &c.z, &c.w};
    for (unsigned e = 0; e < 4; e++) {
        double sum = *sums[e];
        const unsigned n = column + e % 2, high = e / 2;
        for (unsigned k = 0; k < 16; k++) {
            const unsigned upper = k / 8, lane = k % 8 / 2, shift = k % 2 * 16;
            const uint32_t x = all[row * 4 + lane].a[high + 2 * upper] >> shift & 65535;
            const uint32_t y = all[n * 4 + lane].b[upper] >> shift & 65535;
            sum += (double)number(x) * number(y);
            if (k % 8 == 7) sum = ms_cut(sum);
        }
        *sums[e] = sum;
    }
    return c;
}
template <class C> static C ms_times_f64(double a, double b, C c) {
    struct Mine {
        double a, b;
    };
    const ms_All<Mine> all = ms_share(Mine{a, b});
    const unsigned row = ms_lane() / 4, column = (ms_lane() % 4) * 2;
    for (unsigned k = 0; k < 4; k++) {
        c.x = fma(all[row * 4 + k].a, all[column * 4 + k].b, c.x);
        c.y = fma(all[row * 4 + k].a, all[(column + 1) * 4 + k].b, c.y);
    }
    return c;
}
#define multiply_f64(a, b, c) ms_times_f64(a, b, c)
static uint32_t pair_f16(float low, float high) { return f32_to_f16(low) | f32_to_f16(high) << 16; }
static uint32_t ms_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static uint32_t pair_bf16(float low, float high) { return ms_to_bf16(low) | ms_to_bf16(high) << 16; }
static float fast_exp2(float x) {
    const float y = exp2f(x);
    return y < 1.17549435e-38f ? 0.0f : y;
}
#define load_matrices(row) ms_load<words4>(row, false)
#define load_matrices_turned(row) ms_load<words4>(row, true)
#define multiply_f16(a, b0, b1, c) ms_times(a, b0, b1, c, f16_to_f32)
#define multiply_bf16(a, b0, b1, c) ms_times(a, b0, b1, c, ms_bf16)
// A copy lands as late as it may: when the thread waits for it.
struct ms_Copy {
    void* to;
    const void* from;
    bool exists;
    unsigned lot;
};
static ms_Copy ms_copies[ms_most][256];
static unsigned ms_asked[ms_most], ms_lot[ms_most];
static void copy_chunk(void* to, const void* from, bool exists) {
    if (((uintptr_t)to | (uintptr_t)from) % 16 || ms_asked[ms_self] == 256) __builtin_trap();
    ms_copies[ms_self][ms_asked[ms_self]++] = {to, from, exists, ms_lot[ms_self]};
}
static void copies_asked() { ms_lot[ms_self]++; }
template <int rest> static void copies_arrived() {
    unsigned kept = 0;
    for (unsigned i = 0; i < ms_asked[ms_self]; i++) {
        const ms_Copy copy = ms_copies[ms_self][i];
        if (copy.lot + rest >= ms_lot[ms_self]) {
            ms_copies[ms_self][kept++] = copy;
        } else if (copy.exists) {
            memcpy(copy.to, copy.from, 16);
        } else {
            memset(copy.to, 0, 16);
        }
    }
    ms_asked[ms_self] = kept;
}
