use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

fn written(found: &FoundTraces) -> Value {
    let mut out = BytesMut::new();
    put_traces(&mut out, found);
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn traces_and_their_names() {
    let page = TracePage {
        limit: 10,
        offset: 20,
    };
    let names = FoundTraces::Names {
        page,
        total: 21,
        rows: vec![TraceNameRow {
            name: "n".into(),
            traces: 3,
            messages: 2,
            last_seen_us: 0,
        }],
    };
    let body = json!({
        "trace_names": [{
            "trace_name": "n", "trace_count": 3, "message_count": 2,
            "last_seen": "1970-01-01T00:00:00.000Z",
        }],
        "total": 21, "pagination": {"limit": 10, "offset": 20},
    });
    assert_eq!(written(&names), body);
    let row = |payload: Option<&'static str>| TraceRow {
        id: 5,
        partition_id: 17,
        transaction_id: "t".into(),
        queue: "q".into(),
        partition: "p".into(),
        group: "g".into(),
        worker: None,
        event: "step".into(),
        data: Bytes::from_static(b"{\"n\": 1}"),
        names: vec!["a".into(), "b".into()],
        created_us: 0,
        payload: payload.map(|text| Bytes::from_static(text.as_bytes())),
    };
    let shown = |payload: Value| {
        json!({
            "id": "5", "transaction_id": "t", "partition_id": "17", "queue_name": "q",
            "partition_name": "p", "event_type": "step", "data": {"n": 1}, "consumer_group": "g",
            "worker_id": null, "created_at": "1970-01-01T00:00:00.000Z",
            "trace_names": ["a", "b"], "message_payload": payload,
        })
    };
    let rows = vec![row(None), row(Some("[1]"))];
    let body = json!({"traces": [shown(Value::Null), shown(json!([1]))]});
    assert_eq!(written(&FoundTraces::OfMessage(rows.clone())), body);
    let listed = written(&FoundTraces::Named {
        page,
        total: 2,
        rows,
    });
    assert_eq!(
        (&listed["traces"], &listed["total"]),
        (&body["traces"], &json!(2))
    );
}
