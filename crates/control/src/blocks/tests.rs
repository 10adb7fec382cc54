use weir_disk::faults::{self, Fault, Writer};
use weir_testkit::Folder;

use super::*;

fn kept(host: u32, first: u16) -> PortBlock {
    PortBlock {
        inside: [0, 0, 0xffff, 0xc612_0000 + host],
        outside: 0xc000_0201,
        ports: (first, first + 511),
    }
}

fn given(host: u32, first: u16) -> BlockEvent {
    BlockEvent::Allocated(kept(host, first))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable")
}

#[test]
fn what_was_given_and_not_taken_back_is_found_again() {
    let folder = Folder::new();
    let path = folder.join("blocks");
    let mut blocks = Blocks::open(&path).expect("a new file");
    assert_eq!(blocks.live(), []);
    blocks.set(&[]);
    blocks.sync().expect("written");
    assert_eq!(blocks.waiting(), 0);
    let other = PortBlock { inside: [0x2001_0db8, 0, 0, 7], ..kept(3, 4096) };
    blocks.note(&[
        given(1, 1024),
        given(2, 2048),
        BlockEvent::Allocated(other),
        BlockEvent::Released(kept(1, 1024)),
    ]);
    assert_eq!(blocks.waiting(), 4);
    blocks.sync().expect("written");
    assert!(text(&path).contains("\n+ 2001:db8::7 192.0.2.1 4096-4607 "), "{}", text(&path));
    assert_eq!((text(&path).lines().count(), text(&spare_of(&path)).as_str()), (2 + 4, ""));
    drop(blocks);
    // The end came in the middle of a line.
    let torn = text(&path) + "- 198.18.0.2 192.0";
    std::fs::write(&path, &torn).expect("writable");
    let mut blocks = Blocks::open(&path).expect("the same file");
    assert_eq!((blocks.live(), blocks.unreadable()), (vec![kept(2, 2048), other], 1));
    blocks.sync().expect("written");
    assert_eq!(text(&path).lines().count(), 2 + 2, "what is past is gone");
}

#[test]
fn a_block_that_somebody_else_was_given_meanwhile_is_the_others() {
    let folder = Folder::new();
    let path = folder.join("blocks");
    let mut blocks = Blocks::open(&path).expect("a new file");
    blocks.note(&[given(1, 1024), BlockEvent::Released(kept(1, 1024)), given(2, 1024)]);
    blocks.sync().expect("written");
    blocks.note(&[BlockEvent::Released(kept(2, 1024)), given(3, 1024)]);
    blocks.sync().expect("written");
    // Of two lines the first is unreadable.
    let damaged = text(&path).replace("- 198.18.0.2", "- 198.18.9.2");
    std::fs::write(&path, damaged).expect("writable");
    drop(blocks);
    let blocks = Blocks::open(&path).expect("the same file");
    assert_eq!((blocks.live(), blocks.unreadable()), (vec![kept(3, 1024)], 1));
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = Folder::new();
    for (name, bytes) in [("hello", &b"hello\n"[..]), ("binary", &[7, 1, 255, 10][..])] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("writable");
        let wrong = Blocks::open(&path).err().expect("no blocks").to_string();
        assert!(wrong.contains(name) && wrong.contains("--blocks"), "{wrong}");
        assert_eq!(std::fs::read(&path).expect("readable"), bytes);
    }
    // Without checksums, as it was once written.
    let old = folder.join("old");
    std::fs::write(&old, "+ 198.18.0.1 192.0.2.1 1024-1535\n- 198.18.0.1 192.0").expect("writable");
    assert_eq!(Blocks::open(&old).expect("blocks").live(), [kept(1, 1024)]);
}

#[test]
fn a_disk_that_is_full_is_tried_again() {
    let folder = Folder::new();
    let mut blocks = Blocks::open(&folder.join("blocks")).expect("a new file");
    blocks.note(&[given(1, 1024)]);
    let full = || File::options().write(true).open("/dev/full").expect("it is there");
    let spare = std::mem::replace(&mut blocks.spare, full());
    // Devices cannot be cut either.
    blocks.sync().expect_err("no room");
    assert_eq!(blocks.waiting(), 1);
    blocks.spare = spare;
    blocks.sync().expect("there is room");
    let file = std::mem::replace(&mut blocks.file, full());
    blocks.note(&[given(2, 2048)]);
    blocks.sync().expect_err("no room");
    blocks.note(&[given(3, 4096)]);
    blocks.sync().expect_err("no room");
    assert_eq!(blocks.waiting(), 2);
    blocks.file = file;
    blocks.sync().expect("there is room");
    assert_eq!(blocks.waiting(), 0);
    let second = Blocks::open(&folder.join("blocks")).err().expect("it is in use").to_string();
    assert!(second.contains("another node uses"), "{second}");
    drop(blocks);
    let again = Blocks::open(&folder.join("blocks")).expect("the same file");
    assert_eq!(again.live(), [kept(1, 1024), kept(2, 2048), kept(3, 4096)]);
}

/// Steps of the writer below; in the middle of them the file is written anew.
const STEPS: u32 = 6;
const ANEW: u32 = 3;

/// A host gets a block, then another one, then the first gives its own back, and so on: no state comes twice.
fn step(n: u32) -> BlockEvent {
    let block = |host: u32| (host, 2048 + 512 * host as u16);
    let (host, first) = block(if n.is_multiple_of(2) { (n / 2).saturating_sub(1) } else { n.div_ceil(2) });
    match n {
        0 => given(host, first),
        n if n.is_multiple_of(2) => BlockEvent::Released(kept(host, first)),
        _ => given(host, first),
    }
}

/// What is live before the first step and after each.
fn states() -> Vec<Vec<PortBlock>> {
    let mut live = Live::of(&[kept(9, 1024)]);
    let mut states = vec![live.all().collect::<Vec<_>>()];
    for n in 0..STEPS {
        live.note(&step(n));
        states.push(live.all().collect());
    }
    let is_new = |(n, state): (usize, &Vec<PortBlock>)| !states[..n].contains(state);
    assert!(states.iter().enumerate().all(is_new), "{states:?}");
    states
}

/// The other half of the next test, in a separate process: goes step by step, and says how far all is on disk.
#[test]
fn writer_that_fails() {
    let Some(folder) = faults::folder() else { return };
    let Ok(mut blocks) = Blocks::open(&folder.join("blocks")) else { return };
    if blocks.sync().is_ok() {
        println!("\nsynced 0");
    }
    for n in 0..STEPS {
        blocks.note(&[step(n)]);
        blocks.is_behind |= n == ANEW;
        if blocks.sync().is_ok() {
            println!("\nsynced {}", n + 1);
        }
    }
}

#[test]
fn nothing_that_was_synced_is_missing_wherever_the_end_came() {
    let writer = Writer { test: "blocks::tests::writer_that_fails", lasts: 3 };
    for fault in Fault::ALL {
        // A node that was killed before has left a line that is not whole.
        let prepare = |folder: &Path| {
            let mut text = Live::of(&[kept(9, 1024)]).text();
            text += "+ 198.18.0.7 192.0.";
            std::fs::write(folder.join("blocks"), text).expect("room");
        };
        let changes = faults::at_each_change(writer, fault, prepare, |at, folder, said| {
            let synced = said.iter().filter_map(|line| line.strip_prefix("synced ")?.parse::<usize>().ok());
            let least = synced.max().unwrap_or(0);
            let blocks = Blocks::open(&folder.join("blocks"))
                .unwrap_or_else(|error| panic!("{fault:?} {at}: {error:#}"));
            let reached = states().iter().rposition(|state| *state == blocks.live());
            assert!(
                reached.is_some_and(|state| state >= least),
                "{fault:?} at change {at}: {least} synced, {reached:?} there: {:?}",
                blocks.live()
            );
        });
        assert!(changes > 20, "{fault:?}: {changes}");
    }
}
