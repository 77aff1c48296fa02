//! What surrounds the body of every kernel: operands, arguments, entries.
//!
//! A [`Frame`] knows the operation's operands and gathers the numbers that the kernel needs at run time (sizes, strides,
//! offsets, scalars) as words of 32 bits. The text names them; [`Word`] says where each comes from at a launch.

use std::ops::Range;

use millstream_core::{Access, DType, Op};

use crate::dialect::{Draft, Language, Operand};
use crate::notation::{needed, words};
use crate::program::Entry;
use crate::target::Target;
use crate::text::Text;
use crate::types::from_words;

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
    /// The first word of the note.
    Note,
    /// What is written to the note's first word; 0 if there is none.
    Ticket,
    /// The launch's number among those that share the note.
    Call,
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
            Word::Note => "note_base".into(),
            Word::Ticket => "ticket".into(),
            Word::Call => "call".into(),
        }
    }

    /// Whether it is an index: 64 bits wide in kernels that need it.
    fn is_index(self) -> bool {
        !matches!(self, Word::Fill(..) | Word::Param(..) | Word::Zero | Word::Note | Word::Ticket | Word::Call)
    }
}

/// Operands, arguments and the language of one kernel.
pub(crate) struct Frame<'a> {
    pub(crate) op: &'a Op,
    pub(crate) target: &'a Target,
    /// Whether indices have 64 bits.
    pub(crate) wide: bool,
    words: Vec<Word>,
    /// Declarations outside functions, in the common notation.
    shared: String,
    bodies: Vec<(Entry, String)>,
    pub(crate) has_workspace: bool,
    pub(crate) has_note: bool,
    /// Whether the entry being written moves four elements at once.
    pub(crate) vec4: bool,
    releases: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(op: &'a Op, target: &'a Target, wide: bool) -> Frame<'a> {
        Frame {
            op,
            target,
            wide,
            words: Vec::new(),
            shared: String::new(),
            bodies: Vec::new(),
            has_workspace: false,
            has_note: false,
            vec4: false,
            releases: false,
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

    pub(crate) fn language(&self) -> &'static dyn Language {
        self.target.dialect.language()
    }

    /// An operand as the language's loads and stores take it.
    fn operand(&self, number: usize) -> Operand {
        let last = self.op.dims.len().wrapping_sub(1);
        let by_vector = self.vec4 && self.class(number, last) == Class::One;
        let is_output = number >= self.op.inputs.len();
        Operand { number, dtype: self.access(number).dtype, is_output, by_vector }
    }

    /// The argument's name. Entries that use it read it at their beginning.
    pub(crate) fn arg(&mut self, word: Word) -> String {
        if !self.words.contains(&word) {
            self.words.push(word);
        }
        word.name()
    }

    /// The arguments that a body uses, each read under its name.
    fn arguments(&self, body: &str) -> String {
        let raw = |i: usize| self.language().argument(i);
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

    /// Writes the offset of an operand's element, given the text of each index; a dimension without text counts as 0.
    pub(crate) fn offset(&mut self, operand: usize, index: &dyn Fn(usize) -> Option<String>) -> String {
        let base = self.arg(Word::Base(operand));
        base + &self.moved(operand, 0..self.op.dims.len(), index)
    }

    /// What these dimensions add to the offset of an operand's element; nothing, or a text that begins with a sign.
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

    /// The conditions under which a guarded operand has an element: at this offset, with these coordinates of its guards.
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
        let offset = self.offset(operand, index);
        let at = text.name("p", offset);
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

    /// The element at an index, in its register type.
    pub(crate) fn load(&self, operand: usize, at: &str) -> String {
        self.language().load(self.operand(operand), at)
    }

    /// Four elements from an index that is a multiple of four, in their register types.
    pub(crate) fn load_four(&self, text: &mut Text, operand: usize, at: &str) -> [String; 4] {
        self.language().load_four(text, self.operand(operand), at)
    }

    /// Writes an element.
    pub(crate) fn store(&self, text: &mut Text, operand: usize, at: &str, value: &str) {
        self.language().store(text, self.operand(operand), at, value);
    }

    /// Writes four elements to an index that is a multiple of four.
    pub(crate) fn store_four(&self, text: &mut Text, operand: usize, at: &str, values: &[String; 4]) {
        self.language().store_four(text, self.operand(operand), at, values);
    }

    /// The value of a launch parameter.
    pub(crate) fn param(&mut self, number: usize, dtype: DType) -> String {
        let words: Vec<String> = (0..dtype.size().div_ceil(4)).map(|k| self.arg(Word::Param(number, k))).collect();
        from_words(dtype, |k| words[k].clone())
    }

    /// Writes the indices along these dimensions from a linear one; gives their names.
    pub(crate) fn indices(&mut self, text: &mut Text, linear: &str, dims: std::ops::Range<usize>) -> Vec<String> {
        let mut names = vec![String::new(); dims.len()];
        let mut rest = linear.to_string();
        for d in dims.clone().rev() {
            let i = d - dims.start;
            if d == dims.start {
                names[i] = rest.clone();
                break;
            }
            let size = self.arg(Word::Size(d));
            let q = text.name("q", format!("quotient({rest}, {size})"));
            names[i] = text.name("i", format!("{rest} - {q} * {size}"));
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
        let releases = std::mem::take(&mut self.releases);
        self.bodies.push((Entry { name: name.into(), group: threads, releases }, body.finish()));
    }

    /// Lets the next kernel be set up from here on, in the entry being written, where the language has that.
    pub(crate) fn release(&mut self, text: &mut Text) {
        if let Some(release) = self.language().release() {
            text.line(release);
            self.releases = true;
        }
    }

    /// The whole text, the entries, and what the arguments are.
    pub(crate) fn finish(mut self) -> (String, Vec<Entry>, Arguments) {
        let language = self.language();
        let mut used: usize = self.words.iter().map(|w| self.width(*w)).sum();
        let zero = language.zero_is_argument().then_some(used);
        if zero.is_some() {
            self.words.push(Word::Zero);
            used += 1;
        }
        let count = used.next_multiple_of(4).max(4);
        let bodies: String = self.bodies.iter().map(|(_, b)| b.as_str()).collect();
        let draft = Draft {
            operands: (0..self.operands()).map(|o| self.operand(o)).collect(),
            has_workspace: self.has_workspace,
            has_note: self.has_note,
            words: count,
            zero,
            wide: self.wide,
            library: needed(&bodies, language.prelude()),
            shared: &self.shared,
            entries: self.bodies.iter().map(|(entry, body)| (entry, self.arguments(body) + body)).collect(),
        };
        let text = draft.text(language);
        let entries = self.bodies.into_iter().map(|(entry, _)| entry).collect();
        (text, entries, Arguments { words: self.words, wide: self.wide, count, has_pointers: language.has_pointers() })
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
pub(crate) struct Arguments {
    pub(crate) words: Vec<Word>,
    pub(crate) wide: bool,
    pub(crate) count: usize,
    pub(crate) has_pointers: bool,
}
