//! `POST /api/v1/ephemeral/exchange`.

use std::borrow::Cow;

use serde::de::{Error, MapAccess};
use serde_json::Number;

use super::ack::{self, AckBody};
use super::json::{Fields, Items, NullableText, Object, Text, parse_object, required, store};
use super::push::{self, PushBody};
use super::{BodyBytes, pop_access, query, queue_name};
use crate::auth::Access;
use crate::limits;
use crate::model::{Exchange, Pop, Refusal};

#[derive(Default)]
struct ExchangeBody<'a> {
    acks: Option<Vec<AckBody<'a>>>,
    pushes: Option<Vec<PushBody<'a>>>,
    pop: Option<PopBody<'a>>,
}

impl<'a> Fields<'a> for ExchangeBody<'a> {
    const NAME: &'static str = "the body of an exchange";
    const KEYS: &'static [&'static str] = &["acks", "pushes", "pop"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        let max = limits::EXCHANGE_LEGS_MAX;
        match key {
            0 => {
                let items = Items {
                    key: name,
                    max,
                    finish: Ok,
                };
                store(&mut self.acks, name, map.next_value_seed(items)?)
            }
            1 => {
                let items = Items {
                    key: name,
                    max,
                    finish: Ok,
                };
                store(&mut self.pushes, name, map.next_value_seed(items)?)
            }
            _ => {
                let pop = map.next_value_seed(Object(std::marker::PhantomData))?;
                store(&mut self.pop, name, pop)
            }
        }
    }
}

/// The parameters of a pop. Outer `None`: absent.
#[derive(Default)]
struct PopBody<'a> {
    queue: Option<Cow<'a, str>>,
    partition: Option<Option<Cow<'a, str>>>,
    group: Option<Option<Cow<'a, str>>>,
    batch: Option<Option<Number>>,
    timeout: Option<Option<Number>>,
    wait: Option<Option<bool>>,
    auto_ack: Option<Option<bool>>,
    commit_on_delivery: Option<Option<bool>>,
}

impl<'a> Fields<'a> for PopBody<'a> {
    const NAME: &'static str = "pop";
    const KEYS: &'static [&'static str] = &[
        "queue",
        "partition",
        "group",
        "batch",
        "timeout",
        "wait",
        "autoAck",
        "commitOnDelivery",
    ];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        let name = Self::KEYS[key];
        match key {
            0 => store(&mut self.queue, name, map.next_value_seed(Text(name))?),
            1 | 2 => {
                let text = map.next_value_seed(NullableText(name))?;
                let slot = [&mut self.partition, &mut self.group];
                store(slot.into_iter().nth(key - 1).expect("two"), name, text)
            }
            3 | 4 => {
                let number: Option<Number> =
                    map.next_value().map_err(|_| wrong(name, "an integer"))?;
                let slot = [&mut self.batch, &mut self.timeout];
                store(slot.into_iter().nth(key - 3).expect("two"), name, number)
            }
            _ => {
                let flag: Option<bool> =
                    map.next_value().map_err(|_| wrong(name, "true or false"))?;
                let slot = [
                    &mut self.wait,
                    &mut self.auto_ack,
                    &mut self.commit_on_delivery,
                ];
                store(slot.into_iter().nth(key - 5).expect("three"), name, flag)
            }
        }
    }
}

fn wrong<E: Error>(key: &str, what: &str) -> E {
    E::custom(format_args!("pop.{key} must be {what}"))
}

/// Decodes an exchange. Any fault of any leg is one of the whole: nothing is begun.
pub(super) fn decode(
    body: BodyBytes<'_>,
    default_timeout_ms: u64,
) -> Result<Exchange<'_>, Refusal> {
    let fields: ExchangeBody<'_> = parse_object(body)?;
    let acks = fields.acks.unwrap_or_default();
    let pushes = fields.pushes.unwrap_or_default();
    let legs = acks.len() + pushes.len() + usize::from(fields.pop.is_some());
    if !(1..=limits::EXCHANGE_LEGS_MAX).contains(&legs) {
        return Err(Refusal::bad_request(format!(
            "an exchange has 1 to {} legs among acks, pushes and pop, not {legs}",
            limits::EXCHANGE_LEGS_MAX
        )));
    }
    let acks = acks.into_iter().enumerate();
    let pushes = pushes.into_iter().enumerate();
    let pop = fields.pop.map(|pop| read_pop(pop, default_timeout_ms));
    within_bounds(Exchange {
        acks: acks
            .map(|(at, leg)| ack::finish(leg).map_err(|fault| at_leg("acks", at, fault)))
            .collect::<Result<_, _>>()?,
        pushes: pushes
            .map(|(at, leg)| push::finish(leg, body).map_err(|fault| at_leg("pushes", at, fault)))
            .collect::<Result<_, _>>()?,
        pop: pop.transpose()?,
    })
}

/// The level that all legs need together: that of the strictest, and of a push beside a pop both.
pub(super) fn access(exchange: &Exchange<'_>) -> Access {
    let legs = [
        (!exchange.acks.is_empty()).then_some(Access::ReadWrite),
        (!exchange.pushes.is_empty()).then_some(Access::Write),
        exchange.pop.as_ref().map(pop_access),
    ];
    legs.into_iter()
        .flatten()
        .fold(Access::Authenticated, Access::join)
}

/// All legs together have as many items as a request of one leg may have: its core serves them at once.
fn within_bounds(exchange: Exchange<'_>) -> Result<Exchange<'_>, Refusal> {
    let acks = exchange.acks.iter().map(|leg| leg.acks.len());
    let messages = exchange.pushes.iter().map(|leg| leg.payloads.len());
    let items: usize = acks.chain(messages).sum();
    if items > limits::BATCH_ITEMS_MAX {
        return Err(Refusal::bad_request(format!(
            "an exchange has at most {} acks and messages in all its legs, not {items}",
            limits::BATCH_ITEMS_MAX
        )));
    }
    Ok(exchange)
}

/// The fault of a leg, with its place.
fn at_leg(key: &str, at: usize, fault: Refusal) -> Refusal {
    match fault {
        Refusal::BadRequest { text, .. } => Refusal::bad_request(format!("{key}[{at}]: {text}")),
        other => other,
    }
}

fn read_pop(fields: PopBody<'_>, default_timeout_ms: u64) -> Result<Pop<'_>, Refusal> {
    let whole = |number: Option<Option<Number>>, name: &str, bounds: (u64, u64)| {
        let number = number.flatten();
        number
            .map(|number| clamped(&number, bounds).ok_or(name))
            .transpose()
            .map_err(|name| Refusal::bad_request(format!("pop.{name} must be an integer")))
    };
    let queue = required(fields.queue, "pop.queue")?;
    let batch = whole(fields.batch, "batch", (1, limits::BATCH_ITEMS_MAX as u64))?;
    let timeout = whole(fields.timeout, "timeout", (0, limits::POP_WAIT_MS_MAX))?;
    let timeout_ms = timeout.unwrap_or(default_timeout_ms);
    let is_true = |flag: Option<Option<bool>>| flag.flatten() == Some(true);
    Ok(Pop {
        queue: queue_name(queue)?,
        partition: query::partition_name(fields.partition.flatten())?,
        group: query::group_name(fields.group.flatten())?
            .unwrap_or(crate::model::GroupName::QUEUE_MODE),
        batch: batch.unwrap_or(1) as u32,
        wait_ms: (is_true(fields.wait) && timeout_ms > 0).then_some(timeout_ms),
        since: None,
        auto_ack: is_true(fields.auto_ack) || is_true(fields.commit_on_delivery),
    })
}

/// An integer of any size, moved into the bounds; `None` if it is not one.
fn clamped(number: &Number, (min, max): (u64, u64)) -> Option<u64> {
    if let Some(value) = number.as_u64() {
        return Some(value.clamp(min, max));
    }
    // Below zero, beyond 64 bits, or written with a fraction of nothing, as some encoders do: 5.0, 1e3. The
    // conversion ends at what there is.
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    Some((value as u64).clamp(min, max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::decode::tests::refusal_text;

    fn exchange(body: &str) -> Result<Exchange<'_>, Refusal> {
        decode(BodyBytes::borrowed(body.as_bytes()), 30_000)
    }

    #[test]
    fn every_leg_takes_its_own_routes_shape() {
        let body = "{\"acks\":[{\"queue\":\"a\",\"acks\":[{\"id\":\"e:1:p:0\"}]}],\
                \"pushes\":[{\"queue\":\"b\",\"messages\":[{\"payload\":1}]},\
                {\"queue\":\"c\",\"partition\":\"p\",\"messages\":[]}],\
                \"pop\":{\"queue\":\"d\",\"group\":\"\",\"batch\":99999,\"wait\":true,\"timeout\":5,\
                \"commitOnDelivery\":true,\"partition\":null,\"more\":[]}}";
        let exchange = exchange(body).unwrap();
        assert_eq!(exchange.acks[0].queue.as_str(), "a");
        assert_eq!(exchange.pushes[0].payloads, ["1"]);
        assert_eq!(exchange.pushes[1].partition.as_str(), "p");
        let pop = exchange.pop.unwrap();
        assert_eq!(pop.batch, 10_000);
        assert_eq!((pop.wait_ms, pop.auto_ack), (Some(5), true));
        assert!(pop.partition.is_none());
        assert_eq!(pop.group.as_str(), crate::model::QUEUE_MODE_GROUP);
    }

    #[test]
    fn numbers_of_the_pop_are_clamped_and_not_guessed() {
        let pop = |text: &str| {
            let body = format!("{{\"pop\":{{\"queue\":\"q\",{text}}}}}");
            let exchange = decode(BodyBytes::borrowed(body.as_bytes()), 30_000);
            let pop = exchange.map(|exchange| exchange.pop.expect("it has one"));
            pop.map(|pop| (pop.batch, pop.wait_ms))
                .map_err(refusal_text)
        };
        assert_eq!(pop("\"batch\":0,\"wait\":true"), Ok((1, Some(30_000))));
        assert_eq!(pop("\"batch\":-7,\"timeout\":9"), Ok((1, None)));
        assert_eq!(pop("\"batch\":1e3"), Ok((1_000, None)));
        assert_eq!(pop("\"batch\":-0"), Ok((1, None)));
        assert_eq!(pop("\"batch\":1e99"), Ok((10_000, None)));
        assert_eq!(
            pop("\"batch\":3.0,\"wait\":true,\"timeout\":300.0"),
            Ok((3, Some(300)))
        );
        assert_eq!(
            pop("\"wait\":true,\"timeout\":99999999999999999999999"),
            Ok((1, Some(300_000)))
        );
        for (text, part) in [
            ("\"batch\":1.5", "pop.batch must be an integer"),
            ("\"batch\":\"1\"", "pop.batch must be an integer"),
            ("\"wait\":1", "pop.wait must be true or false"),
            ("\"autoAck\":\"true\"", "pop.autoAck must be true or false"),
            ("\"group\":7", "a string as group"),
            ("\"batch\":1,\"batch\":1", "duplicate key"),
        ] {
            let fault = pop(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn a_fault_of_one_leg_names_its_place() {
        for (body, part) in [
            ("{}", "1 to 1000 legs"),
            ("{\"acks\":[],\"pushes\":[]}", "not 0"),
            ("[]", "an object as the body of an exchange"),
            ("{\"acks\":{}}", "an array as acks"),
            ("{\"pop\":[]}", "an object as pop"),
            ("{\"pop\":null}", "an object as pop"),
            ("{\"pop\":{}}", "pop.queue is required"),
            (
                "{\"pushes\":[{\"queue\":\"q\",\"messages\":[]},{\"queue\":\"\",\"messages\":[]}]}",
                "pushes[1]: queue must not be empty",
            ),
            (
                "{\"acks\":[{\"queue\":\"q\"}]}",
                "acks[0]: acks is required",
            ),
        ] {
            let text = refusal_text(exchange(body).unwrap_err());
            assert!(text.contains(part), "{body}: {text}");
        }
        let legs = "{\"queue\":\"q\",\"messages\":[]},".repeat(1_000);
        let legs = legs.trim_end_matches(',');
        assert!(exchange(&format!("{{\"pushes\":[{legs}]}}")).is_ok());
        let more = format!("{{\"pushes\":[{legs}],\"pop\":{{\"queue\":\"q\"}}}}");
        assert!(refusal_text(exchange(&more).unwrap_err()).contains("not 1001"));
    }

    #[test]
    fn all_legs_together_have_as_many_items_as_one_request() {
        let leg = |key: &str, item: &str, count: usize| {
            let items = vec![item; count].join(",");
            format!("{{\"queue\":\"q\",\"{key}\":[{items}]}}")
        };
        let body = |messages: usize| {
            let acks = leg("acks", "{\"id\":\"i\"}", 6_000);
            let pushes = leg("messages", "{\"payload\":1}", messages);
            format!("{{\"acks\":[{acks}],\"pushes\":[{pushes}]}}")
        };
        assert!(exchange(&body(4_000)).is_ok());
        let text = refusal_text(exchange(&body(4_001)).unwrap_err());
        assert!(text.contains("not 10001"), "{text}");
    }
}
