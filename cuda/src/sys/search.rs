//! Where the vendor's libraries lie.
//!
//! A library is looked for in this order: the file that its environment variable names; the loader's own search by name
//! (which covers `LD_LIBRARY_PATH`); the folders that `CUDA_HOME` and `CUDA_PATH` name; the usual places.

use std::path::{Path, PathBuf};

use libloading::Library;

/// A library to look for.
pub(crate) struct Wanted {
    /// The variable that may name its file.
    pub(crate) variable: &'static str,
    /// The names under which it may lie, best first.
    pub(crate) names: &'static [&'static str],
}

/// Opens the library, or says where it was looked for.
pub(crate) fn open(wanted: &Wanted) -> Result<Library, String> {
    let load = |path: &Path| {
        // SAFETY: loading runs the library's own initialisers; these are the vendor's libraries, made to be loaded so.
        unsafe { Library::new(path) }
    };
    if let Some(file) = named(wanted) {
        return load(&file).map_err(|e| format!("{} names {}, but: {e}", wanted.variable, file.display()));
    }
    let mut broken = None;
    for name in wanted.names {
        match load(Path::new(name)) {
            Ok(library) => return Ok(library),
            Err(e) => broken = broken.or_else(|| foreign_fault(name, &e)),
        }
    }
    for folder in folders() {
        for name in wanted.names {
            let file = folder.join(name);
            if file.is_file() {
                match load(&file) {
                    Ok(library) => return Ok(library),
                    Err(e) => broken = Some(format!("{}: {e}", file.display())),
                }
            }
        }
    }
    Err(broken.unwrap_or_else(|| {
        format!(
            "{} was not found by name, under CUDA_HOME or CUDA_PATH, or in the usual places",
            wanted.names.join(", ")
        )
    }))
}

/// Whether the library lies somewhere, without opening it: opening a large one takes a tenth of a second.
pub(crate) fn locate(wanted: &Wanted) -> bool {
    if let Some(file) = named(wanted) {
        return file.is_file();
    }
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let loader: Vec<PathBuf> = std::env::split_paths(&listed).filter(|p| !p.as_os_str().is_empty()).collect();
    if loader.iter().chain(&folders()).any(|f| wanted.names.iter().any(|n| f.join(n).is_file())) {
        return true;
    }
    // The loader's index of all libraries it knows holds their names as plain text.
    let index = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    wanted.names.iter().any(|n| index.windows(n.len()).any(|w| w == n.as_bytes()))
}

fn named(wanted: &Wanted) -> Option<PathBuf> {
    std::env::var_os(wanted.variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// What the loader says of a library that is there but cannot be used: more than that there is none.
fn foreign_fault(name: &str, error: &libloading::Error) -> Option<String> {
    let text = error.to_string();
    let absent = text.contains("cannot open shared object file") && text.contains(&format!("{name}:"));
    (!absent && !text.contains("LoadLibrary") && !text.contains("no such file")).then_some(text)
}

/// The folders in which CUDA's libraries usually lie.
fn folders() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"]
        .iter()
        .filter_map(|v| std::env::var_os(v).filter(|v| !v.is_empty()))
        .map(PathBuf::from)
        .collect();
    roots.push("/usr/local/cuda".into());
    // All versions side by side, the newest first.
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/local")
        .map(|list| list.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    versions.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("cuda-")));
    versions.sort_by_key(|p| std::cmp::Reverse(version_of(p)));
    roots.extend(versions);
    roots.push("/opt/cuda".into());
    let platform = if cfg!(target_arch = "aarch64") { "sbsa-linux" } else { "x86_64-linux" };
    let mut out = Vec::new();
    for root in roots {
        out.push(root.join("lib64"));
        out.push(root.join("targets").join(platform).join("lib"));
        if cfg!(windows) {
            out.push(root.join("bin"));
            out.push(root.join("bin").join("x64"));
        }
    }
    if cfg!(target_os = "linux") {
        out.extend(
            [
                "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu",
                "/usr/lib64",
                "/usr/lib/wsl/lib",
                "/usr/local/nvidia/lib64",
            ]
            .map(PathBuf::from),
        );
    }
    out
}

/// The numbers in a folder's name, to sort by.
fn version_of(path: &Path) -> Vec<u32> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.trim_start_matches("cuda-").split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_nowhere_is_an_error_that_names_it() {
        let wanted = Wanted { variable: "MILLSTREAM_TEST_NO_SUCH", names: &["libmillstream-no-such.so.7"] };
        let Err(why) = open(&wanted) else { panic!("there is no such library") };
        assert!(why.contains("libmillstream-no-such.so.7"), "{why}");
        assert!(!locate(&wanted));
    }

    #[test]
    fn newer_versions_come_first() {
        let mut list = ["/usr/local/cuda-12.9", "/usr/local/cuda-13.0", "/usr/local/cuda-12.10"].map(PathBuf::from);
        list.sort_by_key(|p| std::cmp::Reverse(version_of(p)));
        let names: Vec<_> = list.iter().map(|p| p.display().to_string()).collect();
        assert_eq!(names, ["/usr/local/cuda-13.0", "/usr/local/cuda-12.10", "/usr/local/cuda-12.9"]);
    }
}
