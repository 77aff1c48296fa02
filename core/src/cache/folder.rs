//! Where cached files live, by the conventions of each platform.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The platforms that differ in where caches belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    Windows,
    Mac,
    Other,
}

impl Platform {
    pub(super) fn here() -> Platform {
        if cfg!(windows) {
            Platform::Windows
        } else if cfg!(target_vendor = "apple") {
            Platform::Mac
        } else {
            Platform::Other
        }
    }
}

/// The folder that the environment asks for, or why there is none.
///
/// `MILLSTREAM_CACHE` decides where it is set: a path, or `off` (or nothing) for no cache at all. Otherwise the platform's
/// own folder. Relative paths in the other variables are ignored, as the XDG specification asks.
pub(super) fn default_folder(
    platform: Platform,
    variable: impl Fn(&str) -> Option<OsString>,
) -> std::result::Result<PathBuf, String> {
    if let Some(value) = variable("MILLSTREAM_CACHE") {
        return if value.is_empty() || value.eq_ignore_ascii_case("off") {
            Err("switched off by MILLSTREAM_CACHE".to_string())
        } else {
            Ok(PathBuf::from(value))
        };
    }
    let rooted = |name: &str| variable(name).map(PathBuf::from).filter(|p| p.has_root());
    let found = match platform {
        Platform::Windows => variable("LOCALAPPDATA")
            .filter(|v| !v.is_empty())
            .map(|v| PathBuf::from(v).join("millstream").join("cache")),
        Platform::Mac => rooted("XDG_CACHE_HOME")
            .map(|p| p.join("millstream"))
            .or_else(|| rooted("HOME").map(|p| p.join("Library/Caches/millstream"))),
        Platform::Other => rooted("XDG_CACHE_HOME")
            .map(|p| p.join("millstream"))
            .or_else(|| rooted("HOME").map(|p| p.join(".cache/millstream"))),
    };
    found.ok_or_else(|| {
        let missing = if platform == Platform::Windows { "LOCALAPPDATA" } else { "HOME" };
        format!("no folder for it: neither MILLSTREAM_CACHE nor {missing} names one")
    })
}

/// Creates the folder and its parents; the folder itself for this user only, since what lies in it is run later.
pub(super) fn create(folder: &Path) -> std::io::Result<()> {
    if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    #[allow(unused_mut)] // Only Unix has a mode to set.
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        other => other,
    }
}

/// The user as whom this program reads and writes files, where files have one.
pub(super) fn user() -> Option<u32> {
    #[cfg(unix)]
    // SAFETY: the call has no conditions and cannot fail.
    return Some(unsafe { libc::geteuid() });
    #[cfg(not(unix))]
    None
}

/// An error if a file or folder is not this user's.
pub(super) fn check_owner(meta: &std::fs::Metadata, user: Option<u32>) -> std::io::Result<()> {
    #[cfg(unix)]
    if let Some(user) = user {
        let owner = std::os::unix::fs::MetadataExt::uid(meta);
        if owner != user {
            let text = format!("it belongs to another user ({owner}, and this is {user})");
            return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text));
        }
    }
    let _ = (meta, user);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(platform: Platform, variables: &[(&str, &str)]) -> std::result::Result<PathBuf, String> {
        default_folder(platform, |name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)))
    }

    #[test]
    fn millstream_cache_comes_before_everything() {
        let others = [("XDG_CACHE_HOME", "/x"), ("HOME", "/h"), ("LOCALAPPDATA", "C:\\l")];
        for platform in [Platform::Windows, Platform::Mac, Platform::Other] {
            let with = |value| folder(platform, &[&[("MILLSTREAM_CACHE", value)][..], &others].concat());
            assert_eq!(with("/mine"), Ok(PathBuf::from("/mine")));
            for off in ["off", "OFF", ""] {
                assert!(with(off).is_err_and(|why| why.contains("MILLSTREAM_CACHE")));
            }
        }
    }

    #[test]
    fn each_platform_has_its_own_folder() {
        let home = ("HOME", "/home/me");
        assert_eq!(folder(Platform::Other, &[home]), Ok(PathBuf::from("/home/me/.cache/millstream")));
        assert_eq!(folder(Platform::Other, &[home, ("XDG_CACHE_HOME", "/x")]), Ok(PathBuf::from("/x/millstream")));
        assert_eq!(
            folder(Platform::Other, &[home, ("XDG_CACHE_HOME", "relative")]),
            Ok(PathBuf::from("/home/me/.cache/millstream"))
        );
        assert_eq!(folder(Platform::Mac, &[home]), Ok(PathBuf::from("/home/me/Library/Caches/millstream")));
        let windows = folder(Platform::Windows, &[home, ("LOCALAPPDATA", "C:\\Users\\me")]).unwrap();
        assert_eq!(windows, Path::new("C:\\Users\\me").join("millstream").join("cache"));
        assert!(folder(Platform::Other, &[]).is_err_and(|why| why.contains("HOME")));
        assert!(folder(Platform::Windows, &[home]).is_err_and(|why| why.contains("LOCALAPPDATA")));
    }
}
