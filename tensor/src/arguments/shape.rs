//! Shapes: those that tensors have, and those that they shall have.

use std::fmt;
use std::ops::{Deref, Index};
use std::slice::SliceIndex;

use millstream_core::what::{Dims, count};
use millstream_core::{Error, Result};
use smallvec::SmallVec;

use super::Integer;
use super::integer::from_lists;

/// The sizes of a tensor: a slice of `usize`.
///
/// A tensor that carries an error has none. Indexing its shape then panics with that error, which says what went wrong and
/// where; [`Tensor::dims`](crate::Tensor::dims) returns it instead.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    sizes: &'a [usize],
    error: Option<&'a Error>,
}

impl<'a> Shape<'a> {
    pub(crate) fn new(sizes: &'a [usize], error: Option<&'a Error>) -> Shape<'a> {
        Shape { sizes, error }
    }

    /// The sizes as a slice; none of a tensor that carries an error.
    pub fn as_slice(self) -> &'a [usize] {
        self.sizes
    }

    /// The sizes in turn.
    pub fn iter(self) -> std::slice::Iter<'a, usize> {
        self.sizes.iter()
    }
}

impl Deref for Shape<'_> {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        self.sizes
    }
}

impl<I: SliceIndex<[usize]>> Index<I> for Shape<'_> {
    type Output = I::Output;

    #[track_caller]
    fn index(&self, index: I) -> &I::Output {
        match self.error {
            Some(error) => panic!("the tensor has no shape, because it carries an error: {error}"),
            None => &self.sizes[index],
        }
    }
}

impl<'a> IntoIterator for Shape<'a> {
    type Item = &'a usize;
    type IntoIter = std::slice::Iter<'a, usize>;

    fn into_iter(self) -> Self::IntoIter {
        self.sizes.iter()
    }
}

impl<'a> From<Shape<'a>> for &'a [usize] {
    fn from(shape: Shape<'a>) -> &'a [usize] {
        shape.sizes
    }
}

impl fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.sizes, f)
    }
}

impl<T: AsRef<[usize]> + ?Sized> PartialEq<T> for Shape<'_> {
    fn eq(&self, other: &T) -> bool {
        self.sizes == other.as_ref()
    }
}

impl AsRef<[usize]> for Shape<'_> {
    fn as_ref(&self) -> &[usize] {
        self.sizes
    }
}

impl Eq for Shape<'_> {}

/// One size of a [`NewShape`]: an integer, or `()` (or -1) for what is left.
#[derive(Clone, Copy, Debug)]
pub struct Extent(Option<isize>);

impl<T: Integer> From<T> for Extent {
    fn from(size: T) -> Extent {
        let size = size.number();
        Extent((size != -1).then_some(size))
    }
}

impl From<()> for Extent {
    fn from(_: ()) -> Extent {
        Extent(None)
    }
}

/// A shape to be: `6`, `[2, 3]`, `(2, ())`, `&sizes`, another tensor's `shape()`; `()` is that of a single number. One size may
/// be `()` or -1, where a method can infer it.
#[derive(Clone, Debug)]
pub struct NewShape {
    extents: SmallVec<[Extent; 6]>,
}

impl NewShape {
    /// The sizes, none of which may be left out.
    pub(crate) fn sizes(&self) -> Result<Dims> {
        self.extents.iter().map(|e| self.size(e, "only a reshape can infer a size")).collect()
    }

    /// The sizes of `len` elements, of which one may be left out.
    pub(crate) fn sizes_of(&self, len: usize) -> Result<Dims> {
        let inferred = self.extents.iter().filter(|e| e.0.is_none()).count();
        if inferred > 1 {
            return Err(
                Error::shape(format!("{self:?} leaves {inferred} sizes to be inferred")).suggest("leave out one")
            );
        }
        if inferred == 0 {
            return self.sizes();
        }
        let known: Dims =
            self.extents.iter().filter(|e| e.0.is_some()).map(|e| self.size(e, "")).collect::<Result<_>>()?;
        let known = count(&known)?;
        if known == 0 || !len.is_multiple_of(known) {
            return Err(Error::shape(format!("{len} elements do not fill the shape {self:?}")));
        }
        self.extents.iter().map(|e| if e.0.is_none() { Ok(len / known) } else { self.size(e, "") }).collect()
    }

    fn size(&self, extent: &Extent, suggestion: &str) -> Result<usize> {
        match extent.0 {
            Some(size) => {
                usize::try_from(size).map_err(|_| Error::shape(format!("a size of {size} in the shape {self}")))
            }
            None => Err(Error::shape(format!("the shape {self} leaves a size to be inferred")).suggest(suggestion)),
        }
    }
}

impl fmt::Display for NewShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.extents.iter().map(|e| e.0.unwrap_or(-1))).finish()
    }
}

impl<T: Integer> From<T> for NewShape {
    fn from(size: T) -> NewShape {
        NewShape { extents: [size.into()].into_iter().collect() }
    }
}

from_lists!(NewShape, |list| NewShape { extents: list.iter().map(|&size| size.into()).collect() });

impl From<Shape<'_>> for NewShape {
    fn from(shape: Shape<'_>) -> NewShape {
        shape.sizes.into()
    }
}

impl From<()> for NewShape {
    fn from(_: ()) -> NewShape {
        NewShape { extents: SmallVec::new() }
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {
        $(impl<$($name: Into<Extent>),+> From<($($name,)+)> for NewShape {
            #[allow(non_snake_case)]
            fn from(($($name,)+): ($($name,)+)) -> NewShape {
                NewShape { extents: [$($name.into()),+].into_iter().collect() }
            }
        })*
    };
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}
