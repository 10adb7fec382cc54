//! A program that starts itself as other processes: hidden commands, which it looks for before its arguments are read.
//!
//! ```text
//! command(program, name, order) > process > arguments: name, order as JSON > "ready {..}" > "done {..}"
//! ```

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Said when a process serves; what follows says where.
pub const READY: &str = "ready ";
/// Said in the end; what follows is what it found.
pub const DONE: &str = "done ";

/// A program as the process of this name, with its order.
pub fn command(program: &Path, name: &str, order: &impl Serialize) -> Command {
    let mut command = Command::new(program);
    command.arg(name).arg(serde_json::to_string(order).unwrap_or_default());
    command
}

/// The order of a process, from its argument.
///
/// # Errors
/// There is none, or one of another form.
pub fn order<T: DeserializeOwned>(text: Option<String>) -> io::Result<T> {
    let text = text.ok_or_else(|| io::Error::other("takes one argument"))?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Writes a line to the parent process, which waits for it.
pub fn say(word: &str, what: &impl Serialize) {
    let text = serde_json::to_string(what).unwrap_or_default();
    // An error means that the parent has gone.
    let _ = writeln!(io::stdout(), "{word}{text}");
}

/// How a process of this name ends.
pub fn end(name: &str, result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given() {
        let command = command(Path::new("/bin/true"), "name", &("text", 7));
        let arguments: Vec<_> = command.get_args().map(|text| text.to_string_lossy().into_owned()).collect();
        assert_eq!(arguments[0], "name");
        assert_eq!(order::<(String, u32)>(Some(arguments[1].clone())).unwrap(), ("text".to_string(), 7));
        assert!(order::<u32>(None).unwrap_err().to_string().contains("takes one argument"));
        assert!(order::<u32>(Some("x".into())).is_err());
    }
}
