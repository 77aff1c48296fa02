//! Kernel text as it grows: lines, indented by their blocks.

use std::fmt::Write;

/// Lines of a kernel in the common notation.
#[derive(Debug, Default)]
pub(crate) struct Text {
    text: String,
    indent: usize,
    names: usize,
}

impl Text {
    /// A text whose lines stand inside so many blocks.
    pub(crate) fn inside(indent: usize) -> Text {
        Text { indent, ..Text::default() }
    }

    /// Adds a line. A line that ends with an opening brace begins a block, one that begins with a closing one ends it.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.starts_with('}') {
            self.indent = self.indent.saturating_sub(1);
        }
        let _ = writeln!(self.text, "{:width$}{line}", "", width = 4 * self.indent);
        if line.ends_with('{') {
            self.indent += 1;
        }
    }

    /// Gives a value a name that no other value of this text has.
    pub(crate) fn name(&mut self, prefix: &str, value: impl AsRef<str>) -> String {
        let name = self.fresh(prefix);
        self.line(format!("let {name} = {};", value.as_ref()));
        name
    }

    /// A name that no other value of this text has.
    pub(crate) fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}_{}", self.names)
    }

    /// The text so far.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}
