//! Adds routes to a node that runs, lists them page by page, and follows its events (docs/control.md).
//!
//!     cargo run -p weir-control --example routes -- /run/weir/node.sock 64000 198.18.0.9 [follow]

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use weir_control::client::Client;
use weir_control::request::Topic;
use weir_node::{Query, Routes, RoutesQuery};
use weir_plane::{Command, Prefix, RouteCommand, RouteEntry, RouteTarget, Via};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, number, via, follow @ ..] = &arguments[..] else {
        anyhow::bail!("arguments: SOCKET NUMBER NEXT-HOP [follow]");
    };
    let via: IpAddr = via.parse().context("the next hop is an address")?;
    let route = |n: u32| {
        let address = Ipv4Addr::from(0x0b00_0000 + n).into();
        let target = RouteTarget::Via(vec![Via { address: via, port: None }]);
        Command::Route(RouteCommand::Set(RouteEntry { prefix: Prefix { address, len: 32 }, target }))
    };
    let mut node = Client::connect(Path::new(socket))?;
    let done = node.command((0..number.parse().context("a number of routes")?).map(route).collect())?;
    println!("revision {}: {} turns, the longest {:.0} us", done.revision, done.turns, done.longest_turn_us);
    let (mut count, mut query) = (0, RoutesQuery::default());
    loop {
        let page: Routes = node.query(Query::Routes(query.clone()))?;
        count += page.routes.len();
        query.after = page.next;
        if query.after.is_none() {
            println!("{count} of {} routes", page.total);
            break;
        }
    }
    if !follow.is_empty() {
        for line in node.subscribe(Topic::Events)? {
            println!("{:?}", line?);
        }
    }
    Ok(())
}
