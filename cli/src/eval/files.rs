//! Files of tensors on the command line: `file.npy`, `file.npz:name`, `file.safetensors:name`.

use std::path::Path;

use millstream::{Compression, Tensor};

use crate::failure::{Failure, Outcome};

/// What the end of a file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    Safetensors,
}

/// The name that a result gets in a file of several tensors, where none is given.
const RESULT: &str = "result";

/// The file, its format, and the name behind the colon.
fn split(text: &str) -> (&str, Format, Option<&str>) {
    let format = |path: &str| match Path::new(path).extension().and_then(|e| e.to_str()) {
        Some(e) if e.eq_ignore_ascii_case("npz") => Format::Npz,
        Some(e) if e.eq_ignore_ascii_case("safetensors") => Format::Safetensors,
        _ => Format::Npy,
    };
    match text.split_once(".npz:").map(|(a, b)| (&text[..a.len() + 4], b)) {
        Some((path, name)) => (path, Format::Npz, Some(name)),
        None => match text.split_once(".safetensors:").map(|(a, b)| (&text[..a.len() + 12], b)) {
            Some((path, name)) => (path, Format::Safetensors, Some(name)),
            None => (text, format(text), None),
        },
    }
}

/// The tensor that a command line names.
pub fn load(text: &str) -> Outcome<Tensor> {
    let (path, format, name) = split(text);
    let all = match format {
        Format::Npy => return Ok(Tensor::load_npy(path)?),
        Format::Npz => Tensor::load_npz(path)?,
        Format::Safetensors => Tensor::load_safetensors(path)?,
    };
    let names = || {
        let list: Vec<&str> = all.iter().take(20).map(|(n, _)| n.as_str()).collect();
        format!("{path} holds {}{}", list.join(", "), if all.len() > 20 { ", ..." } else { "" })
    };
    let found = match name {
        Some(name) => all.iter().find(|(n, _)| n == name),
        None if all.len() == 1 => all.first(),
        None => {
            return Err(Failure::usage(format!("{path} holds {} tensors", all.len()))
                .suggest(format!("name one behind a colon, {path}:name; {}", names())));
        }
    };
    let missing = || Failure::usage(format!("{path} has no tensor {:?}", name.unwrap_or_default())).suggest(names());
    found.map(|(_, t)| t.clone()).ok_or_else(missing)
}

/// Writes a result to the file that a command line names.
pub fn save(result: &Tensor, path: &Path) -> Result<(), millstream::Error> {
    // A name that is no text has no colon that would mean something.
    let Some(text) = path.to_str() else { return result.save_npy(path) };
    let (file, format, name) = split(text);
    let named = [(name.unwrap_or(RESULT), result)];
    match format {
        Format::Npy => result.save_npy(path),
        Format::Npz => Tensor::save_npz(file, &named, Compression::Stored),
        Format::Safetensors => Tensor::save_safetensors(file, &named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_behind_a_colon() {
        assert_eq!(split("a.npy"), ("a.npy", Format::Npy, None));
        assert_eq!(split("d/a.npz:x.y"), ("d/a.npz", Format::Npz, Some("x.y")));
        assert_eq!(split("a.safetensors:w"), ("a.safetensors", Format::Safetensors, Some("w")));
        assert_eq!(split("a.NPZ"), ("a.NPZ", Format::Npz, None));
    }

    #[test]
    fn results_are_written_and_read_by_the_end_of_the_name() -> Outcome {
        let folder = std::env::temp_dir().join(format!("millstream-eval-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| Failure::failed(e.to_string()))?;
        let x = Tensor::from_slice(&[1.5f32, 2.5]);
        for name in ["a.npy", "a.npz", "b.npz:w", "a.safetensors", "b.safetensors:w"] {
            let path = folder.join(name);
            save(&x, &path)?;
            let back = load(path.to_str().unwrap_or_default())?;
            assert_eq!(back.to_vec::<f32>()?, [1.5, 2.5], "{name}");
        }
        let missing = folder.join("b.npz:v");
        assert!(load(missing.to_str().unwrap_or_default()).is_err());
        let _ = std::fs::remove_dir_all(&folder);
        Ok(())
    }
}
