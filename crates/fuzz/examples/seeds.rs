//! Writes the seeds of a target, and what has failed once, into a folder: `seeds TARGET FOLDER`. Without words: the targets.

use std::path::PathBuf;

use weir_fuzz::{TARGETS, Target};

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = &words[..] else {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return Ok(());
    };
    let target = Target::of(name).ok_or_else(|| std::io::Error::other(format!("`{name}` is no target")))?;
    let folder = PathBuf::from(folder);
    let corpus = target.corpus().into_iter().map(|(_, input)| input);
    for (n, input) in (target.seeds)().into_iter().chain(corpus).enumerate() {
        std::fs::write(folder.join(format!("seed-{n}")), input)?;
    }
    Ok(())
}
