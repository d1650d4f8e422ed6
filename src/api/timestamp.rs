//! Times as clients read and write them: ISO 8601. By hand: two formulas between days and dates are
//! less than a library of calendars and time zones.

use bytes::{BufMut, BytesMut};

const DAY_US: i64 = 86_400_000_000;

/// The first and the last time with a year of four digits, in microseconds since 1970.
const US_MIN: i64 = -62_167_219_200_000_000;
const US_MAX: i64 = 253_402_300_799_999_999;

/// Days from 0000-03-01 to 1970-01-01. Years that begin in March have their leap day at the end.
const DAYS_TO_EPOCH: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const DAYS_OF_ERA: i64 = 146_097;

/// Appends a time as a JSON string: UTC, with milliseconds.
pub(super) fn put_timestamp(out: &mut BytesMut, us: i64) {
    let us = us.clamp(US_MIN, US_MAX);
    let (year, month, day) = date_of(us.div_euclid(DAY_US));
    let ms = us.rem_euclid(DAY_US) / 1_000;
    let mut text = *b"\"0000-00-00T00:00:00.000Z\"";
    write_digits(&mut text[1..5], year);
    write_digits(&mut text[6..8], month);
    write_digits(&mut text[9..11], day);
    write_digits(&mut text[12..14], ms / 3_600_000);
    write_digits(&mut text[15..17], ms / 60_000 % 60);
    write_digits(&mut text[18..20], ms / 1_000 % 60);
    write_digits(&mut text[21..24], ms % 1_000);
    out.put_slice(&text);
}

fn write_digits(field: &mut [u8], mut value: i64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Year, month and day of a day since 1970.
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + DAYS_TO_EPOCH;
    let (era, of_era) = (day.div_euclid(DAYS_OF_ERA), day.rem_euclid(DAYS_OF_ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let is_next = month >= 10;
    let month = if is_next { month - 9 } else { month + 3 };
    (year + era * 400 + i64::from(is_next), month, day)
}

/// The day since 1970 of a date.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + 365 * year + year / 4 - year / 100 + of_year - DAYS_TO_EPOCH
}

/// Reads a time, in microseconds since 1970: a date, with a time of day if it goes on, with a zone if
/// it goes on further; without one it is UTC. `None`: it is no time.
pub(super) fn parse_timestamp(text: &str) -> Option<i64> {
    let mut rest = text.as_bytes();
    let year = take_digits(&mut rest, 4)?;
    take(&mut rest, b"-")?;
    let month = take_digits(&mut rest, 2)?;
    take(&mut rest, b"-")?;
    let date = take_digits(&mut rest, 2)?;
    let day = day_of(year, month, date);
    if date_of(day) != (year, month, date) {
        return None;
    }
    let midnight = day * DAY_US;
    if rest.is_empty() {
        return Some(midnight);
    }
    take(&mut rest, b"Tt ")?;
    let time = take_time(&mut rest)?;
    let offset = take_zone(&mut rest)?;
    rest.is_empty().then_some(midnight + time - offset)
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.f...`, in microseconds. What is finer is cut off.
fn take_time(rest: &mut &[u8]) -> Option<i64> {
    let hours = take_digits(rest, 2).filter(|hours| *hours < 24)?;
    take(rest, b":")?;
    let minutes = take_digits(rest, 2).filter(|minutes| *minutes < 60)?;
    let whole = |seconds: i64| (hours * 3_600 + minutes * 60 + seconds) * 1_000_000;
    if take(rest, b":").is_none() {
        return Some(whole(0));
    }
    // A leap second is one.
    let seconds = take_digits(rest, 2).filter(|seconds| *seconds <= 60)?;
    if take(rest, b".,").is_none() {
        return Some(whole(seconds));
    }
    let (mut fraction, mut unit) = (0, 100_000);
    fraction += take_digits(rest, 1)? * unit;
    while let Some(digit) = take_digits(rest, 1) {
        unit /= 10;
        fraction += digit * unit;
    }
    Some(whole(seconds) + fraction)
}

/// Nothing, `Z`, `+hh`, `+hhmm` or `+hh:mm`: how far the clock is ahead of UTC, in microseconds.
fn take_zone(rest: &mut &[u8]) -> Option<i64> {
    if rest.is_empty() || take(rest, b"Zz").is_some() {
        return Some(0);
    }
    let sign = if take(rest, b"+-")? == b'+' { 1 } else { -1 };
    let hours = take_digits(rest, 2).filter(|hours| *hours < 24)?;
    let has_colon = take(rest, b":").is_some();
    let minutes = match take_digits(rest, 2) {
        None if has_colon => return None,
        minutes => minutes.unwrap_or(0),
    };
    (minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000_000)
}

/// Takes the next byte if it is one of these.
fn take(rest: &mut &[u8], one_of: &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    one_of.contains(first).then(|| {
        *rest = behind;
        *first
    })
}

/// Takes so many digits.
fn take_digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (digits, behind) = rest.split_at_checked(count)?;
    let value = digits.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit()
            .then(|| value * 10 + i64::from(byte - b'0'))
    })?;
    *rest = behind;
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(us: i64) -> String {
        let mut out = BytesMut::new();
        put_timestamp(&mut out, us);
        let text = String::from_utf8(out.to_vec()).unwrap();
        text.trim_matches('"').to_owned()
    }

    #[test]
    fn known_times() {
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999Z"),
            (1_796_038_920_123_456, "2026-11-30T11:42:00.123Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000Z"),
            (US_MIN, "0000-01-01T00:00:00.000Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
            (US_MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(written(us), text);
        }
    }

    #[test]
    fn spellings_of_one_time() {
        for text in [
            "2026-11-30T11:42:00.123456Z",
            "2026-11-30t11:42:00.123456789z",
            "2026-11-30 11:42:00.123456",
            "2026-11-30T11:42:00,123456+00:00",
            "2026-11-30T13:12:00.123456+01:30",
            "2026-11-30T13:12:00.123456+0130",
            "2026-11-30T06:42:00.123456-05",
            "2026-12-01T01:42:00.123456+14:00",
        ] {
            assert_eq!(parse_timestamp(text), Some(1_796_038_920_123_456), "{text}");
        }
        assert_eq!(parse_timestamp("1970-01-02"), Some(DAY_US));
        assert_eq!(parse_timestamp("1970-01-01T00:01"), Some(60_000_000));
        assert_eq!(parse_timestamp("1970-01-01T00:00:00.5"), Some(500_000));
        assert_eq!(parse_timestamp("1970-01-01T23:59:60Z"), Some(DAY_US));
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "now",
            "1970",
            "1970-01",
            "70-01-01",
            "1970-1-1",
            "1970-13-01",
            "1970-00-01",
            "1970-01-00",
            "1970-02-29",
            "1900-02-29",
            "1970-01-01T",
            "1970-01-01T24:00",
            "1970-01-01T00",
            "1970-01-01T00:60",
            "1970-01-01T00:00:61",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00X",
            "1970-01-01T00:00:00Zx",
            "1970-01-01T00:00:00+",
            "1970-01-01T00:00:00+1",
            "1970-01-01T00:00:00+01:",
            "1970-01-01T00:00:00+01:60",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00 00:00",
            "+1970-01-01",
            "1970-01-01T00:00:00.\u{663}",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(us in US_MIN..=US_MAX) {
            prop_assert_eq!(parse_timestamp(&written(us)), Some(us - us.rem_euclid(1_000)));
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,40}") {
            parse_timestamp(&text);
        }
    }
}
