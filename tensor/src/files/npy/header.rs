//! The head of a `.npy` file: magic, version, and a Python dictionary in a narrow form.
//!
//! The dictionary has exactly the keys `descr`, `fortran_order` and `shape`, in any order. It is parsed by hand, byte by byte:
//! whatever else it holds is an error that names the byte.

use millstream_core::what::MAX_RANK;
use millstream_core::{DType, Error, Layout, Result};

use crate::Tensor;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes that hold magic, version and the longest form of the header's length.
pub(super) const PRELUDE: usize = 12;

/// The longest header that is read. NumPy's own limit is 10,000.
const LONGEST: usize = 64 << 10;

/// The order of the bytes of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub fn native() -> Order {
        if cfg!(target_endian = "big") { Order::Big } else { Order::Little }
    }
}

/// What the head of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub dtype: DType,
    pub order: Order,
    pub column_major: bool,
    pub shape: Vec<usize>,
}

/// A header whose length is known.
pub(super) struct Start {
    /// Bytes before the data.
    pub total: usize,
    /// Where the dictionary begins.
    from: usize,
    /// The file from its first byte on, as far as it was read.
    pub text: Vec<u8>,
}

/// Checks magic, version and length in the first [`PRELUDE`] bytes of a file, or as many as it has.
pub(super) fn begin(prelude: &[u8]) -> Result<Start> {
    let ended = |what: &str| Error::format(format!("the file ends after {} bytes, within {what}", prelude.len()));
    let magic = prelude.get(..MAGIC.len()).ok_or_else(|| ended("the magic number"))?;
    if magic != MAGIC {
        let zip = magic.starts_with(b"PK");
        let error = Error::format("this is no npy file: it does not begin with \\x93NUMPY");
        return Err(if zip { error.suggest("this looks like an npz archive: load_npz reads it") } else { error });
    }
    let version = prelude.get(6..8).ok_or_else(|| ended("the version"))?;
    let (from, length) = match version {
        [1, 0] => (10, prelude.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))),
        [2 | 3, 0] => (12, prelude.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)),
        _ => {
            return Err(Error::format(format!("npy version {}.{} at byte 6 is not known", version[0], version[1])));
        }
    };
    let length = length.ok_or_else(|| ended("the header's length"))?;
    if length > LONGEST {
        return Err(Error::format(format!("the header claims {length} bytes at byte 8; at most {LONGEST} are read")));
    }
    let total = from + length;
    if total < prelude.len() {
        return Err(Error::format(format!("the header claims {length} bytes at byte 8, too few for a dictionary")));
    }
    Ok(Start { total, from, text: prelude.to_vec() })
}

impl Start {
    /// Parses the dictionary, all of which must be in `text` by now.
    pub fn parse(&self) -> Result<Header> {
        if self.text.len() < self.total {
            return Err(Error::format(format!(
                "the file ends after {} bytes, within the header of {}",
                self.text.len(),
                self.total
            )));
        }
        let mut parser = Parser { text: self.text.get(..self.total).unwrap_or_default(), at: self.from };
        parser.dictionary()
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::format(format!("the header's byte {}: {what}", self.at))
    }

    fn unexpected(&self, wanted: &str) -> Error {
        match self.peek() {
            Some(b) if b.is_ascii_graphic() => self.error(format_args!("expected {wanted}, found '{}'", b as char)),
            Some(b) => self.error(format_args!("expected {wanted}, found byte {b:#04x}")),
            None => self.error(format_args!("expected {wanted}, but the header ends")),
        }
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over a byte if it comes next.
    fn accept(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.accept(byte) { Ok(()) } else { Err(self.unexpected(&format!("'{}'", byte as char))) }
    }

    fn dictionary(&mut self) -> Result<Header> {
        let (mut descr, mut column_major, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.accept(b'}') {
            let key_at = self.at;
            let key = self.string("a key in quotes")?;
            self.expect(b':')?;
            let twice = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => column_major.replace(self.truth()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => {
                    self.at = key_at;
                    return Err(self.error(format_args!("the key {key:?} is not known")));
                }
            };
            if twice {
                self.at = key_at;
                return Err(self.error(format_args!("the key {key:?} comes twice")));
            }
            if !self.accept(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        self.skip_spaces();
        if self.peek().is_some() {
            return Err(self.unexpected("nothing after the dictionary"));
        }
        let missing = |key: &str| Error::format(format!("the header has no {key:?}"));
        let (dtype, order) = descr.ok_or_else(|| missing("descr"))?;
        Ok(Header {
            dtype,
            order,
            column_major: column_major.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// A quoted string without escapes.
    fn string(&mut self, wanted: &str) -> Result<String> {
        self.skip_spaces();
        let quote = match self.peek() {
            Some(q @ (b'\'' | b'"')) => q,
            _ => return Err(self.unexpected(wanted)),
        };
        self.at += 1;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&b| b == quote).ok_or_else(|| self.error("a string without end"))?;
        let text = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
        self.at += end + 1;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool> {
        self.skip_spaces();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>> {
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.accept(b')') {
            if sizes.len() == MAX_RANK {
                return Err(self.error(format_args!("more than {MAX_RANK} dimensions")));
            }
            sizes.push(self.number()?);
            if !self.accept(b',') {
                if sizes.len() == 1 {
                    // `(3)` is a number in Python, not a tuple.
                    return Err(self.unexpected("','"));
                }
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn number(&mut self) -> Result<usize> {
        self.skip_spaces();
        let start = self.at;
        let mut value = 0usize;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(usize::from(digit - b'0')))
                .ok_or_else(|| self.error("a size that is too large to address"))?;
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected("a size"));
        }
        // Python 2 wrote long integers like this.
        if self.peek() == Some(b'L') {
            self.at += 1;
        }
        Ok(value)
    }

    fn descr(&mut self) -> Result<(DType, Order)> {
        self.skip_spaces();
        let at = self.at;
        if self.peek() == Some(b'[') {
            return Err(self
                .error("structured dtypes are not supported")
                .suggest("save one field of the array at a time"));
        }
        let text = self.string("a dtype in quotes")?;
        let refuse = |why: &str, hint: Option<&str>| {
            let error = Error::format(format!("the header's byte {at}: dtype {text:?} {why}"));
            hint.map_or(error.clone(), |h| error.suggest(h))
        };
        let mut letters = text.chars();
        let order = match letters.next() {
            Some('<') => Some(Order::Little),
            Some('>') => Some(Order::Big),
            Some('=') => Some(Order::native()),
            Some('|') => None,
            _ => return Err(refuse("does not begin with a byte order", None)),
        };
        let code = letters.as_str();
        let dtype = match code {
            "b1" => DType::Bool,
            "i1" => DType::I8,
            "i2" => DType::I16,
            "i4" => DType::I32,
            "i8" => DType::I64,
            "u1" => DType::U8,
            "u2" => DType::U16,
            "u4" => DType::U32,
            "u8" => DType::U64,
            "f2" => DType::F16,
            "f4" => DType::F32,
            "f8" => DType::F64,
            "c8" => DType::C64,
            "c16" => DType::C128,
            _ => {
                let (why, hint) = match code.chars().next() {
                    Some('O') => ("holds Python objects, which are never loaded", Some("save it with a numeric dtype")),
                    Some('V') => ("is raw bytes", Some("for bf16, save it as float32 in Python: a.astype('float32')")),
                    Some('S' | 'U' | 'a') => ("holds text", None),
                    Some('M' | 'm') => ("holds dates or times", Some("save it as int64 in Python: a.astype('int64')")),
                    Some('f' | 'c') => ("is a float type of another width", Some("save it as float64 or complex128")),
                    _ => ("is not known", None),
                };
                return Err(refuse(why, hint));
            }
        };
        match order {
            Some(order) => Ok((dtype, order)),
            None if dtype.size() == 1 => Ok((dtype, Order::native())),
            None => Err(refuse("has no byte order, but more than one byte", None)),
        }
    }
}

impl Header {
    /// The number of elements.
    pub fn elements(&self) -> Result<usize> {
        // An empty array, too, must have strides that fit: its sizes other than 0 are checked as if it were not empty.
        let most = isize::MAX as usize / self.dtype.size();
        let count = self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)).filter(|&n| n <= most));
        let count = count.ok_or_else(|| self.too_large())?;
        Ok(if self.shape.contains(&0) { 0 } else { count })
    }

    /// The error of a shape that no machine holds.
    pub fn too_large(&self) -> Error {
        Error::format(format!("the shape {:?} of {} is too large to address", self.shape, self.dtype))
    }

    /// The tensor over the data, which is complete and in this machine's byte order.
    pub fn tensor(&self, data: &[u8]) -> Result<Tensor> {
        self.arranged(|shape| Ok(Tensor::from_bytes(shape, self.dtype, data)))
    }

    /// The tensor that `make` gives for the shape in which the data lies row-major, as the file means it.
    pub fn arranged(&self, make: impl FnOnce(&[usize]) -> Result<Tensor>) -> Result<Tensor> {
        let shape: Vec<usize> =
            if self.column_major { self.shape.iter().rev().copied().collect() } else { self.shape.clone() };
        Layout::contiguous(&shape).map_err(|_| self.too_large())?;
        let mut tensor = make(&shape)?;
        if self.column_major && shape.len() > 1 {
            let order: Vec<usize> = (0..shape.len()).rev().collect();
            tensor = tensor.permute(&order);
        }
        tensor.check()?;
        Ok(tensor)
    }

    /// The head of a file: version 1.0, padded so that the data begins at a multiple of 64.
    pub fn to_bytes(&self) -> Vec<u8> {
        let order = match self.order {
            _ if self.dtype.size() == 1 => '|',
            Order::Little => '<',
            Order::Big => '>',
        };
        let sizes: String = self.shape.iter().map(|d| format!("{d}, ")).collect();
        // One dimension needs its comma, more do not want the last one.
        let sizes = if self.shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches([',', ' ']) };
        let fortran = if self.column_major { "True" } else { "False" };
        let mut text =
            format!("{{'descr': '{order}{}', 'fortran_order': {fortran}, 'shape': ({sizes}), }}", code(self.dtype));
        let long = text.len() + 11 + 63 > usize::from(u16::MAX);
        let before = if long { 12 } else { 10 };
        while (before + text.len() + 1) % 64 != 0 {
            text.push(' ');
        }
        text.push('\n');
        let mut out = MAGIC.to_vec();
        if long {
            out.extend([2, 0]);
            out.extend((text.len() as u32).to_le_bytes());
        } else {
            out.extend([1, 0]);
            out.extend((text.len() as u16).to_le_bytes());
        }
        out.extend(text.into_bytes());
        out
    }
}

/// The format's letters for a dtype.
fn code(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "b1",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::U8 => "u1",
        DType::U16 => "u2",
        DType::U32 => "u4",
        DType::U64 => "u8",
        DType::F16 => "f2",
        // Refused before it comes to this; NumPy knows it only as two raw bytes.
        DType::BF16 => "V2",
        DType::F32 => "f4",
        DType::F64 => "f8",
        DType::C64 => "c8",
        DType::C128 => "c16",
    }
}
