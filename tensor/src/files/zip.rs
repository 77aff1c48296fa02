//! As much of the zip format as archives of arrays need: entries that are stored or deflated, with 64-bit sizes.
//!
//! The directory at the end of the file says what is in it. Its numbers are checked against the file before they are used, and no
//! two entries may share bytes; encryption, links and archives of several files are not read.

use flate2::Crc;
use millstream_core::{Error, Result};

/// A file in an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub name: String,
    /// 0: stored, 8: deflated.
    pub method: u16,
    pub crc: u32,
    pub packed: u64,
    pub size: u64,
    /// Where its own header begins.
    offset: u64,
}

/// The most entries that are read; an array archive has far fewer.
const MOST: u64 = 1 << 20;

/// The least ratio of packed to plain bytes that deflate can reach is 1 to 1032.
const BEST: u64 = 1032;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    let part = at.checked_add(2).and_then(|end| bytes.get(at..end)).and_then(|b| b.try_into().ok());
    part.map(u16::from_le_bytes).ok_or_else(|| ended(at))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let part = at.checked_add(4).and_then(|end| bytes.get(at..end)).and_then(|b| b.try_into().ok());
    part.map(u32::from_le_bytes).ok_or_else(|| ended(at))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    let part = at.checked_add(8).and_then(|end| bytes.get(at..end)).and_then(|b| b.try_into().ok());
    part.map(u64::from_le_bytes).ok_or_else(|| ended(at))
}

fn ended(at: usize) -> Error {
    Error::format(format!("the archive ends at byte {at}, within one of its tables"))
}

fn offset_of(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::format(format!("byte {value} lies beyond the end of the archive")))
}

/// The entries of an archive.
pub(super) fn entries(bytes: &[u8]) -> Result<Vec<Entry>> {
    // The directory's end is the last thing in the file, but for a comment of up to 65535 bytes.
    let from = bytes.len().saturating_sub(22 + 65535);
    let tail = &bytes[from..];
    let end = (0..tail.len().saturating_sub(21))
        .rev()
        .find(|&i| tail[i..].starts_with(&END.to_le_bytes()))
        .map(|i| from + i)
        .ok_or_else(|| Error::format("this is no zip archive: it has no directory at its end"))?;
    let (mut count, mut start) = (u64::from(u16_at(bytes, end + 10)?), u64::from(u32_at(bytes, end + 16)?));
    if count == 0xffff || start == 0xffff_ffff {
        // The real numbers are in a larger record, whose offset stands just before.
        let at = end.checked_sub(20).ok_or_else(|| ended(end))?;
        if u32_at(bytes, at)? == LOCATOR64 {
            let record = offset_of(u64_at(bytes, at + 8)?)?;
            if u32_at(bytes, record)? != END64 {
                return Err(Error::format(format!("byte {record} should begin the directory's end, and does not")));
            }
            count = u64_at(bytes, record.saturating_add(32))?;
            start = u64_at(bytes, record.saturating_add(48))?;
        }
    }
    if count > MOST {
        return Err(Error::format(format!("the archive claims {count} entries; at most {MOST} are read")));
    }
    let mut at = offset_of(start)?;
    let mut list = Vec::new();
    for _ in 0..count {
        if u32_at(bytes, at)? != CENTRAL {
            return Err(Error::format(format!("byte {at} should begin an entry of the directory, and does not")));
        }
        let flags = u16_at(bytes, at + 8)?;
        let (names, extras, comments) =
            (u16_at(bytes, at + 28)?.into(), u16_at(bytes, at + 30)?.into(), u16_at(bytes, at + 32)?.into());
        let after = at + 46;
        let part = |from: usize, len: usize| bytes.get(from..from + len).ok_or_else(|| ended(from));
        let name: usize = names;
        let text = part(after, name)?;
        let text =
            std::str::from_utf8(text).map_err(|_| Error::format(format!("the name at byte {after} is no text")))?;
        let extra: usize = extras;
        let mut entry = Entry {
            name: text.to_string(),
            method: u16_at(bytes, at + 10)?,
            crc: u32_at(bytes, at + 16)?,
            packed: u32_at(bytes, at + 20)?.into(),
            size: u32_at(bytes, at + 24)?.into(),
            offset: u32_at(bytes, at + 42)?.into(),
        };
        wide(part(after + name, extra)?, &mut entry)?;
        let bad = |what: String| Error::format(format!("the entry {:?} {what}", entry.name));
        if flags & 1 != 0 {
            return Err(bad("is encrypted".into()));
        }
        let possible = match entry.method {
            0 => entry.packed == entry.size,
            8 => entry.size / BEST <= entry.packed,
            other => return Err(bad(format!("is packed by method {other}; 0 (stored) and 8 (deflated) are read"))),
        };
        if !possible || entry.packed > bytes.len() as u64 {
            return Err(bad(format!("claims {} bytes in {} packed ones", entry.size, entry.packed)));
        }
        list.push(entry);
        let comment: usize = comments;
        at = after + name + extra + comment;
    }
    check_disjoint(&list, bytes)?;
    Ok(list)
}

/// An error if two entries share bytes. A small archive whose thousands of entries are all the same packed bytes would
/// else unpack to thousands of times as much as deflate can reach.
fn check_disjoint(list: &[Entry], bytes: &[u8]) -> Result<()> {
    let mut ranges = Vec::with_capacity(list.len());
    for entry in list {
        ranges.push((entry.offset, entry.range(bytes)?.end as u64, &entry.name));
    }
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        Some([one, other]) => Err(Error::format(format!("the entries {:?} and {:?} share bytes", one.2, other.2))),
        _ => Ok(()),
    }
}

/// Takes sizes of 64 bits from the extra field, where the short ones say so.
fn wide(mut extra: &[u8], entry: &mut Entry) -> Result<()> {
    while extra.len() >= 4 {
        let (id, len) = (u16_at(extra, 0)?, usize::from(u16_at(extra, 2)?));
        let Some(field) = extra.get(4..4 + len) else { return Ok(()) };
        if id == 1 {
            let mut at = 0;
            for value in [&mut entry.size, &mut entry.packed, &mut entry.offset] {
                if *value == 0xffff_ffff {
                    *value = u64_at(field, at)?;
                    at += 8;
                }
            }
        }
        extra = &extra[4 + len..];
    }
    Ok(())
}

impl Entry {
    /// Where the packed bytes lie in the archive.
    pub fn range(&self, bytes: &[u8]) -> Result<std::ops::Range<usize>> {
        let at = offset_of(self.offset)?;
        if u32_at(bytes, at)? != LOCAL {
            return Err(Error::format(format!("{:?} should begin at byte {at}, and does not", self.name)));
        }
        let skip = usize::from(u16_at(bytes, at + 26)?) + usize::from(u16_at(bytes, at + 28)?);
        let start = at + 30 + skip;
        let end = start.checked_add(offset_of(self.packed)?).filter(|&end| end <= bytes.len());
        Ok(start..end.ok_or_else(|| Error::format(format!("{:?} goes beyond the end of the archive", self.name)))?)
    }
}

/// An archive being written.
#[derive(Default)]
pub(super) struct Writer {
    pub bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u64,
}

impl Writer {
    /// Adds an entry. `packed` is what `method` makes of `plain`. The data of stored entries begins at a multiple of 64.
    pub fn add(&mut self, name: &str, plain: &[&[u8]], packed: Option<&[u8]>) -> Result<()> {
        let length =
            u16::try_from(name.len()).map_err(|_| Error::argument("a name in an archive has at most 65535 bytes"))?;
        let mut crc = Crc::new();
        plain.iter().for_each(|p| crc.update(p));
        let size: u64 = plain.iter().map(|p| p.len() as u64).sum();
        let (method, stored) = packed.map_or((0u16, size), |p| (8, p.len() as u64));
        let offset = self.bytes.len() as u64;
        // All sizes are written in 64 bits; a field of zeros moves the data to where it can be mapped.
        let fixed = 30 + name.len() + 20;
        let pad = if method == 0 { (64 - (self.bytes.len() + fixed + 4) % 64) % 64 } else { 0 };
        let mut extra = Vec::new();
        extra.extend(1u16.to_le_bytes());
        extra.extend(16u16.to_le_bytes());
        extra.extend(size.to_le_bytes());
        extra.extend(stored.to_le_bytes());
        if method == 0 {
            extra.extend(0xd935u16.to_le_bytes());
            extra.extend((pad as u16).to_le_bytes());
            extra.resize(extra.len() + pad, 0);
        }
        let common = |out: &mut Vec<u8>, extra: usize| {
            out.extend(45u16.to_le_bytes());
            // Names are UTF-8.
            out.extend(0x0800u16.to_le_bytes());
            out.extend(method.to_le_bytes());
            // Midnight of the first day that the format knows.
            out.extend([0, 0, 0x21, 0]);
            out.extend(crc.sum().to_le_bytes());
            out.extend([0xff; 8]);
            out.extend(length.to_le_bytes());
            out.extend((extra as u16).to_le_bytes());
        };
        self.bytes.extend(LOCAL.to_le_bytes());
        common(&mut self.bytes, extra.len());
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(&extra);
        match packed {
            Some(packed) => self.bytes.extend(packed),
            None => plain.iter().for_each(|p| self.bytes.extend(*p)),
        }
        let out = &mut self.directory;
        out.extend(CENTRAL.to_le_bytes());
        out.extend(45u16.to_le_bytes());
        common(out, 28);
        // No comment, the first disk, no attributes.
        out.extend([0; 10]);
        out.extend([0xff; 4]);
        out.extend(name.as_bytes());
        out.extend(1u16.to_le_bytes());
        out.extend(24u16.to_le_bytes());
        out.extend(size.to_le_bytes());
        out.extend(stored.to_le_bytes());
        out.extend(offset.to_le_bytes());
        self.count += 1;
        Ok(())
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        let start = self.bytes.len() as u64;
        let length = self.directory.len() as u64;
        let out = &mut self.bytes;
        out.append(&mut self.directory);
        let record = out.len() as u64;
        out.extend(END64.to_le_bytes());
        out.extend(44u64.to_le_bytes());
        out.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(self.count.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend(start.to_le_bytes());
        out.extend(LOCATOR64.to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(record.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend(END.to_le_bytes());
        out.extend([0; 4]);
        out.extend([0xff; 12]);
        out.extend([0; 2]);
        self.bytes
    }
}
