//! Names of the kernel's functions, /proc/kallsyms; those of eBPF programs are among them while they are loaded.

/// Functions in the order of their addresses.
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Those of the running kernel; none where it keeps its addresses to itself.
    pub fn of_kernel() -> Symbols {
        Symbols::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Symbols {
        let mut list: Vec<_> = text.lines().filter_map(symbol).collect();
        list.sort_unstable();
        Symbols(list)
    }

    /// The function at an address.
    pub fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        self.0.get(after.wrapping_sub(1)).map_or("unknown", |(_, name)| name.as_str())
    }
}

/// `ffffffff81000000 T name [module]`; without the right to see addresses they are zero.
fn symbol(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(address, 16).ok().filter(|address| *address > 0)?;
    // What the compiler has split off or made its own copy of is still that function.
    let name = name.split('.').next().unwrap_or(name);
    matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let text = "00000000000000a0 T second.part.0\n0000000000000010 t first [veth]\n00000000000000b0 D data\n\
                    0000000000000000 T hidden\nnonsense\n";
        let symbols = Symbols::parse(text);
        let names = [0x5, 0x10, 0x9f, 0xa0, 0xff].map(|address| symbols.name(address));
        assert_eq!(names, ["unknown", "first", "first", "second", "second"]);
    }
}
