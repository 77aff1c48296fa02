//! The languages of kernels, one object each.
//!
//! Kernels are written once, in the common [notation](crate::notation). A [`Language`] says what differs: how elements are loaded and
//! stored, what surrounds the entries, how arguments are read, which barriers and matrix units there are. Its default methods are those of a
//! C-like language with typed pointers. A further one is a file here, with its prelude, and a variant of [`Dialect`].

mod cuda;
mod wgsl;

use millstream_core::DType;

use crate::program::Entry;
use crate::text::Text;
use crate::types::{pack, packed};

/// The language of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// CUDA C++, as NVRTC takes it: no includes.
    Cuda,
    /// WGSL, as naga takes it.
    Wgsl,
}

impl Dialect {
    /// How kernels are written in it.
    pub(crate) fn language(self) -> &'static dyn Language {
        match self {
            Dialect::Cuda => &cuda::Cuda,
            Dialect::Wgsl => &wgsl::Wgsl,
        }
    }
}

/// An operand as a kernel's text knows it: `b{number}` is its memory by elements, `v{number}` by vectors of four.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) number: usize,
    pub(crate) dtype: DType,
    pub(crate) is_output: bool,
    /// Whether the entry being written also moves it by vectors of four.
    pub(crate) by_vector: bool,
}

/// A kernel before it is put together, its parts in the common notation.
pub(crate) struct Draft<'a> {
    pub(crate) operands: Vec<Operand>,
    pub(crate) has_workspace: bool,
    pub(crate) has_note: bool,
    /// The arguments in words of 32 bits.
    pub(crate) words: usize,
    /// Which of them is [`Language::zero_is_argument`]'s zero.
    pub(crate) zero: Option<usize>,
    /// Whether indices have 64 bits.
    pub(crate) wide: bool,
    /// The functions of the library that it needs.
    pub(crate) library: String,
    /// Declarations of shared memory.
    pub(crate) shared: &'a str,
    /// The entries with their bodies.
    pub(crate) entries: Vec<(&'a Entry, String)>,
}

impl Draft<'_> {
    /// Whether a text occurs in the bodies.
    pub(crate) fn uses(&self, text: &str) -> bool {
        self.entries.iter().any(|(_, body)| body.contains(text))
    }

    /// The whole text.
    pub(crate) fn text(&self, language: &dyn Language) -> String {
        let mut text = language.directives(self).to_string() + language.prelude() + &language.declarations(self);
        text += &language.translate(&self.library);
        text += &language.translate(self.shared);
        for (entry, body) in &self.entries {
            text += &language.head(self, entry, body);
            text += &language.translate(body);
            text += "}\n";
        }
        text
    }
}

/// How kernels are written in one language.
pub(crate) trait Language: Sync {
    /// What every kernel begins with. The library's functions of the same names are left out.
    fn prelude(&self) -> &'static str;

    /// A text in the common notation, in this language.
    fn translate(&self, notation: &str) -> String;

    /// What has to stand before the prelude.
    fn directives(&self, _module: &Draft<'_>) -> &'static str {
        ""
    }

    /// What stands between the prelude and the functions: the index type, the arguments, memory that is bound and not passed.
    fn declarations(&self, draft: &Draft<'_>) -> String;

    /// The head of an entry up to its body, with `lane`, `group` and `groups`.
    fn head(&self, draft: &Draft<'_>, entry: &Entry, body: &str) -> String;

    /// A word of the arguments.
    fn argument(&self, word: usize) -> String;

    /// Whether an entry is given pointers to its operands' elements of index 0; otherwise whole allocations, the offsets being arguments.
    fn has_pointers(&self) -> bool;

    /// Whether indices may have 64 bits.
    fn has_wide_indices(&self) -> bool;

    /// Whether compilers of the language merge what must be rounded twice unless a zero that they cannot know is among the arguments.
    fn zero_is_argument(&self) -> bool;

    /// The statement after a step of a tree reduction over `half` threads, where one exists that waits for less than the group.
    fn half_barrier(&self) -> Option<&'static str> {
        None
    }

    /// The statement that lets the next kernel be set up, where this is possible.
    fn release(&self) -> Option<&'static str> {
        None
    }

    /// Whether matrices can be multiplied whose elements lie in registers of known threads.
    fn has_fragments(&self) -> bool {
        false
    }

    /// The matrix units, where the language has them as matrices that a subgroup holds in a way of its own.
    fn matrix_units(&self) -> Option<&dyn MatrixUnits> {
        None
    }

    /// One component of an array of vectors of four in shared memory.
    fn component(&self, array: &str, at: &str) -> String {
        format!("(&{array}[0].x)[{at}]")
    }

    /// The element at an index, in its register type.
    fn load(&self, operand: Operand, at: &str) -> String {
        widened(operand.dtype, format!("b{}[{at}]", operand.number))
    }

    /// Four elements from an index that is a multiple of four, in their register types.
    fn load_four(&self, text: &mut Text, operand: Operand, at: &str) -> [String; 4] {
        let v = text.name("v", format!("v{}[{at} >> 2u]", operand.number));
        ["x", "y", "z", "w"].map(|p| text.name("x", widened(operand.dtype, format!("{v}.{p}"))))
    }

    /// Writes an element.
    fn store(&self, text: &mut Text, operand: Operand, at: &str, value: &str) {
        text.line(format!("b{}[{at}] = {};", operand.number, narrowed(operand.dtype, value)));
    }

    /// Writes four elements to an index that is a multiple of four.
    fn store_four(&self, text: &mut Text, operand: Operand, at: &str, values: &[String; 4]) {
        let parts = values.each_ref().map(|v| narrowed(operand.dtype, v)).join(", ");
        text.line(format!("v{}[{at} >> 2u] = vec4<{}>({parts});", operand.number, memory_type(operand.dtype)));
    }
}

/// Matrices of 16 by 16, each held by a subgroup: operands in f16, accumulators in f32. All give expressions but `store`.
pub(crate) trait MatrixUnits {
    /// An accumulator of zeros.
    fn zero(&self) -> String;

    /// The left (`A`) or right (`B`) operand from shared memory. Neighbouring elements are of one row, if `by_rows`, or else of one column;
    /// from one row (or column) to the next are `stride` elements of the array.
    fn load(&self, role: char, from: &str, stride: usize, by_rows: bool) -> String;

    /// `a * b + c`.
    fn multiply_add(&self, a: &str, b: &str, c: &str) -> String;

    /// The statement that writes an accumulator to shared memory, row by row.
    fn store(&self, matrix: &str, to: &str, stride: usize) -> String;
}

/// The type of an element in memory, where the language has it.
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

/// An element of a type in memory, in its register type.
fn widened(dtype: DType, element: String) -> String {
    match dtype {
        DType::Bool => format!("({element} != 0)"),
        DType::I8 | DType::I16 => format!("i32({element})"),
        DType::U8 | DType::U16 => format!("u32({element})"),
        DType::F16 | DType::BF16 => format!("{dtype}_to_f32(u32({element}))"),
        _ => element,
    }
}

/// A value of a register type, in its type in memory.
fn narrowed(dtype: DType, value: &str) -> String {
    match packed(dtype) {
        1 => value.into(),
        _ => format!("{}({})", memory_type(dtype), pack(dtype, value)),
    }
}
