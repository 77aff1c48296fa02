//! Small files that outlive the process: kernel binaries, measured device profiles.
//!
//! Promises:
//! - It is only ever a help. A folder that is missing, read-only, full, or no folder at all costs a computation nothing but
//!   the time to make things anew; [`DiskCache::status`] and [`DiskCache::warning`] say what is wrong.
//! - What [`DiskCache::get`] returns is what [`DiskCache::put`] was given for exactly this key: key, length and checksum of a
//!   file are compared. A file that is damaged, cut short or somebody else's counts as absent, and the next put replaces it.
//! - What belongs to another user is neither read nor written: not a folder, not a file in it. (On Unix; elsewhere the system's
//!   own rules for the folder have to do.)
//! - Any number of processes and threads may share a folder. A file appears whole or not at all: it is written under
//!   another name and renamed. A process killed meanwhile leaves such a file behind, which goes after an hour.
//! - The folder stays within its limit: the files unused for longest go first. Files that are not the cache's own are
//!   never touched.
//! - Opening does nothing: the first look at the disk is the first get or put.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::folder::{self, Platform, create, default_folder};
use super::hash::{stable_hash, xxh64};
use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"MILLBLOB";
const VERSION: u32 = 1;
/// Magic, version, a reserved word, length of the key, length of the value.
const HEADER: usize = 32;
const CHECKSUM: usize = 8;
const ENTRY: &str = "mill";
const TEMPORARY: &str = "mill-new";
/// How old a temporary file must be to be nobody's any more.
const STALE: Duration = Duration::from_secs(3600);
/// Uses closer together than this are not distinguished, which saves most reads a write.
const TOUCH: Duration = Duration::from_secs(60);

/// A folder of small values, found by the full content of their keys. See the module for what it promises.
#[derive(Debug)]
pub struct DiskCache {
    folder: std::result::Result<PathBuf, String>,
    limit: u64,
    /// Whose files are read; `None` where files have no owner that can be asked for.
    pub(super) user: Option<u32>,
    /// Bytes in the folder as far as known; `None` before the first look.
    stored: Mutex<Option<u64>>,
    trouble: Mutex<Trouble>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Trouble {
    first: Option<String>,
    now: Option<String>,
    /// Whether the first was taken.
    told: bool,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    rejected: AtomicU64,
    writes: AtomicU64,
    evicted: AtomicU64,
    errors: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

/// Whether a [`DiskCache`] works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskStatus {
    /// It keeps its files in this folder; nothing has gone wrong since the last successful write.
    On(PathBuf),
    /// It is meant to use this folder, and cannot, for this reason. It goes on trying.
    Failing(PathBuf, String),
    /// It keeps nothing, for this reason.
    Off(String),
}

/// What a [`DiskCache`] has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Values found.
    pub hits: u64,
    /// Values not found.
    pub misses: u64,
    /// Those misses where a file was there, but damaged, of another version, or of another key.
    pub rejected: u64,
    /// Values written.
    pub writes: u64,
    /// Files removed to stay within the limit.
    pub evicted: u64,
    /// Reads and writes that the system, or the limit, refused.
    pub errors: u64,
    /// Bytes of the values found.
    pub bytes_read: u64,
    /// Bytes of the values written.
    pub bytes_written: u64,
}

impl DiskCache {
    /// The limit that serves most programs: 512 MiB.
    pub const DEFAULT_LIMIT: u64 = 512 << 20;

    /// A cache in this folder; without one, where `MILLSTREAM_CACHE` says (a path, or `off`), else where the platform keeps
    /// caches. Never fails and does not look at the disk.
    pub fn open(folder: Option<PathBuf>, limit_bytes: u64) -> DiskCache {
        let folder = if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            Err("a browser has no files".to_string())
        } else if limit_bytes == 0 {
            Err("its limit is 0 bytes".to_string())
        } else {
            folder.map_or_else(|| default_folder(Platform::here(), |name| std::env::var_os(name)), Ok)
        };
        DiskCache {
            folder,
            limit: limit_bytes,
            user: folder::user(),
            stored: Mutex::new(None),
            trouble: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// A cache that keeps nothing, for this reason.
    pub fn off(why: impl Into<String>) -> DiskCache {
        DiskCache { folder: Err(why.into()), ..DiskCache::open(None, 0) }
    }

    /// The value last put under this key, if it is still there.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref().ok()?;
        let path = folder.join(file_name(key));
        match self.read_owned(folder, &path, key) {
            Ok(Some(value)) => {
                self.counts.hits.fetch_add(1, Relaxed);
                self.counts.bytes_read.fetch_add(value.len() as u64, Relaxed);
                return Some(value);
            }
            Ok(None) => {
                self.counts.rejected.fetch_add(1, Relaxed);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => {
                self.note(Error::io(path.display().to_string(), e));
            }
        }
        self.counts.misses.fetch_add(1, Relaxed);
        None
    }

    /// Keeps the value under this key, in place of an earlier one; returns whether it did. A caller need not look: what goes
    /// wrong is counted, and the first time kept as [`DiskCache::warning`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> bool {
        self.is_on() && self.try_put(key, value).is_ok()
    }

    /// As [`DiskCache::put`], with the reason for a failure. A cache that is off takes everything and keeps nothing.
    pub fn try_put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let Ok(folder) = &self.folder else { return Ok(()) };
        let size = (HEADER + key.len() + value.len() + CHECKSUM) as u64;
        if size > self.limit {
            return Err(self.note(Error::argument(format!(
                "an entry of {size} bytes is larger than the whole disk cache of {} bytes",
                self.limit
            ))));
        }
        let path = folder.join(file_name(key));
        if let Err(e) = self.write_owned(folder, &path, &encode(key, value)) {
            return Err(self.note(Error::io(path.display().to_string(), e)));
        }
        self.counts.writes.fetch_add(1, Relaxed);
        self.counts.bytes_written.fetch_add(value.len() as u64, Relaxed);
        self.trouble.lock().now = None;
        let mut stored = self.stored.lock();
        // An overwritten file counts twice here; the sweep that follows sooner or later counts anew.
        *stored = match *stored {
            Some(known) if known + size <= self.limit => Some(known + size),
            _ => Some(self.sweep(folder, &path)),
        };
        Ok(())
    }

    /// Whether it works, as far as known without looking at the disk.
    pub fn status(&self) -> DiskStatus {
        match (&self.folder, &self.trouble.lock().now) {
            (Err(why), _) => DiskStatus::Off(why.clone()),
            (Ok(folder), None) => DiskStatus::On(folder.clone()),
            (Ok(folder), Some(why)) => DiskStatus::Failing(folder.clone(), why.clone()),
        }
    }

    /// Whether there is a folder to keep anything in.
    pub fn is_on(&self) -> bool {
        self.folder.is_ok()
    }

    /// The first thing that went wrong, for a warning to the user.
    pub fn warning(&self) -> Option<String> {
        self.trouble.lock().first.clone()
    }

    /// The first thing that went wrong, to whoever asks first: for the one place that tells the user.
    pub fn take_warning(&self) -> Option<String> {
        let mut trouble = self.trouble.lock();
        if trouble.told || trouble.first.is_none() {
            return None;
        }
        trouble.told = true;
        trouble.first.clone()
    }

    /// What it has done so far.
    pub fn statistics(&self) -> DiskStatistics {
        let c = &self.counts;
        DiskStatistics {
            hits: c.hits.load(Relaxed),
            misses: c.misses.load(Relaxed),
            rejected: c.rejected.load(Relaxed),
            writes: c.writes.load(Relaxed),
            evicted: c.evicted.load(Relaxed),
            errors: c.errors.load(Relaxed),
            bytes_read: c.bytes_read.load(Relaxed),
            bytes_written: c.bytes_written.load(Relaxed),
        }
    }

    /// The value of a file that is whole, our user's and of this key.
    fn read_owned(&self, folder: &Path, path: &Path, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        folder::check_owner(&fs::metadata(folder)?, self.user)?;
        read_entry(path, key, self.user)
    }

    fn write_owned(&self, folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
        match fs::metadata(folder) {
            // No folder yet, or none any more.
            Err(e) if e.kind() == ErrorKind::NotFound => create(folder)?,
            other => folder::check_owner(&other?, self.user)?,
        }
        match write_and_rename(folder, path, content) {
            // Gone meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                create(folder)?;
                write_and_rename(folder, path, content)
            }
            other => other,
        }
    }

    fn note(&self, error: Error) -> Error {
        self.counts.errors.fetch_add(1, Relaxed);
        let text = format!("disk cache: {}", error.fault());
        let mut trouble = self.trouble.lock();
        trouble.first.get_or_insert_with(|| text.clone());
        trouble.now = Some(text);
        error
    }

    /// Removes stale temporary files, and the entries unused for longest (but not `keep`) while there is too much. Returns
    /// the bytes that remain.
    fn sweep(&self, folder: &Path, keep: &Path) -> u64 {
        let Ok(listing) = fs::read_dir(folder) else { return 0 };
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut total = 0u64;
        for item in listing.flatten() {
            let (path, Ok(meta)) = (item.path(), item.metadata()) else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if !meta.is_file() {
                continue;
            } else if is_temporary(&path) {
                // A time far ahead comes from a clock that was wrong: no reason to keep the file for ever.
                let elapsed = now.duration_since(used).unwrap_or_else(|ahead| ahead.duration());
                if elapsed > STALE {
                    let _ = fs::remove_file(&path);
                }
            } else if is_entry(&path) {
                total += meta.len();
                entries.push((used, meta.len(), path));
            }
        }
        if total <= self.limit {
            return total;
        }
        // An eighth below the limit, so that a full cache does not list its folder at every put.
        let target = self.limit - self.limit / 8;
        entries.sort();
        for (_, size, path) in entries {
            if total <= target {
                break;
            }
            if path == keep {
                continue;
            }
            match fs::remove_file(&path) {
                Ok(()) => {
                    self.counts.evicted.fetch_add(1, Relaxed);
                    total -= size;
                }
                // Another process was faster.
                Err(e) if e.kind() == ErrorKind::NotFound => total -= size,
                Err(_) => {}
            }
        }
        total
    }
}

pub(super) fn file_name(key: &[u8]) -> String {
    format!("{:032x}.{ENTRY}", stable_hash(key))
}

fn is_entry(path: &Path) -> bool {
    let named = |stem: &OsStr| stem.len() == 32 && stem.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit);
    path.extension() == Some(OsStr::new(ENTRY)) && path.file_stem().is_some_and(named)
}

fn is_temporary(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(TEMPORARY))
}

fn header(key_len: u64, value_len: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&key_len.to_le_bytes());
    header[24..].copy_from_slice(&value_len.to_le_bytes());
    header
}

pub(super) fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER + key.len() + value.len() + CHECKSUM);
    file.extend_from_slice(&header(key.len() as u64, value.len() as u64));
    file.extend_from_slice(key);
    file.extend_from_slice(value);
    let sum = xxh64(&file, u64::from(VERSION));
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

/// The value of a file that is whole, ours and of this key; `None` for any other file.
fn read_entry(path: &Path, key: &[u8], user: Option<u32>) -> io::Result<Option<Vec<u8>>> {
    // Asked before opening: the opening of a pipe, say, would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    folder::check_owner(&meta, user)?;
    let around = (HEADER + key.len() + CHECKSUM) as u64;
    let Some(value_len) = meta.len().checked_sub(around) else { return Ok(None) };
    // The header decides whether the rest is worth reading: a large file of somebody else's is not.
    let mut found = [0; HEADER];
    if !filled(file.read_exact(&mut found))? || found != header(key.len() as u64, value_len) {
        return Ok(None);
    }
    let Ok(rest) = usize::try_from(meta.len() - HEADER as u64) else { return Ok(None) };
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(HEADER + rest).is_err() {
        return Ok(None);
    }
    bytes.extend_from_slice(&found);
    bytes.resize(HEADER + rest, 0);
    if !filled(file.read_exact(&mut bytes[HEADER..]))? {
        return Ok(None);
    }
    let Some((content, sum)) = bytes.split_last_chunk::<CHECKSUM>() else { return Ok(None) };
    if xxh64(content, u64::from(VERSION)) != u64::from_le_bytes(*sum) || !content[HEADER..].starts_with(key) {
        return Ok(None);
    }
    touch(path, &file, &meta);
    bytes.truncate(bytes.len() - CHECKSUM);
    bytes.drain(..HEADER + key.len());
    Ok(Some(bytes))
}

/// Whether a read found all the bytes it wanted; a file that ends early is no error here.
fn filled(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// Notes that the file was used, if it can be done.
fn touch(path: &Path, file: &File, meta: &fs::Metadata) {
    let now = SystemTime::now();
    let recent = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age < TOUCH);
    if meta.modified().is_ok_and(recent) {
        return;
    }
    // Windows sets times only through a handle that may write.
    let _ = if cfg!(windows) {
        File::options().write(true).open(path).and_then(|f| f.set_modified(now))
    } else {
        file.set_modified(now)
    };
}

fn write_and_rename(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = loop {
        let name = folder.join(temporary_name());
        match File::options().write(true).create_new(true).open(&name) {
            Ok(file) => break (name, file),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    };
    let written = file.write_all(content);
    drop(file);
    let result = written.and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// A name that no other process uses, on this machine or another that shares the folder.
fn temporary_name() -> String {
    static NONCE: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(SystemTime::now()));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // The process's number is asked for each time: a fork copies the nonce and the counter.
    format!("{:x}-{:016x}-{:x}.{TEMPORARY}", std::process::id(), *NONCE, NEXT.fetch_add(1, Relaxed))
}
