//! The generator against a server whose faults are planned.

mod fake_broker;

use std::path::Path;
use std::time::Duration;

use fake_broker::Script;
use queen_loadtest::load::Load;
use queen_loadtest::pace::Extent;
use queen_loadtest::pin;
use queen_loadtest::report::Report;
use queen_loadtest::scenario::{self, FloorOf, Inboxes, Settle, Taking};
use queen_loadtest::server::{Cpus, Server};

fn load(script: Script, rate_per_s: f64, units: u64) -> Load {
    Load {
        queues: 2,
        rate_per_s,
        extent: Extent::Units(units),
        drain: Duration::from_secs(20),
        spin: false,
        ..Load::closed_loop(fake_broker::start(script), 4, 256)
    }
}

fn slower_than(report: &Report, least: Duration) -> u64 {
    let least_ns = u64::try_from(least.as_nanos()).unwrap();
    report
        .latency
        .count_between(least_ns, report.latency.high())
}

#[test]
fn a_stall_is_felt_by_every_unit_that_was_due_in_it() {
    let stall = Duration::from_millis(400);
    let script = Script {
        stall: Some((100, stall)),
        ..Script::default()
    };
    let report = scenario::floor(&load(script, 500.0, 500), FloorOf::Push).unwrap();
    assert_eq!((report.finished, report.given_up), (500, 0));
    assert!(
        report.latency.max() >= 390_000_000,
        "{}",
        report.latency.max()
    );
    // 150 units are due in its first 300 ms; a generator that waits for answers would see four.
    let felt = slower_than(&report, Duration::from_millis(100));
    assert!(felt >= 145, "{felt} units felt the stall");
    let mut closed = load(script, 0.0, 500);
    closed.connections = 1;
    closed.is_kernel_timed = true;
    let report = scenario::floor(&closed, FloorOf::Push).unwrap();
    assert_eq!(report.finished, 500);
    assert!(slower_than(&report, stall) >= 1);
    assert!(report.served_us(100.0) >= 390_000.0, "{:?}", report.served);
    assert!(report.served_us(50.0) <= report.latency_us(50.0));
}

#[test]
fn the_rate_is_kept() {
    let mut load = load(Script::default(), 1_000.0, 0);
    load.warmup = Duration::from_millis(100);
    load.extent = Extent::Time(Duration::from_millis(500));
    for spin in [false, true] {
        load.spin = spin;
        let report = scenario::floor(&load, FloorOf::Push).unwrap();
        assert_eq!((report.finished, report.latency.len()), (500, 500));
        assert!(
            report.elapsed >= Duration::from_millis(499),
            "{:?}",
            report.elapsed
        );
        assert_eq!(report.idle.is_some(), spin);
    }
}

#[test]
fn a_closed_loop_sends_as_fast_as_it_is_answered() {
    let report = scenario::floor(&load(Script::default(), 0.0, 300), FloorOf::Cycle).unwrap();
    assert_eq!(
        (report.finished, report.answers, report.latency.len()),
        (300, 900, 300)
    );
    assert!(report.is_clean());
}

#[test]
fn work_without_an_answer_is_recorded_as_late_as_it_is() {
    let script = Script {
        silent_from: Some(51),
        ..Script::default()
    };
    let mut load = load(script, 1_000.0, 100);
    load.drain = Duration::from_millis(200);
    let report = scenario::floor(&load, FloorOf::Push).unwrap();
    assert_eq!(
        (report.finished, report.given_up, report.latency.len()),
        (50, 50, 100)
    );
    assert!(slower_than(&report, load.drain) >= 50);
    assert!(!report.is_clean());
}

#[test]
fn refusals_are_counted_and_the_run_goes_on() {
    let script = Script {
        refuse_every: Some(10),
        ..Script::default()
    };
    let report = scenario::floor(&load(script, 0.0, 200), FloorOf::Push).unwrap();
    assert_eq!(report.refused.get(&Some(429)), Some(&20));
    assert_eq!((report.finished, report.latency.len()), (180, 180));
    let fault = report.clean().unwrap_err().to_string();
    let expected = "0 units of work were given up, 20 refused: the server answered 429: ";
    assert!(fault.starts_with(expected), "{fault}");
    assert!(fault.contains("queue_full"), "{fault}");
}

#[test]
fn what_is_taken_was_pushed_before_into_one_queue() {
    let units = |queues, extent| Load {
        queues,
        extent,
        ..load(Script::default(), 0.0, 0)
    };
    let fault = |load| {
        let report = scenario::take(&load, 1, Taking::AutoAck);
        report.unwrap_err().to_string()
    };
    let spread = units(2, Extent::Units(30));
    assert_eq!(fault(spread), "messages are taken from one queue");
    let timed = units(1, Extent::Time(Duration::ZERO));
    assert_eq!(fault(timed), "a number of units must be given");
    for taking in [Taking::AutoAck, Taking::Pipelined] {
        let report = scenario::take(&units(1, Extent::Units(130)), 1, taking).unwrap();
        assert!(report.is_clean(), "{taking:?}: {report:?}");
        assert_eq!(report.finished, 130, "{taking:?}");
    }
}

#[test]
fn every_scenario_ends_with_all_its_work_done() {
    for (rate_per_s, depth) in [(0.0, 1), (0.0, 3), (2_000.0, 1), (2_000.0, 3)] {
        let mut load = load(Script::default(), rate_per_s, 100);
        load.depth = depth;
        let inbox = Inboxes {
            responders: 3,
            requests_per_inbox: 2,
            pipelined: false,
        };
        let pipelined = Inboxes {
            pipelined: true,
            ..inbox
        };
        for (name, report) in [
            ("push", scenario::push(&load, 1)),
            ("cycle", scenario::cycle(&load, Settle::Ack)),
            ("cycle, automatic", scenario::cycle(&load, Settle::AutoAck)),
            ("delivery", scenario::delivery(&load, 3)),
            ("inboxes", scenario::inboxes(&load, inbox)),
            ("pipelined", scenario::inboxes(&load, pipelined)),
        ] {
            let report = report.unwrap();
            assert!(report.is_clean(), "{name}: {report:?}");
            assert_eq!(
                (report.finished, report.latency.len()),
                (100, 100),
                "{name}"
            );
        }
    }
}

/// Answers as the comparison needs it, on both drivers; where the kernel refuses io_uring that half
/// does not run, and the output says so.
#[test]
fn the_null_responder_is_a_floor() {
    let program = Path::new(env!("CARGO_BIN_EXE_null_responder"));
    let cpus = pin::usable_cpus();
    let cpus = Cpus {
        server: cpus[0],
        load: cpus[cpus.len() - 1],
    };
    for io in ["epoll", "uring"] {
        let server = match Server::start(program, io, cpus) {
            Ok(server) => server,
            Err(error) if io == "uring" => {
                eprintln!("io_uring did not run here: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let load = Load {
            address: server.address,
            ..load(Script::default(), 0.0, 300)
        };
        server.hold().unwrap();
        server.release().unwrap();
        let report = scenario::floor(&load, FloorOf::Cycle).unwrap();
        assert_eq!((report.finished, report.answers), (300, 900), "{io}");
        assert!(report.is_clean(), "{io}: {report:?}");
    }
}
