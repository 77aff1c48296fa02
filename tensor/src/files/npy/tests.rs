use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_core::{DType, ErrorKind};
use proptest::prelude::*;

use super::header::{Header, Order};
use crate::Tensor;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("millstream-npy-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of this version with this dictionary, as it stands, and this data.
fn file(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version, 0]);
    match version {
        1 => out.extend((dictionary.len() as u16).to_le_bytes()),
        _ => out.extend((dictionary.len() as u32).to_le_bytes()),
    }
    out.extend(dictionary.as_bytes());
    out.extend(data);
    out
}

fn head(descr: &str, fortran: bool, shape: &str) -> String {
    let fortran = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

fn refused(bytes: &[u8]) -> String {
    let error = Tensor::from_npy_bytes(bytes).expect_err("the file must be refused");
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    error.to_string()
}

#[test]
fn a_file_as_numpy_writes_it_is_read() {
    let data: Vec<u8> = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    for version in 1..=3 {
        let x = Tensor::from_npy_bytes(&file(version, &head("<f4", false, "(2, 3)"), &data)).unwrap();
        assert_eq!((x.sizes(), x.dtype()), (&[2, 3][..], DType::F32));
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}

#[test]
fn a_column_major_file_is_read_in_the_right_order() {
    let data: Vec<u8> = [1i32, 4, 2, 5, 3, 6].iter().flat_map(|v| v.to_le_bytes()).collect();
    let x = Tensor::from_npy_bytes(&file(1, &head("<i4", true, "(2, 3)"), &data)).unwrap();
    assert_eq!(x.sizes(), [2, 3]);
    assert_eq!(x.to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn big_endian_numbers_are_swapped() {
    let data: Vec<u8> = [1.5f64, -2.25].iter().flat_map(|v| v.to_be_bytes()).collect();
    let x = Tensor::from_npy_bytes(&file(1, &head(">f8", false, "(2,)"), &data)).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [1.5, -2.25]);
    let complex: Vec<u8> = [1.5f32, -2.25].iter().flat_map(|v| v.to_be_bytes()).collect();
    let z = Tensor::from_npy_bytes(&file(1, &head(">c8", false, "()"), &complex)).unwrap();
    let z = z.item::<num_complex::Complex<f32>>().unwrap();
    assert_eq!((z.re, z.im), (1.5, -2.25), "each part is swapped by itself");
}

#[test]
fn single_numbers_and_empty_arrays_are_read() {
    let one = Tensor::from_npy_bytes(&file(1, &head("<i8", false, "()"), &7i64.to_le_bytes())).unwrap();
    assert_eq!((one.rank(), one.item::<i64>().unwrap()), (0, 7));
    let none = Tensor::from_npy_bytes(&file(1, &head("<f4", true, "(3, 0, 2)"), &[])).unwrap();
    assert_eq!(none.sizes(), [3, 0, 2]);
    assert_eq!(none.to_vec::<f32>().unwrap(), [0f32; 0]);
}

#[test]
fn keys_may_come_in_any_order_and_python_2_wrote_longs() {
    let odd = "{ \"shape\" : (2L,) , 'fortran_order':False,'descr':\"|u1\"}   \n";
    let x = Tensor::from_npy_bytes(&file(1, odd, &[8, 9])).unwrap();
    assert_eq!(x.to_vec::<u8>().unwrap(), [8, 9]);
}

#[test]
fn what_is_no_npy_file_is_refused_with_the_reason() {
    for (bytes, part) in [
        (b"".to_vec(), "ends after 0 bytes"),
        (b"\x93NUM".to_vec(), "ends after 4 bytes"),
        (b"hello, this is text".to_vec(), "no npy file"),
        (b"PK\x03\x04zip archive".to_vec(), "load_npz"),
        (b"\x93NUMPY\x01".to_vec(), "within the version"),
        (b"\x93NUMPY\x01\x00\x10".to_vec(), "header's length"),
        (b"\x93NUMPY\x09\x00aaaaaaaaaaaaaaaaa".to_vec(), "version 9.0"),
        (b"\x93NUMPY\x01\x01aaaaaaaaaaaaaaaaa".to_vec(), "version 1.1"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xffaaaaaa".to_vec(), "claims 4294967295 bytes"),
        (b"\x93NUMPY\x01\x00\x01\x00{}".to_vec(), "too few"),
    ] {
        let text = refused(&bytes);
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[test]
fn a_lying_header_is_refused_with_the_reason() {
    for (dictionary, data, part) in [
        (head("<f4", false, "(2,)"), 7, "has 7 there"),
        (head("<f4", false, "(2,)"), 9, "has 9 there"),
        (head("<f4", false, "(4294967296, 4294967296)"), 8, "too large to address"),
        (head("<f8", false, "(2305843009213693952,)"), 8, "too large to address"),
        (head("<f8", false, "(1152921504606846975,)"), 8, "has 8 there"),
        (head("<f4", false, "(99999999999999999999999999,)"), 8, "too large to address"),
        (head("<f4", false, "(0, 9223372036854775807, 9223372036854775807)"), 0, "too large to address"),
        (head("<f4", false, "(-1,)"), 0, "expected a size"),
        (head("<f4", false, "(1)"), 4, "expected ','"),
        (head("<f4", false, "[1]"), 4, "expected '('"),
        (head("<f4", false, &format!("({})", "1,".repeat(65))), 4, "more than 64 dimensions"),
        (head("|O", false, "(1,)"), 8, "never loaded"),
        (head("<V2", false, "(1,)"), 2, "float32"),
        (head("<U4", false, "(1,)"), 16, "holds text"),
        (head("<M8[ns]", false, "(1,)"), 8, "int64"),
        (head("<f16", false, "(1,)"), 16, "float64"),
        (head("|f4", false, "(1,)"), 4, "no byte order"),
        (head("f4", false, "(1,)"), 4, "byte order"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}".into(), 4, "structured"),
        ("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}".into(), 4, "True or False"),
        ("{'descr': '<f4', 'shape': (1,)}".into(), 4, "no \"fortran_order\""),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}".into(), 4, "comes twice"),
        ("{'descr': '<f4', 'extra': 1}".into(), 4, "not known"),
        ("{'descr': '<f4".into(), 4, "without end"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x".into(), 4, "nothing after"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)".into(), 4, "header ends"),
        ("(((((((((((((((((((((((((((((".into(), 4, "expected '{'"),
    ] {
        let text = refused(&file(1, &dictionary, &vec![0; data]));
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[test]
fn bools_are_zero_or_one() {
    let dictionary = head("|b1", false, "(3,)");
    let x = Tensor::from_npy_bytes(&file(1, &dictionary, &[0, 1, 1])).unwrap();
    assert_eq!(x.to_vec::<bool>().unwrap(), [false, true, true]);
    assert!(refused(&file(1, &dictionary, &[0, 1, 2])).contains("neither 0 nor 1"));
}

#[test]
fn a_file_that_is_not_there_is_an_io_error_with_its_name() {
    let folder = Folder::new();
    let missing = Tensor::load_npy(folder.file("missing.npy")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(missing.to_string().contains("missing.npy"));
    assert_eq!(Tensor::load_npy(&folder.0).unwrap_err().kind(), ErrorKind::Io, "a folder is no file");
    fs::write(folder.file("short.npy"), file(1, &head("<f4", false, "(2,)"), &[0; 3])).unwrap();
    let short = Tensor::load_npy(folder.file("short.npy")).unwrap_err();
    assert_eq!(short.kind(), ErrorKind::Format);
    assert!(short.to_string().contains("short.npy"), "{short}");
}

#[test]
fn saving_replaces_a_file_and_leaves_nothing_else() {
    let folder = Folder::new();
    let path = folder.file("x.npy");
    fs::write(&path, b"old").unwrap();
    let x = Tensor::from_shape([2, 2], &[1i16, 2, 3, 4]);
    x.transpose().save_npy(&path).unwrap();
    assert_eq!(Tensor::load_npy(&path).unwrap().to_vec::<i16>().unwrap(), [1, 3, 2, 4]);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_save_that_fails_keeps_what_was_there() {
    let folder = Folder::new();
    let error = Tensor::from_slice(&[1f32]).save_npy(folder.file("no/such/folder.npy")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let path = folder.file("x.npy");
    fs::write(&path, b"old").unwrap();
    let wrong = Tensor::from_slice(&[1f32]) + Tensor::from_slice(&[1f32, 2.0, 3.0]).reshape([7]);
    assert!(wrong.save_npy(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_a_device_file_stays_one() {
    use std::os::unix::fs::FileTypeExt;
    let x = Tensor::from_slice(&[1f32; 1000]);
    x.save_npy("/dev/null").unwrap();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(x.save_npy("/dev/full").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(Tensor::load_npy("/dev/zero").unwrap_err().kind(), ErrorKind::Format, "an endless file ends early");
}

#[test]
fn bf16_is_refused_with_a_way_out() {
    let folder = Folder::new();
    let error = Tensor::from_slice(&[1f32]).cast(DType::BF16).save_npy(folder.file("x.npy")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DType);
    assert!(error.suggestion().is_some_and(|s| s.contains("f32")));
}

#[test]
fn the_data_begins_at_a_multiple_of_64() {
    for shape in [vec![], vec![3], vec![1; 40], vec![123456789; 3]] {
        let header = Header { dtype: DType::F32, order: Order::native(), column_major: false, shape };
        assert_eq!(header.to_bytes().len() % 64, 0);
    }
}

const WRITABLE: [DType; 14] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_dtype_and_shape_survives_the_round_trip(
        dtype in prop::sample::select(&WRITABLE[..]),
        shape in prop::collection::vec(0usize..5, 0..5),
        seed in any::<u64>(),
        reverse in any::<bool>(),
    ) {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        let mut state = seed | 1;
        let data: Vec<u8> = (0..bytes).map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let byte = (state >> 33) as u8;
            if dtype == DType::Bool { byte & 1 } else { byte }
        }).collect();
        let mut x = Tensor::from_bytes(&shape, dtype, &data);
        if reverse {
            let order: Vec<usize> = (0..shape.len()).rev().collect();
            x = x.permute(&order);
        }
        let folder = Folder::new();
        x.save_npy(folder.file("x.npy")).unwrap();
        let back = Tensor::load_npy(folder.file("x.npy")).unwrap();
        prop_assert_eq!(back.sizes(), x.sizes());
        prop_assert_eq!(back.dtype(), dtype);
        prop_assert_eq!(back.to_bytes().unwrap(), x.to_bytes().unwrap());
    }

    #[test]
    fn a_damaged_file_gives_a_tensor_or_an_error_but_never_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let mut bytes = file(2, &head("<f4", true, "(3, 2, 2)"), &[1; 48]);
        for (position, byte) in changes {
            let at = position.index(bytes.len());
            bytes[at] = byte;
        }
        if shorten {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(x) = Tensor::from_npy_bytes(&bytes) {
            prop_assert_eq!(x.to_bytes().unwrap().len(), x.len() * x.dtype().size());
        }
    }
}
