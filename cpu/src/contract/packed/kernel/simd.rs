//! The one micro-kernel body, as a macro over an instruction set's vector type and operations.

/// Defines `kernel::<ROWS, VECTORS, READING>`, `dots` and `scaled` for matmuls with a vector, and the table `$table` of their instances.
///
/// A macro and not a trait: a function with a target feature cannot be a generic function's inlined callee without that
/// feature, and everything here must be inlined into one loop.
macro_rules! simd_kernels {
    (
        table $table:ident, element $t:ty, vector $v:ty, lanes $lanes:literal, feature $feature:literal,
        rows $mr:literal [$($row:literal)*], vectors $nv:literal [$($vec:literal)*],
        zero $zero:expr, splat $splat:expr, load $load:expr, load_masked $load_masked:expr, store $store:expr,
        store_masked $store_masked:expr, fma $fma:expr, add $add:expr $(,)?
    ) => {
        simd_kernels! {
            @kernel heads false, element $t, vector $v, lanes $lanes, feature $feature, rows $mr, vectors $nv,
            zero $zero, splat $splat, load $load, load_masked $load_masked, store $store, store_masked $store_masked,
            fma $fma, add $add
        }
        /// # Safety
        /// The contract of [`Lines`] for R lines and of [`DotsKernel`], and the feature must be present.
        ///
        /// [`DotsKernel`]: super::super::DotsKernel
        #[target_feature(enable = $feature)]
        unsafe fn dots<const R: usize>(m: &Lines<$t>, x: *const $t, out: *mut $t) {
            const L: usize = $lanes;
            // Eight lines keep the adders busy by themselves.
            let chains = if R < 8 { 2 } else { 1 };
            let mut acc = [[$zero; 2]; R];
            // SAFETY: every access below is one that the contract allows.
            unsafe {
                let mut j = 0;
                while j + chains * L <= m.n {
                    for c in 0..chains {
                        let at = j + c * L;
                        let xs = $load(x.add(at));
                        for i in 0..R {
                            let line = m.first.offset(i as isize * m.line).add(at);
                            if R >= 8 {
                                crate::prefetch::prefetch::<false>(line.cast::<u8>().wrapping_offset(m.ahead));
                            }
                            acc[i][c] = $fma($load(line), xs, acc[i][c]);
                        }
                    }
                    j += chains * L;
                }
                while j < m.n {
                    let n = L.min(m.n - j);
                    let xs = $load_masked(x.add(j), n);
                    for i in 0..R {
                        let line = m.first.offset(i as isize * m.line).add(j);
                        acc[i][0] = $fma($load_masked(line, n), xs, acc[i][0]);
                    }
                    j += n;
                }
                for i in 0..R {
                    let mut lanes = [0 as $t; L];
                    $store(lanes.as_mut_ptr(), $add(acc[i][0], acc[i][1]));
                    let mut width = L / 2;
                    while width > 0 {
                        for l in 0..width {
                            lanes[l] = $crate::contract::packed::Element::add(lanes[l], lanes[l + width]);
                        }
                        width /= 2;
                    }
                    *out.add(i) = lanes[0];
                }
            }
        }

        /// # Safety
        /// The contract of [`Lines`] for R lines and of [`ScaledKernel`], and the feature must be present.
        ///
        /// [`ScaledKernel`]: super::super::ScaledKernel
        #[target_feature(enable = $feature)]
        unsafe fn scaled<const R: usize>(m: &Lines<$t>, x: *const $t, out: *mut $t) {
            const L: usize = $lanes;
            // SAFETY: every access below is one that the contract allows.
            unsafe {
                let mut scale = [$zero; R];
                for i in 0..R {
                    scale[i] = $splat(x.add(i));
                }
                let mut j = 0;
                while j + L <= m.n {
                    // Two chains, so that the additions overlap.
                    let mut acc = [$load(out.add(j)), $zero];
                    for i in 0..R {
                        let line = m.first.offset(i as isize * m.line).add(j);
                        if R >= 8 {
                            crate::prefetch::prefetch::<false>(line.cast::<u8>().wrapping_offset(m.ahead));
                        }
                        acc[i % 2] = $fma($load(line), scale[i], acc[i % 2]);
                    }
                    $store(out.add(j), $add(acc[0], acc[1]));
                    j += L;
                }
                if j < m.n {
                    let n = m.n - j;
                    let mut acc = [$load_masked(out.add(j), n), $zero];
                    for i in 0..R {
                        let line = m.first.offset(i as isize * m.line).add(j);
                        acc[i % 2] = $fma($load_masked(line, n), scale[i], acc[i % 2]);
                    }
                    $store_masked(out.add(j), n, $add(acc[0], acc[1]));
                }
            }
        }

        simd_kernels!(@table $table, $t, $lanes, $mr, $nv, [$($row)*], [$($vec)*]);
    };
    // Kernels for packed operands alone, whose panels hold several narrower numbers as one element; with heads or without.
    (
        packed $table:ident, heads $heads:literal, unit $unit:expr,
        element $t:ty, vector $v:ty, lanes $lanes:literal, feature $feature:literal,
        rows $mr:literal [$($row:literal)*], vectors $nv:literal [$($vec:literal)*],
        zero $zero:expr, splat $splat:expr, load $load:expr, load_masked $load_masked:expr, store $store:expr,
        store_masked $store_masked:expr, fma $fma:expr, add $add:expr $(,)?
    ) => {
        simd_kernels! {
            @kernel heads $heads, element $t, vector $v, lanes $lanes, feature $feature, rows $mr, vectors $nv,
            zero $zero, splat $splat, load $load, load_masked $load_masked, store $store, store_masked $store_masked,
            fma $fma, add $add
        }
        simd_kernels!(@packed $table, $heads, $unit, $t, $lanes, $mr, $nv, [$($row)*], [$($vec)*]);
    };
    (
        @kernel heads $heads:literal, element $t:ty, vector $v:ty, lanes $lanes:literal, feature $feature:literal,
        rows $mr:literal, vectors $nv:literal,
        zero $zero:expr, splat $splat:expr, load $load:expr, load_masked $load_masked:expr, store $store:expr,
        store_masked $store_masked:expr, fma $fma:expr, add $add:expr
    ) => {
        /// # Safety
        /// The contract of [`MicroTile`], and the feature must be present.
        #[target_feature(enable = $feature)]
        unsafe fn kernel<const M: usize, const V: usize, const READING: u8>(t: &MicroTile<$t>) {
            const PACKED: u8 = Reading::Packed as u8;
            const MASKED: u8 = Reading::Masked as u8;
            let (ar, ak, bk) = match READING {
                PACKED => (1, $mr, $lanes * $nv),
                _ => (t.a_row, t.a_k, t.b_k),
            };
            // SAFETY: every access below is one that the contract of `MicroTile` allows for M rows and V vectors.
            unsafe {
                let (mut a, mut b) = (t.a, t.b);
                // Few rows that are apart have an address for each three of them. By itself the compiler goes from each to the next,
                // a chain of additions that takes as long as the multiplications.
                let by_threes = READING != PACKED && M <= 6;
                let mut threes = [t.a; 2];
                if by_threes && M > 3 {
                    threes[1] = $crate::contract::packed::kernel::opaque(t.a.wrapping_offset(3 * ar));
                }
                macro_rules! fetch_row {
                    ($row:expr) => {
                        let row = t.then.wrapping_offset($row as isize * t.c_row);
                        crate::prefetch::prefetch::<true>(row.cast::<u8>());
                        crate::prefetch::prefetch::<true>(row.wrapping_add(V * $lanes - 1).cast::<u8>());
                    };
                }
                let (mut acc, mut k) = ([[$zero; V]; M], t.k);
                if $heads && k > 0 {
                    for i in 0..M {
                        let x = $splat(a.wrapping_offset(i as isize * ar));
                        for v in 0..V {
                            acc[i][v] = $add(x, $load(b.add(v * $lanes)));
                        }
                    }
                    (a, b, k) = (a.wrapping_offset(ak), b.wrapping_offset(bk), k - 1);
                }
                // What is needed later is prefetched spread over the loop: a core has few line fill buffers.
                let unrolled = if READING == PACKED { k / 4 } else { 0 };
                let (mut next, mut lines) = (t.next, t.lines);
                let (mut fetched, each) = (0, lines.div_ceil(unrolled.max(1)));
                macro_rules! step {
                    () => {
                        let mut bv = [$zero; V];
                        for v in 0..V {
                            bv[v] = if READING == MASKED && v + 1 == V {
                                $load_masked(b.add(v * $lanes), t.tail)
                            } else {
                                $load(b.add(v * $lanes))
                            };
                        }
                        for i in 0..M {
                            let x = if by_threes {
                                $splat(threes[i / 3].wrapping_offset((i % 3) as isize * ar))
                            } else {
                                $splat(a.wrapping_offset(i as isize * ar))
                            };
                            for v in 0..V {
                                acc[i][v] = $fma(x, bv[v], acc[i][v]);
                            }
                        }
                        a = a.wrapping_offset(ak);
                        threes = [threes[0].wrapping_offset(ak), threes[1].wrapping_offset(ak)];
                        b = b.wrapping_offset(bk);
                    };
                }
                // Kernels for unpacked operands are many, so they are kept short.
                for _ in 0..unrolled {
                    if READING == PACKED {
                        simd_kernels!(@panel a, $t, $mr);
                        if fetched < M {
                            fetch_row!(fetched);
                            fetched += 1;
                        }
                        if lines > 0 {
                            let some = each.min(lines);
                            for line in 0..some {
                                crate::prefetch::prefetch::<false>(next.cast::<u8>().wrapping_add(64 * line));
                            }
                            next = next.wrapping_add(64 * some);
                            lines -= some;
                        }
                    }
                    step!();
                    step!();
                    step!();
                    step!();
                }
                for _ in 0..k - 4 * unrolled {
                    if fetched < M {
                        fetch_row!(fetched);
                        fetched += 1;
                    }
                    if READING != PACKED && lines > 0 {
                        crate::prefetch::prefetch::<false>(next.cast::<u8>());
                        next = next.wrapping_add(64);
                        lines -= 1;
                    }
                    step!();
                }
                if t.tail == $lanes {
                    simd_kernels!(@store t, acc, M, V, $lanes, $load, $store, $add);
                } else {
                    simd_kernels!(@store t, acc, M, (V - 1), $lanes, $load, $store, $add);
                    for i in 0..M {
                        let p = t.c.offset(i as isize * t.c_row).add((V - 1) * $lanes);
                        let sum = if t.add { $add($load_masked(p, t.tail), acc[i][V - 1]) } else { acc[i][V - 1] };
                        $store_masked(p, t.tail, sum);
                    }
                }
            }
        }
    };
    // Panels of A stream through from L2, and the processor's own prefetcher stops at page ends.
    (@panel $a:ident, $t:ty, $mr:literal) => {
        for line in 0..(4 * $mr * size_of::<$t>()).div_ceil(64) {
            crate::prefetch::prefetch::<true>($a.cast::<u8>().wrapping_add(1024 + 64 * line));
        }
    };
    // Writes the accumulators, or adds them to what is there. An arm and not a function, which might not be inlined.
    (@store $t:ident, $acc:ident, $m:ident, $v:expr, $lanes:literal, $load:expr, $store:expr, $add:expr) => {
        if $t.add {
            for i in 0..$m {
                for v in 0..$v {
                    let p = $t.c.offset(i as isize * $t.c_row).add(v * $lanes);
                    $store(p, $add($load(p), $acc[i][v]));
                }
            }
        } else {
            for i in 0..$m {
                for v in 0..$v {
                    $store($t.c.offset(i as isize * $t.c_row).add(v * $lanes), $acc[i][v]);
                }
            }
        }
    };
    (
        @packed $table:ident, $heads:literal, $unit:expr, $t:ty, $lanes:literal, $mr:literal, $nv:literal, $rows:tt,
        [$($vec:literal)*]
    ) => {
        /// The kernels of this instruction set for several numbers at a time.
        pub(in crate::contract::packed) static $table: Kernels<$t> = Kernels {
            mr: $mr,
            lanes: $lanes,
            vectors: $nv,
            strided: false,
            unit: $unit,
            heads: $heads,
            state: None,
            vector: None,
            table: &[&[$(simd_kernels!(@rows $vec, 0, $rows)),*]],
        };
    };
    (@table $table:ident, $t:ty, $lanes:literal, $mr:literal, $nv:literal, $rows:tt, [$($vec:literal)*]) => {
        /// The kernels of this instruction set.
        pub(in crate::contract::packed) static $table: Kernels<$t> = Kernels {
            mr: $mr,
            lanes: $lanes,
            vectors: $nv,
            strided: true,
            unit: 8,
            heads: false,
            state: None,
            vector: Some($crate::contract::packed::kernel::VectorKernels {
                dots: [dots::<8>, dots::<4>, dots::<1>],
                scaled: [scaled::<8>, scaled::<4>, scaled::<1>],
            }),
            table: &[
                &[$(simd_kernels!(@rows $vec, 0, $rows)),*],
                &[$(simd_kernels!(@rows $vec, 1, $rows)),*],
                &[$(simd_kernels!(@rows $vec, 2, $rows)),*],
            ],
        };
    };
    (@rows $vec:literal, $reading:literal, [$($row:literal)*]) => {
        &[$(kernel::<$row, $vec, $reading>),*]
    };
}
