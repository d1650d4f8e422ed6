//! Health, counters as JSON, counters as Prometheus text: row 85.

use serde_json::json;

use crate::support::queue::numbers;
use crate::support::{each_plan, each_setup, eventually};

#[test]
fn row_85_a_fresh_process_has_every_family() {
    each_plan(|plan| {
        let broker = plan.start();
        let zeros = [
            "queen_ephemeral_messages_total{verb=\"pushed\"}",
            "queen_ephemeral_messages_total{verb=\"popped\"}",
            "queen_ephemeral_messages_total{verb=\"acked\"}",
            "queen_ephemeral_dropped_total{cause=\"bounds\"}",
            "queen_ephemeral_dropped_total{cause=\"ttl\"}",
            "queen_ephemeral_dropped_total{cause=\"retry\"}",
            "queen_ephemeral_forwarded_total",
            "queen_ephemeral_wipes_total",
            "queen_ephemeral_bytes",
            "queen_ephemeral_queues",
            "queen_core_parked_long_polls{core=\"0\"}",
            "queen_core_hops_total{core=\"0\"}",
            "queen_core_lane_overflow_frames{core=\"0\"}",
        ];
        for sample in zeros {
            assert_eq!(broker.sample(sample), 0.0, "{sample}");
        }
        let text = broker.client().get("/metrics/prometheus").text();
        let parked: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("queen_parked_long_polls{queue="))
            .collect();
        assert!(!parked.is_empty(), "{text}");
        assert!(parked.iter().all(|line| line.ends_with(" 0")), "{parked:?}");
        assert!(!text.contains("tenant"), "{text}");
        for family in ["queen_core_turns_total", "queen_core_busy_seconds_total"] {
            assert!(broker.sample(&format!("{family}{{core=\"0\"}}")) >= 0.0);
        }
        assert!(broker.sample("process_resident_memory_bytes") > 0.0);
    });
}

#[test]
fn counters_count_what_happened() {
    each_plan(|plan| {
        let broker = plan.start();
        let queue = broker.queue("counted");
        queue.configure(json!({"maxLength": 4, "policy": "dropOldest", "retryLimit": 1}));
        queue.push(&numbers(0..4));
        queue.push(&[json!(4)]);
        let taken = queue.pop("batch=3");
        queue.ack(None, &taken[..2]);
        queue.settle_one(None, &taken[2].id, "retry");
        queue.settle_one(None, &taken[0].id, "completed");
        let verb = |verb: &str| {
            broker.sample(&format!(
                "queen_ephemeral_messages_total{{verb=\"{verb}\"}}"
            ))
        };
        assert_eq!(verb("pushed"), 5.0);
        assert_eq!(verb("popped"), 3.0);
        assert_eq!(verb("acked"), 2.0, "completed acks that found their lease");
        let cause = |cause: &str| {
            broker.sample(&format!(
                "queen_ephemeral_dropped_total{{cause=\"{cause}\"}}"
            ))
        };
        assert_eq!(cause("bounds"), 1.0);
        assert_eq!(cause("retry"), 1.0);
        assert_eq!(broker.sample("queen_ephemeral_bytes"), 1.0);
        assert_eq!(broker.sample("queen_ephemeral_queues"), 1.0);
        assert!(broker.sample("queen_requests_total") >= 6.0);
    });
}

#[test]
fn parked_pops_of_declared_queues_have_a_series_of_their_own() {
    each_plan(|plan| {
        let broker = plan.start();
        let declared = broker.queue("parked-declared");
        declared.configure(json!({}));
        let implicit = broker.queue("parked-implicit");
        let mut parked = [
            declared.park(broker.client(), "group=a"),
            declared.park(broker.client(), "partition=p"),
            implicit.park(broker.client(), ""),
        ];
        let series = format!("queen_parked_long_polls{{queue=\"eph:{}\"}}", declared.name);
        assert_eq!(broker.sample(&series), 2.0);
        let text = broker.client().get("/metrics/prometheus").text();
        let all: f64 = text
            .lines()
            .filter(|line| line.starts_with("queen_parked_long_polls{"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum();
        assert_eq!(all, 3.0, "{text}");
        declared.push_to("p", &[json!(1)]);
        implicit.push(&[json!(1)]);
        for pop in &mut parked {
            pop.message();
        }
        eventually("nobody is parked", || broker.sample(&series) == 0.0);
    });
}

#[test]
fn figures_of_the_cores_add_up_to_those_of_the_process() {
    each_plan(|plan| {
        let broker = plan.start();
        let queue = broker.queue("cores");
        let mut parked: Vec<_> = (0..8)
            .map(|_| queue.park(broker.client(), "group=g"))
            .collect();
        // The figures of a scrape are read one after the other, while other cores go on.
        eventually("the sums agree", || {
            let text = broker.client().get("/metrics/prometheus").text();
            let agree = [
                ("queen_core_requests_total", "queen_requests_total"),
                ("queen_core_connections", "queen_connections"),
                ("queen_core_parked_long_polls", "queen_parked_long_polls"),
            ]
            .iter()
            .all(|(cores, process)| sum(&text, cores) == sum(&text, process));
            agree && sum(&text, "queen_core_parked_long_polls") == 8.0
        });
        queue.push(&numbers(0..8));
        for pop in &mut parked {
            pop.message();
        }
    });
}

/// The sum of all samples of one family.
fn sum(text: &str, family: &str) -> f64 {
    let of_family = |line: &&str| {
        let rest = line.strip_prefix(family);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    text.lines()
        .filter(of_family)
        .map(|line| {
            let value = line
                .rsplit_once(' ')
                .and_then(|(_, text)| text.parse::<f64>().ok());
            value.unwrap_or_else(|| panic!("no number in {line}"))
        })
        .sum()
}

#[test]
fn health_says_that_all_is_well() {
    each_setup(|broker| {
        let body = broker.client().get("/health").expect(200);
        assert_eq!(body["status"], "healthy");
        assert_eq!(body["database"], "off");
        assert!(body["engine"].is_string(), "{body}");
        assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));
    });
}

#[test]
fn the_json_metrics_have_their_shape() {
    each_setup(|broker| {
        let body = broker.client().get("/metrics").expect(200);
        for path in [
            "/uptime",
            "/requests/total",
            "/requests/rate",
            "/memory/rss",
            "/cpu/user",
            "/cpu/system",
            "/database/poolSize",
            "/database/idleConnections",
            "/database/waitingRequests",
        ] {
            let value = body.pointer(path);
            assert!(
                value.is_some_and(|value| value.is_number()),
                "{path} in {body}"
            );
        }
        assert!(body["messages"].is_object(), "{body}");
        assert!(body["memory"]["rss"].as_f64().unwrap() > 0.0);
    });
}
