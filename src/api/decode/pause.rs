//! The body of the pause switch.

use serde::de::MapAccess;

use super::BodyBytes;
use super::json::{Fields, parse_object, read_flag};
use crate::model::Refusal;

#[derive(Default)]
struct PauseBody {
    enabled: Option<Option<bool>>,
}

impl<'a> Fields<'a> for PauseBody {
    const NAME: &'static str = "the body of the switch";
    const KEYS: &'static [&'static str] = &["enabled"];

    fn read<A: MapAccess<'a>>(&mut self, _key: usize, map: &mut A) -> Result<(), A::Error> {
        let value = read_flag(map)?;
        // Of two values neither can be the one that was meant.
        self.enabled = Some(value.filter(|_| self.enabled.is_none()));
        Ok(())
    }
}

/// Decodes the body of `POST /api/v1/system/ephemeral`; `Err` is the text for the client.
pub(super) fn decode(body: BodyBytes<'_>) -> Result<bool, String> {
    const REQUIRED: &str = "enabled (boolean) is required";
    if body.is_empty() {
        return Err(REQUIRED.to_owned());
    }
    let fields: PauseBody = parse_object(body).map_err(|refusal| match refusal {
        Refusal::BadRequest { text, .. } if !body.is_json() => text,
        _ => REQUIRED.to_owned(),
    })?;
    fields.enabled.flatten().ok_or_else(|| REQUIRED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_reads_one_boolean() {
        let decoded = |text: &str| decode(BodyBytes::borrowed(text.as_bytes()));
        assert_eq!(decoded("{\"enabled\":true}"), Ok(true));
        assert_eq!(decoded(" {\"by\":\"me\",\"enabled\": false } "), Ok(false));
        for text in [
            "",
            "{}",
            "{\"enabled\":null}",
            "{\"enabled\":1}",
            "{\"enabled\":\"true\"}",
            "{\"enabled\":true,\"enabled\":true}",
            "[true]",
        ] {
            let expected = Err("enabled (boolean) is required".to_owned());
            assert_eq!(decoded(text), expected, "{text}");
        }
        assert!(decoded("{\"enabled\":true").unwrap_err().contains("line 1"));
    }
}
