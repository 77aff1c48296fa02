//! Damaged inputs for parsers: what the ordinary tests do for some seconds of what `fuzz/` does for hours.

use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Good inputs of a parser, and how to damage them.
pub struct Damage {
    target: &'static str,
    seeds: Vec<Vec<u8>>,
    pieces: &'static [&'static str],
    state: u64,
}

impl Damage {
    /// The inputs that the tree keeps for this target of `fuzz/`; none outside of the tree.
    ///
    /// Random numbers come from `MILLSTREAM_SEED`, or from a new seed, which is printed.
    ///
    /// # Panics
    /// If the tree has the folder and it cannot be read or is empty.
    pub fn new(target: &'static str) -> Damage {
        let given = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok());
        let state = given.unwrap_or_else(|| UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64));
        println!("MILLSTREAM_SEED={state}");
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
        let mut seeds = Vec::new();
        if tree.is_dir() {
            let folder = std::fs::read_dir(tree.join(target)).expect("the folder of the target's seeds");
            let mut files: Vec<_> = folder.map(|entry| entry.expect("a seed").path()).collect();
            files.sort();
            assert!(!files.is_empty(), "no seeds of {target}");
            seeds.extend(files.iter().map(|file| std::fs::read(file).expect("a seed")));
        }
        Damage { target, seeds, pieces: &[], state }
    }

    /// Further good inputs.
    #[must_use]
    pub fn with(mut self, seeds: impl IntoIterator<Item = Vec<u8>>) -> Damage {
        self.seeds.extend(seeds);
        self
    }

    /// Text that is put between other bytes.
    #[must_use]
    pub fn pieces(self, pieces: &'static [&'static str]) -> Damage {
        Damage { pieces, ..self }
    }

    /// Gives the good inputs and then damaged ones, at least 200 of them, for `MILLSTREAM_FUZZ_SECONDS`, or for so many seconds
    /// where that is not set. `take` says whether an input was accepted.
    ///
    /// # Panics
    /// If not one of the good inputs is accepted.
    pub fn feed(mut self, seconds: f64, mut take: impl FnMut(&[u8]) -> bool) {
        let given = std::env::var("MILLSTREAM_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
        let seconds = Duration::from_secs_f64(given.unwrap_or(seconds));
        if self.seeds.is_empty() {
            return super::left_out(&format!("{}: its seeds are not on this machine", self.target));
        }
        let mut accepted = self.seeds.iter().filter(|seed| take(seed)).count();
        assert!(accepted > 0, "{}: not one of {} good inputs was accepted", self.target, self.seeds.len());
        let (start, mut runs) = (Instant::now(), self.seeds.len());
        while start.elapsed() < seconds || runs < 200 {
            let bytes = self.damaged();
            accepted += usize::from(take(&bytes));
            runs += 1;
        }
        println!("{}: {runs} inputs, {accepted} accepted", self.target);
    }

    /// From 0 up to but without `n` (SplitMix64).
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n.max(1) as u64) as usize
    }

    fn damaged(&mut self) -> Vec<u8> {
        let n = self.below(self.seeds.len());
        let mut bytes = self.seeds[n].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(8 + self.pieces.len().min(8)) {
                _ if bytes.is_empty() => bytes.push(0),
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << self.below(8),
                2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'9', b'{', b'"'][self.below(8)],
                3 => {
                    // A number of 2, 4 or 8 bytes becomes one at the edge of its range.
                    let width = [2, 4, 8][self.below(3)].min(bytes.len() - at);
                    let any = self.below(usize::MAX) as u64;
                    let value = [0u64, 1, u64::MAX, u64::MAX / 2, 1 << 31, any][self.below(6)];
                    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                }
                4 => {
                    let from = self.below(bytes.len());
                    let piece = bytes[from..(from + self.below(16)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                5 => drop(bytes.drain(at..(at + self.below(16)).min(bytes.len()))),
                6 => {
                    let digits = (self.below(usize::MAX) >> self.below(64)).to_string();
                    bytes.splice(at..at, digits.into_bytes());
                }
                7 => bytes.insert(at, self.below(256) as u8),
                _ => {
                    let piece = self.pieces[self.below(self.pieces.len())];
                    bytes.splice(at..at, piece.bytes());
                }
            }
        }
        bytes
    }
}
