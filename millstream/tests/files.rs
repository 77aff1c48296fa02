//! Files of tensors: what is written is read again, and hostile files give errors.
//!
//! The parsers are fed with damaged copies of good files for `MILLSTREAM_FUZZ_SECONDS` each (20, if it is not set): no panic, no
//! allocation beyond what the file can hold, and the same answer from a file that is mapped.

#[path = "suite/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::Random;
use millstream::core::testing::Damage;
use millstream::{Compression, DType, ErrorKind, Result, Tensor};

/// The system's allocator, which remembers the largest request.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// A file that goes when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("millstream-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Tensors of all dtypes and awkward shapes that a format can hold.
fn tensors(random: &mut Random, without: &[DType]) -> Vec<(String, Tensor)> {
    let list = DType::ALL.into_iter().filter(|d| !without.contains(d)).enumerate();
    list.map(|(i, dtype)| {
        let shape = random.shape(3, 5);
        let values: Vec<i64> = (0..shape.iter().product()).map(|_| random.below(2) as i64).collect();
        (format!("t {i} é"), random.relaid(&Tensor::from_shape(&shape, &values).cast(dtype)))
    })
    .chain([("scalar".to_string(), Tensor::scalar(7i32)), ("empty".to_string(), Tensor::zeros([0, 3], DType::F32))])
    .collect()
}

fn borrowed(list: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    list.iter().map(|(n, t)| (n.as_str(), t)).collect()
}

/// A mapped array, for tests whose files nobody else changes.
fn map_npy(path: &PathBuf) -> Result<Tensor> {
    // SAFETY: the files are the tests' own, and no test changes one that is mapped.
    unsafe { Tensor::map_npy(path) }
}

#[track_caller]
fn same(read: &[(String, Tensor)], written: &[(String, Tensor)]) -> Result<()> {
    assert_eq!(read.len(), written.len());
    for (name, tensor) in written {
        let (_, other) = read.iter().find(|(n, _)| n == name).unwrap();
        assert_eq!((other.shape(), other.dtype()), (tensor.shape(), tensor.dtype()), "{name}");
        assert_eq!(other.to_bytes()?, tensor.to_bytes()?, "{name}");
        // What lies in a file computes like anything else.
        if tensor.dtype() == DType::F32 {
            assert_eq!((other + 1.0).to_vec::<f32>()?, (tensor + 1.0).to_vec::<f32>()?);
        }
    }
    Ok(())
}

#[test]
fn archives_of_arrays_hold_every_dtype() -> Result<()> {
    let mut random = Random::fresh();
    for compression in [Compression::Stored, Compression::Deflated] {
        let list = tensors(&mut random, &[DType::BF16]);
        let file = Scratch::new(&format!("{compression:?}.npz"));
        Tensor::save_npz(&file.0, &borrowed(&list), compression)?;
        same(&Tensor::load_npz(&file.0)?, &list)?;
    }
    let (file, x) = (Scratch::new("twice.npz"), Tensor::scalar(1.0f32));
    let twice = Tensor::save_npz(&file.0, &[("a", &x), ("a", &x)], Compression::Stored);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Argument);
    assert!(Tensor::save_npz(&file.0, &[("a", &x.cast(DType::BF16))], Compression::Stored).is_err());
    assert!(!file.0.exists());
    assert_eq!(Tensor::load_npz(&file.0).unwrap_err().kind(), ErrorKind::Io);
    Ok(())
}

#[test]
fn safetensors_hold_every_dtype_but_c128_and_mapped_ones_are_not_copied() -> Result<()> {
    let mut random = Random::fresh();
    let list = tensors(&mut random, &[DType::C128]);
    let file = Scratch::new("all.safetensors");
    Tensor::save_safetensors(&file.0, &borrowed(&list))?;
    same(&Tensor::load_safetensors(&file.0)?, &list)?;
    same(&Tensor::from_safetensors_bytes(&std::fs::read(&file.0).unwrap())?, &list)?;
    // SAFETY: the file is the test's own, and nothing changes it.
    same(&unsafe { Tensor::map_safetensors(&file.0) }?, &list)?;

    let large = Scratch::new("large.safetensors");
    let x = Tensor::arange(0, 1 << 20);
    Tensor::save_safetensors(&large.0, &[("x", &x)])?;
    let host = Tensor::runtime()?.host()?;
    // SAFETY: as above.
    let read = unsafe { Tensor::map_safetensors(&large.0) }?;
    let buffer = read[0].1.buffer()?;
    let in_file = buffer.with_host(&host, |bytes| bytes.as_ptr().addr())?;
    // Data of a mapped file begins behind its header, not at the start of a block of the pool.
    assert_ne!(in_file % 4096, 0);
    assert_eq!(read[0].1.slice(0, 5..8).to_vec::<i64>()?, [5, 6, 7]);
    let wide = Tensor::scalar(1.0f64).cast(DType::C128);
    assert_eq!(Tensor::save_safetensors(&large.0, &[("x", &wide)]).unwrap_err().kind(), ErrorKind::DType);
    Ok(())
}

#[test]
fn mapped_arrays_are_those_that_are_read() -> Result<()> {
    let mut random = Random::fresh();
    for (name, x) in tensors(&mut random, &[DType::BF16]) {
        let file = Scratch::new("mapped.npy");
        x.save_npy(&file.0)?;
        let (read, mapped) = (Tensor::load_npy(&file.0)?, map_npy(&file.0)?);
        same(&[(name.clone(), mapped)], &[(name, read)])?;
    }
    let file = Scratch::new("short.npy");
    std::fs::write(&file.0, b"\x93NUMPY\x01\x00").unwrap();
    assert_eq!(map_npy(&file.0).unwrap_err().kind(), ErrorKind::Format);
    Ok(())
}

#[test]
fn lies_in_headers_are_told() {
    let file = |head: &str, data: &[u8]| {
        let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
        bytes.extend(head.as_bytes());
        bytes.extend(data);
        Tensor::from_safetensors_bytes(&bytes).map(|_| ())
    };
    let entry =
        |shape: &str, offsets: &str| format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
    assert!(file(&entry("[2]", "[0,8]"), &[0; 8]).is_ok());
    for (head, data) in [
        (entry("[2]", "[0,8]"), 7),
        (entry("[2]", "[0,8]"), 9),
        (entry("[2]", "[4,12]"), 12),
        (entry("[3]", "[0,8]"), 8),
        (entry("[2]", "[8,0]"), 8),
        (entry("[18446744073709551615,2]", "[0,8]"), 8),
        (entry("[-1]", "[0,8]"), 8),
        (r#"{"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#.into(), 1),
        ("[]".into(), 0),
        ("{".into(), 0),
    ] {
        let error = file(&head, &vec![0; data]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format, "{head}: {error}");
    }
    let narrow = entry("[2]", "[0,2]").replace("F32", "F8_E4M3");
    assert_eq!(file(&narrow, &[0; 2]).unwrap_err().kind(), ErrorKind::DType);
    assert!(Tensor::from_safetensors_bytes(&[0xff; 8]).is_err());
    assert!(Tensor::from_npz_bytes(b"PK").is_err());
}

/// Feeds damaged copies of good files to a parser.
fn fuzz(name: &'static str, good: &[Vec<u8>], parse: impl Fn(&[u8]) -> Result<()>) {
    for bytes in good {
        parse(bytes).unwrap();
    }
    Damage::new(name).with(good.iter().cloned()).feed(20.0, |bytes| match parse(bytes) {
        Ok(()) => true,
        Err(error) => {
            let kinds = [ErrorKind::Format, ErrorKind::DType, ErrorKind::Shape];
            assert!(kinds.contains(&error.kind()), "{name}: {error} for {bytes:?}");
            false
        }
    });
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest < 64 << 20, "{name}: {largest} bytes were allocated at once");
}

/// The bytes that a writer puts into a file.
fn written(name: &str, write: impl FnOnce(&PathBuf) -> Result<()>) -> Vec<u8> {
    let file = Scratch::new(name);
    write(&file.0).unwrap();
    std::fs::read(&file.0).unwrap()
}

fn samples() -> [Tensor; 3] {
    let flags = Tensor::from_shape([3], &[true, false, true]);
    [Tensor::arange(0, 6).reshape([2, 3]).cast(DType::F32), flags, Tensor::scalar(2.5f64)]
}

/// What a reader of bytes says, and now and then whether the reader of a mapped file says the same.
fn mapped_too<T>(
    name: &str,
    from_bytes: impl Fn(&[u8]) -> Result<T>,
    from_file: impl Fn(&PathBuf) -> Result<T>,
) -> impl Fn(&[u8]) -> Result<()> {
    let (file, runs) = (Scratch::new(name), Cell::new(0u32));
    move |bytes| {
        let read = from_bytes(bytes);
        runs.set(runs.get() + 1);
        // Writing a file takes many times as long as reading one.
        if runs.get() % 32 == 1 {
            std::fs::write(&file.0, bytes).unwrap();
            match (&read, from_file(&file.0)) {
                (Ok(_), Ok(_)) => {}
                (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{a} from bytes, {b} from a file"),
                (_, mapped) => panic!("bytes and file differ: {:?} {:?}", read.err(), mapped.err()),
            }
        }
        read.map(|_| ())
    }
}

#[test]
fn damaged_npy_files_are_errors() {
    let good = samples().map(|t| written("fuzz.npy", |p| t.save_npy(p)));
    fuzz("npy", &good, mapped_too("map.npy", Tensor::from_npy_bytes, map_npy));
}

#[test]
fn damaged_npz_files_are_errors() {
    let [a, b, c] = samples();
    let all = [("a", &a), ("b", &b), ("c", &c)];
    let good = [Compression::Stored, Compression::Deflated]
        .map(|how| written(&format!("fuzz{how:?}.npz"), |p| Tensor::save_npz(p, &all, how)));
    fuzz("npz", &good, |bytes| Tensor::from_npz_bytes(bytes).map(|_| ()));
}

#[test]
fn damaged_safetensors_files_are_errors() {
    let [a, b, c] = samples();
    let all = [("a", &a), ("b", &b), ("c", &c)];
    let good = [written("fuzz.safetensors", |p| Tensor::save_safetensors(p, &all))];
    // SAFETY: the file is the test's own, and nothing changes it while it is mapped.
    let mapped = |p: &PathBuf| unsafe { Tensor::map_safetensors(p) };
    let mapped = mapped_too("map.safetensors", Tensor::from_safetensors_bytes, mapped);
    let read = mapped_too("load.safetensors", Tensor::from_safetensors_bytes, |p| Tensor::load_safetensors(p));
    fuzz("safetensors", &good, |bytes| mapped(bytes).and_then(|()| read(bytes)));
}

#[test]
fn entries_of_an_archive_that_share_bytes_are_refused() {
    let x = Tensor::zeros([1 << 16], DType::F32);
    let list = [("a", &x), ("b", &x)];
    let mut bytes = written("shared.npz", |p| Tensor::save_npz(p, &list, Compression::Deflated));
    assert_eq!(Tensor::from_npz_bytes(&bytes).unwrap().len(), 2);
    // Both entries of the directory give the offset of the first, in the last 8 bytes of their 64-bit field.
    let central: Vec<usize> = (0..bytes.len() - 4).filter(|&i| bytes[i..].starts_with(b"PK\x01\x02")).collect();
    let field = |at: usize| at + 46 + "a.npy".len() + 4 + 16;
    let (from, to) = (field(central[0]), field(central[1]));
    bytes.copy_within(from..from + 8, to);
    let error = Tensor::from_npz_bytes(&bytes).unwrap_err();
    assert!(error.kind() == ErrorKind::Format && error.to_string().contains("share bytes"), "{error}");
}

#[test]
fn files_without_a_byte_are_told() {
    let file = Scratch::new("nothing");
    std::fs::write(&file.0, b"").unwrap();
    let errors = [
        Tensor::load_npy(&file.0).err(),
        map_npy(&file.0).err(),
        Tensor::load_npz(&file.0).err(),
        Tensor::load_safetensors(&file.0).err(),
        // SAFETY: nothing changes the file.
        unsafe { Tensor::map_safetensors(&file.0) }.err(),
    ];
    for error in errors {
        assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Format));
    }
    let folder = Tensor::load_safetensors(std::env::temp_dir()).unwrap_err();
    assert_eq!(folder.kind(), ErrorKind::Io);
}

/// Runs a reader in another thread; `None` if it has not come back after a while.
#[cfg(unix)]
fn soon<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = send.send(read());
    });
    receive.recv_timeout(Duration::from_secs(20)).ok()
}

#[test]
fn what_was_read_does_not_care_what_becomes_of_the_file() -> Result<()> {
    let x = Tensor::arange(0, 1 << 16);
    let expected = x.to_vec::<i64>()?;
    let file = Scratch::new("cut.safetensors");
    Tensor::save_safetensors(&file.0, &[("x", &x)])?;
    let read = Tensor::load_safetensors(&file.0)?;
    // A mapped file would end the program here.
    std::fs::File::options().write(true).open(&file.0).unwrap().set_len(64).unwrap();
    assert_eq!(read[0].1.to_vec::<i64>()?, expected);
    assert_eq!(Tensor::load_safetensors(&file.0).unwrap_err().kind(), ErrorKind::Format);
    Ok(())
}

#[test]
fn files_that_are_cut_while_they_are_read_are_errors() -> Result<()> {
    let x = Tensor::arange(0, 1 << 15);
    let expected = x.to_vec::<i64>()?;
    type Load = fn(&PathBuf) -> Result<Vec<(String, Tensor)>>;
    let npz = |p: &PathBuf| Tensor::save_npz(p, &[("x", &Tensor::arange(0, 1 << 15))], Compression::Stored);
    let readers: [(Vec<u8>, Load); 3] = [
        (written("torn.npz", npz), |p| Tensor::load_npz(p)),
        (written("torn.safetensors", |p| Tensor::save_safetensors(p, &[("x", &x)])), |p| Tensor::load_safetensors(p)),
        (written("torn.npy", |p| x.save_npy(p)), |p| Ok(vec![("x".into(), Tensor::load_npy(p)?)])),
    ];
    for (number, (good, load)) in readers.into_iter().enumerate() {
        let file = Scratch::new(&format!("torn-{number}"));
        std::fs::write(&file.0, &good).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let target = std::fs::File::options().write(true).open(&file.0).unwrap();
                while !over.load(Ordering::Relaxed) {
                    target.set_len(good.len() as u64 / 2).unwrap();
                    std::fs::write(&file.0, &good).unwrap();
                }
            });
            for _ in 0..300 {
                match load(&file.0).and_then(|all| all[0].1.to_vec::<i64>()) {
                    // Cut and written again between two reads, a file may show zeros; those of an archive have a checksum.
                    Ok(values) => assert!(values.len() == expected.len() && (number != 0 || values == expected)),
                    Err(e) => assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Io), "{e}"),
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let pipe = Scratch::new("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe.0).status();
    assert!(made.is_ok_and(|s| s.success()), "mkfifo does not work");
    type Load = fn(&PathBuf) -> Result<()>;
    let doors: [Load; 4] = [
        |p| Tensor::load_npz(p).map(|_| ()),
        |p| Tensor::load_safetensors(p).map(|_| ()),
        |p| map_npy(p).map(|_| ()),
        // SAFETY: a pipe is never mapped.
        |p| unsafe { Tensor::map_safetensors(p) }.map(|_| ()),
    ];
    for door in doors {
        let path = pipe.0.clone();
        let error = soon(move || door(&path)).expect("it waits for a writer").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
}

#[test]
fn of_equal_names_in_an_archive_the_last_counts() -> Result<()> {
    let x = |from: i64| Tensor::arange(from, from + 4);
    let list = [("a", &x(0)), ("b", &x(10)), ("c", &x(20))];
    let mut bytes = written("equal.npz", |p| Tensor::save_npz(p, &list, Compression::Stored));
    // The third becomes another "a", in its own header and in the directory.
    while let Some(at) = bytes.windows(5).position(|w| w == b"c.npy") {
        bytes[at] = b'a';
    }
    let read = Tensor::from_npz_bytes(&bytes)?;
    let names: Vec<&str> = read.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(read[1].1.to_vec::<i64>()?, [20, 21, 22, 23]);
    // What does not count is not read, damaged or not.
    let data = bytes.windows(6).position(|w| w == b"\x93NUMPY").unwrap();
    bytes[data] = 0;
    assert_eq!(Tensor::from_npz_bytes(&bytes)?.len(), 2);
    Ok(())
}
