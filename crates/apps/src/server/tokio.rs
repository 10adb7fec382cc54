//! A task for each connection on tokio's event loops.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use super::dialogue::MOST;
use super::{Closing, Reply, Shop, is_passing};

pub(super) fn serve(shop: Shop<'_>, sockets: Vec<OwnedFd>, ready: impl FnOnce()) -> io::Result<()> {
    let worker = shop.tally.worker(0);
    let (reply, closing) = (shop.service.reply, shop.service.closing);
    let runtime = match shop.service.reactors {
        0 | 1 => Builder::new_current_thread().enable_io().build(),
        n => Builder::new_multi_thread().worker_threads(n as usize).enable_io().build(),
    }?;
    let socket = sockets.into_iter().next().ok_or(io::ErrorKind::NotConnected)?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(socket.into())?;
        let accept = tokio::spawn(async move {
            loop {
                let stream = match listener.accept().await {
                    Err(error) if is_passing(&error) => continue,
                    accepted => accepted?.0,
                };
                worker.accepted();
                tokio::spawn(async move {
                    let _ = dialogue(stream, reply, closing).await;
                    worker.ended();
                });
            }
        });
        ready();
        accept.await?
    })
}

async fn dialogue(mut stream: TcpStream, reply: Reply, closing: Closing) -> io::Result<()> {
    let mut request = Vec::new();
    while reply.has_request() && !reply.is_whole(&request) {
        if stream.read_buf(&mut request).await? == 0 || request.len() > MOST {
            return Ok(());
        }
    }
    let text = reply.with_text(&request, <[u8]>::to_vec);
    drop(request);
    stream.write_all(&text).await?;
    drop(text);
    if closing == Closing::AfterClient {
        let mut rest = [0; 64];
        while stream.read(&mut rest).await? > 0 {}
    }
    Ok(())
}
