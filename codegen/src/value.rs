//! The nodes of an expression as kernel text.

use millstream_core::{Binary, DType, Expr, Id, Node, Unary};

use crate::text::Text;
use crate::types::{Register, literal, narrow};

/// The names of the nodes that have been written so far, for one element.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    names: Vec<Option<String>>,
    /// Blocks of random words of the element before, which may be this one's, too.
    blocks: Vec<RandomBlock>,
}

/// A block of four random words: the node, the variable that holds it, and the counter and the key that it was made of last.
#[derive(Clone, Debug)]
struct RandomBlock {
    id: Id,
    name: String,
    of: [String; 3],
}

impl Values {
    pub(crate) fn new(expr: &Expr) -> Values {
        Values { names: vec![None; expr.nodes().len()], blocks: Vec::new() }
    }

    /// Says that another element was written just before this one: random words of one block are computed once.
    pub(crate) fn follow(&mut self, before: &Values) {
        self.blocks.clone_from(&before.blocks);
    }

    /// The name of a node that was written.
    pub(crate) fn get(&self, id: Id) -> &str {
        self.names[id.at()].as_deref().unwrap_or("unwritten")
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.names[id.at()].is_some()
    }

    /// Says by which name a node is known.
    pub(crate) fn set(&mut self, id: Id, name: impl Into<String>) {
        self.names[id.at()] = Some(name.into());
    }

    /// The name of a node; `hidden` from a compiler that would merge the operation that reads it with the one that gave it.
    fn opaque(&self, id: Id, register: Register, hidden: bool) -> String {
        match hidden && register.is_float() {
            true => format!("keep_{}({})", register.name(), self.get(id)),
            false => self.get(id).to_string(),
        }
    }

    /// Writes what these nodes need and is not written yet. `leaf` gives the text of inputs, parameters, indices and
    /// accumulators; reductions must be known already.
    pub(crate) fn write(
        &mut self,
        text: &mut Text,
        expr: &Expr,
        wanted: &[Id],
        mut leaf: impl FnMut(&mut Text, Id, Node, DType) -> String,
    ) {
        for id in missing(expr, wanted, |id| self.has(id)) {
            let (node, dtype) = expr.nodes()[id.at()];
            let value = match node {
                Node::Const(value) => {
                    // A variable: a compiler that computed with the number itself would refuse what gives no number.
                    let name = text.fresh("k");
                    text.line(format!("var {name} = {};", literal(value)));
                    self.set(id, name);
                    continue;
                }
                Node::Input(_) | Node::Param(_) | Node::Index(_) | Node::Acc | Node::Reduce(..) => {
                    let name = leaf(text, id, node, dtype);
                    self.set(id, name);
                    continue;
                }
                Node::Unary(op, a) => {
                    let register = Register::of(expr.dtype(a));
                    // Shader compilers take the root of 1 / x for 1 / sqrt(x), which is wrong for -0.
                    let merged = matches!(op, Unary::Recip | Unary::Sqrt | Unary::Rsqrt);
                    unary(op, expr.dtype(a), &self.opaque(a, register, merged))
                }
                Node::Binary(op, a, b) => {
                    let register = Register::of(expr.dtype(a));
                    use Binary::*;
                    let folded = matches!(op, Add | Sub | Mul | Div | Eq | Ne | Lt | Le | Gt | Ge);
                    // Shader compilers take x - x for 0, (x + y) - y for x, x + y >= x for y >= 0 and the larger of two numbers,
                    // chosen by a comparison, for their maximum, all of which is wrong for infinities or NaN: what they cannot
                    // see through they leave alone.
                    let second = self.opaque(b, register, folded);
                    binary(op, expr.dtype(a), self.get(a), &second)
                }
                Node::Select(c, a, b) => format!("select({}, {}, {})", self.get(b), self.get(a), self.get(c)),
                Node::Cast(a) => cast(expr.dtype(a), dtype, self.get(a)),
                Node::Random(c, x, y) => {
                    let of = [c, x, y].map(|o| self.get(o).to_string());
                    self.random(text, id, of)
                }
            };
            let name = text.name("t", value);
            self.set(id, name);
        }
    }
}

impl Values {
    /// Writes a random word.
    fn random(&mut self, text: &mut Text, id: Id, of: [String; 3]) -> String {
        let [c, x, y] = &of;
        let block = format!("random_block({c} >> 2u, {x}, {y})");
        let name = match self.blocks.iter_mut().find(|b| b.id == id) {
            Some(b) => {
                let [before, x0, y0] = &b.of;
                let other = format!("(({c} ^ {before}) > 3u) | ({x} != {x0}) | ({y} != {y0})");
                text.line(format!("if ({other}) {{"));
                text.line(format!("{} = {block};", b.name));
                text.line("}");
                let name = b.name.clone();
                b.of = of.clone();
                name
            }
            None => {
                let name = text.fresh("block");
                text.line(format!("var {name} = {block};"));
                self.blocks.push(RandomBlock { id, name: name.clone(), of: of.clone() });
                name
            }
        };
        format!("word_of({name}, {})", of[0])
    }
}

/// The nodes that `wanted` needs and that are not known, operands before their users.
pub(crate) fn missing(expr: &Expr, wanted: &[Id], known: impl Fn(Id) -> bool) -> Vec<Id> {
    let mut need = vec![false; expr.nodes().len()];
    for &id in wanted {
        need[id.at()] = !known(id);
    }
    for i in (0..need.len()).rev() {
        if need[i] && !matches!(expr.nodes()[i].0, Node::Reduce(..)) {
            for o in expr.nodes()[i].0.operands().filter(|&o| !known(o)) {
                need[o.at()] = true;
            }
        }
    }
    (0..need.len()).filter(|&i| need[i]).map(|i| Id(i as u32)).collect()
}

/// The result of arithmetic in 32 bits, brought back to a narrow type's range.
fn wrapped(dtype: DType, value: String) -> String {
    match narrow(dtype) {
        Some((bits, true)) => format!("wrap_i{bits}({value})"),
        Some((bits, false)) => format!("wrap_u{bits}({value})"),
        None => value,
    }
}

fn unary(op: Unary, dtype: DType, x: &str) -> String {
    use Unary::*;
    let register = Register::of(dtype);
    let r = register.name();
    match (op, register) {
        (Neg, Register::F32 | Register::F64) => format!("(-{x})"),
        (Neg, Register::U32) => wrapped(dtype, format!("(0u - {x})")),
        (Neg, Register::U64) => format!("(0lu - {x})"),
        (Neg, Register::C64 | Register::C128) => format!("neg_{r}({x})"),
        (Neg, _) => wrapped(dtype, format!("neg_{r}({x})")),
        (Abs, Register::U32 | Register::U64) => x.into(),
        (Abs, Register::F32 | Register::F64) => format!("abs({x})"),
        (Abs, Register::C64 | Register::C128) => format!("abs_{r}({x})"),
        (Abs, _) => wrapped(dtype, format!("abs_{r}({x})")),
        (Imag, _) => format!("{x}.y"),
        (Not, Register::Bool) => format!("(!{x})"),
        (Not, _) => wrapped(dtype, format!("(~{x})")),
        // A driver in software takes an f64 beyond 2^24 for whole.
        (Trunc, Register::F64) => format!("trunc_f64({x})"),
        (Sqrt | Floor | Ceil | Trunc, Register::F32 | Register::F64) => format!("{}({x})", op.name()),
        _ => format!("{}_{r}({x})", op.name()),
    }
}

pub(crate) fn binary(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    use Binary::*;
    let register = Register::of(dtype);
    let r = register.name();
    if register == Register::Bool {
        return match op {
            Add | Or | Max => format!("({a} || {b})"),
            Mul | And | Min => format!("({a} && {b})"),
            Eq => format!("({a} == {b})"),
            Lt => format!("(!{a} && {b})"),
            Le => format!("(!{a} || {b})"),
            Gt => format!("({a} && !{b})"),
            Ge => format!("({a} || !{b})"),
            _ => format!("({a} != {b})"),
        };
    }
    let infix = |sign: &str| format!("({a} {sign} {b})");
    let call = || format!("{}_{r}({a}, {b})", op.name());
    if register.is_complex() {
        return match op {
            Add => infix("+"),
            Sub => infix("-"),
            _ => call(),
        };
    }
    match op {
        Complex if register == Register::F32 => return format!("c64({a}, {b})"),
        Complex => return format!("c128({a}, {b})"),
        CopySign => return format!("copy_sign_{r}({a}, {b})"),
        // What is next to a half is another half, though both are held as f32.
        NextAfter if dtype.size() == 2 => return format!("nextafter_{dtype}({a}, {b})"),
        _ => {}
    }
    let float = register.is_float();
    let unsigned = matches!(register, Register::U32 | Register::U64);
    match op {
        Add if float || unsigned => wrapped(dtype, infix("+")),
        Sub if float || unsigned => wrapped(dtype, infix("-")),
        Mul if float || unsigned => wrapped(dtype, infix("*")),
        Div => infix("/"),
        And => infix("&"),
        Or => infix("|"),
        Xor => infix("^"),
        Eq => infix("=="),
        // Shading languages may take `!=` for false where an operand is NaN.
        Ne if float => format!("(!({a} == {b}))"),
        Ne => infix("!="),
        Lt => infix("<"),
        Le => infix("<="),
        Gt => infix(">"),
        Ge => infix(">="),
        Min | Max if !float => format!("{}({a}, {b})", op.name()),
        Shl | Shr => {
            let width = narrow(dtype).map_or(dtype.size() as u32 * 8, |(bits, _)| bits);
            wrapped(dtype, format!("{}_{r}({a}, {b}, {width}u)", op.name()))
        }
        _ => wrapped(dtype, call()),
    }
}

/// A value of one dtype in another.
pub(crate) fn cast(from: DType, to: DType, x: &str) -> String {
    use Register::*;
    let (a, b) = (Register::of(from), Register::of(to));
    if a.is_complex() {
        return match b {
            Bool => format!("({x}.x != {zero} || {x}.y != {zero})", zero = real(a).zero()),
            C64 | C128 if a == b => x.into(),
            C64 | C128 => format!("{}({part}({x}.x), {part}({x}.y))", b.name(), part = real(b).name()),
            _ => cast(if a == C64 { DType::F32 } else { DType::F64 }, to, &format!("{x}.x")),
        };
    }
    if b.is_complex() {
        let part = cast(from, if b == C64 { DType::F32 } else { DType::F64 }, x);
        return format!("{}({part}, {})", b.name(), real(b).zero());
    }
    if a == Bool {
        return if b == Bool { x.into() } else { format!("select({}, {}, {x})", b.zero(), b.one()) };
    }
    match b {
        // By bits: a device may take subnormal numbers for zero.
        Bool if a.is_float() => format!("{}_to_bool({x})", a.name()),
        Bool => format!("({x} != {})", a.zero()),
        F32 if matches!(to, DType::F16 | DType::BF16) => match a {
            F32 => format!("round_{to}({x})"),
            // These reach the half type in one rounding.
            F64 | I64 | U64 | I32 | U32 => format!("{to}_to_f32({}_to_{to}({x}))", a.name()),
            _ => x.into(),
        },
        F32 if a == F32 => x.into(),
        F32 | F64 => {
            if a == b {
                x.into()
            } else {
                format!("{}({x})", b.name())
            }
        }
        _ if a.is_float() => match narrow(to) {
            Some(_) => format!("{}_to_{to}({x})", a.name()),
            None => format!("{}_to_{}({x})", a.name(), b.name()),
        },
        _ => {
            let wide = match (a, b) {
                _ if a == b => x.to_string(),
                // First wider, then to the other sign: not every language extends by the sign of what it has.
                (I32, U64) => format!("bitcast<u64>(i64({x}))"),
                (U32, I64) => format!("bitcast<i64>(u64({x}))"),
                _ => format!("{}({x})", b.name()),
            };
            if narrow(to).is_some() && from != to { wrapped(to, wide) } else { wide }
        }
    }
}

fn real(register: Register) -> Register {
    if register == Register::C64 { Register::F32 } else { Register::F64 }
}
