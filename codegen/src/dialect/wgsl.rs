//! WGSL, as naga takes it: the common notation as it stands.
//!
//! Types that WGSL cannot store lie packed in words of 32 bits, two or four to a word. Buffers are bound whole; the same memory is declared once
//! for each type by which it is read.

use millstream_core::DType;

use super::{Draft, Language, MatrixUnits, Operand, memory_type};
use crate::notation::words;
use crate::program::Entry;
use crate::text::Text;
use crate::types::{pack, packed};

pub(super) struct Wgsl;

impl Language for Wgsl {
    fn prelude(&self) -> &'static str {
        include_str!("prelude.wgsl")
    }

    fn translate(&self, notation: &str) -> String {
        notation.into()
    }

    fn directives(&self, draft: &Draft<'_>) -> &'static str {
        if draft.uses("coop_mat") { "enable f16;\nenable wgpu_cooperative_matrix;\n" } else { "" }
    }

    fn declarations(&self, draft: &Draft<'_>) -> String {
        let mut text = buffers(draft);
        if [&text, draft.shared, &draft.library].iter().any(|t| t.contains("c128")) || draft.uses("c128") {
            text.insert_str(0, "alias c128 = vec2<f64>;\n");
        }
        text += &format!("@group(1) @binding(0) var<uniform> args: array<vec4<u32>, {}>;\n", draft.words / 4);
        if let Some(zero) = draft.zero {
            text += &format!("fn zero_word() -> u32 {{\n    return {};\n}}\n\n", self.argument(zero));
        }
        text
    }

    fn head(&self, _: &Draft<'_>, entry: &Entry, body: &str) -> String {
        let has_subgroup = words(body).iter().any(|w| w == "subgroup");
        let subgroup = if has_subgroup { ", @builtin(subgroup_id) subgroup: u32" } else { "" };
        format!(
            "@compute @workgroup_size({})\nfn {}(@builtin(local_invocation_index) thread: u32, \
             @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>{subgroup}) {{\n\
             \x20   let lane = idx(thread);\n    let group = idx(block.x + block.y * grid.x);\n    \
             let groups = idx(grid.x * grid.y);\n",
            entry.group, entry.name
        )
    }

    fn argument(&self, word: usize) -> String {
        format!("args[{}].{}", word / 4, ["x", "y", "z", "w"][word % 4])
    }

    fn has_pointers(&self) -> bool {
        false
    }

    fn has_wide_indices(&self) -> bool {
        false
    }

    fn zero_is_argument(&self) -> bool {
        true
    }

    fn matrix_units(&self) -> Option<&dyn MatrixUnits> {
        Some(self)
    }

    fn component(&self, array: &str, at: &str) -> String {
        format!("{array}[{at} >> 2u][u32({at}) & 3u]")
    }

    fn load(&self, operand: Operand, at: &str) -> String {
        let b = operand.number;
        let word = match packed(operand.dtype) {
            4 => format!("byte_of(b{b}[{at} >> 2u], {at})"),
            2 => format!("half_of(b{b}[{at} >> 1u], {at})"),
            _ => return self.element(operand, at),
        };
        unpack(operand.dtype, &word)
    }

    fn load_four(&self, text: &mut Text, operand: Operand, at: &str) -> [String; 4] {
        let Operand { number, dtype, .. } = operand;
        match packed(dtype) {
            4 => {
                let w = text.name("w", format!("b{number}[{at} >> 2u]"));
                [0, 8, 16, 24].map(|s| text.name("x", unpack(dtype, &format!("(({w} >> {s}u) & 255u)"))))
            }
            2 => {
                let w = [0, 1].map(|k| text.name("w", format!("b{number}[({at} >> 1u) + {k}]")));
                [(0, 0), (0, 16), (1, 0), (1, 16)]
                    .map(|(k, s)| text.name("x", unpack(dtype, &format!("(({} >> {s}u) & 65535u)", w[k]))))
            }
            _ if dtype.size() == 4 => {
                let v = text.name("v", format!("v{number}[{at} >> 2u]"));
                ["x", "y", "z", "w"].map(|p| format!("{v}.{p}"))
            }
            _ => ["", " + 1", " + 2", " + 3"].map(|l| text.name("x", format!("b{number}[{at}{l}]"))),
        }
    }

    fn store(&self, text: &mut Text, operand: Operand, at: &str, value: &str) {
        let (shift, mask, log) = match packed(operand.dtype) {
            4 => (format!("(u32({at}) & 3u) * 8u"), "255u", 2),
            2 => (format!("(u32({at}) & 1u) * 16u"), "65535u", 1),
            _ => return text.line(format!("{} = {value};", self.element(operand, at))),
        };
        // Other threads may write the other elements of the word: touch only these bits.
        let (b, bits) = (operand.number, pack(operand.dtype, value));
        let shift = text.name("s", shift);
        let word = text.name("w", format!("{at} >> {log}u"));
        text.line(format!("atomicAnd(&b{b}[{word}], ~({mask} << {shift}));"));
        text.line(format!("atomicOr(&b{b}[{word}], {bits} << {shift});"));
    }

    fn store_four(&self, text: &mut Text, operand: Operand, at: &str, values: &[String; 4]) {
        let Operand { number: b, dtype, .. } = operand;
        match packed(dtype) {
            4 => {
                let bits = values.each_ref().map(|v| text.name("w", pack(dtype, v)));
                let word = format!("{} | ({} << 8u) | ({} << 16u) | ({} << 24u)", bits[0], bits[1], bits[2], bits[3]);
                text.line(format!("atomicStore(&b{b}[{at} >> 2u], {word});"));
            }
            2 => {
                let bits = values.each_ref().map(|v| text.name("w", pack(dtype, v)));
                for k in 0..2 {
                    let word = format!("{} | ({} << 16u)", bits[2 * k], bits[2 * k + 1]);
                    text.line(format!("atomicStore(&b{b}[({at} >> 1u) + {k}], {word});"));
                }
            }
            _ if dtype.size() == 4 => {
                text.line(format!("v{b}[{at} >> 2u] = vec4<{}>({});", memory_type(dtype), values.join(", ")));
            }
            _ => {
                for (l, v) in values.iter().enumerate() {
                    text.line(format!("b{b}[{at} + {l}] = {v};"));
                }
            }
        }
    }
}

impl Wgsl {
    /// An element that is not packed, in memory. An entry must not name one buffer by two types, so that single elements of a buffer that
    /// the entry also moves as vec4 are components of a vector.
    fn element(&self, operand: Operand, at: &str) -> String {
        match operand.by_vector && operand.dtype.size() == 4 {
            true => self.component(&format!("v{}", operand.number), at),
            false => format!("b{}[{at}]", operand.number),
        }
    }
}

impl MatrixUnits for Wgsl {
    fn zero(&self) -> String {
        "coop_mat16x16<f32,C>()".into()
    }

    fn load(&self, role: char, from: &str, stride: usize, by_rows: bool) -> String {
        let load = if by_rows { "coopLoadT" } else { "coopLoad" };
        format!("{load}<coop_mat16x16<f16,{role}>>(&{from}, {stride}u)")
    }

    fn multiply_add(&self, a: &str, b: &str, c: &str) -> String {
        format!("coopMultiplyAdd({a}, {b}, {c})")
    }

    fn store(&self, matrix: &str, to: &str, stride: usize) -> String {
        format!("coopStoreT({matrix}, &{to}, {stride}u);")
    }
}

/// The declarations of the buffers, by every type under which the bodies name them.
fn buffers(draft: &Draft<'_>) -> String {
    let mut text = String::new();
    let mut declare = |binding: usize, name: String, kind: &str| {
        text += &format!("@group(0) @binding({binding}) var<storage, read_write> {name}: array<{kind}>;\n");
    };
    for &Operand { number, dtype, is_output, .. } in &draft.operands {
        let kind = match packed(dtype) {
            1 => memory_type(dtype),
            _ if is_output => "atomic<u32>",
            _ => "u32",
        };
        declare(number, format!("b{number}"), kind);
        // Halves as they are, alone or as vec4, where a kernel does not compute with them itself.
        for (name, kind) in [("e", "f16"), ("h", "vec4<f16>")] {
            if draft.uses(&format!(" {name}{number}[")) {
                declare(number, format!("{name}{number}"), kind);
            }
        }
        if draft.uses(&format!("v{number}[")) {
            declare(number, format!("v{number}"), &format!("vec4<{kind}>"));
        }
    }
    if draft.has_workspace {
        declare(draft.operands.len(), "work".into(), "u32");
    }
    if draft.has_note {
        declare(draft.operands.len() + usize::from(draft.has_workspace), "note".into(), "atomic<u32>");
    }
    text
}

/// A packed element from its bits in a word of 32.
fn unpack(dtype: DType, bits: &str) -> String {
    match dtype {
        DType::Bool => format!("({bits} != 0u)"),
        DType::I8 => format!("wrap_i8(bitcast<i32>({bits}))"),
        DType::I16 => format!("wrap_i16(bitcast<i32>({bits}))"),
        DType::F16 | DType::BF16 => format!("{dtype}_to_f32({bits})"),
        _ => bits.into(),
    }
}
