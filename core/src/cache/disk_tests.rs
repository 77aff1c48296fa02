//! The disk cache against damage, crowds and hostile folders.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::disk::{encode, file_name};
use super::{DiskCache, DiskStatus};
use crate::error::ErrorKind;

/// A folder's name that is nobody else's; what is there goes at the end.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch(std::env::temp_dir().join(format!("millstream-test-{}-{:016x}", std::process::id(), random())))
    }

    fn created() -> Scratch {
        let scratch = Scratch::new();
        fs::create_dir_all(&scratch.0).unwrap();
        scratch
    }

    pub(super) fn cache(&self) -> DiskCache {
        DiskCache::open(Some(self.0.clone()), DiskCache::DEFAULT_LIMIT)
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().path()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
    }
}

fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Bytes that show whether they are whole: their seed, then `len` bytes that follow from it.
fn blob(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    }));
    bytes
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|seed| blob(u64::from_le_bytes(*seed), bytes.len() - 8) == bytes)
}

fn set_age(path: &Path, age: Duration) {
    File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

fn age(path: &Path) -> Duration {
    SystemTime::now().duration_since(fs::metadata(path).unwrap().modified().unwrap()).unwrap_or_default()
}

#[test]
fn what_was_put_is_got_back_by_whoever_opens_the_folder_later() {
    let scratch = Scratch::new();
    let pairs: Vec<_> = [(0, 0), (0, 5), (3, 0), (1, 1), (40, 1000), (700, 300_000)]
        .map(|(k, v)| (blob(random(), k)[8..].to_vec(), blob(random(), v)[8..].to_vec()))
        .into();
    let first = scratch.cache();
    let mut expected: Vec<(&[u8], &[u8])> = Vec::new();
    for (key, value) in &pairs {
        first.try_put(key, value).unwrap();
        expected.retain(|(k, _)| k != key);
        expected.push((key, value));
    }
    let second = scratch.cache();
    for (key, value) in &expected {
        assert_eq!(second.get(key).as_deref(), Some(*value));
    }
    assert_eq!(second.get(b"never put"), None);
    let (s, f) = (second.statistics(), first.statistics());
    assert_eq!((s.hits, s.misses, s.rejected, s.errors), (expected.len() as u64, 1, 0, 0));
    assert_eq!((f.writes, f.bytes_written), (6, pairs.iter().map(|(_, v)| v.len() as u64).sum()));
    assert_eq!(second.status(), DiskStatus::On(scratch.0.clone()));
    assert_eq!(scratch.files().len(), expected.len());
}

#[test]
fn a_later_value_takes_the_place_of_an_earlier_one() {
    let scratch = Scratch::new();
    let cache = scratch.cache();
    for value in [b"one".as_slice(), b"the second", b"3"] {
        cache.try_put(b"key", value).unwrap();
        assert_eq!(cache.get(b"key").as_deref(), Some(value));
    }
    assert!(cache.put(b"key", b"last"));
    assert_eq!(scratch.files().len(), 1);
}

#[test]
fn nothing_touches_the_disk_before_the_first_put() {
    let scratch = Scratch::new();
    let cache = scratch.cache();
    assert!(cache.is_on());
    assert_eq!(cache.get(b"key"), None);
    assert_eq!(cache.status(), DiskStatus::On(scratch.0.clone()));
    assert!(!scratch.0.exists());
    cache.try_put(b"key", b"value").unwrap();
    assert!(scratch.0.is_dir());
}

#[test]
fn a_cache_that_is_off_takes_everything_and_keeps_nothing() {
    for cache in [DiskCache::off("not wanted"), DiskCache::open(Some("/nowhere".into()), 0)] {
        cache.try_put(b"key", b"value").unwrap();
        assert!(!cache.put(b"key", b"value"));
        assert_eq!(cache.get(b"key"), None);
        assert!(!cache.is_on() && cache.warning().is_none());
    }
    assert_eq!(DiskCache::off("not wanted").status(), DiskStatus::Off("not wanted".into()));
}

#[test]
fn every_damaged_byte_and_every_cut_is_noticed_and_mended_by_the_next_put() {
    let scratch = Scratch::new();
    let cache = scratch.cache();
    let (key, value) = (blob(random(), 20), blob(random(), 30));
    cache.try_put(&key, &value).unwrap();
    let path = scratch.0.join(file_name(&key));
    let good = fs::read(&path).unwrap();
    let mut rejected = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (random() % 8);
        fs::write(&path, &bad).unwrap();
        assert_eq!(cache.get(&key), None, "byte {at} was damaged");
        fs::write(&path, &good[..at]).unwrap();
        assert_eq!(cache.get(&key), None, "cut to {at} bytes");
        rejected += 2;
    }
    fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    assert_eq!(cache.get(&key), None, "one byte too many");
    assert_eq!(cache.statistics().rejected, rejected + 1);
    assert_eq!(cache.statistics().errors, 0);
    cache.try_put(&key, &value).unwrap();
    assert_eq!(cache.get(&key), Some(value));
}

#[test]
fn files_of_others_and_of_colliding_keys_are_ignored_and_replaced() {
    let scratch = Scratch::created();
    let cache = scratch.cache();
    // Of the same length as the true key, and of another.
    for foreign in [encode(b"kez", b"wrong"), encode(b"another key", b"wrong"), b"#!/bin/sh\n".to_vec(), vec![]] {
        fs::write(scratch.0.join(file_name(b"key")), foreign).unwrap();
        assert_eq!(cache.get(b"key"), None);
        cache.try_put(b"key", b"right").unwrap();
        assert_eq!(cache.get(b"key").as_deref(), Some(b"right".as_slice()));
    }
    assert_eq!(cache.statistics().rejected, 4);
}

#[test]
fn a_folder_or_a_pipe_in_the_place_of_an_entry_harms_nobody() {
    let scratch = Scratch::created();
    let cache = scratch.cache();
    fs::create_dir(scratch.0.join(file_name(b"folder"))).unwrap();
    assert_eq!(cache.get(b"folder"), None);
    assert_eq!(cache.try_put(b"folder", b"value").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(scratch.files().len(), 1, "the temporary file is gone");
    let pipe = scratch.0.join(file_name(b"pipe"));
    if Command::new("mkfifo").arg(&pipe).status().is_ok_and(|s| s.success()) {
        assert_eq!(cache.get(b"pipe"), None, "and it did not wait for a writer");
        cache.try_put(b"pipe", b"value").unwrap();
        assert_eq!(cache.get(b"pipe").as_deref(), Some(b"value".as_slice()));
    }
}

#[test]
fn a_file_in_the_place_of_the_folder_is_a_warning_and_no_more() {
    let scratch = Scratch::new();
    fs::write(&scratch.0, b"I am a file").unwrap();
    for folder in [scratch.0.clone(), scratch.0.join("below").join("it")] {
        let cache = DiskCache::open(Some(folder.clone()), 1 << 20);
        assert_eq!(cache.get(b"key"), None);
        assert_eq!(cache.try_put(b"key", b"value").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(cache.get(b"key"), None);
        assert!(!cache.put(b"key", b"value"));
        assert!(cache.statistics().errors >= 1);
        assert!(cache.warning().is_some_and(|w| w.starts_with("disk cache: ")));
        assert!(matches!(cache.status(), DiskStatus::Failing(f, _) if f == folder));
    }
    assert_eq!(fs::read(&scratch.0).unwrap(), b"I am a file");
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_still_read() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    scratch.cache().try_put(b"key", b"value").unwrap();
    assert_eq!(fs::metadata(&scratch.0).unwrap().permissions().mode() & 0o777, 0o700, "for this user only");
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o500)).unwrap();
    let cache = scratch.cache();
    let written = cache.try_put(b"other", b"value");
    // Root writes all the same.
    if fs::write(scratch.0.join("probe"), b"").is_err() {
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Io);
        assert!(matches!(cache.status(), DiskStatus::Failing(..)));
    }
    assert_eq!(cache.get(b"key").as_deref(), Some(b"value".as_slice()));
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o700)).unwrap();
    cache.try_put(b"other", b"value").unwrap();
    assert_eq!(cache.status(), DiskStatus::On(scratch.0.clone()), "it recovers");
}

#[cfg(unix)]
#[test]
fn what_belongs_to_another_user_is_neither_read_nor_written() {
    use std::os::unix::fs::chown;
    let scratch = Scratch::new();
    scratch.cache().try_put(b"key", b"value").unwrap();
    // The same folder, seen by somebody else.
    let mut other = scratch.cache();
    other.user = other.user.map(|user| user + 1);
    assert_eq!(other.get(b"key"), None);
    assert_eq!(other.try_put(b"new", b"value").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(scratch.files().len(), 1);
    assert!(matches!(other.status(), DiskStatus::Failing(..)));
    assert!(other.warning().is_some_and(|w| w.contains("another user")), "{:?}", other.warning());
    assert!(other.take_warning().is_some() && other.take_warning().is_none(), "told once");
    // One file of somebody else's in a folder of our own; who may put it there can be tried by root only.
    if chown(scratch.0.join(file_name(b"key")), Some(12345), None).is_err() {
        eprintln!("left out: only root can give a file away");
        return;
    }
    let cache = scratch.cache();
    assert_eq!(cache.get(b"key"), None);
    assert!(cache.warning().is_some_and(|w| w.contains("another user")));
    cache.try_put(b"key", b"own").unwrap();
    assert_eq!(cache.get(b"key").as_deref(), Some(b"own".as_slice()), "ours takes its place");
}

#[test]
fn a_folder_that_vanished_is_made_again() {
    let scratch = Scratch::new();
    let cache = scratch.cache();
    for _ in 0..3 {
        cache.try_put(b"key", b"value").unwrap();
        assert!(cache.get(b"key").is_some());
        fs::remove_dir_all(&scratch.0).unwrap();
        assert_eq!(cache.get(b"key"), None);
    }
    assert_eq!(cache.statistics().errors, 0);
}

#[test]
fn the_files_unused_for_longest_go_when_there_is_too_much() {
    let scratch = Scratch::new();
    let value = blob(random(), 992);
    let key = |i: u32| format!("key {i:04}").into_bytes();
    let path = |i: u32| scratch.0.join(file_name(&key(i)));
    let size = encode(&key(0), &value).len() as u64;
    let cache = DiskCache::open(Some(scratch.0.clone()), 16 * size);
    for i in 0..16 {
        cache.try_put(&key(i), &value).unwrap();
        set_age(&path(i), Duration::from_secs(10_000 - u64::from(i) * 100));
    }
    assert_eq!(cache.statistics().evicted, 0, "exactly full is not too much");
    // The oldest by writing becomes the newest by use.
    assert!(cache.get(&key(0)).is_some());
    assert!(age(&path(0)) < Duration::from_secs(60));
    cache.try_put(&key(100), &value).unwrap();
    let here: Vec<u32> = (0..16).chain([100]).filter(|&i| path(i).exists()).collect();
    assert_eq!(here, [&[0][..], &(4..16).collect::<Vec<_>>(), &[100]].concat(), "14 of 16 remain, the last used");
    assert_eq!(cache.statistics().evicted, 3);

    // A hundred more, and never more than the limit.
    for i in 200..300 {
        cache.try_put(&key(i), &value).unwrap();
        assert!(cache.get(&key(i)).is_some(), "what was just put is never what goes");
        assert!(scratch.files().len() <= 16);
    }
    // A smaller limit, opened by another process, say, counts what is there already.
    let smaller = DiskCache::open(Some(scratch.0.clone()), 4 * size);
    smaller.try_put(&key(999), &value).unwrap();
    assert!(scratch.files().len() <= 4 && smaller.get(&key(999)).is_some());
}

#[test]
fn an_entry_larger_than_the_limit_is_refused_and_drives_nothing_out() {
    let scratch = Scratch::new();
    let cache = DiskCache::open(Some(scratch.0.clone()), 1000);
    cache.try_put(b"small", b"value").unwrap();
    assert_eq!(cache.try_put(b"large", &[7; 1000]).unwrap_err().kind(), ErrorKind::Argument);
    assert!(cache.warning().is_some_and(|w| w.contains("1000 bytes")));
    assert!(cache.get(b"small").is_some() && cache.get(b"large").is_none());
}

#[test]
fn only_stale_temporary_files_are_removed_and_no_file_of_others() {
    let scratch = Scratch::created();
    let old = Duration::from_secs(100 * 24 * 3600);
    let hex = "0123456789abcdef0123456789abcdef";
    let foreign = ["notes.txt", "short.mill", "no-extension", &format!("{hex}.mil"), &format!("g{}.mill", &hex[1..])]
        .map(|name| scratch.0.join(name));
    let (stale, live) = (scratch.0.join("1-0-0.mill-new"), scratch.0.join("2-0-0.mill-new"));
    for path in foreign.iter().chain([&stale, &live]) {
        fs::write(path, vec![0; 5000]).unwrap();
        set_age(path, old);
    }
    set_age(&live, Duration::from_secs(3000));
    let cache = DiskCache::open(Some(scratch.0.clone()), 300);
    for i in 0..100u32 {
        cache.try_put(&i.to_le_bytes(), &[0; 100]).unwrap();
    }
    assert!(cache.statistics().evicted > 90);
    assert!(!stale.exists() && live.exists());
    assert!(foreign.iter().all(|p| p.exists()));
}

const CHILD: &str = "MILLSTREAM_TEST_CACHE_CHILD";

/// Writes the same few keys until it is killed or its time is over. Does nothing unless it was started by another test.
#[test]
fn a_child_process_writes_where_it_is_told() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let cache = DiskCache::open(Some(folder.into()), 1 << 20);
    let begin = std::time::Instant::now();
    let mut first = true;
    while begin.elapsed() < Duration::from_secs(2) {
        let key = [random() as u8 % 8];
        cache.put(&key, &blob(random(), (random() % 60_000) as usize));
        assert!(cache.get(&key).is_none_or(|v| is_whole(&v)), "read half a value");
        if std::mem::take(&mut first) {
            println!("ready");
        }
    }
    assert_eq!(cache.statistics().rejected, 0);
}

fn child_name() -> String {
    let (_, module) = module_path!().split_once("::").unwrap();
    format!("{module}::a_child_process_writes_where_it_is_told")
}

/// A running child and what it says.
struct Writer(Child, BufReader<ChildStdout>);

impl Writer {
    fn start(folder: &Path) -> Writer {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &child_name(), "--nocapture", "--test-threads=1"])
            .env(CHILD, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Writer(child, output)
    }

    fn await_first_write(&mut self) {
        assert!(self.1.by_ref().lines().any(|line| line.unwrap().contains("ready")), "the child never wrote");
    }

    /// Waits for its end; what it said if it failed.
    fn finish(&mut self) -> Result<(), String> {
        let mut text = String::new();
        self.1.read_to_string(&mut text).unwrap();
        self.0.wait().unwrap().success().then_some(()).ok_or(text)
    }
}

#[test]
fn many_processes_and_threads_share_a_folder() {
    let scratch = Scratch::new();
    let mut children: Vec<Writer> = (0..3).map(|_| Writer::start(&scratch.0)).collect();
    children.iter_mut().for_each(Writer::await_first_write);
    let cache = scratch.cache();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (mut found, mut tries) = (0, 0);
                while !over.load(Ordering::Relaxed) || tries < 1000 {
                    let key = [random() as u8 % 8];
                    if tries % 3 == 0 {
                        cache.try_put(&key, &blob(random(), (random() % 60_000) as usize)).unwrap();
                    }
                    if let Some(value) = cache.get(&key) {
                        assert!(is_whole(&value), "read half a value");
                        found += 1;
                    }
                    tries += 1;
                }
                assert!(found > 100);
            });
        }
        let ends: Vec<_> = children.iter_mut().map(Writer::finish).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok), "a child saw something wrong: {ends:?}");
    });
    let s = cache.statistics();
    assert_eq!((s.rejected, s.errors), (0, 0), "{:?}", cache.warning());
    assert!(scratch.files().iter().all(|p| p.extension().unwrap() == "mill"), "no temporary file is left");
}

#[test]
fn a_process_killed_in_the_middle_leaves_only_whole_entries() {
    let scratch = Scratch::new();
    for _ in 0..5 {
        let mut child = Writer::start(&scratch.0);
        child.await_first_write();
        std::thread::sleep(Duration::from_micros(random() % 20_000));
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        let cache = scratch.cache();
        for key in 0..8u8 {
            assert!(cache.get(&[key]).is_none_or(|v| is_whole(&v)));
        }
        assert_eq!(cache.statistics().rejected, 0);
    }
}

/// Run inside a mount namespace of its own, on a file system with room for little.
#[test]
fn a_child_process_meets_a_full_disk() {
    const FULL: &str = "MILLSTREAM_TEST_FULL_DISK";
    if let Some(folder) = std::env::var_os(FULL) {
        let cache = DiskCache::open(Some(folder.clone().into()), 1 << 30);
        cache.try_put(b"small", b"value").unwrap();
        let error = cache.try_put(b"large", &vec![1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(cache.get(b"small").as_deref(), Some(b"value".as_slice()));
        assert_eq!(cache.get(b"large"), None);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no half-written file takes the last room");
        cache.try_put(b"again", b"value").unwrap();
        assert_eq!(cache.statistics().errors, 1);
        println!("met");
        return;
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    let scratch = Scratch::created();
    let exe = std::env::current_exe().unwrap();
    let name = child_name().replace("writes_where_it_is_told", "meets_a_full_disk");
    let script = "mount -t tmpfs -o size=256k none \"$0\" || exit 77; exec \"$1\" --exact \"$2\" --nocapture";
    let run = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .args([scratch.0.as_os_str(), exe.as_os_str(), name.as_ref()])
        .env(FULL, &scratch.0)
        .output();
    // Not every machine lets a test mount something: there, this is not tested.
    if let Ok(run) = run
        && matches!(run.status.code(), Some(0 | 101))
    {
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("met"), "{text}{}", String::from_utf8_lossy(&run.stderr));
    }
}
