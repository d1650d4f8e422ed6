//! Start, stop, restart.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::json;

#[cfg(feature = "glommio")]
use crate::support::broker::STATUS_DRIVER_REFUSED;
use crate::support::broker::{STATUS_ADDRESS_TAKEN, free_port};
use crate::support::queue::numbers;
use crate::support::{Broker, Plan, Setup, each_plan, eventually};

fn each_own(test: impl Fn(Broker) + Sync) {
    each_plan(|plan| {
        test(plan.start());
    });
}

/// Fills a queue, ends the broker, starts it again, and looks.
fn assert_empty_after(end: impl Fn(&Broker) + Sync) {
    each_own(|broker| {
        let queue = broker.queue("restart");
        queue.configure(json!({"maxLength": 7}));
        queue.push(&numbers(0..3));
        let message = queue.pop_one("group=g");
        end(&broker);
        let next = broker.start_again();
        let queue = next.queue_named(&queue.name);
        let list = queue.get("/api/v1/ephemeral/queues").expect(200);
        assert_eq!(list, json!({"queues": [], "count": 0, "cellBytes": 0}));
        let outcome = queue.settle_one(Some("g"), &message.id, "completed");
        assert_eq!(outcome, "stale");
        assert_eq!(queue.pop("group=g"), []);
        queue.push(&[json!("new life")]);
        assert_ne!(queue.pop_one("group=g").id, message.id);
    });
}

#[test]
fn a_restart_leaves_every_queue_empty_and_old_ids_stale() {
    assert_empty_after(Broker::terminate);
}

#[test]
fn a_kill_leaves_every_queue_empty_and_old_ids_stale() {
    assert_empty_after(Broker::kill);
}

fn assert_parked_pops_answer_empty(signal: impl Fn(&Broker) + Sync) {
    each_own(|broker| {
        let queue = broker.queue("stop");
        let mut parked: Vec<_> = (0..20)
            .map(|number| {
                let query = format!("group=g{}&partition=p{number}", number % 3);
                queue.park(broker.client(), &query)
            })
            .collect();
        let _idle = broker.client();
        signal(&broker);
        for pop in &mut parked {
            let answer = pop.answer();
            assert_eq!(answer.expect(200)["messages"], json!([]));
        }
        let status = broker.wait_for_exit();
        assert_eq!(status.code(), Some(0), "{}", broker.output());
    });
}

#[test]
fn sigterm_answers_parked_pops_empty_and_exits_cleanly() {
    assert_parked_pops_answer_empty(Broker::send_sigterm);
}

#[test]
fn sigint_answers_parked_pops_empty_and_exits_cleanly() {
    assert_parked_pops_answer_empty(Broker::send_sigint);
}

#[test]
fn half_a_request_and_a_client_that_does_not_read_do_not_hold_the_exit() {
    each_own(|broker| {
        let queue = broker.queue("stop-held");
        let large = json!("x".repeat(1_000_000));
        queue.push(&vec![large; 15]);
        let mut half = broker.client();
        half.send_raw(
            b"POST /api/v1/ephemeral/push HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
        );
        let mut slow = broker.client();
        slow.send("GET", &queue.pop_target("batch=15"), None);
        broker.send_sigterm();
        let started = Instant::now();
        let status = broker.wait_for_exit();
        assert!(started.elapsed() < Duration::from_secs(10));
        assert_eq!(status.code(), Some(0), "{}", broker.output());
    });
}

#[test]
fn a_second_broker_on_the_same_port_is_refused_and_names_the_holder() {
    each_own(|broker| {
        let port = broker.address().port();
        let failure = Plan::any().start_in_vain(port);
        let status = failure.status.and_then(|status| status.code());
        assert_eq!(status, Some(STATUS_ADDRESS_TAKEN), "{failure:?}");
        assert!(failure.output.contains(&port.to_string()), "{failure:?}");
        assert!(
            failure.output.contains(&broker.pid().to_string()),
            "{failure:?}"
        );
        assert_eq!(broker.client().get("/health").status, 200);
    });
}

#[test]
fn a_restart_on_the_same_port_is_not_refused() {
    each_own(|mut broker| {
        for _ in 0..3 {
            // Connections that the broker closes first leave their port waiting in the kernel.
            let clients: Vec<_> = (0..20)
                .map(|_| {
                    let mut client = broker.client();
                    client.get("/health");
                    client
                })
                .collect();
            broker.terminate();
            drop(clients);
            broker = broker.start_again();
        }
    });
}

#[test]
fn bad_settings_are_reported_all_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_queen"))
        .env_clear()
        .env("PORT", "not-a-port")
        .env("QUEEN_IO", "carrier-pigeon")
        .env("QUEEN_EPHEMERAL_LEASE_S", "0")
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    for name in ["PORT", "QUEEN_IO", "QUEEN_EPHEMERAL_LEASE_S"] {
        assert!(text.contains(name), "{name} in {text}");
    }
}

/// The CPUs that this process may use, and so the brokers that it starts.
fn usable_cpus() -> Vec<usize> {
    let mask = sched_getaffinity(None).expect("a mask of CPUs");
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| mask.is_set(cpu))
        .collect()
}

#[test]
fn a_pin_to_a_cpu_that_may_not_be_used_is_refused() {
    let usable = usable_cpus();
    let unusable = (0..)
        .find(|cpu| !usable.contains(cpu))
        .expect("CPUs are few");
    let failure = Plan::any()
        .set("QUEEN_SHARDS", 1)
        .set("QUEEN_PIN", unusable)
        .set("QUEEN_TTL_TICK_MS", 0)
        .start_in_vain(free_port());
    let status = failure.status.and_then(|status| status.code());
    assert_eq!(status, Some(78), "{failure:?}");
    for part in [
        &format!("QUEEN_PIN names CPU {unusable}, which the process may not use; it may use "),
        "QUEEN_TTL_TICK_MS",
    ] {
        assert!(failure.output.contains(part), "{part} in {failure:?}");
    }
}

/// What `/proc` says of one thread's CPUs (`Cpus_allowed_list` of proc(5)).
fn allowed_cpus(broker: &Broker, thread: &str) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", broker.pid())).expect("the broker runs");
    let read = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file)).ok();
    let task = tasks
        .filter_map(Result::ok)
        .find(|task| read(task, "comm").is_some_and(|name| name.trim() == thread))?;
    let status = read(&task, "status")?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| list.trim().to_owned())
}

#[test]
fn a_pinned_shard_runs_on_its_cpu_alone() {
    for setup in Setup::each_driver_with(1) {
        // The last one: nothing else would choose it.
        let cpu = *usable_cpus().last().expect("a CPU");
        let plan = Plan::new(setup);
        let broker = plan.clone().set("QUEEN_PIN", cpu).start();
        assert_eq!(allowed_cpus(&broker, "shard-0"), Some(cpu.to_string()));
        let told = format!("1 shard pinned to CPU {cpu}, as QUEEN_PIN lists them");
        eventually("the log says so", || broker.output().contains(&told));
        let others = allowed_cpus(&broker, "queen");
        broker.terminate();
        let unpinned = plan.set("QUEEN_PIN", "off").start();
        assert_eq!(allowed_cpus(&unpinned, "shard-0"), others);
        eventually("the log says so", || {
            unpinned
                .output()
                .contains("shards and engine are not pinned")
        });
    }
}

#[test]
fn the_log_names_the_driver_and_the_address() {
    for &setup in Setup::all() {
        let broker = Plan::new(setup).start();
        let port = broker.address().port().to_string();
        crate::support::eventually("the log names both", || {
            let output = broker.output();
            output.contains(setup.driver.name()) && output.contains(&port)
        });
    }
}

#[cfg(feature = "glommio")]
#[test]
fn glommio_is_refused_where_it_may_lock_too_little_memory() {
    let script = "ulimit -l 64 && exec timeout 60 \"$0\" --io glommio --port 0 --shards 1";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_queen")])
        .env("QUEEN_DURABLE", "off")
        .env("QUEEN_BIND_ADDR", "127.0.0.1")
        .output()
        .expect("a shell");
    let status = output.status.code();
    assert_eq!(status, Some(STATUS_DRIVER_REFUSED), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    for part in [
        "glommio",
        "512 KiB of locked memory",
        "may have 64",
        "ulimit -l",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn auto_finds_a_driver() {
    let broker = Plan::any().set("QUEEN_IO", "auto").start();
    let queue = broker.queue("auto");
    queue.push(&[json!(1)]);
    assert_eq!(queue.pop_payloads(""), [json!(1)]);
    broker.terminate();
}

#[test]
fn above_the_bound_of_connections_the_next_one_gets_503() {
    each_plan(|plan| {
        let broker = plan.set("QUEEN_MAX_CONNECTIONS", 16).start();
        let mut kept = Vec::new();
        crate::support::eventually("the bound is reached", || {
            let mut client = broker.plain_client();
            client.send("GET", "/health", None);
            match client.try_read() {
                Ok(answer) if answer.status == 503 => true,
                Ok(_) => {
                    kept.push(client);
                    false
                }
                Err(fault) => panic!("neither served nor refused: {fault}"),
            }
        });
        assert!(kept.len() <= 16, "{} connections", kept.len());
        kept.clear();
        crate::support::eventually("there is room again", || {
            let mut client = broker.plain_client();
            client.send("GET", "/health", None);
            client.try_read().is_ok_and(|answer| answer.status == 200)
        });
    });
}

#[test]
fn help_and_a_port_given_as_a_flag() {
    let output = Command::new(env!("CARGO_BIN_EXE_queen"))
        .env_clear()
        .arg("--help")
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("--port"));
    let output = Command::new(env!("CARGO_BIN_EXE_queen"))
        .env_clear()
        .args(["--port", &free_port().to_string(), "--durable", "off"])
        .arg("--no-such-flag")
        .output()
        .expect("the binary starts");
    assert!(!output.status.success(), "{output:?}");
}
