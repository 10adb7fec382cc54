//! A bottleneck as a library: `link IF1 IF2 SECONDS [CPU] [SETTING=VALUE ...]` runs one and prints its result as JSON. Without
//! words: its use.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_bottleneck::{Bridge, Observe, Settings, chunks_for, run};
use weir_port::duplex::{Packet, Pool};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [one, other, seconds, rest @ ..] = &words[..] else {
        println!("link IF1 IF2 SECONDS [CPU] [SETTING=VALUE ...]");
        return Ok(());
    };
    let mut settings = Settings::default();
    for word in rest {
        match word.split_once('=') {
            Some((name, value)) => settings.set(name, value)?,
            None => weir_port::thread::pin_to(word.parse()?)?,
        }
    }
    let ports = [Packet::open(one, 1522, true)?, Packet::open(other, 1522, true)?];
    let pool = Pool::new(chunks_for(&settings), 1522)?;
    let mut bridge = Bridge::new(ports.map(|port| Box::new(port) as _), pool, settings, false)?;
    let stop = AtomicBool::new(false);
    let observe = Observe {
        stop: &stop,
        changes: None,
        interval: Duration::from_secs(1),
        duration: Some(Duration::from_secs_f64(seconds.parse()?)),
        see: &mut |_| (),
        changed: &mut |_, _| (),
    };
    println!("{}", serde_json::to_string_pretty(&run(&mut bridge, observe)?)?);
    Ok(())
}
