//! `http::parse_head` beside `httparse`, in bytes a second, on the heads that the published clients
//! send. Ours also decides framing, connection and escapes, which `httparse` leaves to its caller.

#[path = "common/heads.rs"]
mod heads;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use heads::HEADS;
use queen::http::{FieldSlots, HeadScan, ParsedHead, parse_head};
use queen::limits;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (name, head) in HEADS {
        let mut group = criterion.benchmark_group(format!("head_parser/{name}"));
        group.throughput(Throughput::Bytes(head.len() as u64));
        group.bench_function("queen", |bencher| {
            let mut slots = FieldSlots::new();
            bencher.iter(|| {
                let mut scan = HeadScan::default();
                match parse_head(black_box(head), &mut scan, &mut slots) {
                    ParsedHead::Complete { length, .. } => assert_eq!(length, head.len()),
                    other => panic!("{name}: {other:?}"),
                }
            });
        });
        group.bench_function("httparse", |bencher| {
            let mut fields = [httparse::EMPTY_HEADER; limits::HEAD_FIELDS_MAX];
            bencher.iter(|| {
                let mut request = httparse::Request::new(&mut fields);
                let length = request.parse(black_box(head));
                assert_eq!(length, Ok(httparse::Status::Complete(head.len())));
            });
        });
        group.finish();
    }
    criterion.final_summary();
}
