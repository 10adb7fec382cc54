use weir_testkit::Folder;

use super::*;

fn task(within: &Folder, durability: Durability, method: Method) -> Task {
    Task { directory: within.join("files"), files: 30, bytes: 8192, workers: 4, durability, method, seed: 7 }
}

fn is_left(within: &Folder) -> usize {
    fs::read_dir(within).unwrap().count()
}

#[test]
fn all_files_are_made_read_and_removed() {
    for (method, _) in Method::ALL {
        if method == Method::IoUring && obstacle().is_some() {
            println!("skipped: {}", obstacle().unwrap_or_default());
            continue;
        }
        for (durability, name) in Durability::ALL {
            let within = Folder::new();
            let task = task(&within, durability, method);
            let filed = match file(&task, &AtomicBool::new(false)) {
                Err(Failed::Call(what, error))
                    if durability == Durability::Direct && error.raw_os_error() == Some(libc::EINVAL) =>
                {
                    println!("skipped: no O_DIRECT here: {what}");
                    continue;
                }
                result => result.unwrap_or_else(|error| panic!("{name}: {error:?}")),
            };
            for phase in [&filed.make, &filed.warm, &filed.cold] {
                assert!(phase.seconds > 0.0 && phase.calls["file"].count == 30, "{name}: {filed:?}");
            }
            if method == Method::Calls {
                let syncs = filed.make.calls.get("fsync").map_or(0, |times| times.count);
                assert_eq!(syncs, if durability.syncs_each() { 30 } else { 0 }, "{name}");
                let names = filed.make.calls.get("fsync of the directory").map_or(0, |times| times.count);
                assert_eq!(names, if durability == Durability::FsyncDir { 30 } else { 0 }, "{name}");
                assert_eq!(filed.cold.calls["read"].count, 30);
            }
            assert_eq!(is_left(&within), 0, "{name}");
        }
    }
}

#[test]
fn a_task_that_is_stopped_or_fails_leaves_nothing() {
    for (method, _) in
        Method::ALL.into_iter().filter(|(method, _)| *method == Method::Calls || obstacle().is_none())
    {
        let within = Folder::new();
        let own = task(&within, Durability::None, method);
        let stopped = file(&own, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(Failed::Stopped)), "{stopped:?}");
        // Nothing fits into a file of such a size: the limit of this thread's process is not touched for others.
        let direct = Task { bytes: 1000, durability: Durability::Direct, ..own };
        match file(&direct, &AtomicBool::new(false)) {
            Err(Failed::Call(what, _)) => assert!(what.contains("f0000"), "{what}"),
            Ok(_) => println!("skipped: this file system takes any size with O_DIRECT"),
            other => panic!("{other:?}"),
        }
        assert_eq!(is_left(&within), 0);
    }
}

#[test]
fn a_directory_that_is_there_is_left_alone() {
    let within = Folder::new();
    let task = task(&within, Durability::None, Method::Calls);
    fs::create_dir(&task.directory).unwrap();
    fs::write(task.directory.join("mine"), "x").unwrap();
    let found = file(&task, &AtomicBool::new(false));
    let is_there = |error: &Failed| matches!(error, Failed::Call(_, error) if error.kind() == io::ErrorKind::AlreadyExists);
    assert!(found.as_ref().is_err_and(is_there), "{found:?}");
    assert!(task.directory.join("mine").exists());
}

#[test]
fn files_differ_and_the_order_of_reading_follows_from_the_seed() {
    let mut buffer = content::Buffer::new(100);
    buffer.fill(7, 1);
    assert!(buffer.is_of(7, 1) && !buffer.is_of(7, 2) && !buffer.is_of(8, 1));
    let within = Folder::new();
    let own = task(&within, Durability::None, Method::Calls);
    let order = content::shuffled(&own);
    assert_eq!(order, content::shuffled(&own));
    assert_ne!(order, content::shuffled(&Task { seed: 8, ..own }));
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted == (0..30).collect::<Vec<_>>() && sorted != order);
}

/// The check whether a file is cached must not load it: the cold reading would become a warm one.
#[test]
fn asking_for_a_file_does_not_fetch_it() {
    let made = |folder: &Path| {
        let path = folder.join("file");
        fs::write(&path, [7; 8192]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        assert!(sys::is_cached(&file).unwrap());
        sys::drop_pages(&file).unwrap();
        (path, file)
    };
    let within = Folder::new();
    let (path, file) = made(&within);
    if sys::is_cached(&file).unwrap() {
        return println!("skipped: {} is memory", within.display());
    }
    let is_cached = || sys::is_cached(&file).unwrap();
    // Time in which a disk would have brought it: reading another file that is not cached.
    let other = within.join("other");
    fs::create_dir(&other).unwrap();
    let (other, _) = made(&other);
    assert_eq!(fs::read(&other).unwrap().len(), 8192);
    assert!(!is_cached() && !is_cached(), "it was fetched by the question");
    assert_eq!(fs::read(&path).unwrap().len(), 8192);
    assert!(is_cached());
}

#[test]
fn a_file_in_memory_is_never_cold() {
    let Ok(within) = Folder::within(Path::new("/dev/shm")) else {
        return println!("skipped: no /dev/shm");
    };
    let filed = file(&task(&within, Durability::None, Method::Calls), &AtomicBool::new(false)).unwrap();
    assert_eq!(filed.still_cached, 1.0);
}
