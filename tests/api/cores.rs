//! What crosses cores, and what each of them tells. Every test has a broker of its own: it counts.

use std::time::Instant;

use serde_json::json;

use crate::support::queue::{metrics_sample, unique};
use crate::support::setup::in_parallel;
use crate::support::{Broker, Client, Message, Plan, Setup, encode, eventually};

/// Every operation is counted over so many runs.
const RUNS: u64 = 20;

/// A broker whose counters only the test moves, and a connection to each of its cores.
struct Counted {
    broker: Broker,
    clients: Vec<Client>,
    /// One more to each core, for looking.
    lookers: Vec<Client>,
}

impl Counted {
    fn new(setup: Setup) -> Counted {
        let broker = Plan::new(setup).start();
        let cores = broker.cores();
        let to_each = || (0..cores.count()).map(|core| cores.take(core)).collect();
        let (clients, lookers) = (to_each(), to_each());
        Counted {
            broker,
            clients,
            lookers,
        }
    }

    fn figure(&self, family: &str, core: usize) -> u64 {
        self.broker.sample(&format!("{family}{{core=\"{core}\"}}")) as u64
    }

    /// Frames that all cores have sent to others. A core says at the end of a turn what it has sent,
    /// and it ends that turn before it serves the next request.
    fn hops(&mut self) -> u64 {
        for looker in &mut self.lookers {
            assert_eq!(looker.get("/health").status, 200);
        }
        let text = self.lookers[0].get("/metrics/prometheus").text();
        let of = |core| metrics_sample(&text, &format!("queen_core_hops_total{{core=\"{core}\"}}"));
        (0..self.clients.len()).map(|core| of(core) as u64).sum()
    }

    /// Runs an operation [`RUNS`] times; each run costs so many hops.
    #[track_caller]
    fn assert_hops(&mut self, hops: u64, mut operation: impl FnMut(&mut Counted)) {
        self.assert_hops_once(RUNS * hops, |counted| {
            (0..RUNS).for_each(|_| operation(counted));
        });
    }

    /// An operation costs so many hops.
    #[track_caller]
    fn assert_hops_once(&mut self, hops: u64, operation: impl FnOnce(&mut Counted)) {
        let before = self.hops();
        operation(self);
        assert_eq!(self.hops() - before, hops);
    }

    /// The core that owns a partition: the one whose clients reach it without a hop.
    fn owner(&mut self, queue: &str, partition: &str) -> usize {
        let mut owners = Vec::new();
        for core in 0..self.clients.len() {
            let before = self.hops();
            push(&mut self.clients[core], queue, partition);
            match self.hops() - before {
                0 => owners.push(core),
                hops => assert_eq!(hops, 2, "there and back"),
            }
        }
        assert_eq!(owners.len(), 1, "{partition} of {queue} has one owner");
        let own = &mut self.clients[owners[0]];
        (0..self.broker.cores().count()).for_each(|_| take(own, queue, Some(partition)));
        owners[0]
    }

    /// A partition of a queue that this core owns.
    fn partition_of(&mut self, queue: &str, core: usize) -> String {
        let names = (0..200).map(|number| format!("p{number}"));
        let mut found = names.filter(|name| self.owner(queue, name) == core);
        found.next().expect("one of 200 partitions is there")
    }

    fn wait_until_parked(&self, core: usize) {
        eventually("the pop is parked", || {
            self.figure("queen_core_parked_long_polls", core) == 1
        });
    }
}

fn push(client: &mut Client, queue: &str, partition: &str) {
    let body = json!({"queue": queue, "partition": partition, "messages": [{"payload": 1}]});
    let answer = client.post("/api/v1/ephemeral/push", &body).expect(201);
    assert_eq!(answer["pushed"], 1);
}

fn pop_target(queue: &str, partition: Option<&str>, query: &str) -> String {
    let partition = partition.map_or(String::new(), |name| format!("&partition={name}"));
    let queue = encode(queue);
    format!("/api/v1/ephemeral/pop?queue={queue}{partition}{query}")
}

/// Pops the one message that is there, settled at delivery.
fn take(client: &mut Client, queue: &str, partition: Option<&str>) {
    let answer = client.get(&pop_target(queue, partition, "&autoAck=true"));
    assert_eq!(Message::all(&answer).len(), 1);
}

/// Every driver with two shards; four, so that client, home and owner can be three cores.
fn each_of_several(test: impl Fn(Counted) + Sync) {
    let mut setups = Setup::each_driver_with(2);
    setups.push(Setup::with_shards(4));
    in_parallel(&setups, |&setup| test(Counted::new(setup)));
}

#[test]
fn a_key_of_the_clients_own_core_costs_no_hop_and_one_of_another_core_two() {
    each_of_several(|mut counted| {
        let queue = unique("hops");
        let owner = counted.owner(&queue, "p");
        for core in 0..counted.clients.len() {
            let hops = if core == owner { 0 } else { 2 };
            counted.assert_hops(hops, |counted| {
                push(&mut counted.clients[core], &queue, "p")
            });
            let mut popped = Vec::new();
            counted.assert_hops(hops, |counted| {
                let answer = counted.clients[core].get(&pop_target(&queue, Some("p"), ""));
                popped.extend(Message::all(&answer));
            });
            assert_eq!(popped.len() as u64, RUNS);
            counted.assert_hops(hops, |counted| {
                let message = popped.pop().expect("one for each run");
                let body = json!({"queue": queue, "acks": [{"id": message.id}]});
                let answer = counted.clients[core].post("/api/v1/ephemeral/ack", &body);
                assert_eq!(answer.expect(200)["results"][0]["outcome"], "acked");
            });
        }
        assert_eq!(
            counted.broker.sample("queen_ephemeral_forwarded_total"),
            0.0
        );
    });
}

#[test]
fn what_wakes_a_parked_pop_at_its_own_core_costs_no_hop_more() {
    each_of_several(|mut counted| {
        let queue = unique("hops-parked");
        let owner = counted.owner(&queue, "p");
        let waiting = pop_target(&queue, Some("p"), "&autoAck=true&wait=true&timeout=20000");
        for core in 0..counted.clients.len() {
            // Elsewhere than at its owner's core it travels, and so does its answer.
            let hops = u64::from(core != owner);
            counted.assert_hops_once(hops, |counted| {
                counted.clients[core].send("GET", &waiting, None);
                counted.wait_until_parked(owner);
            });
            let mut pusher = counted.broker.cores().take(owner);
            counted.assert_hops_once(hops, |counted| {
                push(&mut pusher, &queue, "p");
                assert_eq!(Message::all(&counted.clients[core].read()).len(), 1);
            });
        }
        assert_eq!(
            counted.broker.sample("queen_ephemeral_forwarded_total"),
            0.0
        );
    });
}

/// To the home, on to the owner, and from there straight back to the client.
#[test]
fn a_pop_without_partition_costs_three_hops_at_most_and_one_more_for_a_notice() {
    each_of_several(|mut counted| {
        let queue = unique("hops-anywhere");
        let cores = counted.clients.len();
        let home = counted.owner(&queue, "Default");
        for owner in 0..cores {
            let partition = counted.partition_of(&queue, owner);
            // Whoever had something for a pop of any partition is believed to have more until asked.
            let nothing = counted.clients[home].get(&pop_target(&queue, None, ""));
            assert_eq!(Message::all(&nothing), []);
            let mut pusher = counted.broker.cores().take(owner);
            for core in 0..cores {
                let expected = [(core, home), (home, owner), (owner, core)]
                    .iter()
                    .filter(|(from, to)| from != to)
                    .count() as u64;
                (0..RUNS).for_each(|_| push(&mut pusher, &queue, &partition));
                counted.assert_hops(expected, |counted| {
                    take(&mut counted.clients[core], &queue, None);
                });
                let waiting = pop_target(&queue, None, "&autoAck=true&wait=true&timeout=20000");
                let notice = u64::from(owner != home);
                counted.assert_hops_once(expected + notice, |counted| {
                    counted.clients[core].send("GET", &waiting, None);
                    counted.wait_until_parked(home);
                    push(&mut pusher, &queue, &partition);
                    assert_eq!(Message::all(&counted.clients[core].read()).len(), 1);
                });
            }
        }
        assert_eq!(
            counted.broker.sample("queen_ephemeral_forwarded_total"),
            0.0
        );
    });
}

/// A core whose clients leave, and which has nothing else to do, counts them out all the same.
#[test]
fn connections_that_close_are_counted_out_at_once() {
    const OPENED: usize = 20;
    let broker = Plan::any().start();
    let mut looker = broker.plain_client();
    let mut open = || {
        let text = looker.get("/metrics/prometheus").text();
        metrics_sample(&text, "queen_connections") as usize
    };
    eventually("only the one that looks is left", || open() == 1);
    let clients: Vec<Client> = (0..OPENED).map(|_| broker.plain_client()).collect();
    eventually("they are counted", || open() == 1 + OPENED);
    drop(clients);
    eventually("they are counted out", || open() == 1);
}

#[test]
fn every_core_tells_its_own_figures() {
    in_parallel(&Setup::each_driver_with(2), |&setup| {
        let mut counted = Counted::new(setup);
        let queue = unique("figures");
        let owner = counted.owner(&queue, "p");
        let other = 1 - owner;
        let started = Instant::now();
        let figures = ["requests_total", "turns_total", "hops_total"];
        let look = |counted: &mut Counted| {
            // What the owner has sent it has said when it answers; then always at the same core.
            assert_eq!(counted.lookers[owner].get("/health").status, 200);
            let text = counted.lookers[other].get("/metrics/prometheus").text();
            figures.map(|figure| {
                [owner, other].map(|core| {
                    metrics_sample(&text, &format!("queen_core_{figure}{{core=\"{core}\"}}"))
                })
            })
        };
        let before = look(&mut counted);
        for _ in 0..RUNS {
            push(&mut counted.clients[owner], &queue, "p");
            take(&mut counted.clients[other], &queue, Some("p"));
        }
        let after = look(&mut counted);
        let grown =
            |figure: usize, core: usize| (after[figure][core] - before[figure][core]) as u64;
        assert_eq!((grown(0, 0), grown(0, 1)), (RUNS + 1, RUNS + 1), "requests");
        assert!(grown(1, 0) >= 2 * RUNS && grown(1, 1) >= RUNS, "turns");
        assert_eq!(grown(2, 0), RUNS, "answers");
        assert_eq!(grown(2, 1), RUNS, "requests sent on");
        assert_parked_and_busy(&counted, (&queue, owner), started);
    });
}

fn assert_parked_and_busy(counted: &Counted, (queue, owner): (&str, usize), started: Instant) {
    let other = 1 - owner;
    let mut waiting = Vec::new();
    for core in [owner, other, other] {
        let mut client = counted.broker.cores().take(core);
        let target = pop_target(queue, Some("p"), "&wait=true&timeout=20000");
        client.send("GET", &target, None);
        waiting.push(client);
    }
    eventually("all are parked where the partition is", || {
        counted.figure("queen_core_parked_long_polls", owner) == 3
    });
    assert_eq!(counted.figure("queen_core_parked_long_polls", other), 0);
    let busy = |core| {
        let name = format!("queen_core_busy_seconds_total{{core=\"{core}\"}}");
        counted.broker.sample(&name)
    };
    let before = [busy(0), busy(1)];
    let mut client = counted.broker.cores().take(owner);
    eventually("the core that works is seen to", || {
        (0..100).for_each(|_| assert_eq!(client.get("/health").status, 200));
        busy(owner) - before[owner] > 0.02
    });
    assert!(busy(other) - before[other] < busy(owner) - before[owner]);
    // The process is older than the test by its start.
    let age = started.elapsed().as_secs_f64() + 30.0;
    assert!((0.0..age).contains(&busy(0)) && (0.0..age).contains(&busy(1)));
    eventually("nothing is queued in any lane", || {
        let lanes = [(0, 1), (1, 0)].map(|(core, from)| {
            let name = format!("queen_core_lane_frames{{core=\"{core}\",from=\"{from}\"}}");
            counted.broker.sample(&name)
        });
        lanes == [0.0, 0.0]
    });
    for core in 0..2 {
        assert_eq!(counted.figure("queen_core_lane_overflow_frames", core), 0);
        assert!(counted.figure("queen_core_connections", core) >= 1);
    }
}
