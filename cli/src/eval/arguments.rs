//! The arguments of a call, asked for by name and converted to what the library takes.

use millstream::core::what::MAX_RANK;
use millstream::{Axes, DType, Order, Sizes, Tensor};

use super::functions::Function;
use super::trouble::Trouble;
use super::value::{Array, Beside, Numbers, Value, pair, wraps};

/// The arguments of one call. Each is taken at most once.
pub struct Arguments<'a> {
    function: &'a Function,
    /// The position of the call.
    pub at: usize,
    given: Vec<(&'a str, Value, usize)>,
}

impl<'a> Arguments<'a> {
    /// Matches values with the function's parameters: by position first, then by name.
    pub fn new(
        function: &'a Function,
        at: usize,
        values: Vec<(Value, usize)>,
        names: &[Option<String>],
    ) -> Result<Arguments<'a>, Trouble> {
        let parameters: Vec<&str> = function.parameters().map(|(name, _)| name).collect();
        let mut given: Vec<(&str, Value, usize)> = Vec::new();
        for (i, ((value, position), name)) in values.into_iter().zip(names).enumerate() {
            let found = match name {
                None if names.iter().take(i).any(Option::is_some) => {
                    return Err(Trouble::new(position, "an argument without a name follows one with a name"));
                }
                None => parameters.get(i),
                // One axis or several: people write either.
                Some(n) => parameters.iter().find(|p| *p == n || (**p == "axes" && n == "axis")),
            };
            let Some(parameter) = found else {
                let what = name.as_ref().map_or("so many arguments".into(), |n| format!("no argument {n:?}"));
                let text = format!("{} takes {what}", function.name);
                let text = if name.is_none() { text.replace("takes", "does not take") } else { text };
                return Err(Trouble::new(position, text).suggest(function.signature()));
            };
            if given.iter().any(|(p, ..)| p == parameter) {
                return Err(Trouble::new(position, format!("the argument {parameter:?} is given twice")));
            }
            given.push((parameter, value, position));
        }
        Ok(Arguments { function, at, given })
    }

    fn take(&mut self, name: &str) -> Option<(Value, usize)> {
        let i = self.given.iter().position(|(n, ..)| *n == name)?;
        let (_, value, at) = self.given.swap_remove(i);
        Some((value, at))
    }

    /// The value of an argument that must be there, and its position.
    pub fn value(&mut self, name: &str) -> Result<(Value, usize), Trouble> {
        self.take(name).ok_or_else(|| {
            Trouble::new(self.at, format!("{} needs the argument {name:?}", self.function.name))
                .suggest(self.function.signature())
        })
    }

    fn wrong(&self, at: usize, name: &str, wanted: &str, value: &Value) -> Trouble {
        Trouble::new(at, format!("{name:?} of {} must be {wanted}, not {}", self.function.name, value.what()))
            .suggest(self.function.signature())
    }

    /// A tensor; numbers and arrays become one.
    pub fn tensor(&mut self, name: &str) -> Result<Tensor, Trouble> {
        let (value, at) = self.value(name)?;
        value.tensor(None).ok_or_else(|| self.wrong(at, name, "a tensor", &value))
    }

    /// Two values for an operation on pairs.
    pub fn pair(&mut self, a: &str, b: &str) -> Result<(Tensor, Beside), Trouble> {
        let ((x, at), (y, _)) = (self.value(a)?, self.value(b)?);
        pair(&x, &y, wraps(self.function.name))
            .ok_or_else(|| Trouble::new(at, format!("{} takes tensors and numbers, not dtypes", self.function.name)))
    }

    /// What may stand beside a tensor of this dtype.
    pub fn beside(&mut self, name: &str, dtype: DType) -> Result<Beside, Trouble> {
        let (value, at) = self.value(name)?;
        Ok(match value {
            Value::Int(v) => Beside::Int(v),
            Value::Float(v) => Beside::Float(v),
            Value::Bool(v) => Beside::Bool(v),
            other => Beside::Tensor(
                other.tensor(Some(dtype)).ok_or_else(|| self.wrong(at, name, "a number or a tensor", &other))?,
            ),
        })
    }

    /// What may stand beside a tensor of this dtype, or this number where it is not given.
    pub fn beside_or(&mut self, name: &str, dtype: DType, default: i64) -> Result<Beside, Trouble> {
        if self.has(name) { self.beside(name, dtype) } else { Ok(Beside::Int(default)) }
    }

    /// The argument `values` for a tensor that they are put into.
    pub fn values(&mut self, into: &Tensor) -> Result<Tensor, Trouble> {
        let (value, at) = self.value("values")?;
        value.tensor(Some(into.dtype())).ok_or_else(|| self.wrong(at, "values", "a number or a tensor", &value))
    }

    /// A whole number.
    pub fn int(&mut self, name: &str) -> Result<isize, Trouble> {
        match self.value(name)? {
            (Value::Int(v), at) => isize::try_from(v).map_err(|_| Trouble::new(at, format!("{v} is out of range"))),
            (other, at) => Err(self.wrong(at, name, "a whole number", &other)),
        }
    }

    /// A whole number, or this one where it is not given.
    pub fn int_or(&mut self, name: &str, default: isize) -> Result<isize, Trouble> {
        if self.has(name) { self.int(name) } else { Ok(default) }
    }

    /// A whole number from 0 on.
    pub fn count_or(&mut self, name: &str, default: usize) -> Result<usize, Trouble> {
        let at = self.position(name);
        let value = self.int_or(name, default as isize)?;
        usize::try_from(value)
            .map_err(|_| Trouble::new(at, format!("{name:?} of {} must not be negative", self.function.name)))
    }

    /// A whole number from 0 on that must be there.
    pub fn count(&mut self, name: &str) -> Result<usize, Trouble> {
        let at = self.position(name);
        let value = self.int(name)?;
        usize::try_from(value)
            .map_err(|_| Trouble::new(at, format!("{name:?} of {} must not be negative", self.function.name)))
    }

    /// A whole number from 0 on, if it is given.
    pub fn count_if(&mut self, name: &str) -> Result<Option<usize>, Trouble> {
        if self.has(name) { self.count(name).map(Some) } else { Ok(None) }
    }

    /// Sizes, or none where they are not given.
    pub fn sizes_or_none(&mut self, name: &str) -> Result<Vec<usize>, Trouble> {
        if self.has(name) { self.sizes(name) } else { Ok(Vec::new()) }
    }

    /// A number that must be there.
    pub fn float(&mut self, name: &str) -> Result<f64, Trouble> {
        if self.has(name) { self.float_or(name, 0.0) } else { self.value(name).map(|_| 0.0) }
    }

    /// A number, or this one where it is not given.
    pub fn float_or(&mut self, name: &str, default: f64) -> Result<f64, Trouble> {
        match self.take(name) {
            None => Ok(default),
            Some((Value::Float(v), _)) => Ok(v),
            Some((Value::Int(v), _)) => Ok(v as f64),
            Some((other, at)) => Err(self.wrong(at, name, "a number", &other)),
        }
    }

    /// A truth value; false where it is not given.
    pub fn flag(&mut self, name: &str) -> Result<bool, Trouble> {
        match self.take(name) {
            None => Ok(false),
            Some((Value::Bool(v), _)) => Ok(v),
            Some((other, at)) => Err(self.wrong(at, name, "true or false", &other)),
        }
    }

    /// `x` reduced over axes, in the form in which they go or, with `keep`, in that in which they stay.
    pub fn reduced(
        &mut self,
        goes: impl FnOnce(&Tensor, Axes) -> Tensor,
        stays: impl FnOnce(&Tensor, Axes) -> Tensor,
    ) -> Result<Tensor, Trouble> {
        let (x, axes) = (self.tensor("x")?, self.axes()?);
        Ok(if self.flag("keep")? { stays(&x, axes) } else { goes(&x, axes) })
    }

    /// Descending order where the flag says so, or by default.
    pub fn order(&mut self, flag: &str, default: bool) -> Result<Order, Trouble> {
        Ok(if self.flag_or(flag, default)? { Order::Descending } else { Order::Ascending })
    }

    /// True or false, or this where it is not given.
    pub fn flag_or(&mut self, name: &str, default: bool) -> Result<bool, Trouble> {
        match self.take(name) {
            None => Ok(default),
            Some((Value::Bool(v), _)) => Ok(v),
            Some((other, at)) => Err(self.wrong(at, name, "true or false", &other)),
        }
    }

    /// One of several results, by the number that `part` gives; the first where it is not given.
    pub fn part<const N: usize>(&mut self, results: [Tensor; N]) -> Result<Tensor, Trouble> {
        let at = self.position("part");
        let part = self.count_or("part", 0)?;
        let text = || format!("{} has the parts 0 to {}, not {part}", self.function.name, N.saturating_sub(1));
        results.into_iter().nth(part).ok_or_else(|| Trouble::new(at, text()).suggest(self.function.signature()))
    }

    /// Axes: one number, an array of them, or none for all.
    pub fn axes(&mut self) -> Result<Axes, Trouble> {
        Ok(if self.has("axes") { self.ints("axes")?.into() } else { Axes::from(..) })
    }

    /// The last so many axes that `axes` says, one where it is not given.
    pub fn last_axes(&mut self) -> Result<Axes, Trouble> {
        let at = self.position("axes");
        match self.count_or("axes", 1)? {
            count @ 1..=MAX_RANK => Ok(Axes::from(-(count as isize)..)),
            count => Err(Trouble::new(at, format!("the last {count} axes")).suggest("name at least 1")),
        }
    }

    /// One or several whole numbers.
    pub fn ints(&mut self, name: &str) -> Result<Vec<isize>, Trouble> {
        let (value, at) = self.value(name)?;
        let numbers = match &value {
            Value::Int(v) => vec![*v],
            Value::Array(Array { shape, numbers: Numbers::Ints(v) }) if shape.len() == 1 => v.clone(),
            Value::Array(Array { shape, .. }) if shape == &[0] => vec![],
            other => return Err(self.wrong(at, name, "a whole number or a list of them", other)),
        };
        if numbers.len() > MAX_RANK {
            return Err(Trouble::new(at, format!("tensors have at most {MAX_RANK} dimensions here")));
        }
        let narrow = |v: i64| isize::try_from(v).map_err(|_| Trouble::new(at, format!("{v} is out of range")));
        numbers.into_iter().map(narrow).collect()
    }

    /// A shape.
    pub fn sizes(&mut self, name: &str) -> Result<Vec<usize>, Trouble> {
        let at = self.position(name);
        let size = |v: isize| usize::try_from(v).map_err(|_| Trouble::new(at, format!("the size {v} is negative")));
        self.ints(name)?.into_iter().map(size).collect()
    }

    /// One size for all axes or one for each, or this one where it is not given.
    pub fn sizes_or(&mut self, name: &str, default: usize) -> Result<Sizes, Trouble> {
        if self.has(name) { Ok(Sizes::from(self.sizes(name)?.as_slice())) } else { Ok(default.into()) }
    }

    /// Pairs of sizes: `[1, 2]` is one, `[[1, 2], [0, 0]]` are two.
    pub fn pairs(&mut self, name: &str) -> Result<Vec<(usize, usize)>, Trouble> {
        let (value, at) = self.value(name)?;
        let numbers = match &value {
            Value::Array(Array { shape, numbers: Numbers::Ints(v) }) if shape == &[2] => v,
            Value::Array(Array { shape, numbers: Numbers::Ints(v) }) if shape.len() == 2 && shape[1] == 2 => v,
            other => return Err(self.wrong(at, name, "pairs of whole numbers", other)),
        };
        let size = |v: i64| usize::try_from(v).map_err(|_| Trouble::new(at, format!("the size {v} is negative")));
        numbers.chunks(2).map(|p| Ok((size(p[0])?, size(p[1])?))).collect()
    }

    /// The same, if they are given.
    pub fn sizes_if(&mut self, name: &str) -> Result<Option<Sizes>, Trouble> {
        if self.has(name) { Ok(Some(Sizes::from(self.sizes(name)?.as_slice()))) } else { Ok(None) }
    }

    /// A tensor, if it is given.
    pub fn tensor_if(&mut self, name: &str) -> Result<Option<Tensor>, Trouble> {
        if self.has(name) { self.tensor(name).map(Some) } else { Ok(None) }
    }

    /// All tensors that are left.
    pub fn tensors(&mut self, names: &[&str]) -> Result<Vec<Tensor>, Trouble> {
        names.iter().filter_map(|name| self.tensor_if(name).transpose()).collect()
    }

    /// Text.
    pub fn text(&mut self, name: &str) -> Result<String, Trouble> {
        match self.value(name)? {
            (Value::Text(text), _) => Ok(text),
            (other, at) => Err(self.wrong(at, name, "text in quotes", &other)),
        }
    }

    /// A dtype.
    pub fn dtype(&mut self, name: &str) -> Result<DType, Trouble> {
        match self.value(name)? {
            (Value::DType(d), _) => Ok(d),
            (other, at) => Err(self.wrong(at, name, "a dtype such as f32", &other)),
        }
    }

    /// A dtype, if it is given.
    pub fn dtype_if(&mut self, name: &str) -> Result<Option<DType>, Trouble> {
        if self.has(name) { self.dtype(name).map(Some) } else { Ok(None) }
    }

    /// Whether an argument is given.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(n, ..)| *n == name)
    }

    fn position(&self, name: &str) -> usize {
        self.given.iter().find(|(n, ..)| *n == name).map_or(self.at, |(.., at)| *at)
    }
}
