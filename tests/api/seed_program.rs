//! The program that the class was described with, step by step.

use serde_json::json;

use crate::support::each_setup;
use crate::support::queue::payloads;

#[test]
fn the_whole_program_works() {
    each_setup(|broker| {
        let queue = broker.queue("presence");
        let options = json!({
            "maxLength": 1_000, "maxBytes": 1_048_576, "policy": "dropOldest", "ttlSeconds": 60,
            "leaseSeconds": 10, "retryLimit": 3,
        });
        assert_eq!(queue.configure(options.clone())["options"], options);

        let sent = [
            json!({"user": "a", "typing": true}),
            json!({"user": "b", "typing": false}),
        ];
        queue.push_to("room-7", &sent);

        let row = queue.row().expect("it is listed");
        assert_eq!(
            (&row["depth"], &row["tier"]),
            (&json!(2), &json!("declared"))
        );
        assert_eq!(queue.depth()["pending"], 2);

        let widget = "partition=room-7&batch=10&wait=true&timeout=2000&group=widget";
        let got = queue.pop(widget);
        assert_eq!(payloads(&got), sent);
        queue.ack(Some("widget"), &got);
        assert_eq!(queue.held(), (0, 0));

        let late = queue.pop("batch=10&group=audit");
        assert_eq!(
            payloads(&late),
            sent,
            "a group never seen before receives both again"
        );
        assert!(late.iter().all(|message| message.partition == "room-7"));
        queue.ack(Some("audit"), &late);

        queue.push_to("room-7", &sent);
        assert_eq!(queue.reset(), 2);
        assert_eq!(queue.depth()["pending"], 0);
        assert_eq!(queue.delete(), (true, true));
        assert_eq!(queue.delete(), (false, false));
    });
}
