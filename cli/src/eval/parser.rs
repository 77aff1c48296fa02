//! Tokens to a flat program in postfix order.
//!
//! Operators wait on a stack of our own until their operands are complete (Dijkstra's shunting yard), so nesting is bounded
//! by memory and never by the thread's stack. Precedence is Python's: `**` binds tightest and to the right, then signs,
//! then `* / // % @`, `+ -`, shifts, `&`, `^`, `|`, and comparisons, which do not chain.

use super::lexer::{Token, tokens};
use super::trouble::Trouble;

/// One step of the program, working on a stack of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Push a whole number.
    Int(i64),
    /// Push a fraction.
    Float(f64),
    /// Push text.
    Text(String),
    /// Push what a name stands for.
    Name(String),
    /// Replace the last value.
    Prefix(&'static str),
    /// Replace the last two values.
    Infix(&'static str),
    /// Replace the last values, as many as there are entries: `None` for one given by position, else its name.
    Call(String, Vec<Option<String>>),
    /// Replace the last so many values with an array.
    List(usize),
}

/// The steps with the bytes of the text they come from.
pub type Program = Vec<(Step, usize)>;

const POWER: u8 = 9;
const PREFIX: u8 = 8;
const COMPARISON: u8 = 1;

fn precedence(sign: &str) -> Option<u8> {
    Some(match sign {
        "**" => POWER,
        "*" | "/" | "//" | "%" | "@" => 7,
        "+" | "-" => 6,
        "<<" | ">>" => 5,
        "&" => 4,
        "^" => 3,
        "|" => 2,
        "==" | "!=" | "<" | "<=" | ">" | ">=" => COMPARISON,
        _ => return None,
    })
}

/// What waits for its operands or its closing bracket.
enum Waiting {
    Prefix(&'static str, usize),
    Infix(&'static str, u8, usize),
    Paren(usize),
    Call { name: String, at: usize, given: Vec<Option<String>> },
    List { at: usize, items: usize },
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    end: usize,
    waiting: Vec<Waiting>,
    program: Program,
}

/// Parses a whole expression.
pub fn parse(text: &str) -> Result<Program, Trouble> {
    let parser =
        Parser { tokens: tokens(text)?, next: 0, end: text.trim_end().len(), waiting: vec![], program: vec![] };
    parser.run()
}

impl Parser {
    fn sign_ahead(&self, ahead: usize) -> Option<&'static str> {
        match self.tokens.get(self.next + ahead) {
            Some((Token::Sign(s), _)) => Some(s),
            _ => None,
        }
    }

    fn run(mut self) -> Result<Program, Trouble> {
        let mut operand_next = true;
        while let Some((token, at)) = self.tokens.get(self.next).cloned() {
            operand_next = if operand_next { self.operand(token, at)? } else { self.operator(token, at)? };
            self.next += 1;
        }
        if operand_next {
            let what = if self.program.is_empty() && self.waiting.is_empty() {
                "the expression is empty"
            } else {
                "a value is missing here"
            };
            return Err(Trouble::new(self.end, what));
        }
        self.settle(0);
        match self.waiting.pop() {
            None => Ok(self.program),
            Some(Waiting::List { at, .. }) => Err(Trouble::new(at, "this bracket is never closed")),
            Some(Waiting::Paren(at) | Waiting::Call { at, .. } | Waiting::Prefix(_, at) | Waiting::Infix(_, _, at)) => {
                Err(Trouble::new(at, "this parenthesis is never closed"))
            }
        }
    }

    /// Takes a token where a value must come. Says whether one must still come after it.
    fn operand(&mut self, token: Token, at: usize) -> Result<bool, Trouble> {
        match token {
            Token::Int(v) => self.program.push((Step::Int(v), at)),
            Token::Float(v) => self.program.push((Step::Float(v), at)),
            Token::Text(text) => self.program.push((Step::Text(text), at)),
            Token::Name(name) if self.sign_ahead(1) == Some("(") => {
                self.waiting.push(Waiting::Call { name, at, given: Vec::new() });
                self.next += 1;
                // A call without arguments is complete with its closing parenthesis.
                if self.sign_ahead(1) == Some(")") {
                    self.next += 1;
                    return self.close(")", at).map(|()| false);
                }
                self.begin_argument();
                return Ok(true);
            }
            Token::Name(name) => self.program.push((Step::Name(name), at)),
            Token::Sign("(") => {
                self.waiting.push(Waiting::Paren(at));
                return Ok(true);
            }
            Token::Sign("[") => {
                self.waiting.push(Waiting::List { at, items: 0 });
                if self.sign_ahead(1) == Some("]") {
                    self.next += 1;
                    return self.close("]", at).map(|()| false);
                }
                if let Some(Waiting::List { items, .. }) = self.waiting.last_mut() {
                    *items = 1;
                }
                return Ok(true);
            }
            Token::Sign(sign @ ("-" | "+" | "~")) => {
                self.waiting.push(Waiting::Prefix(sign, at));
                return Ok(true);
            }
            Token::Sign(sign) => return Err(Trouble::new(at, format!("a value is missing before {sign:?}"))),
        }
        Ok(false)
    }

    /// Takes a token where an operator or a closing bracket must come. Says whether a value must come after it.
    fn operator(&mut self, token: Token, at: usize) -> Result<bool, Trouble> {
        let Token::Sign(sign) = token else {
            return Err(Trouble::new(at, "an operator is missing before this"));
        };
        if let Some(level) = precedence(sign) {
            // Of equal ones the left one goes first, except for powers.
            let beaten = self.settle(if level == POWER { level + 1 } else { level });
            if level == COMPARISON && beaten == Some(COMPARISON) {
                return Err(Trouble::new(at, "comparisons do not chain").suggest("(a < b) & (b < c)"));
            }
            self.waiting.push(Waiting::Infix(sign, level, at));
            return Ok(true);
        }
        match sign {
            ")" | "]" => self.close(sign, at).map(|()| false),
            "," => {
                self.settle(0);
                match self.waiting.last_mut() {
                    Some(Waiting::Call { .. }) => {
                        self.begin_argument();
                        Ok(true)
                    }
                    Some(Waiting::List { items, .. }) => {
                        *items += 1;
                        Ok(true)
                    }
                    _ => Err(Trouble::new(at, "a comma has no meaning here").suggest("write arrays as [1, 2, 3]")),
                }
            }
            "=" => Err(Trouble::new(at, "a single = names an argument of a call").suggest("== compares")),
            "[" => Err(Trouble::new(at, "values are not indexed with brackets")
                .suggest("select(x, axis, index) or slice(x, axis, start, stop, step)")),
            "(" => Err(Trouble::new(at, "this value is no function")),
            _ => Err(Trouble::new(at, format!("{sign:?} has no meaning here"))),
        }
    }

    /// Notes that an argument of the call on top begins, by name if a name and `=` come next.
    fn begin_argument(&mut self) {
        let key = match self.tokens.get(self.next + 1) {
            Some((Token::Name(key), _)) if self.sign_ahead(2) == Some("=") => Some(key.clone()),
            _ => None,
        };
        if key.is_some() {
            self.next += 2;
        }
        if let Some(Waiting::Call { given, .. }) = self.waiting.last_mut() {
            given.push(key);
        }
    }

    /// Moves waiting operators of at least this precedence to the program. Gives the precedence of the last one.
    fn settle(&mut self, least: u8) -> Option<u8> {
        let mut last = None;
        loop {
            match self.waiting.last() {
                Some(&Waiting::Prefix(sign, at)) if PREFIX >= least => {
                    self.program.push((Step::Prefix(sign), at));
                    last = Some(PREFIX);
                }
                Some(&Waiting::Infix(sign, level, at)) if level >= least => {
                    self.program.push((Step::Infix(sign), at));
                    last = Some(level);
                }
                _ => return last,
            }
            self.waiting.pop();
        }
    }

    fn close(&mut self, sign: &'static str, at: usize) -> Result<(), Trouble> {
        self.settle(0);
        match (self.waiting.pop(), sign) {
            (Some(Waiting::Paren(_)), ")") => {}
            (Some(Waiting::Call { name, at, given }), ")") => self.program.push((Step::Call(name, given), at)),
            (Some(Waiting::List { at, items }), "]") => self.program.push((Step::List(items), at)),
            _ => return Err(Trouble::new(at, format!("nothing was opened that {sign:?} could close"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_core::testing::Damage;

    /// The program as one line of postfix text.
    fn postfix(text: &str) -> String {
        let step = |s: &Step| match s {
            Step::Int(v) => v.to_string(),
            Step::Float(v) => v.to_string(),
            Step::Name(n) => n.clone(),
            Step::Prefix(s) => format!("u{s}"),
            Step::Infix(s) => s.to_string(),
            Step::Call(n, given) => {
                let given: Vec<_> = given.iter().map(|g| g.as_deref().unwrap_or("_")).collect();
                format!("{n}({})", given.join(","))
            }
            Step::List(n) => format!("[{n}]"),
            Step::Text(text) => format!("{text:?}"),
        };
        match parse(text) {
            Ok(program) => program.iter().map(|(s, _)| step(s)).collect::<Vec<_>>().join(" "),
            Err(trouble) => panic!("{text}: {trouble:?}"),
        }
    }

    #[test]
    fn precedence_is_that_of_python() {
        for (text, expected) in [
            ("1+2*3", "1 2 3 * +"),
            ("(1+2)*3", "1 2 + 3 *"),
            ("1-2-3", "1 2 - 3 -"),
            ("2**3**2", "2 3 2 ** **"),
            ("-x**2", "x 2 ** u-"),
            ("2**-1", "2 1 u- **"),
            ("2**-x**2*3", "2 x 2 ** u- ** 3 *"),
            ("-x*y", "x u- y *"),
            ("a@b+c", "a b @ c +"),
            ("a//b%c", "a b // c %"),
            ("a+b<c*d", "a b + c d * <"),
            ("a&b|c^d<<1", "a b & c d 1 << ^ |"),
            ("--x", "x u- u-"),
            ("~a==b", "a u~ b =="),
        ] {
            assert_eq!(postfix(text), expected, "{text}");
        }
    }

    #[test]
    fn calls_take_arguments_by_position_and_by_name() {
        assert_eq!(postfix("sum(x, axis=0, keep=true)"), "x 0 true sum(_,axis,keep)");
        assert_eq!(postfix("f(g(1,2),-3)"), "1 2 g(_,_) 3 u- f(_,_)");
        assert_eq!(postfix("f()"), "f()");
        assert_eq!(postfix("f(a==b)"), "a b == f(_)");
    }

    #[test]
    fn arrays_nest() {
        assert_eq!(postfix("[[1,2],[3,4]]"), "1 2 [2] 3 4 [2] [2]");
        assert_eq!(postfix("[]"), "[0]");
        assert_eq!(postfix("[-1, 2+3]"), "1 u- 2 3 + [2]");
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        for (text, at) in [
            ("", 0),
            ("   ", 0),
            ("1 +", 3),
            ("1 + )", 4),
            ("(1 + 2", 0),
            ("1 + 2)", 5),
            ("f(1, 2", 0),
            ("2 * [1, 2", 4),
            ("[1, 2)", 5),
            ("1 2", 2),
            ("1, 2", 1),
            ("f(1,)", 4),
            ("[,]", 1),
            ("a < b < c", 6),
            ("a = b", 2),
            ("x[0]", 1),
            ("(x)(y)", 3),
            ("* 3", 0),
            ("x : y", 2),
        ] {
            match parse(text) {
                Err(trouble) => assert_eq!(trouble.at, at, "{text}: {trouble:?}"),
                Ok(program) => panic!("{text}: {program:?}"),
            }
        }
    }

    #[test]
    fn nesting_has_no_limit() {
        let deep = "(".repeat(1_000_000) + "1" + &")".repeat(1_000_000);
        assert_eq!(parse(&deep).unwrap(), [(Step::Int(1), 1_000_000)]);
        assert!(parse(&"(".repeat(1_000_000)).is_err());
        assert_eq!(parse(&("-".repeat(1_000_000) + "1")).unwrap().len(), 1_000_001);
        assert!(parse(&"f(".repeat(1_000_000)).is_err());
    }

    #[test]
    fn damaged_expressions_are_parsed_or_refused() {
        let pieces =
            &["(", ")", "[", "]", ",", "=", "**", "-", "1e999", "9223372036854775808", "\"", "'", "é", "\0", "x"];
        Damage::new("eval").pieces(pieces).feed(2.0, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            match parse(&text) {
                Ok(_) => true,
                Err(trouble) => {
                    // The position of the trouble lies in the text, wherever letters of several bytes are.
                    let _ = trouble.in_text(&text);
                    false
                }
            }
        });
    }
}
