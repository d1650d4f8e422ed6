//! Connections to a broker, by the core that serves them. Where one lands is the kernel's choice, so
//! they are opened until every core has one, and the broker's own counters tell them apart.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::client::Client;
use super::queue::metrics_sample;

/// Requests in a burst by which a core is recognised. All of them are served in one turn.
const BURST: usize = 40;

/// Connections that are opened before one to every core must be among them: by chance one of 64
/// cores is missed once in 10^12.
const OPENED_MAX: usize = 2_000;

/// Connections that nobody uses at the moment, by core.
#[derive(Debug)]
pub(crate) struct Cores {
    address: SocketAddr,
    idle: Vec<Mutex<Vec<Client>>>,
}

impl Cores {
    pub(crate) fn new(address: SocketAddr, shards: u16) -> Arc<Cores> {
        let idle = (0..shards).map(|_| Mutex::default()).collect();
        Arc::new(Cores { address, idle })
    }

    /// How many cores there are.
    pub(crate) fn count(&self) -> usize {
        self.idle.len()
    }

    /// A connection to this core.
    #[track_caller]
    pub(crate) fn take(&self, core: usize) -> Client {
        if self.count() == 1 {
            return Client::connect(self.address);
        }
        for _ in 0..OPENED_MAX {
            let idle = self.idle[core].lock().unwrap().pop();
            match idle {
                Some(client) if client.is_reusable() => return client,
                Some(_) => {}
                None => self.open_one(),
            }
        }
        panic!("the kernel gives core {core} no connection");
    }

    /// Puts a connection of this core back.
    pub(crate) fn put(&self, core: usize, client: Client) {
        if self.count() > 1 && client.is_reusable() {
            self.idle[core].lock().unwrap().push(client);
        }
    }

    fn open_one(&self) {
        let mut client = Client::connect(self.address);
        let core = core_of(&mut client, self.count());
        self.idle[core].lock().unwrap().push(client);
    }
}

/// The core that serves a connection, of so many: the one that serves a burst of requests between
/// two looks at the counters. Others serve requests of their own meanwhile, but hardly as many.
#[track_caller]
pub(crate) fn core_of(client: &mut Client, cores: usize) -> usize {
    let look = client.request_bytes("GET", "/metrics/prometheus", None);
    let mut burst = look.clone();
    for _ in 0..BURST {
        burst.extend(client.request_bytes("GET", "/health", None));
    }
    burst.extend(look);
    for _ in 0..100 {
        client.send_raw(&burst);
        let before = client.read().text();
        for _ in 0..BURST {
            client.read();
        }
        let after = client.read().text();
        let served = |core: &usize| {
            let name = format!("queen_core_requests_total{{core=\"{core}\"}}");
            metrics_sample(&after, &name) - metrics_sample(&before, &name)
        };
        let candidates: Vec<usize> = (0..cores)
            .filter(|core| served(core) as usize == BURST + 1)
            .collect();
        if let [core] = candidates[..] {
            return core;
        }
    }
    panic!("no core can be told from the others");
}
