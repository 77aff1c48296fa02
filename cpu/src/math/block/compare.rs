//! Comparisons into bools, and selection by bools.

use super::each::{Choose, Fn2, Zip};
use super::entry::{C, V, resolve_scalar, resolve_swapped};
use super::kinds::without_sign;
use super::{Binary, BlockFn, DType, Form};
use crate::simd::Isa;
use num_complex::Complex;
use std::marker::PhantomData;

macro_rules! fn2 {
    ($($name:ident: $bound:ident |$a:ident, $b:ident| $e:expr;)+) => {$(
        struct $name<T>(PhantomData<T>);
        impl<T: Copy + $bound> Fn2 for $name<T> {
            type A = T;
            type B = T;
            type R = u8;
            #[inline(always)]
            fn f($a: T, $b: T) -> u8 {
                u8::from($e)
            }
        }
    )+};
}

fn2! {
    Eq: PartialEq |a, b| a == b;
    Ne: PartialEq |a, b| a != b;
    Lt: PartialOrd |a, b| a < b;
    Le: PartialOrd |a, b| a <= b;
    Gt: PartialOrd |a, b| a > b;
    Ge: PartialOrd |a, b| a >= b;
}

/// `F`, whose operands may be exchanged by taking `G` instead.
fn zip<F: Fn2, G: Fn2>(isa: Isa, form: Form) -> BlockFn {
    match form {
        Form::VV => resolve_scalar::<Zip<F, V, V>>(isa),
        Form::VS => resolve_scalar::<Zip<F, V, C>>(isa),
        Form::SV => resolve_swapped::<Zip<G, V, C>>(isa),
    }
}

fn equality<T: Copy + PartialEq>(isa: Isa, op: Binary, form: Form) -> Option<BlockFn> {
    match op {
        Binary::Eq => Some(zip::<Eq<T>, Eq<T>>(isa, form)),
        Binary::Ne => Some(zip::<Ne<T>, Ne<T>>(isa, form)),
        _ => None,
    }
}

fn order<T: Copy + PartialOrd>(isa: Isa, op: Binary, form: Form) -> Option<BlockFn> {
    Some(match op {
        Binary::Eq => zip::<Eq<T>, Eq<T>>(isa, form),
        Binary::Ne => zip::<Ne<T>, Ne<T>>(isa, form),
        Binary::Lt => zip::<Lt<T>, Gt<T>>(isa, form),
        Binary::Le => zip::<Le<T>, Ge<T>>(isa, form),
        Binary::Gt => zip::<Gt<T>, Lt<T>>(isa, form),
        Binary::Ge => zip::<Ge<T>, Le<T>>(isa, form),
        _ => return None,
    })
}

/// See [`super::compare`].
pub fn compare(isa: Isa, op: Binary, elem: DType, form: Form) -> Option<BlockFn> {
    let elem = if matches!(op, Binary::Eq | Binary::Ne) { without_sign(elem) } else { elem };
    match elem {
        DType::Bool | DType::U8 => order::<u8>(isa, op, form),
        DType::U16 => order::<u16>(isa, op, form),
        DType::U32 => order::<u32>(isa, op, form),
        DType::U64 => order::<u64>(isa, op, form),
        DType::I8 => order::<i8>(isa, op, form),
        DType::I16 => order::<i16>(isa, op, form),
        DType::I32 => order::<i32>(isa, op, form),
        DType::I64 => order::<i64>(isa, op, form),
        DType::F32 => order::<f32>(isa, op, form),
        DType::F64 => order::<f64>(isa, op, form),
        DType::C64 => equality::<Complex<f32>>(isa, op, form),
        DType::C128 => equality::<Complex<f64>>(isa, op, form),
        DType::F16 | DType::BF16 => None,
    }
}

fn choose<T: Copy>(isa: Isa, form: Form) -> BlockFn {
    match form {
        Form::VV => resolve_scalar::<Choose<T, V, V>>(isa),
        Form::VS => resolve_scalar::<Choose<T, V, C>>(isa),
        Form::SV => resolve_scalar::<Choose<T, C, V>>(isa),
    }
}

/// See [`super::select`].
pub fn select(isa: Isa, elem: DType, form: Form) -> Option<BlockFn> {
    Some(match elem.size() {
        1 => choose::<u8>(isa, form),
        2 => choose::<u16>(isa, form),
        4 => choose::<u32>(isa, form),
        8 => choose::<u64>(isa, form),
        _ => choose::<[u64; 2]>(isa, form),
    })
}
