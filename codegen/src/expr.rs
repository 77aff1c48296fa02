//! Expressions as statements: values used once are written where they are used, shared ones get a name.

use millstream_core::{Binary, Expr, Id, Node, Unary};

/// How tightly an operator binds; larger binds tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Compare,
    Or,
    Xor,
    And,
    Shift,
    Sum,
    Product,
    Sign,
    Atom,
}

struct Text {
    text: String,
    strength: Strength,
}

impl Text {
    fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), strength: Strength::Atom }
    }

    /// The text, in parentheses unless it binds at least so tightly.
    fn at_least(&self, strength: Strength) -> String {
        if self.strength >= strength { self.text.clone() } else { format!("({})", self.text) }
    }
}

/// Writes an expression as lines of the form `name = formula`. Inputs are called `x0`, `x1`, ..., parameters `p0`, ..., results
/// `y0`, ..., shared values `t0`, ..., reductions of a row `r0`, ...
pub(crate) fn statements(expr: &Expr, result: impl Fn(usize) -> String) -> Vec<String> {
    let nodes = expr.nodes();
    let mut uses = vec![0usize; nodes.len()];
    for (node, _) in nodes {
        for o in node.operands() {
            uses[o.at()] += 1;
        }
    }
    let mut lines = Vec::new();
    let mut texts: Vec<Text> = Vec::with_capacity(nodes.len());
    let (mut shared, mut rows) = (0, 0);
    for (i, (node, dtype)) in nodes.iter().enumerate() {
        let of = |id: Id| &texts[id.at()];
        let text = match *node {
            Node::Input(n) => Text::atom(format!("x{n}")),
            Node::Param(n) => Text::atom(format!("p{n}")),
            Node::Const(value) => Text::atom(value.to_string()),
            Node::Index(d) => Text::atom(format!("i{d}")),
            Node::Acc => Text::atom("acc"),
            Node::Unary(op, a) => unary(op, of(a)),
            Node::Binary(op, a, b) => binary(op, of(a), of(b)),
            Node::Select(c, a, b) => Text::atom(format!("where({}, {}, {})", of(c).text, of(a).text, of(b).text)),
            Node::Cast(a) => Text::atom(format!("{dtype}({})", of(a).text)),
            Node::Reduce(op, a) => Text::atom(format!("{}({})", op.name(), of(a).text)),
            Node::Random(c, x, y) => Text::atom(format!("random({}, {}, {})", of(c).text, of(x).text, of(y).text)),
        };
        let is_leaf = node.operands().next().is_none();
        let is_row = matches!(node, Node::Reduce(..));
        let named = !is_leaf && (is_row || uses[i] > 1);
        if !named {
            texts.push(text);
            continue;
        }
        let (letter, count) = if is_row { ('r', &mut rows) } else { ('t', &mut shared) };
        let name = format!("{letter}{count}");
        *count += 1;
        lines.push(format!("{name} = {}", text.text));
        texts.push(Text::atom(name));
    }
    for (o, id) in expr.outputs().iter().enumerate() {
        lines.push(format!("{} = {}", result(o), texts[id.at()].text));
    }
    lines
}

fn unary(op: Unary, a: &Text) -> Text {
    match op {
        Unary::Neg => Text { text: format!("-{}", a.at_least(Strength::Sign)), strength: Strength::Sign },
        Unary::Not => Text { text: format!("!{}", a.at_least(Strength::Sign)), strength: Strength::Sign },
        Unary::Recip => Text { text: format!("1 / {}", a.at_least(Strength::Sign)), strength: Strength::Product },
        other => Text::atom(format!("{}({})", other.name(), a.text)),
    }
}

fn binary(op: Binary, a: &Text, b: &Text) -> Text {
    let (symbol, strength) = match op {
        Binary::Add => ("+", Strength::Sum),
        Binary::Sub => ("-", Strength::Sum),
        Binary::Mul => ("*", Strength::Product),
        Binary::Div => ("/", Strength::Product),
        Binary::And => ("&", Strength::And),
        Binary::Or => ("|", Strength::Or),
        Binary::Xor => ("^", Strength::Xor),
        Binary::Shl => ("<<", Strength::Shift),
        Binary::Shr => (">>", Strength::Shift),
        Binary::Eq => ("==", Strength::Compare),
        Binary::Ne => ("!=", Strength::Compare),
        Binary::Lt => ("<", Strength::Compare),
        Binary::Le => ("<=", Strength::Compare),
        Binary::Gt => (">", Strength::Compare),
        Binary::Ge => (">=", Strength::Compare),
        Binary::FloorDiv
        | Binary::Rem
        | Binary::Pow
        | Binary::Min
        | Binary::Max
        | Binary::Atan2
        | Binary::Hypot
        | Binary::CopySign
        | Binary::NextAfter
        | Binary::Fmod
        | Binary::Complex => {
            return Text::atom(format!("{}({}, {})", op.name(), a.text, b.text));
        }
    };
    // Operators group from the left; the right side of one of equal strength keeps its parentheses.
    let next = match strength {
        Strength::Compare => Strength::Or,
        Strength::Or => Strength::Xor,
        Strength::Xor => Strength::And,
        Strength::And => Strength::Shift,
        Strength::Shift => Strength::Sum,
        Strength::Sum => Strength::Product,
        _ => Strength::Sign,
    };
    let left = if strength == Strength::Compare { a.at_least(next) } else { a.at_least(strength) };
    Text { text: format!("{left} {symbol} {}", b.at_least(next)), strength }
}

#[cfg(test)]
mod tests {
    use millstream_core::{DType, ExprBuilder, Reduce, Scalar};

    use super::*;

    fn lines(build: impl FnOnce(&mut ExprBuilder) -> Vec<Id>) -> Vec<String> {
        let mut b = ExprBuilder::new();
        let outputs = build(&mut b);
        statements(&b.finish(&outputs), |o| format!("y{o}"))
    }

    #[test]
    fn formulas_have_only_the_parentheses_they_need() {
        let text = lines(|b| {
            let (x, y, p) = (b.input(0, DType::F32), b.input(1, DType::F32), b.param(0, DType::F32));
            let scaled = b.binary(Binary::Mul, x, p).unwrap();
            let sum = b.binary(Binary::Add, scaled, y).unwrap();
            let t = b.unary(Unary::Tanh, sum).unwrap();
            let difference = b.binary(Binary::Sub, x, y).unwrap();
            let outer = b.binary(Binary::Sub, t, difference).unwrap();
            let product = b.binary(Binary::Mul, outer, y).unwrap();
            vec![b.unary(Unary::Neg, product).unwrap()]
        });
        assert_eq!(text, ["y0 = -((tanh(x0 * p0 + x1) - (x0 - x1)) * x1)"]);
    }

    #[test]
    fn shared_values_and_reductions_get_names() {
        let text = lines(|b| {
            let x = b.input(0, DType::F32);
            let m = b.reduce(Reduce::Max, x).unwrap();
            let d = b.binary(Binary::Sub, x, m).unwrap();
            let e = b.unary(Unary::Exp, d).unwrap();
            let s = b.reduce(Reduce::Sum, e).unwrap();
            vec![b.binary(Binary::Div, e, s).unwrap(), m]
        });
        assert_eq!(text, ["r0 = max(x0)", "t0 = exp(x0 - r0)", "r1 = sum(t0)", "y0 = t0 / r1", "y1 = r0"]);
    }

    #[test]
    fn casts_constants_and_selections_read_as_calls() {
        let text = lines(|b| {
            let x = b.input(0, DType::I32);
            let zero = b.constant(Scalar::new(0i32));
            let negative = b.binary(Binary::Lt, x, zero).unwrap();
            let pick = b.select(negative, zero, x).unwrap();
            vec![b.cast(pick, DType::F64)]
        });
        assert_eq!(text, ["y0 = f64(where(x0 < 0, 0, x0))"]);
    }
}
