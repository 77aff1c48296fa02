//! An entry of the disk cache of any bytes gives what was put under its key, or nothing.

use std::path::PathBuf;
use std::sync::OnceLock;

use millstream::core::cache::DiskCache;

const KEY: &[u8] = b"key of the entry";

/// A cache and the file of its one entry; another cache and the file of its entry.
struct Folders {
    caches: [DiskCache; 2],
    files: [PathBuf; 2],
}

fn folders() -> &'static Folders {
    static FOLDERS: OnceLock<Folders> = OnceLock::new();
    FOLDERS.get_or_init(|| {
        let folder = |i: usize| std::env::temp_dir().join(format!("millstream-entry-{}-{i}", std::process::id()));
        let made = [0, 1].map(|i| {
            let cache = DiskCache::open(Some(folder(i)), DiskCache::DEFAULT_LIMIT);
            cache.try_put(KEY, b"the value").expect("a folder that can be written");
            let mut files = std::fs::read_dir(folder(i)).expect("the folder");
            (cache, files.next().expect("the entry").expect("its name").path())
        });
        let [(a, first), (b, second)] = made;
        Folders { caches: [a, b], files: [first, second] }
    })
}

/// Whether the entry was accepted.
pub fn check(data: &[u8]) -> bool {
    let Folders { caches: [read, honest], files: [file, other] } = folders();
    std::fs::write(file, data).expect("written");
    let Some(value) = read.get(KEY) else { return false };
    // What is accepted is, byte for byte, what the cache itself writes.
    honest.try_put(KEY, &value).expect("written");
    assert_eq!(std::fs::read(other).expect("the honest entry"), data);
    true
}

/// Removes the folders.
#[allow(dead_code)]
pub fn tidy() {
    for file in &folders().files {
        let _ = file.parent().map(std::fs::remove_dir_all);
    }
}
