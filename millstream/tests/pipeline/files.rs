//! Items from files: what was saved comes out, one at a time; what is wrong is the error of its item.

use std::path::{Path, PathBuf};

use millstream::pipeline::files;
use millstream::{DType, ErrorKind, Pipeline, Result, Tensor};

use crate::common::{Random, devices};

/// A folder of its own that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("millstream-flow-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn random(random: &mut Random, shape: &[usize]) -> Tensor {
    let values: Vec<f32> = random.floats(shape.iter().product()).iter().map(|&v| v as f32).collect();
    Tensor::from_shape(shape, &values)
}

#[test]
fn a_folder_of_npy_files_is_a_stream() -> Result<()> {
    let (folder, mut source) = (Folder::new("npy"), Random::fresh());
    let tensors: Vec<Tensor> = (0..7).map(|_| random(&mut source, &[4, 5])).collect();
    for (i, t) in tensors.iter().enumerate() {
        t.save_npy(folder.0.join(format!("{i}.npy")))?;
    }
    std::fs::write(folder.0.join("3.npy"), b"no array").unwrap();
    std::fs::write(folder.0.join("readme.txt"), b"not one of them").unwrap();
    for device in devices() {
        let pipeline = Pipeline::new(&device, |x| x.transpose() * 2.0);
        let items = files::npy_folder(&folder.0)?.staged_for(&device)?;
        assert_eq!((items.files().len(), items.size_hint()), (7, (7, Some(7))));
        for (i, result) in pipeline.run(items)?.enumerate() {
            match result {
                Ok(y) => {
                    let expected = tensors[i].transpose() * 2.0;
                    assert_eq!(y.to_vec::<f32>()?, expected.to_vec::<f32>()?, "{} item {i}", device.name());
                }
                Err(e) => {
                    assert_eq!((i, e.item(), e.step(), e.kind()), (3, 3, "source", ErrorKind::Format));
                    assert!(e.to_string().contains("3.npy"), "{e}");
                }
            }
        }
    }
    assert_eq!(files::npy_folder(folder.0.join("nowhere")).unwrap_err().kind(), ErrorKind::Io);
    Ok(())
}

/// Other byte orders, column-major files and bools are read as `Tensor::load_npy` reads them.
#[test]
fn every_npy_file_is_read_as_by_itself() -> Result<()> {
    let folder = Folder::new("forms");
    let head = |descr: &str, fortran: &str, shape: &str| {
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        while (10 + text.len() + 1) % 64 != 0 {
            text.push(' ');
        }
        text.push('\n');
        let mut head = b"\x93NUMPY\x01\x00".to_vec();
        head.extend((text.len() as u16).to_le_bytes());
        head.extend(text.into_bytes());
        head
    };
    let write = |name: &str, head: Vec<u8>, data: &[u8]| {
        std::fs::write(folder.0.join(name), [head, data.to_vec()].concat()).unwrap();
    };
    let bytes: Vec<u8> = (0..24u8).collect();
    write("a.npy", head("<i4", "False", "(2, 3)"), &bytes);
    write("b.npy", head(">i4", "False", "(2, 3)"), &bytes);
    write("c.npy", head("<i4", "True", "(2, 3)"), &bytes);
    write("d.npy", head("|b1", "False", "(4,)"), &[0, 1, 1, 0]);
    write("e.npy", head("|b1", "False", "(4,)"), &[0, 1, 2, 0]);
    write("f.npy", head("<i4", "False", "(2, 3)"), &bytes[..20]);
    write("g.npy", head("<i4", "False", "()"), &bytes[..4]);
    write("h.npy", head("<f8", "False", "(0, 3)"), &[]);
    for (file, item) in files::npy_folder(&folder.0)?.files().iter().zip(files::npy_folder(&folder.0)?) {
        match (Tensor::load_npy(file), item) {
            (Ok(a), Ok(b)) => {
                assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()));
                assert_eq!(a.to_bytes()?, b.to_bytes()?, "{}", file.display());
            }
            (Err(a), Err(b)) => assert_eq!((a.kind(), a.fault().to_string()), (b.kind(), b.fault().to_string())),
            (a, b) => panic!("{}: {a:?} {b:?}", file.display()),
        }
    }
    Ok(())
}

fn saved(folder: &Path, tensors: &[(&str, &Tensor)]) -> Result<PathBuf> {
    let path = folder.join("data.safetensors");
    Tensor::save_safetensors(&path, tensors)?;
    Ok(path)
}

#[test]
fn a_safetensors_file_is_a_stream_of_its_tensors() -> Result<()> {
    let (folder, mut source) = (Folder::new("tensors"), Random::fresh());
    let (a, b) = (random(&mut source, &[3, 4]), random(&mut source, &[5]));
    let path = saved(&folder.0, &[("a", &a), ("b", &b)])?;
    for device in devices() {
        let pipeline = Pipeline::new(&device, |x| x + 1.0);
        let items = files::safetensors(&path)?.staged_for(&device)?;
        assert_eq!(items.names().collect::<Vec<_>>(), ["a", "b"]);
        let results: Vec<Tensor> = pipeline.run(items)?.collect::<std::result::Result<_, _>>()?;
        for (y, x) in results.iter().zip([&a, &b]) {
            assert_eq!((y.shape(), y.to_vec::<f32>()?), (x.shape(), (x + 1.0).to_vec::<f32>()?));
        }
    }
    Ok(())
}

#[test]
fn a_dataset_is_a_stream_of_batches() -> Result<()> {
    let (folder, mut source) = (Folder::new("rows"), Random::fresh());
    let data = random(&mut source, &[23, 3, 2]);
    let flags = data.slice(2, ..1).gt(0.0).reshape([23, 3]);
    let path = saved(&folder.0, &[("x", &data), ("flags", &flags), ("none", &Tensor::zeros([0, 2], DType::F32))])?;
    for rows in [1, 4, 23, 100] {
        let mut at = 0;
        for (x, f) in files::safetensors_rows(&path, "x", rows)?.zip(files::safetensors_rows(&path, "flags", rows)?) {
            let (x, f) = (x?, f?);
            let count = x.shape()[0];
            let part = at..at + count as isize;
            assert_eq!(count, rows.min(23 - at as usize));
            assert_eq!(x.to_vec::<f32>()?, data.slice(0, part.clone()).to_vec::<f32>()?);
            assert_eq!(f.to_vec::<bool>()?, flags.slice(0, part).to_vec::<bool>()?);
            at += count as isize;
        }
        assert_eq!(at, 23);
    }
    assert_eq!(files::safetensors_rows(&path, "none", 4)?.count(), 0);
    let kind = |name: &str, rows| files::safetensors_rows(&path, name, rows).unwrap_err().kind();
    assert_eq!((kind("y", 1), kind("x", 0)), (ErrorKind::Argument, ErrorKind::Argument));
    // A file that is cut meanwhile is an error of the item that it lacks.
    let mut items = files::safetensors_rows(&path, "x", 20)?;
    assert!(items.next().is_some_and(|x| x.is_ok()));
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(300).unwrap();
    assert_eq!(items.next().unwrap().unwrap_err().kind(), ErrorKind::Io);
    assert!(items.next().is_none());
    Ok(())
}
