//! Reading JSON objects key by key: closed types, no key twice, borrowed text, and error texts that
//! say where.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::BodyBytes;
use crate::model::Refusal;

/// Characters of an error text before its position; it may quote what the client sent.
const ERROR_CHARS_MAX: usize = 200;

/// An object with known keys. Other keys are ignored unless `unknown` says otherwise.
pub(super) trait Fields<'a>: Default {
    /// What the object is, for error texts.
    const NAME: &'static str;
    /// The known keys.
    const KEYS: &'static [&'static str];

    /// Reads the value of `KEYS[key]`.
    fn read<A: MapAccess<'a>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error>;

    /// Is told of a key that is not known.
    fn unknown(&mut self, _key: &str) {}
}

/// Reads a whole request body as one object.
pub(super) fn parse_object<'a, F: Fields<'a>>(body: BodyBytes<'a>) -> Result<F, Refusal> {
    parse_body(body).map_err(Refusal::bad_request)
}

/// The same; what is wrong comes as text.
pub(super) fn parse_body<'a, F: Fields<'a>>(body: BodyBytes<'a>) -> Result<F, String> {
    if body.text.is_empty() {
        return Err("a JSON body is required".to_owned());
    }
    let text = std::str::from_utf8(body.text).map_err(|error| {
        let offset = error.valid_up_to();
        format!("the body is not UTF-8: bad byte at offset {offset}")
    })?;
    parse_text(text).map_err(|error| format!("the body is not valid: {}", describe(&error)))
}

/// Reads JSON text as one object.
pub(super) fn parse_text<'a, F: Fields<'a>>(text: &'a str) -> Result<F, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let fields = Object(PhantomData).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(fields)
}

/// The text of an error, of bounded length, its position kept.
pub(super) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.char_indices().nth(ERROR_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!(
            "{}... at line {} column {}",
            &text[..end],
            error.line(),
            error.column()
        ),
    }
}

/// Stores a value, unless its key was there before.
pub(super) fn store<T, E: Error>(slot: &mut Option<T>, key: &str, value: T) -> Result<(), E> {
    if slot.is_some() {
        return Err(E::custom(format_args!("duplicate key {key:?}")));
    }
    *slot = Some(value);
    Ok(())
}

/// A value without which the request cannot be served.
pub(super) fn required<T>(slot: Option<T>, key: &str) -> Result<T, Refusal> {
    slot.ok_or_else(|| Refusal::bad_request(format!("{key} is required")))
}

/// Reads an object.
pub(super) struct Object<F>(pub(super) PhantomData<F>);

impl<'a, F: Fields<'a>> DeserializeSeed<'a> for Object<F> {
    type Value = F;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<F, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a, F: Fields<'a>> Visitor<'a> for Object<F> {
    type Value = F;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object as {}", F::NAME)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<F, A::Error> {
        let mut fields = F::default();
        while let Some(key) = map.next_key_seed(Key(&mut fields))? {
            match key {
                Some(key) => fields.read(key, &mut map)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}

/// Reads a key as its position among the known ones.
struct Key<'f, F>(&'f mut F);

impl<'a, F: Fields<'a>> DeserializeSeed<'a> for Key<'_, F> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a, F: Fields<'a>> Visitor<'a> for Key<'_, F> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<usize>, E> {
        let found = F::KEYS.iter().position(|key| *key == text);
        if found.is_none() {
            self.0.unknown(text);
        }
        Ok(found)
    }
}

/// Reads a string, borrowed unless it has escapes.
pub(super) struct Text(pub(super) &'static str);

impl<'a> DeserializeSeed<'a> for Text {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Cow<'a, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Text {
    type Value = Cow<'a, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a string as {}", self.0)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Reads a string or null.
pub(super) struct NullableText(pub(super) &'static str);

impl<'a> DeserializeSeed<'a> for NullableText {
    type Value = Option<Cow<'a, str>>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'a> Visitor<'a> for NullableText {
    type Value = Option<Cow<'a, str>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a string or null as {}", self.0)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Text(self.0).deserialize(deserializer).map(Some)
    }
}

/// Reads an array of objects of a bounded length, each turned into what is kept of it.
pub(super) struct Items<F, T> {
    /// The key of the array.
    pub(super) key: &'static str,
    /// Items at most.
    pub(super) max: usize,
    /// Turns the object at a position into what is kept; `Err`: what is wrong with it.
    pub(super) finish: fn(F) -> Result<T, &'static str>,
}

impl<'a, F: Fields<'a>, T> DeserializeSeed<'a> for Items<F, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, F: Fields<'a>, T> Visitor<'a> for Items<F, T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an array as {}", self.key)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut array: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(fields) = array.next_element_seed(Object::<F>(PhantomData))? {
            if items.len() == self.max {
                let text = format_args!("{} has more than {} items", self.key, self.max);
                return Err(A::Error::custom(text));
            }
            let item = (self.finish)(fields).map_err(|fault| {
                A::Error::custom(format_args!("{}[{}] {fault}", self.key, items.len()))
            })?;
            items.push(item);
        }
        Ok(items)
    }
}

/// Reads true or false; `None` for any other value.
pub(super) fn read_flag<'a, A: MapAccess<'a>>(map: &mut A) -> Result<Option<bool>, A::Error> {
    let raw = map.next_value::<&serde_json::value::RawValue>()?;
    Ok(match raw.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    })
}
