//! The notation in which kernels are written, and its translation.
//!
//! Kernels, and the functions they call, are written once, in a subset of WGSL: functions with a typed head, `let`, `var`,
//! `if`, `for`, `while`, calls and operators. As it stands this is WGSL; for a C-like language only the heads, declarations and
//! suffixes of numbers change, word by word, as a [`Spelling`] says. What languages cannot say alike stands in their preludes.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// A piece of the notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Number(&'a str),
    /// White space, comments and single signs.
    Other(&'a str),
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut list = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let first = bytes[at];
        let while_true = |from: usize, test: &dyn Fn(u8) -> bool| {
            bytes[from..].iter().position(|&b| !test(b)).map_or(bytes.len(), |n| from + n)
        };
        if first.is_ascii_alphabetic() || first == b'_' {
            at = while_true(at, &|b| b.is_ascii_alphanumeric() || b == b'_');
            list.push(Token::Word(&text[start..at]));
        } else if first.is_ascii_digit() {
            at = while_true(at, &|b| b.is_ascii_alphanumeric() || b == b'.');
            // An exponent's sign belongs to the number.
            let hex = text[start..at].starts_with("0x");
            if !hex && matches!(bytes[at - 1], b'e' | b'E') && matches!(bytes.get(at), Some(b'-' | b'+')) {
                at = while_true(at + 1, &|b| b.is_ascii_alphanumeric());
            }
            list.push(Token::Number(&text[start..at]));
        } else if text[at..].starts_with("//") {
            at = while_true(at, &|b| b != b'\n');
            list.push(Token::Other(&text[start..at]));
        } else if first.is_ascii_whitespace() {
            at = while_true(at, &|b| b.is_ascii_whitespace());
            list.push(Token::Other(&text[start..at]));
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            list.push(Token::Other(&text[start..at]));
        }
    }
    list
}

/// What a C-like language has instead of the words of the notation.
pub(crate) struct Spelling {
    /// What stands before a function.
    pub(crate) function: &'static str,
    /// What stands before memory that a group shares.
    pub(crate) shared: &'static str,
    /// What stands before a constant.
    pub(crate) constant: &'static str,
    /// Functions that the language has under the same name with another meaning: they are called `ms_` and their name.
    pub(crate) builtins: &'static [&'static str],
    /// Suffixes of numbers, and what they become.
    pub(crate) suffixes: &'static [(&'static str, &'static str)],
}

/// The text in a C-like language.
pub(crate) fn translate(text: &str, spelling: &Spelling) -> String {
    let list = tokens(text);
    let mut out = String::with_capacity(text.len() * 2);
    let mut at = 0;
    while at < list.len() {
        match list[at] {
            Token::Word("fn") => at = function_head(&list, at, spelling, &mut out),
            Token::Word("let") => at = variable(&list, at, ["const ", spelling.shared], &mut out),
            Token::Word("const") => at = variable(&list, at, [spelling.constant, spelling.shared], &mut out),
            Token::Word("var") => at = variable(&list, at, ["", spelling.shared], &mut out),
            Token::Word(word) => {
                if spelling.builtins.contains(&word) {
                    out += "ms_";
                }
                out += word;
                at += 1;
            }
            Token::Number(number) => {
                out += &spelling.number(number);
                at += 1;
            }
            Token::Other(other) => {
                out += other;
                at += 1;
            }
        }
    }
    out
}

impl Spelling {
    fn number(&self, number: &str) -> String {
        let strip = |(suffix, other): &(&str, &str)| Some(format!("{}{other}", number.strip_suffix(suffix)?));
        self.suffixes.iter().find_map(strip).unwrap_or_else(|| number.into())
    }
}

/// The next token that is no white space, from `at` on.
fn next(list: &[Token<'_>], mut at: usize) -> usize {
    while at < list.len() && matches!(list[at], Token::Other(s) if s.trim().is_empty()) {
        at += 1;
    }
    at
}

fn is(list: &[Token<'_>], at: usize, sign: &str) -> bool {
    matches!(list.get(at), Some(Token::Other(s)) if *s == sign)
}

/// `fn name(a: f32, b: u32) -> f32 {`: writes the head up to the brace, gives the position of the brace.
fn function_head(list: &[Token<'_>], at: usize, spelling: &Spelling, out: &mut String) -> usize {
    let word = |at: usize| if let Some(Token::Word(w)) = list.get(at) { *w } else { "" };
    let mut at = next(list, at + 1);
    let name = word(at);
    at = next(list, at + 1);
    let mut parameters = Vec::new();
    while at < list.len() && !is(list, at, ")") {
        at = next(list, at + 1);
        if is(list, at, ")") {
            break;
        }
        let parameter = word(at);
        at = next(list, at + 1);
        at = next(list, at + 1);
        parameters.push(format!("{} {parameter}", word(at)));
        at = next(list, at + 1);
    }
    let mut result = "void";
    at = next(list, at + 1);
    if is(list, at, "-") {
        at = next(list, at + 2);
        result = word(at);
        at = next(list, at + 1);
    }
    *out += &format!("{}{result} {name}({}) ", spelling.function, parameters.join(", "));
    at
}

/// `var x = ...`, `var x: T = ...`, `var x: array<T, N>`, `var<workgroup> x: array<T, N>`: writes the head up to `=` or `;`.
fn variable(list: &[Token<'_>], at: usize, [qualifier, shared]: [&str; 2], out: &mut String) -> usize {
    let mut at = at + 1;
    *out += qualifier;
    if is(list, at, "<") {
        *out += shared;
        at += 3;
    }
    at = next(list, at);
    let name = if let Some(Token::Word(w)) = list.get(at) { *w } else { "" };
    at = next(list, at + 1);
    if !is(list, at, ":") {
        *out += &format!("auto {name} ");
        return at;
    }
    at = next(list, at + 1);
    let mut kind = String::new();
    while at < list.len() && !is(list, at, "=") && !is(list, at, ";") {
        let (Token::Word(t) | Token::Number(t) | Token::Other(t)) = list[at];
        kind += t;
        at += 1;
    }
    let kind = kind.trim();
    match kind.strip_prefix("array<").and_then(|k| k.strip_suffix('>')).and_then(|k| k.rsplit_once(',')) {
        Some((element, count)) => *out += &format!("{element} {name}[{}]", count.trim().trim_end_matches('u')),
        None => *out += &format!("{kind} {name} "),
    }
    at
}

/// A function of the library, or a constant.
struct Item {
    text: String,
    uses: Vec<String>,
}

/// The library, file by file.
const FILES: &[&str] = &include!("library/files.in");

/// Everything in the library, by name.
static LIBRARY: LazyLock<HashMap<String, Item>> = LazyLock::new(|| {
    let mut items = HashMap::new();
    for file in FILES {
        let mut lines = file.lines().peekable();
        let mut comment = String::new();
        while let Some(line) = lines.next() {
            let name =
                |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
            if line.starts_with("//") {
                comment += line;
                comment.push('\n');
            } else if let Some(rest) = line.strip_prefix("fn ") {
                let mut text = std::mem::take(&mut comment) + line + "\n";
                while !line.ends_with('}') {
                    let Some(next) = lines.next() else { break };
                    text += next;
                    text.push('\n');
                    if next.starts_with('}') {
                        break;
                    }
                }
                items.insert(name(rest), Item { uses: words(&text), text });
            } else if let Some(rest) = line.strip_prefix("const ") {
                let text = std::mem::take(&mut comment) + line + "\n";
                items.insert(name(rest), Item { uses: words(&text), text });
            } else {
                comment.clear();
            }
        }
    }
    items
});

/// The words of a text, each once, in order.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut set = BTreeSet::new();
    for token in tokens(text) {
        if let Token::Word(word) = token {
            set.insert(word.to_string());
        }
    }
    set.into_iter().collect()
}

/// What of the library this text needs, what is needed first standing first; `given` says which names it need not bring.
pub(crate) fn needed(text: &str, given: &str) -> String {
    let given: BTreeSet<String> = words(given).into_iter().collect();
    let mut out = String::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    // Depth first, without recursion: a name is written when all it uses is.
    let roots = words(text);
    let mut stack: Vec<(&str, bool)> = Vec::new();
    for root in roots.iter().rev() {
        stack.push((root, false));
    }
    while let Some((name, ready)) = stack.pop() {
        let Some((key, item)) = LIBRARY.get_key_value(name) else { continue };
        if given.contains(name) || (done.contains(key.as_str()) && !ready) {
            continue;
        }
        if ready {
            out += &item.text;
            continue;
        }
        done.insert(key);
        stack.push((key, true));
        for used in item.uses.iter().filter(|u| u.as_str() != name) {
            stack.push((used, false));
        }
    }
    out
}
