//! `millstream eval`: an expression over numbers, arrays and files, computed as tensors.
//!
//! Text → [`lexer`] → [`parser`] (a flat program, no tree, so that nesting costs no stack) → [`machine`], which calls the
//! functions of [`functions`] by name → [`print`](mod@print).

mod arguments;
mod elements;
mod files;
mod functions;
mod host;
mod lexer;
mod machine;
mod parser;
mod print;
mod trouble;
mod value;
mod windows;

use std::collections::BTreeMap;
use std::io::Read;

use crate::args;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::say;
#[cfg(test)]
pub use functions::names;
pub use machine::Names;
use trouble::Trouble;
pub use value::Value;

/// The tensor that an expression describes, not yet computed.
pub fn compute(text: &str, names: &Names) -> Outcome<millstream::Tensor> {
    parser::parse(text).and_then(|program| machine::run(&program, names)).map_err(|t| t.in_text(text))
}

/// The functions that an expression calls, in the order of the text; none if it makes no sense.
pub fn called(text: &str) -> Vec<String> {
    let Ok(program) = parser::parse(text) else { return Vec::new() };
    let mut calls: Vec<(usize, String)> = program
        .into_iter()
        .filter_map(|(step, at)| if let parser::Step::Call(name, _) = step { Some((at, name)) } else { None })
        .collect();
    calls.sort();
    calls.into_iter().map(|(_, name)| name).collect()
}

/// The longest expression that is read from standard input.
const LONGEST: u64 = 64 << 20;

/// Runs the command.
pub fn run(args: &args::Eval) -> Outcome {
    if args.list {
        return say(functions::list());
    }
    let text = match args.expression.as_deref() {
        Some("-") => from_stdin()?,
        Some(text) => text.to_string(),
        None => return Err(Failure::usage("there is no expression")),
    };
    // A device that was asked for must be there, even if the expression needs none.
    if let Some(name) = &args.device {
        millstream::default_runtime()?.device(name)?;
    }
    // What is wrong with the text comes before what is wrong with the files.
    parser::parse(&text).map_err(|t| t.in_text(&text))?;
    let names = bind(&args.bindings)?;
    let result = compute(&text, &names)?;
    if args.explain {
        say(result.explain()?.trim_end())?;
    }
    match &args.output {
        Some(path) => {
            result.eval()?;
            files::save(&result, path).map_err(|e| {
                let failure = Failure::from(e);
                // The input was fine: what could not be written is a failure of the work.
                if failure.exit == Exit::Usage && result.dtype() != millstream::DType::BF16 {
                    Failure { exit: Exit::Failed, ..failure }
                } else {
                    failure
                }
            })?;
            say(format!("{} -> {}", print::describe(&result), path.display()))
        }
        None => say(print::text(&result)?),
    }
}

fn from_stdin() -> Outcome<String> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(|e| Failure::usage(format!("standard input: {e}")))?;
    if text.len() as u64 > LONGEST {
        return Err(Failure::usage(format!("the expression is longer than {LONGEST} bytes")));
    }
    Ok(text)
}

/// The values of names, as the command line gives them.
fn bind(bindings: &[String]) -> Outcome<BTreeMap<String, Value>> {
    let mut names = BTreeMap::new();
    for binding in bindings {
        let form = || {
            Failure::usage(format!("{binding:?} gives no name a value")).suggest(
                "x=file.npy, x=file.npz:name, x=1.5 or x=[[1,2],[3,4]]; put an expression with spaces in quotes",
            )
        };
        let (name, text) = binding.split_once('=').ok_or_else(form)?;
        if !lexer::is_name(name) || text.is_empty() {
            return Err(form());
        }
        let value = match literal(text) {
            Some(value) => value.map_err(|t| t.in_text(text))?,
            None => Value::Tensor(files::load(text)?),
        };
        if names.insert(name.to_string(), value).is_some() {
            return Err(Failure::usage(format!("{name:?} is given a value twice")));
        }
    }
    Ok(names)
}

/// The value, if the text is a number, a truth value or an array rather than the name of a file.
fn literal(text: &str) -> Option<Result<Value, Trouble>> {
    let first = text.trim_start().chars().next()?;
    let number = text.trim().parse::<f64>().is_ok();
    let truth = matches!(text, "true" | "false");
    if !(number || truth || first == '[') {
        return None;
    }
    Some(parser::parse(text).and_then(|program| machine::value(&program, &BTreeMap::new())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_told_from_files() {
        for text in ["1.5", "-3", "1e3", "[1,2]", "true", "inf"] {
            assert!(literal(text).is_some_and(|v| v.is_ok()), "{text}");
        }
        for text in ["a.npy", "./1", "x", "/tmp/true.npy"] {
            assert!(literal(text).is_none(), "{text}");
        }
        assert!(literal("[1,").is_some_and(|v| v.is_err()));
    }
}
