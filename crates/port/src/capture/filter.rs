//! Filters where the kernel does not run them: before a socket buffer exists. Classic BPF, read as the kernel reads it.
//!
//! A filter is written for frames whose outer VLAN tag was taken out, and asks for the tag beside the frame. So it is
//! shown a frame in that way, although here the tag is still in its place.
//! Source: Documentation/networking/filter.rst, linux/filter.h.

/// Where loads begin that ask for something beside the frame.
const BESIDE: i32 = -0x1000;
/// Beside the frame: its EtherType, its receiver, its tag, whether it has one, and the tag's own type.
const PROTOCOL: i32 = BESIDE;
const RECIPIENT: i32 = BESIDE + 4;
const TAG: i32 = BESIDE + 44;
const TAG_PRESENT: i32 = BESIDE + 48;
const TAG_TYPE: i32 = BESIDE + 60;
/// Where loads begin that count from the IP header, and from the first byte.
const FROM_IP: i32 = -0x10_0000;
const FROM_START: i32 = -0x20_0000;
const MACS: usize = 12;
const ETHERNET_BYTES: i64 = 14;
const TAG_BYTES: usize = 4;

/// A filter that was checked when it was made.
pub(crate) struct Filter(Vec<libc::sock_filter>);

/// A frame as a filter sees it.
struct View<'a> {
    bytes: &'a [u8],
    tagged: bool,
}

impl View<'_> {
    fn of(bytes: &[u8]) -> View<'_> {
        let tagged = matches!(bytes.get(MACS..MACS + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
        View { bytes, tagged }
    }

    fn len(&self) -> u32 {
        (self.bytes.len() - if self.tagged { TAG_BYTES } else { 0 }) as u32
    }

    fn byte(&self, at: usize) -> Option<u8> {
        let behind_tag = self.tagged && at >= MACS;
        self.bytes.get(if behind_tag { at + TAG_BYTES } else { at }).copied()
    }

    /// A big-endian number of `size` bytes at `at`.
    fn number(&self, at: i64, size: usize) -> Option<u32> {
        let at = usize::try_from(at).ok()?;
        (at..at + size).try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte(at)?)))
    }

    /// What a load at offset `k` finds.
    fn load(&self, k: u32, size: usize) -> Option<u32> {
        let raw =
            |at: usize| self.bytes.get(at..at + 2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
        match k as i32 {
            PROTOCOL => self.number(MACS as i64, 2),
            // None was sent by this machine, which is all that expressions ask for.
            RECIPIENT => Some(0),
            TAG if self.tagged => raw(MACS + 2),
            TAG_TYPE if self.tagged => raw(MACS),
            TAG | TAG_TYPE => Some(0),
            TAG_PRESENT => Some(self.tagged.into()),
            at @ 0.. => self.number(at.into(), size),
            at if (FROM_IP..FROM_IP + 0x1_0000).contains(&at) => {
                self.number(i64::from(at - FROM_IP) + ETHERNET_BYTES, size)
            }
            at if (FROM_START..FROM_START + 0x1_0000).contains(&at) => {
                self.number(i64::from(at - FROM_START), size)
            }
            _ => None,
        }
    }
}

impl Filter {
    pub(crate) fn new(program: Vec<libc::sock_filter>) -> Filter {
        Filter(program)
    }

    /// Does it let a frame through? A load beyond the frame's end refuses it.
    pub(crate) fn accepts(&self, frame: &[u8]) -> bool {
        self.run(&View::of(frame)).is_some_and(|keep| keep > 0)
    }

    /// The bytes to keep of a frame.
    fn run(&self, view: &View<'_>) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; libc::BPF_MEMWORDS as usize]);
        let mut at = 0;
        loop {
            let one = self.0.get(at)?;
            let (code, k) = (u32::from(one.code), one.k);
            at += 1;
            let size = match code & 0x18 {
                libc::BPF_W => 4,
                libc::BPF_H => 2,
                _ => 1,
            };
            let operand = if code & libc::BPF_X != 0 { x } else { k };
            match code & 7 {
                libc::BPF_LD => {
                    a = match code & 0xe0 {
                        libc::BPF_ABS => view.load(k, size)?,
                        libc::BPF_IND => view.number(i64::from(x) + i64::from(k as i32), size)?,
                        libc::BPF_MEM => *memory.get(k as usize)?,
                        libc::BPF_LEN => view.len(),
                        _ => k,
                    }
                }
                libc::BPF_LDX => {
                    x = match code & 0xe0 {
                        libc::BPF_MSH => (view.load(k, 1)? & 15) * 4,
                        libc::BPF_MEM => *memory.get(k as usize)?,
                        libc::BPF_LEN => view.len(),
                        _ => k,
                    }
                }
                libc::BPF_ST => *memory.get_mut(k as usize)? = a,
                libc::BPF_STX => *memory.get_mut(k as usize)? = x,
                libc::BPF_ALU => a = compute(code & 0xf0, a, operand)?,
                libc::BPF_JMP => {
                    let yes = match code & 0xf0 {
                        libc::BPF_JA => {
                            // A loop goes back; it ends at the end of the frame at the latest.
                            at = at.checked_add_signed(k as i32 as isize)?;
                            continue;
                        }
                        libc::BPF_JEQ => a == operand,
                        libc::BPF_JGT => a > operand,
                        libc::BPF_JGE => a >= operand,
                        _ => a & operand != 0,
                    };
                    at += usize::from(if yes { one.jt } else { one.jf });
                }
                libc::BPF_RET => return Some(if code & 0x18 == libc::BPF_A { a } else { k }),
                _ if code & 0xf8 == libc::BPF_TXA => a = x,
                _ => x = a,
            }
        }
    }
}

/// Arithmetic; `None` for what the kernel refuses a frame for.
fn compute(operation: u32, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        libc::BPF_ADD => a.wrapping_add(b),
        libc::BPF_SUB => a.wrapping_sub(b),
        libc::BPF_MUL => a.wrapping_mul(b),
        libc::BPF_DIV => a.checked_div(b)?,
        libc::BPF_MOD => a.checked_rem(b)?,
        libc::BPF_OR => a | b,
        libc::BPF_AND => a & b,
        libc::BPF_XOR => a ^ b,
        libc::BPF_LSH => a.checked_shl(b).unwrap_or(0),
        libc::BPF_RSH => a.checked_shr(b).unwrap_or(0),
        _ => a.wrapping_neg(),
    })
}

#[cfg(test)]
mod tests {
    use pcap::{Capture, Linktype};

    use super::*;

    /// UDP from 198.18.0.1:5000 to 198.19.0.1:53, of which `options` words stand in the IP header.
    fn frame(options: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45 + options as u8, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([198, 18, 0, 1, 198, 19, 0, 1]);
        frame.extend(vec![1; 4 * options]);
        frame.extend([0x13, 0x88, 0, 53, 0, 26, 0, 0]);
        frame.resize(80, 7);
        frame
    }

    fn compiled(expression: &str) -> Filter {
        let program = Capture::dead(Linktype::ETHERNET).unwrap().compile(expression, true).unwrap();
        // SAFETY: the crate's instruction is the kernel's, integers of the same sizes in the same order.
        let read = |one: &pcap::BpfInstruction| unsafe {
            std::ptr::from_ref(one).cast::<libc::sock_filter>().read()
        };
        Filter::new(program.get_instructions().iter().map(read).collect())
    }

    #[test]
    fn expressions_mean_what_they_say() {
        for (expression, options, is_so) in [
            ("udp", 0, true),
            ("tcp", 0, false),
            ("ip6", 0, false),
            ("udp port 53", 0, true),
            ("udp dst port 53 and src net 198.18.0.0/15", 3, true),
            ("udp dst port 54", 3, false),
            ("len > 79", 0, true),
            ("greater 81", 0, false),
            ("udp[8] = 7 and (ip[2:2] * 2) / 3 = 40", 5, true),
            ("udp[8] & 8 != 0 or ip[8] << 1 != 128", 5, false),
            ("udp[2000] = 0", 0, false),
        ] {
            let expected = compiled(expression).accepts(&frame(options));
            assert_eq!(expected, is_so, "{expression}, {options} words of options");
        }
    }

    #[test]
    fn a_tag_is_beside_the_frame() {
        let mut tagged = frame(0);
        tagged.splice(12..12, [0x81, 0x00, 0x20, 0x07]);
        let load = |k: i32| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: k as u32 };
        let ret = libc::sock_filter { code: 0x16, jt: 0, jf: 0, k: 0 };
        let value = |frame: &[u8], k| Filter::new(vec![load(k), ret]).run(&View::of(frame));
        let words = [TAG, TAG_PRESENT, TAG_TYPE, PROTOCOL];
        assert_eq!(words.map(|k| value(&tagged, k).unwrap()), [0x2007, 1, 0x8100, 0x800]);
        assert_eq!(words.map(|k| value(&frame(0), k).unwrap()), [0, 0, 0, 0x800]);
        assert!(compiled("udp port 53").accepts(&tagged), "what follows is where it is without a tag");
        assert_eq!(value(&tagged, FROM_IP + 12), Some(0xc612_0001), "counted from the IP header");
        assert_eq!(value(&tagged, FROM_START), Some(0x0202_0202));
        assert_eq!(value(&tagged, RECIPIENT), Some(0), "not PACKET_OUTGOING");
        assert_eq!(value(&tagged, BESIDE + 8), None, "what we do not know refuses the frame");
    }

    #[test]
    fn a_loop_finds_what_is_behind_extension_headers() {
        let frame = |extensions: usize, last: u8| {
            let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 40], &[0, 64], &[7; 32]].concat();
            for left in (0..extensions).rev() {
                frame.extend([if left == 0 { last } else { 60 }, 0, 0, 0, 0, 0, 0, 0]);
            }
            frame.extend([0; 20]);
            frame
        };
        let filter = compiled("ip6 protochain 17");
        for (extensions, last, is_so) in [(1, 17, true), (3, 17, true), (3, 6, false), (2, 59, false)] {
            assert_eq!(filter.accepts(&frame(extensions, last)), is_so, "{extensions} up to {last}");
        }
        assert!(!filter.accepts(&frame(9, 60)), "it ends with the frame");
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        assert_eq!(compute(libc::BPF_DIV, 1, 0), None);
        assert_eq!(compute(libc::BPF_LSH, 1, 32), Some(0));
        assert!(!Filter::new(vec![]).accepts(&frame(0)), "a program without an end");
    }
}
