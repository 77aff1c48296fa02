//! What the machine offers: its data caches and the cores this process may use.
//!
//! [`Topology::detect`] never fails: it reads sysfs on Linux, then asks `cpuid` on x86-64, then falls back to sizes that
//! are right for most current cores. Core counts honour the affinity mask and the CPU quota of control groups. The
//! environment is read by [`threads_from_env`] only, and a bad value is reported as text for the caller to wrap.

use std::path::Path;
use std::sync::OnceLock;

/// One data or unified cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 for L1, 2 for L2, 3 for L3.
    pub level: u8,
    /// Capacity in bytes.
    pub size: usize,
    /// Line size in bytes.
    pub line: usize,
    /// Associativity.
    pub ways: usize,
    /// How many logical cores share it.
    pub shared_by: usize,
}

/// Caches and usable cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Data and unified caches, smallest level first; at least L1 is always present.
    pub caches: Vec<Cache>,
    /// Cores that this process may use: affinity mask and control group quota are honoured. At least 1.
    pub cores: usize,
}

impl Topology {
    /// Asks the operating system and the processor. Cheap enough to call once per process, not once per operation.
    pub fn detect() -> Topology {
        let mut caches = sysfs_caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        if caches.is_empty() {
            caches = cpuid_caches();
        }
        if caches.is_empty() {
            caches = default_caches();
        }
        Topology { caches, cores: usable_cores() }
    }

    /// The cache of a level, if the machine has one.
    pub fn cache(&self, level: u8) -> Option<Cache> {
        self.caches.iter().copied().find(|c| c.level == level)
    }

    /// The L1.
    pub fn l1(&self) -> Cache {
        self.cache(1).unwrap_or(DEFAULT_L1)
    }

    /// L2; where there is none, L1.
    pub fn l2(&self) -> Cache {
        self.cache(2).unwrap_or_else(|| self.l1())
    }

    /// The topology of the machine that the program runs on, found out once.
    pub fn here() -> &'static Topology {
        static HERE: OnceLock<Topology> = OnceLock::new();
        HERE.get_or_init(Topology::detect)
    }

    /// The bytes of the last-level cache that are one core's part of it.
    pub fn own_part(&self) -> usize {
        let last = self.l3();
        last.size / last.shared_by.max(1)
    }

    /// The last-level cache; where there is no third level, the second.
    pub fn l3(&self) -> Cache {
        self.cache(3).unwrap_or_else(|| self.l2())
    }
}

/// Cores that this process may use, at least 1: the affinity mask and control group quotas (v1 and v2) are honoured.
pub fn usable_cores() -> usize {
    // The standard library asks sched_getaffinity and reads the quotas of all enclosing control groups.
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The thread count that `MILLSTREAM_THREADS` asks for; `None` when it is not set. The error is a sentence for the user.
pub fn threads_from_env() -> Result<Option<usize>, String> {
    match std::env::var_os("MILLSTREAM_THREADS") {
        None => Ok(None),
        Some(value) => match value.to_str() {
            Some(text) => parse_threads(text).map(Some),
            None => Err("MILLSTREAM_THREADS is not a number: it is not valid Unicode".to_string()),
        },
    }
}

/// The thread count to use: what `MILLSTREAM_THREADS` asks for, else every usable core.
pub fn default_threads() -> Result<usize, String> {
    Ok(threads_from_env()?.unwrap_or_else(usable_cores))
}

/// More threads than any machine has cores is a typing mistake, and would only exhaust the process.
const MAX_THREADS: usize = 1024;

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.trim().parse::<usize>() {
        Ok(0) => {
            Err("MILLSTREAM_THREADS is 0, but at least one thread is needed; unset it to use every core".to_string())
        }
        Ok(n) if n > MAX_THREADS => {
            Err(format!("MILLSTREAM_THREADS is {n}, but at most {MAX_THREADS} threads are supported"))
        }
        Ok(n) => Ok(n),
        Err(_) => Err(format!("MILLSTREAM_THREADS is {text:?}, which is not a whole number of threads")),
    }
}

const DEFAULT_L1: Cache = Cache { level: 1, size: 32 << 10, line: 64, ways: 8, shared_by: 1 };

fn default_caches() -> Vec<Cache> {
    vec![
        DEFAULT_L1,
        Cache { level: 2, size: 512 << 10, line: 64, ways: 8, shared_by: 1 },
        Cache { level: 3, size: 8 << 20, line: 64, ways: 16, shared_by: 4 },
    ]
}

/// Reads a folder like `/sys/devices/system/cpu/cpu0/cache`; empty when it is missing or holds nothing usable.
fn sysfs_caches(folder: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> =
        (0..16).map_while(|i| sysfs_cache(&folder.join(format!("index{i}")))).flatten().collect();
    caches.sort_by_key(|c| c.level);
    // A level listed twice (split or sliced caches) would make "the L2" ambiguous: the first entry stands for it.
    caches.dedup_by_key(|c| c.level);
    if caches.first().is_some_and(|c| c.level == 1) { caches } else { Vec::new() }
}

/// `None`: no such entry, stop. `Some(None)`: an entry that is not a usable data cache.
fn sysfs_cache(entry: &Path) -> Option<Option<Cache>> {
    let read = |name: &str| std::fs::read_to_string(entry.join(name)).ok().map(|s| s.trim().to_string());
    let level: u8 = read("level")?.parse().ok()?;
    if read("type").as_deref() == Some("Instruction") {
        return Some(None);
    }
    let number = |name: &str| read(name).and_then(|s| s.parse::<usize>().ok()).filter(|&n| n > 0);
    let Some(size) = read("size").and_then(|s| parse_size(&s)).filter(|&n| n > 0) else { return Some(None) };
    Some(Some(Cache {
        level,
        size,
        line: number("coherency_line_size").unwrap_or(64),
        ways: number("ways_of_associativity").unwrap_or(8),
        shared_by: read("shared_cpu_list").and_then(|s| count_list(&s)).unwrap_or(1),
    }))
}

/// `32K`, `1024K`, `32M` or plain bytes.
fn parse_size(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// How many numbers a list such as `0-3,8,10-11` names.
fn count_list(text: &str) -> Option<usize> {
    let mut count = 0usize;
    for part in text.split(',') {
        count += match part.split_once('-') {
            None => part.trim().parse::<usize>().ok().map(|_| 1)?,
            Some((low, high)) => {
                let (low, high) = (low.trim().parse::<usize>().ok()?, high.trim().parse::<usize>().ok()?);
                high.checked_sub(low)?.checked_add(1)?
            }
        };
    }
    (count > 0).then_some(count)
}

#[cfg(target_arch = "x86_64")]
fn cpuid_caches() -> Vec<Cache> {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel describes its caches in leaf 4, AMD with the same fields in leaf 0x8000001D.
    let leaf = match (__cpuid(0).ebx, __cpuid(0x8000_0000).eax) {
        (0x756e_6547, _) => 4,
        (_, extended) if extended >= 0x8000_001D && __cpuid(0x8000_0001).ecx & (1 << 22) != 0 => 0x8000_001D,
        _ => return Vec::new(),
    };
    if leaf == 4 && __cpuid(0).eax < 4 {
        return Vec::new();
    }
    let mut caches = Vec::new();
    for index in 0..16 {
        let r = __cpuid_count(leaf, index);
        let kind = r.eax & 31;
        if kind == 0 {
            break;
        }
        let level = ((r.eax >> 5) & 7) as u8;
        let line = (r.ebx & 0xfff) as usize + 1;
        let partitions = ((r.ebx >> 12) & 0x3ff) as usize + 1;
        let ways = (r.ebx >> 22) as usize + 1;
        let sets = r.ecx as usize + 1;
        let shared_by = ((r.eax >> 14) & 0xfff) as usize + 1;
        // Kind 2 is an instruction cache.
        if kind != 2 && caches.iter().all(|c: &Cache| c.level != level) {
            caches.push(Cache { level, size: line * partitions * ways * sets, line, ways, shared_by });
        }
    }
    caches.sort_by_key(|c| c.level);
    if caches.first().is_some_and(|c| c.level == 1) { caches } else { Vec::new() }
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid_caches() -> Vec<Cache> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detected_machine_has_growing_caches_and_a_core() {
        let t = Topology::detect();
        assert!(t.cores >= 1);
        assert_eq!(t.caches[0].level, 1);
        assert!(t.l1().size >= 4 << 10 && t.l1().line.is_power_of_two() && t.l1().ways >= 1);
        assert!(t.l2().size >= t.l1().size && t.l3().size >= t.l2().size);
        assert!(t.caches.iter().all(|c| c.shared_by >= 1));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn cpuid_and_sysfs_agree_on_l1() {
        let sys = sysfs_caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        let cpu = cpuid_caches();
        if let (Some(a), Some(b)) = (sys.first(), cpu.first()) {
            assert_eq!((a.size, a.line, a.ways), (b.size, b.line, b.ways));
        }
    }

    #[test]
    fn a_cache_folder_is_read_and_instruction_caches_are_left_out() {
        let root = std::env::temp_dir().join(format!("millstream-topology-{}", std::process::id()));
        let write = |i: usize, fields: &[(&str, &str)]| {
            let dir = root.join(format!("index{i}"));
            std::fs::create_dir_all(&dir).unwrap();
            for (name, value) in fields {
                std::fs::write(dir.join(name), format!("{value}\n")).unwrap();
            }
        };
        write(0, &[("level", "1"), ("type", "Data"), ("size", "48K"), ("ways_of_associativity", "12")]);
        write(1, &[("level", "1"), ("type", "Instruction"), ("size", "32K")]);
        write(2, &[("level", "2"), ("type", "Unified"), ("size", "2M"), ("shared_cpu_list", "0-1,4")]);
        let caches = sysfs_caches(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(caches.len(), 2);
        assert_eq!(caches[0], Cache { level: 1, size: 48 << 10, line: 64, ways: 12, shared_by: 1 });
        assert_eq!(caches[1], Cache { level: 2, size: 2 << 20, line: 64, ways: 8, shared_by: 3 });
        assert!(sysfs_caches(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn sizes_and_core_lists_are_parsed_strictly() {
        assert_eq!(parse_size("32K"), Some(32 << 10));
        assert_eq!(parse_size("64"), Some(64));
        assert_eq!(parse_size("K"), None);
        assert_eq!(parse_size(""), None);
        assert_eq!(count_list("0-3,8,10-11"), Some(7));
        assert_eq!(count_list("3-1"), None);
        assert_eq!(count_list(""), None);
    }

    #[test]
    fn a_bad_thread_count_is_an_error_with_a_sentence() {
        assert_eq!(parse_threads("3"), Ok(3));
        assert_eq!(parse_threads(" 16 "), Ok(16));
        for bad in ["0", "-1", "two", "", "1.5", "99999999999999999999", "5000"] {
            let message = parse_threads(bad).unwrap_err();
            assert!(message.starts_with("MILLSTREAM_THREADS is "), "{message}");
        }
    }
}
