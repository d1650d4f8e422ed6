//! `windowBuffer`: rows 35 to 38.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::each_setup;
use crate::support::poll::let_pass;
use crate::support::queue::numbers;
use crate::support::{Broker, Queue};

fn queue_with(broker: &Broker, name: &str, window: Value) -> Queue {
    let queue = broker.queue(name);
    queue.configure(json!({"windowBuffer": window}));
    queue
}

/// Runs `work` and returns how many milliseconds it took beside its outcome.
fn timed<T>(work: impl FnOnce() -> T) -> (u128, T) {
    let started = Instant::now();
    let outcome = work();
    (started.elapsed().as_millis(), outcome)
}

#[test]
fn row_35_the_window_ends_by_time() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-35", json!({"ms": 400, "count": 5}));
        queue.push(&numbers(0..2));
        let (took_ms, got) = timed(|| queue.pop("wait=true&batch=5&timeout=3000"));
        assert_eq!(got.len(), 2);
        assert!((350..2_500).contains(&took_ms), "{took_ms} ms");
    });
}

#[test]
fn row_36_an_empty_window_keeps_waiting() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-36", json!({"ms": 100, "count": 5}));
        let mut parked = queue.park(broker.client(), "batch=5");
        let_pass(Duration::from_millis(300));
        parked.assert_waiting();
        queue.push(&[json!(1)]);
        assert_eq!(parked.message().payload, 1);
    });
}

#[test]
fn row_37_a_full_batch_returns_at_once() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-37", json!({"ms": 5_000, "count": 50}));
        queue.push(&numbers(0..3));
        let (took_ms, got) = timed(|| queue.pop("wait=true&batch=2&timeout=8000"));
        assert_eq!(got.len(), 2);
        assert!(took_ms < 2_000, "{took_ms} ms");
    });
}

#[test]
fn row_38_a_window_by_count_alone_ignores_time() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-38-count", json!({"count": 3}));
        queue.push(&numbers(0..2));
        let mut parked = queue.park(broker.client(), "batch=10&group=g");
        let_pass(Duration::from_millis(300));
        parked.assert_waiting();
        queue.push(&[json!(2)]);
        assert_eq!(parked.messages().len(), 3);
        queue.push(&[json!(3)]);
        let (took_ms, got) = timed(|| queue.pop("wait=true&batch=10&timeout=300&group=g"));
        assert_eq!(
            got.len(),
            1,
            "at its own deadline a pop returns what it has"
        );
        assert!((280..2_000).contains(&took_ms), "{took_ms} ms");
    });
}

#[test]
fn row_38_a_window_by_time_alone_ignores_count() {
    each_setup(|broker| {
        let queue = queue_with(broker, "row-38-time", json!({"ms": 400, "count": 0}));
        queue.push(&[json!(0)]);
        let mut parked = queue.park(broker.client(), "batch=100");
        queue.push(&numbers(1..20));
        assert_eq!(parked.messages().len(), 20);
        assert!(parked.elapsed() >= Duration::from_millis(350));
    });
}

#[test]
fn a_window_of_zeros_is_off_and_a_pop_that_does_not_wait_has_none() {
    each_setup(|broker| {
        let queue = queue_with(broker, "window-off", json!({"ms": 0, "count": 0}));
        queue.push(&[json!(1)]);
        let (took_ms, got) = timed(|| queue.pop("wait=true&batch=5&timeout=5000"));
        assert_eq!(got.len(), 1);
        assert!(took_ms < 2_000, "{took_ms} ms");

        let queue = queue_with(broker, "window-no-wait", json!({"ms": 5_000, "count": 9}));
        queue.push(&[json!(1)]);
        let (took_ms, got) = timed(|| queue.pop("batch=5"));
        assert_eq!(got.len(), 1);
        assert!(took_ms < 2_000, "{took_ms} ms");
    });
}

#[test]
fn a_client_that_vanishes_inside_the_window_costs_no_attempt() {
    each_setup(|broker| {
        let queue = queue_with(broker, "window-vanish", json!({"ms": 60_000, "count": 50}));
        queue.push(&numbers(0..2));
        let parked = queue.park(broker.client(), "batch=50&group=g");
        drop(parked);
        crate::support::eventually("the messages are back", || {
            let got = queue.pop("batch=50&group=g&autoAck=true");
            assert!(got.iter().all(|message| message.attempts == 1), "{got:?}");
            got.len() == 2
        });
    });
}
