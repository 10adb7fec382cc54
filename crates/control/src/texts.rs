//! The file of a node, and the files that it names: read here, since a node that runs may not read them any more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use weir_node::Config;

use crate::request::{Apply, LONGEST};

/// Reads a node's file, and the texts with which another node becomes the same.
///
/// # Errors
/// The file cannot be read, all its mistakes, or it is too long for one request.
pub fn read(file: &Path) -> Result<(Config, Apply)> {
    let name = file.display().to_string();
    let text = text_of(file).with_context(|| format!("cannot read {name}"))?;
    let files = RefCell::new(BTreeMap::new());
    let config = Config::read(&name, &text, &|other| {
        let text = beside(file, other)?;
        files.borrow_mut().insert(other.to_string(), text.clone());
        Ok(text)
    })?;
    let texts = Apply { file: name, text, files: files.into_inner() };
    texts.check_length().map_err(anyhow::Error::msg)?;
    Ok((config, texts))
}

/// The text of a file that a node file names, relative to the folder of that file.
fn beside(file: &Path, other: &str) -> Result<String, String> {
    let path = file.parent().unwrap_or(Path::new("")).join(other);
    // A pipe could block, and a device has no end.
    let no_file = || std::io::Error::other("it is no regular file");
    let found = std::fs::metadata(&path)
        .and_then(|about| if about.is_file() { text_of(&path) } else { Err(no_file()) });
    found.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The text of a file or pipe, if it is not too long for a node.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST as u64 + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST as u64 {
        return Err(std::io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20)));
    }
    Ok(weir_config::without_bom(&text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_no_text() {
        let node = Path::new("/dev/node");
        assert_eq!(
            beside(node, "zero").expect_err("a device"),
            "cannot read /dev/zero: it is no regular file"
        );
        assert!(beside(node, "no-such-file").expect_err("nothing").contains("No such file"));
        assert_eq!(
            text_of(Path::new("/dev/zero")).expect_err("no end").to_string(),
            "it is longer than 64 MiB"
        );
    }

    #[test]
    fn a_pipe_beside_a_node_is_not_waited_for() {
        let folder = weir_testkit::Folder::new();
        let (node, pipe) = (folder.join("node"), folder.join("rules"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        std::thread::scope(|scope| {
            // A reader of the pipe gets this text, and the end.
            scope.spawn(|| std::fs::write(&pipe, "policy accept").expect("it is there"));
            let read = beside(&node, "rules");
            if read.is_err() {
                std::fs::read(&pipe).expect("its writer waits");
            }
            assert_eq!(read, Err(format!("cannot read {}: it is no regular file", pipe.display())));
        });
    }
}
