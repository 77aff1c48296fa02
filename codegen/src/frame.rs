//! What surrounds the body of every kernel: operands, arguments, entries.
//!
//! A [`Frame`] knows the operation's operands and gathers the numbers that the kernel needs at run time (sizes, strides,
//! offsets, scalars) as words of 32 bits. The text names them; [`Word`] says where each comes from at a launch.

use std::ops::Range;

use millstream_core::{Access, DType, Op};

use crate::notation::{needed, translate, words};
use crate::program::Entry;
use crate::target::{Dialect, Target};
use crate::text::Text;
use crate::types::{from_words, packed};

/// Where an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The size of a dimension.
    Size(usize),
    /// The stride of an operand along a dimension.
    Stride(usize, usize),
    /// The position of an operand's element of index 0.
    Base(usize),
    /// The share of a dimension in the coordinate of an operand's guard.
    Coefficient(usize, usize, usize),
    /// The coordinate of an operand's guard at index 0.
    GuardOffset(usize, usize),
    /// The limit of an operand's guard.
    GuardLimit(usize, usize),
    /// The first position that a guarded operand owns.
    Low(usize),
    /// The first position after those.
    High(usize),
    /// A word of an operand's fill value.
    Fill(usize, usize),
    /// A word of a launch parameter.
    Param(usize, usize),
    /// A number of the kernel's own, given when it is prepared.
    Number(usize),
    /// The first word of the scratch memory.
    Work,
    /// Zero, which a compiler cannot know to be zero.
    Zero,
}

impl Word {
    fn name(self) -> String {
        match self {
            Word::Size(d) => format!("size{d}"),
            Word::Stride(o, d) => format!("stride{o}_{d}"),
            Word::Base(o) => format!("base{o}"),
            Word::Coefficient(o, g, d) => format!("share{o}_{g}_{d}"),
            Word::GuardOffset(o, g) => format!("guard{o}_{g}"),
            Word::GuardLimit(o, g) => format!("limit{o}_{g}"),
            Word::Low(o) => format!("low{o}"),
            Word::High(o) => format!("high{o}"),
            Word::Fill(o, k) => format!("fill{o}_{k}"),
            Word::Param(n, k) => format!("param{n}_{k}"),
            Word::Number(n) => format!("number{n}"),
            Word::Work => "work_base".into(),
            Word::Zero => "zero".into(),
        }
    }

    /// Whether it is an index: 64 bits wide in kernels that need it.
    fn is_index(self) -> bool {
        !matches!(self, Word::Fill(..) | Word::Param(..) | Word::Zero)
    }
}

/// Operands, arguments and the language of one kernel.
pub(crate) struct Frame<'a> {
    pub(crate) op: &'a Op,
    pub(crate) target: &'a Target,
    /// Whether indices have 64 bits.
    pub(crate) wide: bool,
    words: Vec<Word>,
    entries: Vec<Entry>,
    /// Declarations outside functions, in the common notation.
    shared: String,
    bodies: Vec<(Entry, String)>,
    pub(crate) has_workspace: bool,
    /// Whether the entry being written moves four elements at once.
    pub(crate) fours: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(op: &'a Op, target: &'a Target, wide: bool) -> Frame<'a> {
        Frame {
            op,
            target,
            wide,
            words: Vec::new(),
            entries: Vec::new(),
            shared: String::new(),
            bodies: Vec::new(),
            has_workspace: false,
            fours: false,
        }
    }

    pub(crate) fn access(&self, operand: usize) -> &'a Access {
        match operand.checked_sub(self.op.inputs.len()) {
            None => &self.op.inputs[operand],
            Some(output) => &self.op.outputs[output],
        }
    }

    /// The number of an output among the operands.
    pub(crate) fn output(&self, output: usize) -> usize {
        self.op.inputs.len() + output
    }

    pub(crate) fn operands(&self) -> usize {
        self.op.inputs.len() + self.op.outputs.len()
    }

    fn is_output(&self, operand: usize) -> bool {
        operand >= self.op.inputs.len()
    }

    /// The argument's name. Entries that use it read it at their beginning.
    pub(crate) fn arg(&mut self, word: Word) -> String {
        if !self.words.contains(&word) {
            self.words.push(word);
        }
        word.name()
    }

    /// A word of the arguments.
    fn raw(&self, i: usize) -> String {
        match self.target.dialect {
            Dialect::Cuda => format!("args.w[{i}]"),
            Dialect::Wgsl => format!("args[{}].{}", i / 4, ["x", "y", "z", "w"][i % 4]),
        }
    }

    /// The arguments that a body uses, each read under its name.
    fn arguments(&self, body: &str) -> String {
        let raw = |i: usize| self.raw(i);
        let used = words(body);
        let mut text = String::new();
        let mut at = 0;
        for &word in &self.words {
            let width = self.width(word);
            let value = match (word.is_index(), width) {
                (false, _) => raw(at),
                (true, 1) => format!("bitcast<idx>({})", raw(at)),
                _ => format!("bitcast<idx>(u64({}) | (u64({}) << 32u))", raw(at), raw(at + 1)),
            };
            let name = word.name();
            if used.contains(&name) {
                text += &format!("    let {name} = {value};\n");
            }
            at += width;
        }
        text
    }

    fn width(&self, word: Word) -> usize {
        if self.wide && word.is_index() { 2 } else { 1 }
    }

    /// Whether an operand moves along a dimension by nothing, one, or another number of elements.
    pub(crate) fn class(&self, operand: usize, dim: usize) -> Class {
        match self.access(operand).strides[dim] {
            _ if self.op.dims[dim] == 1 => Class::Still,
            0 => Class::Still,
            1 => Class::One,
            _ => Class::Other,
        }
    }

    /// Writes the place of an operand's element, given the text of each index; a dimension without text counts as 0.
    pub(crate) fn place(&mut self, operand: usize, index: &dyn Fn(usize) -> Option<String>) -> String {
        let base = self.arg(Word::Base(operand));
        base + &self.moved(operand, 0..self.op.dims.len(), index)
    }

    /// What these dimensions add to the place of an operand's element; nothing, or a text that begins with a sign.
    pub(crate) fn moved(
        &mut self,
        operand: usize,
        dims: Range<usize>,
        index: &dyn Fn(usize) -> Option<String>,
    ) -> String {
        let mut sum = String::new();
        for d in dims {
            let Some(i) = index(d) else { continue };
            match self.class(operand, d) {
                Class::Still => {}
                Class::One => sum += &format!(" + {i}"),
                Class::Other => sum += &format!(" + {i} * {}", self.arg(Word::Stride(operand, d))),
            }
        }
        sum
    }

    /// What these dimensions add to the coordinate of an operand's guard. A stride of 0 or 1 says nothing about it: every coefficient
    /// but 0 is an argument.
    pub(crate) fn guard_moved(
        &mut self,
        operand: usize,
        guard: usize,
        dims: Range<usize>,
        index: &dyn Fn(usize) -> Option<String>,
    ) -> String {
        let coefficients = &self.access(operand).guards[guard].coefficients;
        let mut sum = String::new();
        for d in dims.filter(|&d| coefficients[d] != 0) {
            if let Some(i) = index(d) {
                sum += &format!(" + {i} * {}", self.arg(Word::Coefficient(operand, guard, d)));
            }
        }
        sum
    }

    /// The conditions under which a guarded operand has an element: at this place, with these coordinates of its guards.
    pub(crate) fn exists(&mut self, operand: usize, at: &str, coordinates: &[String]) -> String {
        let (low, high) = (self.arg(Word::Low(operand)), self.arg(Word::High(operand)));
        let mut conditions = vec![format!("in_range({at} - {low}, {high} - {low})")];
        for (g, c) in coordinates.iter().enumerate() {
            conditions.push(format!("in_range({c}, {})", self.arg(Word::GuardLimit(operand, g))));
        }
        conditions.join(" & ")
    }

    /// What a guarded operand is read as where it has no element.
    pub(crate) fn fill(&mut self, operand: usize) -> String {
        let dtype = self.access(operand).dtype;
        let words: Vec<String> = (0..dtype.size().div_ceil(4)).map(|k| self.arg(Word::Fill(operand, k))).collect();
        from_words(dtype, |k| words[k].clone())
    }

    /// Writes the read of an operand at an index; gives the name of the value.
    pub(crate) fn read(&mut self, text: &mut Text, operand: usize, index: &dyn Fn(usize) -> Option<String>) -> String {
        let access = self.access(operand);
        let place = self.place(operand, index);
        let at = text.name("p", place);
        if access.is_plain() {
            return text.name("x", self.load(operand, &at));
        }
        let all = 0..self.op.dims.len();
        let coordinates: Vec<String> = (0..access.guards.len())
            .map(|g| {
                let sum = self.arg(Word::GuardOffset(operand, g)) + &self.guard_moved(operand, g, all.clone(), index);
                text.name("g", sum)
            })
            .collect();
        let exists = self.exists(operand, &at, &coordinates);
        let name = text.fresh("x");
        text.line(format!("var {name} = {};", self.fill(operand)));
        text.line(format!("if ({exists}) {{"));
        text.line(format!("{name} = {};", self.load(operand, &at)));
        text.line("}");
        name
    }

    /// The element at a place, in its register type.
    pub(crate) fn load(&self, operand: usize, at: &str) -> String {
        let dtype = self.access(operand).dtype;
        let b = format!("b{operand}");
        match self.target.dialect {
            Dialect::Cuda => match dtype {
                DType::Bool => format!("({b}[{at}] != 0)"),
                DType::I8 | DType::I16 => format!("i32({b}[{at}])"),
                DType::U8 | DType::U16 => format!("u32({b}[{at}])"),
                DType::F16 | DType::BF16 => format!("{dtype}_to_f32(u32({b}[{at}]))"),
                _ => format!("{b}[{at}]"),
            },
            Dialect::Wgsl => {
                let word = match packed(dtype) {
                    4 => format!("byte_of({b}[{at} >> 2u], {at})"),
                    2 => format!("half_of({b}[{at} >> 1u], {at})"),
                    _ => return self.element(operand, at),
                };
                unpack(dtype, &word)
            }
        }
    }

    /// An element that is not packed, in memory. In WGSL an entry must not name one buffer by two types, so that single elements
    /// of a buffer that the entry also moves by fours are parts of a vector.
    fn element(&self, operand: usize, at: &str) -> String {
        let access = self.access(operand);
        let last = self.op.dims.len().wrapping_sub(1);
        let by_vector = self.fours
            && self.target.dialect == Dialect::Wgsl
            && access.dtype.size() == 4
            && self.class(operand, last) == Class::One;
        if by_vector { format!("v{operand}[{at} >> 2u][u32({at}) & 3u]") } else { format!("b{operand}[{at}]") }
    }

    /// Four elements from a place that is a multiple of four, in their register types.
    pub(crate) fn load_four(&self, text: &mut Text, operand: usize, at: &str) -> [String; 4] {
        let dtype = self.access(operand).dtype;
        match (self.target.dialect, packed(dtype)) {
            (Dialect::Cuda, _) => {
                let v = text.name("v", format!("v{operand}[{at} >> 2u]"));
                let part = |p: &str| match dtype {
                    DType::Bool => format!("({v}.{p} != 0)"),
                    DType::I8 | DType::I16 => format!("i32({v}.{p})"),
                    DType::U8 | DType::U16 => format!("u32({v}.{p})"),
                    DType::F16 | DType::BF16 => format!("{dtype}_to_f32(u32({v}.{p}))"),
                    _ => format!("{v}.{p}"),
                };
                ["x", "y", "z", "w"].map(|p| text.name("x", part(p)))
            }
            (Dialect::Wgsl, 4) => {
                let w = text.name("w", format!("b{operand}[{at} >> 2u]"));
                [0, 8, 16, 24].map(|s| text.name("x", unpack(dtype, &format!("(({w} >> {s}u) & 255u)"))))
            }
            (Dialect::Wgsl, 2) => {
                let w = [0, 1].map(|k| text.name("w", format!("b{operand}[({at} >> 1u) + {k}]")));
                [(0, 0), (0, 16), (1, 0), (1, 16)]
                    .map(|(k, s)| text.name("x", unpack(dtype, &format!("(({} >> {s}u) & 65535u)", w[k]))))
            }
            (Dialect::Wgsl, _) if dtype.size() == 4 => {
                let v = text.name("v", format!("v{operand}[{at} >> 2u]"));
                ["x", "y", "z", "w"].map(|p| format!("{v}.{p}"))
            }
            (Dialect::Wgsl, _) => ["", " + 1", " + 2", " + 3"].map(|l| text.name("x", format!("b{operand}[{at}{l}]"))),
        }
    }

    /// Writes an element.
    pub(crate) fn store(&self, text: &mut Text, operand: usize, at: &str, value: &str) {
        let dtype = self.access(operand).dtype;
        let b = format!("b{operand}");
        let bits = pack(dtype, value);
        match (self.target.dialect, packed(dtype)) {
            (_, 1) => text.line(format!("{} = {value};", self.element(operand, at))),
            (Dialect::Cuda, _) => text.line(format!("{b}[{at}] = {}({bits});", memory_type(dtype))),
            (Dialect::Wgsl, n) => {
                // Other threads may write the other elements of the word: touch only these bits.
                let (shift, mask) = if n == 4 {
                    (format!("(u32({at}) & 3u) * 8u"), "255u")
                } else {
                    (format!("(u32({at}) & 1u) * 16u"), "65535u")
                };
                let shift = text.name("s", shift);
                let word = text.name("w", format!("{at} >> {}u", if n == 4 { 2 } else { 1 }));
                text.line(format!("atomicAnd(&{b}[{word}], ~({mask} << {shift}));"));
                text.line(format!("atomicOr(&{b}[{word}], {bits} << {shift});"));
            }
        }
    }

    /// Writes four elements to a place that is a multiple of four.
    pub(crate) fn store_four(&self, text: &mut Text, operand: usize, at: &str, values: &[String; 4]) {
        let dtype = self.access(operand).dtype;
        let b = format!("b{operand}");
        match (self.target.dialect, packed(dtype)) {
            (Dialect::Cuda, _) => {
                let kind = memory_type(dtype);
                let parts = values.each_ref().map(|v| match packed(dtype) {
                    1 => v.clone(),
                    _ => format!("{kind}({})", pack(dtype, v)),
                });
                text.line(format!("v{operand}[{at} >> 2u] = vec4<{kind}>({});", parts.join(", ")));
            }
            (Dialect::Wgsl, 4) => {
                let bits = values.each_ref().map(|v| text.name("w", pack(dtype, v)));
                let word = format!("{} | ({} << 8u) | ({} << 16u) | ({} << 24u)", bits[0], bits[1], bits[2], bits[3]);
                text.line(format!("atomicStore(&{b}[{at} >> 2u], {word});"));
            }
            (Dialect::Wgsl, 2) => {
                let bits = values.each_ref().map(|v| text.name("w", pack(dtype, v)));
                for k in 0..2 {
                    let word = format!("{} | ({} << 16u)", bits[2 * k], bits[2 * k + 1]);
                    text.line(format!("atomicStore(&{b}[({at} >> 1u) + {k}], {word});"));
                }
            }
            (Dialect::Wgsl, _) if dtype.size() == 4 => {
                let kind = memory_type(dtype);
                text.line(format!("v{operand}[{at} >> 2u] = vec4<{kind}>({});", values.join(", ")));
            }
            (Dialect::Wgsl, _) => {
                for (l, v) in values.iter().enumerate() {
                    text.line(format!("{b}[{at} + {l}] = {v};"));
                }
            }
        }
    }

    /// The value of a launch parameter.
    pub(crate) fn param(&mut self, number: usize, dtype: DType) -> String {
        let words: Vec<String> = (0..dtype.size().div_ceil(4)).map(|k| self.arg(Word::Param(number, k))).collect();
        from_words(dtype, |k| words[k].clone())
    }

    /// Takes a linear position over these dimensions apart; gives the names of the indices.
    pub(crate) fn indices(&mut self, text: &mut Text, linear: &str, dims: std::ops::Range<usize>) -> Vec<String> {
        let mut names = vec![String::new(); dims.len()];
        let mut rest = linear.to_string();
        for d in dims.clone().rev() {
            let place = d - dims.start;
            if d == dims.start {
                names[place] = rest.clone();
                break;
            }
            let size = self.arg(Word::Size(d));
            let q = text.name("q", format!("quotient({rest}, {size})"));
            names[place] = text.name("i", format!("{rest} - {q} * {size}"));
            rest = q;
        }
        names
    }

    /// Declares memory that the threads of a group share.
    pub(crate) fn share(&mut self, name: &str, element: &str, count: usize) {
        self.shared += &format!("var<workgroup> {name}: array<{element}, {count}>;\n");
    }

    /// Adds an entry with this body, in the common notation. It can use `lane` (the thread's number in its group), `group` (the
    /// group's number) and `groups` (how many there are).
    pub(crate) fn entry(&mut self, name: &str, threads: u32, body: Text) {
        let entry = Entry { name: name.into(), group: threads };
        self.entries.push(entry.clone());
        self.bodies.push((entry, body.finish()));
    }

    /// The whole text, the entries, and what the arguments are.
    pub(crate) fn finish(mut self) -> (String, Vec<Entry>, Layout) {
        if self.target.dialect == Dialect::Wgsl {
            self.words.push(Word::Zero);
        }
        let count = self.words.iter().map(|w| self.width(*w)).sum::<usize>().next_multiple_of(4).max(4);
        let dialect = self.target.dialect;
        let given = match dialect {
            Dialect::Cuda => include_str!("prelude.cu"),
            Dialect::Wgsl => include_str!("prelude.wgsl"),
        };
        let bodies: String = self.bodies.iter().map(|(_, b)| b.as_str()).collect();
        let library = needed(&bodies, given);
        let mut text = String::new();
        let index = if self.wide { "i64" } else { "i32" };
        match dialect {
            Dialect::Cuda => {
                text += given;
                text += &format!("typedef {index} idx;\nstruct Args {{ u32 w[{count}]; }};\n\n");
                text += &translate(&library, dialect);
                text += &translate(&self.shared, dialect);
                for (entry, body) in &self.bodies {
                    text += &self.cuda_head(entry, body);
                    text += &translate(&self.arguments(body), dialect);
                    text += &translate(body, dialect);
                    text += "}\n";
                }
            }
            Dialect::Wgsl => {
                let buffers = self.wgsl_buffers(&bodies);
                if bodies.contains("coop_mat") {
                    text += "enable f16;\nenable wgpu_cooperative_matrix;\n";
                }
                text += given;
                if [&buffers, &self.shared, &library, &bodies].iter().any(|t| t.contains("c128")) {
                    text += "alias c128 = vec2<f64>;\n";
                }
                text += &buffers;
                text += &format!("@group(1) @binding(0) var<uniform> args: array<vec4<u32>, {}>;\n", count / 4);
                let zero = self.words.iter().map(|w| self.width(*w)).sum::<usize>() - 1;
                text += &format!("fn zero_word() -> u32 {{\n    return {};\n}}\n\n", self.raw(zero));
                text += &library;
                text += &self.shared;
                for (entry, body) in &self.bodies {
                    let subgroup = if words(body).iter().any(|w| w == "subgroup") {
                        ", @builtin(subgroup_id) subgroup: u32"
                    } else {
                        ""
                    };
                    text += &format!(
                        "@compute @workgroup_size({})\nfn {}(@builtin(local_invocation_index) thread: u32, \
                         @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>{subgroup}) {{\n\
                         \x20   let lane = idx(thread);\n    let group = idx(block.x + block.y * grid.x);\n    \
                         let groups = idx(grid.x * grid.y);\n",
                        entry.group, entry.name
                    );
                    text += &self.arguments(body);
                    text += body;
                    text += "}\n";
                }
            }
        }
        (text, self.entries, Layout { words: self.words, wide: self.wide, count, dialect })
    }

    fn cuda_head(&self, entry: &Entry, body: &str) -> String {
        // Groups of the next kernel are placed when it is released. Where few groups have much to do, they would go to units that
        // happen to be free then, several to one: such kernels release the next one late.
        let begin = if body.contains("release();") { "wait_for_last" } else { "follow" };
        let mut parameters = Vec::new();
        let mut vectors = String::new();
        for operand in 0..self.operands() {
            let kind = memory_type(self.access(operand).dtype);
            // Inputs must not be `__restrict__`: they would be read by loads for which nothing else may ever write the memory,
            // while the kernel before this one still does until `follow` returns.
            let (constant, alone) = if self.is_output(operand) { ("", "__restrict__ ") } else { ("const ", "") };
            parameters.push(format!("{constant}{kind}* {alone}b{operand}"));
            vectors += &format!("    auto const v{operand} = ({constant}vec4<{kind}>*)b{operand};\n");
        }
        if self.has_workspace {
            parameters.push("u32* __restrict__ work".into());
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

    fn wgsl_buffers(&self, bodies: &str) -> String {
        let mut text = String::new();
        for operand in 0..self.operands() {
            let dtype = self.access(operand).dtype;
            let kind = match packed(dtype) {
                1 => memory_type(dtype),
                _ if self.is_output(operand) => "atomic<u32>",
                _ => "u32",
            };
            text += &format!("@group(0) @binding({operand}) var<storage, read_write> b{operand}: array<{kind}>;\n");
            // Halves as they are, alone or by fours, where a kernel does not compute with them itself.
            for (name, kind) in [("e", "f16"), ("h", "vec4<f16>")] {
                if bodies.contains(&format!(" {name}{operand}[")) {
                    text += &format!(
                        "@group(0) @binding({operand}) var<storage, read_write> {name}{operand}: array<{kind}>;\n"
                    );
                }
            }
            if bodies.contains(&format!("v{operand}[")) {
                text += &format!(
                    "@group(0) @binding({operand}) var<storage, read_write> v{operand}: array<vec4<{kind}>>;\n"
                );
            }
        }
        if self.has_workspace {
            let binding = self.operands();
            text += &format!("@group(0) @binding({binding}) var<storage, read_write> work: array<u32>;\n");
        }
        text
    }
}

/// How an operand moves along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Still,
    One,
    Other,
}

/// What the arguments of a kernel are.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) words: Vec<Word>,
    pub(crate) wide: bool,
    pub(crate) count: usize,
    pub(crate) dialect: Dialect,
}

/// The type of an element in memory where the language has it; of CUDA for packed ones.
fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::U16 | DType::F16 | DType::BF16 => "u16",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::I64 => "i64",
        DType::U64 => "u64",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::C64 => "c64",
        DType::C128 => "c128",
    }
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

/// The bits of a packed element in a word of 32.
fn pack(dtype: DType, value: &str) -> String {
    match dtype {
        DType::Bool => format!("select(0u, 1u, {value})"),
        DType::I8 => format!("(bitcast<u32>({value}) & 255u)"),
        DType::I16 => format!("(bitcast<u32>({value}) & 65535u)"),
        DType::F16 | DType::BF16 => format!("f32_to_{dtype}({value})"),
        _ => value.into(),
    }
}
