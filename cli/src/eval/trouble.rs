//! What is wrong with an expression, and where.

use millstream::Error;

use crate::failure::{Failure, describe};

/// A mistake at a position of the expression.
#[derive(Debug)]
pub struct Trouble {
    /// The byte of the expression at which it was seen.
    pub at: usize,
    /// Why the command stops.
    failure: Failure,
}

impl Trouble {
    /// A mistake said in a sentence.
    pub fn new(at: usize, message: impl Into<String>) -> Trouble {
        Trouble { at, failure: Failure::usage(message) }
    }

    /// An error of the library.
    pub fn from_error(at: usize, error: &Error) -> Trouble {
        let mut failure = Failure::from(error.clone());
        failure.message = Some(describe(error));
        Trouble { at, failure }
    }

    /// Adds what the user can do.
    pub fn suggest(mut self, hint: impl Into<String>) -> Trouble {
        self.failure = self.failure.suggest(hint);
        self
    }

    /// The failure with the position shown in the text.
    pub fn in_text(self, text: &str) -> Failure {
        let mut failure = self.failure;
        let message = failure.message.unwrap_or_default();
        failure.message = Some(format!("{message}\n{}", pointer(text, self.at)));
        failure
    }
}

/// How much of a long line is shown on each side.
const AROUND: usize = 36;

/// The line around a byte of the text, with a mark below it.
fn pointer(text: &str, at: usize) -> String {
    let at = at.min(text.len());
    let start = text.get(..at).and_then(|s| s.rfind('\n')).map_or(0, |i| i + 1);
    let line = text.get(start..).unwrap_or_default().split('\n').next().unwrap_or_default();
    let column = text.get(start..at).unwrap_or_default().chars().count();
    let (from, dots) = if column > AROUND { (column - AROUND, "...") } else { (0, "") };
    let mut shown: String =
        line.chars().skip(from).take(2 * AROUND).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() > from + 2 * AROUND {
        shown += "...";
    }
    let number = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
    let position =
        if number > 1 { format!("line {number}, column {}", column + 1) } else { format!("column {}", column + 1) };
    let blank = " ".repeat(dots.len() + column - from);
    format!("  at {position}:\n    {dots}{shown}\n    {blank}^")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_below_the_position() {
        let shown = pointer("1 + foo(x)", 4);
        assert_eq!(shown, "  at column 5:\n    1 + foo(x)\n        ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_position() {
        let text = "1+".repeat(1000) + "?";
        let shown = pointer(&text, text.len() - 1);
        assert!(shown.lines().all(|l| l.len() < 100), "{shown}");
        assert!(shown.contains("column 2001"));
    }

    #[test]
    fn letters_of_several_bytes_count_as_one() {
        assert!(pointer("é + ü", 5).contains("column 5"));
    }
}
