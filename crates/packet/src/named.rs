//! Names of enumerations: one each, in plans, on the command line and in records.

/// Writes and reads an enum by the names of its values.
macro_rules! named {
    ($type:ident, $what:literal, $($name:literal => $value:ident),+) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($type::$value => $name),+ })
            }
        }
        impl std::str::FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok($type::$value),)+
                    _ => Err(format!(concat!("`{}` is no ", $what, ": use ", named!(@list $($name),+)), text)),
                }
            }
        }
    };
    (@list $first:literal $(, $rest:literal)*) => { concat!($first $(, ", ", $rest)*) };
}
