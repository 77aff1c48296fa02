//! CUDA C++, as NVRTC takes it.

use super::{Draft, Language, memory_type};
use crate::notation::{Spelling, translate};
use crate::program::Entry;

pub(super) struct Cuda;

const SPELLING: Spelling = Spelling {
    function: "__device__ __forceinline__ ",
    shared: "__shared__ ",
    constant: "constexpr ",
    builtins: &["abs", "floor", "ceil", "trunc", "sqrt", "fma", "min", "max", "select"],
    suffixes: &[("lf", ""), ("li", "ll"), ("lu", "ull")],
};

impl Language for Cuda {
    fn prelude(&self) -> &'static str {
        include_str!("prelude.cu")
    }

    fn translate(&self, notation: &str) -> String {
        translate(notation, &SPELLING)
    }

    fn declarations(&self, draft: &Draft<'_>) -> String {
        let index = if draft.wide { "i64" } else { "i32" };
        let units = ["load_matrices", "copy_chunk", "fast_exp2", "multiply_f64"].iter().any(|name| draft.uses(name));
        let matrices = if units { include_str!("matrix.cu") } else { "" };
        let atomics = if draft.has_note {
            "ms_device u32 atomicExchange(u32* p, u32 x) { return atomicExch(p, x); }\n\
             ms_device void atomicStore(u32* p, u32 x) { *p = x; }\n"
        } else {
            ""
        };
        format!("typedef {index} idx;\nstruct Args {{ u32 w[{}]; }};\n{atomics}\n{matrices}", draft.words)
    }

    fn head(&self, draft: &Draft<'_>, entry: &Entry, _: &str) -> String {
        // Groups of the next kernel are placed when it is released. Where few groups have much to do, they would go to units that
        // happen to be free then, several to one: such kernels release the next one late.
        let begin = if entry.releases { "wait_for_last" } else { "follow" };
        let mut parameters = Vec::new();
        let mut vectors = String::new();
        for operand in &draft.operands {
            let (kind, number) = (memory_type(operand.dtype), operand.number);
            // Inputs must not be `__restrict__`: they would be read by loads for which nothing else may ever write the memory,
            // while the kernel before this one still does until `follow` returns.
            let (constant, alone) = if operand.is_output { ("", "__restrict__ ") } else { ("const ", "") };
            parameters.push(format!("{constant}{kind}* {alone}b{number}"));
            vectors += &format!("    auto const v{number} = ({constant}vec4<{kind}>*)b{number};\n");
        }
        if draft.has_workspace {
            parameters.push("u32* __restrict__ work".into());
        }
        if draft.has_note {
            parameters.push("u32* __restrict__ note".into());
        }
        parameters.push("const __grid_constant__ Args args".into());
        format!(
            "extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n{vectors}    const idx lane = threadIdx.x;\n    \
             const idx group = blockIdx.x + idx(blockIdx.y) * gridDim.x;\n    const idx groups = idx(gridDim.x) * gridDim.y;\n    \
             {begin}();\n",
            entry.group,
            entry.name,
            parameters.join(", ")
        )
    }

    fn argument(&self, word: usize) -> String {
        format!("args.w[{word}]")
    }

    fn has_pointers(&self) -> bool {
        true
    }

    fn has_wide_indices(&self) -> bool {
        true
    }

    fn zero_is_argument(&self) -> bool {
        false
    }

    fn has_fragments(&self) -> bool {
        true
    }

    fn half_barrier(&self) -> Option<&'static str> {
        Some("halfBarrier(half);")
    }

    fn release(&self) -> Option<&'static str> {
        Some("release();")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_becomes_cuda() {
        let text = "fn f(a: f32, n: u32) -> f32 {\n    var x = a * 2.0f;\n    let y: f32 = 1.5lf;\n    for (var i = 0u; i < n; i += 1u) {\n\
                    \x20       x = fma(x, x, 1e-5f);\n    }\n    return select(x, 0.0f, n == 0x1fu);\n}\n";
        let got = Cuda.translate(text);
        assert!(got.starts_with("__device__ __forceinline__ f32 f(f32 a, u32 n) {"), "{got}");
        assert!(got.contains("auto x = a * 2.0f;"), "{got}");
        assert!(got.contains("for (auto i = 0u; i < n; i += 1u) {"), "{got}");
        assert!(got.contains("x = ms_fma(x, x, 1e-5f);"), "{got}");
        assert!(got.contains("ms_select(x, 0.0f, n == 0x1fu)"), "{got}");
    }

    #[test]
    fn arrays_and_shared_memory_become_cuda() {
        assert_eq!(Cuda.translate("var<workgroup> t: array<f32, 64>;"), "__shared__ f32 t[64];");
        assert_eq!(Cuda.translate("var a: array<vec4<f32>, 8>;"), "vec4<f32> a[8];");
        assert_eq!(Cuda.translate("var x: i64 = -5li;"), "i64 x = -5ll;");
    }
}
