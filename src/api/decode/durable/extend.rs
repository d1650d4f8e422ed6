//! `POST /api/v1/lease/:leaseId/extend`.

use serde::de::MapAccess;
use serde_json::value::RawValue;

use super::configure::whole;
use crate::api::decode::json::{Fields, parse_body, store};
use crate::api::decode::{BodyBytes, segment_text};
use crate::api::durable_fault::DurableFault;
use crate::limits;
use crate::model::durable::Extend;

/// Seconds of an extension that does not say.
const SECONDS_DEFAULT: u32 = 60;

#[derive(Default)]
struct ExtendBody<'a> {
    seconds: Option<&'a RawValue>,
}

impl<'a> Fields<'a> for ExtendBody<'a> {
    const NAME: &'static str = "the body of an extension";
    const KEYS: &'static [&'static str] = &["seconds"];

    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        store(&mut self.seconds, Self::KEYS[key], map.next_value()?)
    }
}

/// Decodes an extension. A lease that is none is unknown, not malformed.
pub(super) fn decode(lease_id: &[u8], body: BodyBytes<'_>) -> Result<Extend, DurableFault> {
    let lease_id = segment_text(lease_id).map_err(DurableFault::bad_request)?;
    let fields: ExtendBody<'_> = if body.is_empty() {
        ExtendBody::default()
    } else {
        parse_body(body).map_err(DurableFault::bad_request)?
    };
    let bounds = (1, i64::from(limits::DURABLE_SECONDS_MAX));
    let seconds = fields.seconds.filter(|raw| raw.get() != "null");
    Ok(Extend {
        lease_id: lease_id.into(),
        seconds: match seconds {
            None => SECONDS_DEFAULT,
            Some(raw) => whole("seconds", raw.get(), bounds)? as u32,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extend(lease_id: &str, body: &str) -> Result<Extend, DurableFault> {
        decode(lease_id.as_bytes(), BodyBytes::borrowed(body.as_bytes()))
    }

    #[test]
    fn seconds_are_a_minute_unless_said() {
        for (body, seconds) in [
            ("", 60),
            ("{}", 60),
            ("{\"seconds\":null,\"x\":1}", 60),
            ("{\"seconds\":1}", 1),
            ("{\"seconds\":120}", 120),
        ] {
            let extend = extend("a%20b", body).unwrap();
            assert_eq!((&*extend.lease_id, extend.seconds), ("a b", seconds));
        }
    }

    #[test]
    fn malformed_extensions() {
        for (lease_id, body, part) in [
            ("%ff", "", "the path is malformed"),
            ("l", "[]", "an object as the body of an extension"),
            (
                "l",
                "{\"seconds\":0}",
                "seconds must be a whole number from 1",
            ),
            ("l", "{\"seconds\":-1}", "seconds must be"),
            ("l", "{\"seconds\":1.5}", "seconds must be"),
            ("l", "{\"seconds\":\"60\"}", "seconds must be"),
            ("l", "{\"seconds\":315360001}", "to 315360000"),
        ] {
            let fault = extend(lease_id, body).unwrap_err();
            assert!(fault.text.contains(part), "{body}: {}", fault.text);
        }
    }
}
