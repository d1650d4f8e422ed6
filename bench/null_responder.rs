//! `null_responder`: the floor. The broker's own runtime, HTTP and connections on one core, with a
//! service that looks at nothing and answers every request with the same few bytes.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use bytes::{BufMut, BytesMut};
use clap::Parser;
use queen::http::{Fault, ResponseHead, ResponseStyle, write_response};
use queen::limits;
use queen::model::ClientRef;
use queen::net::listener::{ConnectionCount, bind, listen, probe};
use queen::net::{Called, Connections, Request, Service, Settings};
use queen::runtime::{self, IoChoice};

/// As in the broker, so that both allocate alike.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(about = "Answers every request with 201 and {\"pushed\":1}; the floor of comparisons.")]
struct Cli {
    /// Port to listen on.
    #[arg(long, env = "PORT", default_value_t = 6632)]
    port: u16,
    /// Address to listen on.
    #[arg(long, env = "QUEEN_BIND_ADDR", default_value = "127.0.0.1")]
    bind_addr: IpAddr,
    /// What serves the sockets: `auto`, `uring` or `epoll`.
    #[arg(long, env = "QUEEN_IO", default_value = "auto")]
    io: IoChoice,
}

/// Connections are bounded by the load, not here.
const SETTINGS: Settings = Settings {
    max_body_bytes: 64 * 1024 * 1024,
    head_timeout_ms: 10_000,
    idle_timeout_ms: 75_000,
    max_connections: usize::MAX,
};

fn main() -> ExitCode {
    match serve(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("null_responder: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until the process is ended.
fn serve(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let address = SocketAddr::new(cli.bind_addr, cli.port);
    probe(address)?;
    let socket = bind(address, limits::LISTEN_BACKLOG)?;
    let served = runtime::run(cli.io, |choice| {
        eprintln!(
            "null_responder: {address} by {} ({})",
            choice.driver, choice.reason
        );
        async move {
            let connections = Connections::new(0, SETTINGS, |_| NullResponder);
            listen(socket, &connections, &ConnectionCount::new())?;
            connections.gone().await;
            Ok::<(), std::io::Error>(())
        }
    });
    Ok(served??)
}

struct NullResponder;

impl NullResponder {
    fn answer(status: u16, style: ResponseStyle, out: &mut BytesMut) {
        let head = ResponseHead::new(status, "application/json", style);
        write_response(out, &head, |out| out.put_slice(b"{\"pushed\":1}"));
    }
}

impl Service for NullResponder {
    type Claim = ();
    type Listing = ();

    fn call(&self, request: &Request<'_>, _: ClientRef, out: &mut BytesMut) -> Called<(), ()> {
        NullResponder::answer(201, request.style, out);
        Called::Answered(None)
    }

    fn advance(&self, (): &mut (), _: &mut BytesMut) -> bool {
        false
    }

    fn abandon(&self, _: ClientRef) {}

    fn hurry(&self, _: ClientRef) {}

    fn undelivered(&self, (): ()) {}

    fn refuse(&self, fault: &Fault, style: ResponseStyle, out: &mut BytesMut) {
        NullResponder::answer(fault.status, style, out);
    }
}
