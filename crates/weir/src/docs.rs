//! What is written from the command line's own description: completions and man pages.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// The completions of `shell`. They are gathered first, since clap panics where they cannot be written.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut text);
    text
}

/// Writes the man page of weir.
pub(crate) fn man_page(out: &mut impl Write) -> io::Result<()> {
    clap_mangen::Man::new(Cli::command()).render(out)
}

/// Writes the man pages of weir and all its commands into a folder, which is made if it is not there.
pub(crate) fn man_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn completions_name_the_commands() {
        for shell in Shell::value_variants() {
            assert!(String::from_utf8(completions(*shell)).unwrap().contains("generate"), "{shell}");
        }
    }

    #[test]
    fn man_pages_are_written() {
        let mut page = Vec::new();
        man_page(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains(".TH weir 1") && page.contains("Exit codes"), "{page}");
        let folder = std::env::temp_dir().join(format!("weir-man-{}", std::process::id()));
        man_pages(&folder).unwrap();
        for name in ["weir.1", "weir-run.1", "weir-plan-check.1"] {
            assert!(folder.join(name).exists(), "{name}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
