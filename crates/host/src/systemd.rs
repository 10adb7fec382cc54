//! Words in units of systemd (systemd.syntax(7), systemd.service(5)).

/// An argument of a command in a unit, so that it stands for itself: no specifier (`%`), no variable (`$`), no escape and no end of a
/// word. Bytes that are not UTF-8 are written as escapes.
pub fn argument(bytes: &[u8]) -> String {
    quoted(bytes).replace('$', "$$")
}

/// The same of a text in which variables mean nothing, as the path of a program.
pub fn quoted(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:=@%$".contains(byte);
    let escaped: String = bytes
        .utf8_chunks()
        .map(|chunk| {
            let valid: String = chunk.valid().chars().map(escaped).collect();
            chunk.invalid().iter().fold(valid, |text, byte| text + &format!("\\x{byte:02x}"))
        })
        .collect();
    if !bytes.is_empty() && bytes.iter().all(is_plain) { escaped } else { format!("\"{escaped}\"") }
}

fn escaped(letter: char) -> String {
    match letter {
        '%' => "%%".into(),
        '"' | '\\' => format!("\\{letter}"),
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        letter if letter.is_ascii_control() => format!("\\x{:02x}", u32::from(letter)),
        letter => letter.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_for_themselves() {
        for (text, expected) in [
            ("/etc/weir/home.node", "/etc/weir/home.node"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("50%", "50%%"),
            ("${HOME}", r#""$${HOME}""#),
            ("$HOME", "$$HOME"),
            (r"a\x20b", r#""a\\x20b""#),
            (r#"a"b'c"#, r#""a\"b'c""#),
            ("a\nb\u{1b}", r#""a\nb\x1b""#),
            ("\u{e4};#", "\"\u{e4};#\""),
        ] {
            assert_eq!(argument(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(argument(b"\xe4x"), r#""\xe4x""#);
        assert_eq!(quoted(b"/opt/$x y/weir"), r#""/opt/$x y/weir""#);
    }
}
