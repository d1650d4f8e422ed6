//! How many shard cores there are and which CPU each is pinned to. Pure: the CPUs that the process
//! may use are passed in.

use crate::limits::SHARDS_MAX;

/// What `QUEEN_PIN` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// Pin if one CPU stays free.
    Auto,
    /// Pin nothing.
    Off,
    /// Shard i to the i-th of these, in the order given.
    List(Vec<usize>),
}

impl Pin {
    /// Reads `auto`, `off`, or CPU numbers and ranges with commas between them: `0,2-5`.
    pub(super) fn parse(text: &str) -> Option<Pin> {
        if text.eq_ignore_ascii_case("auto") {
            return Some(Pin::Auto);
        }
        if text.eq_ignore_ascii_case("off") {
            return Some(Pin::Off);
        }
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (cpu_number(first)?, cpu_number(last)?);
            if first > last {
                return None;
            }
            cpus.extend((first..=last).map(usize::from));
        }
        Some(Pin::List(cpus))
    }
}

/// Sixteen bits are more CPUs than any kernel has, and bound what a range unfolds to.
fn cpu_number(text: &str) -> Option<u16> {
    let text = text.trim();
    // The standard parser would take a plus sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Which CPU each shard is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PinPlan {
    /// One per shard.
    pub(super) pins: Vec<Option<usize>>,
    /// Those that the engine may use; empty: it is not restricted.
    pub(super) engine_cpus: Vec<usize>,
    /// What was decided and why, for the log.
    pub(super) text: String,
}

impl PinPlan {
    fn pinned(cpus: &[usize], engine_cpus: Vec<usize>, why: &str) -> PinPlan {
        let engine = match engine_cpus.as_slice() {
            [] => "none is left for the engine, which is not pinned".to_owned(),
            left => format!("the engine gets CPU {}", cpu_list(left)),
        };
        PinPlan {
            text: format!(
                "{} pinned to CPU {}, {why}; {engine}",
                count_of(cpus.len(), "shard"),
                cpu_list(cpus),
            ),
            pins: cpus.iter().copied().map(Some).collect(),
            engine_cpus,
        }
    }

    fn unpinned(shards: usize, why: &str) -> PinPlan {
        PinPlan {
            pins: vec![None; shards],
            engine_cpus: Vec::new(),
            text: format!("shards and engine are not pinned: {why}"),
        }
    }
}

/// Shards where nothing is said: one CPU is left for the engine, and one more, if there are as many
/// as four, for a private cluster.
pub(super) fn default_shards(usable_cpus: &[usize], private_cluster: bool) -> u16 {
    let usable = usable_cpus.len();
    let left_free = if private_cluster && usable >= 4 { 2 } else { 1 };
    let wanted = usable.saturating_sub(left_free);
    u16::try_from(wanted).map_or(SHARDS_MAX, |wanted| wanted.clamp(1, SHARDS_MAX))
}

/// Gives each of `shards` its CPU, of those in `usable_cpus`, and the engine what they leave.
pub(super) fn plan(pin: &Pin, shards: u16, usable_cpus: &[usize]) -> PinPlan {
    let shards = usize::from(shards);
    let usable = usable_cpus.len();
    assert!(shards > 0);
    match pin {
        Pin::Off => PinPlan::unpinned(shards, "QUEEN_PIN is off"),
        Pin::Auto if shards < usable => {
            let (cpus, left) = usable_cpus.split_at(shards);
            PinPlan::pinned(cpus, left.to_vec(), "the first that the process may use")
        }
        Pin::Auto => {
            let why = format!(
                "{} and one CPU for the engine do not fit on the {usable} that the process may \
                 use ({})",
                count_of(shards, "shard"),
                cpu_list(usable_cpus),
            );
            PinPlan::unpinned(shards, &why)
        }
        Pin::List(listed) => {
            assert!(listed.len() >= shards, "a list is judged before it is used");
            let (cpus, left) = listed.split_at(shards);
            let mut engine_cpus = left.to_vec();
            engine_cpus.sort_unstable();
            if left.is_empty() {
                let unlisted = usable_cpus.iter().filter(|cpu| !listed.contains(cpu));
                engine_cpus.extend(unlisted);
            }
            PinPlan::pinned(cpus, engine_cpus, "as QUEEN_PIN lists them")
        }
    }
}

/// What is wrong with a list, each as the end of a sentence that begins with the setting's name.
/// Without a number of shards the list's length is not judged.
pub(super) fn faults(pin: &Pin, shards: Option<u16>, usable_cpus: &[usize]) -> Vec<String> {
    let Pin::List(cpus) = pin else {
        return Vec::new();
    };
    let mut sorted = cpus.clone();
    sorted.sort_unstable();
    let mut repeated: Vec<usize> = sorted
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
        .collect();
    repeated.dedup();
    sorted.dedup();
    let distinct = sorted.len();
    sorted.retain(|cpu| !usable_cpus.contains(cpu));
    let usable = cpu_list(usable_cpus);
    let mut faults = Vec::new();
    if !sorted.is_empty() {
        faults.push(format!(
            "names CPU {}, which the process may not use; it may use {usable}",
            cpu_list(&sorted)
        ));
    }
    if !repeated.is_empty() {
        faults.push(format!(
            "names CPU {} more than once; each shard needs one of its own, and the process may \
             use {usable}",
            cpu_list(&repeated)
        ));
    }
    if let Some(shards) = shards.map(usize::from).filter(|shards| distinct < *shards) {
        faults.push(format!(
            "names {} for {}; the process may use {usable}, and QUEEN_SHARDS sets the shards",
            count_of(distinct, "CPU"),
            count_of(shards, "shard"),
        ));
    }
    faults
}

fn count_of(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The CPUs in their order, with what counts up by one as a range: `0,2-5`.
fn cpu_list(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|cpu, next| cpu + 1 == *next);
    let texts: Vec<String> = runs
        .map(|run| match run {
            [cpu] => cpu.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => unreachable!("a chunk has an element"),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cpus: &[usize]) -> Pin {
        Pin::List(cpus.to_vec())
    }

    #[test]
    fn what_a_pin_may_say() {
        assert_eq!(Pin::parse("auto"), Some(Pin::Auto));
        assert_eq!(Pin::parse("OFF"), Some(Pin::Off));
        for (text, cpus) in [
            ("0", &[0][..]),
            ("0,2-5", &[0, 2, 3, 4, 5]),
            ("3-3", &[3]),
            ("5, 1 - 2 ,0", &[5, 1, 2, 0]),
            ("1,1", &[1, 1]),
            ("65535", &[65_535]),
        ] {
            assert_eq!(Pin::parse(text), Some(list(cpus)), "{text}");
        }
        for text in [
            "", "on", "0,", ",0", "0,,1", "5-2", "-1", "1-", "0-1-2", "+1", "0x1", "0;1", "65536",
            "auto,0",
        ] {
            assert_eq!(Pin::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_cpu_is_left_for_the_engine_and_one_for_a_private_cluster() {
        let cpus: Vec<usize> = (0..200).collect();
        for (usable, alone, with_cluster) in [
            (1, 1, 1),
            (2, 1, 1),
            (3, 2, 2),
            (4, 3, 2),
            (8, 7, 6),
            (63, 62, 61),
            (64, 62, 62),
            (200, 62, 62),
        ] {
            assert_eq!(default_shards(&cpus[..usable], false), alone, "{usable}");
            assert_eq!(
                default_shards(&cpus[..usable], true),
                with_cluster,
                "{usable}"
            );
        }
    }

    #[test]
    fn auto_pins_where_one_cpu_stays_free() {
        let fits = plan(&Pin::Auto, 3, &[1, 4, 5, 7, 8]);
        assert_eq!(fits.pins, [Some(1), Some(4), Some(5)]);
        assert_eq!(fits.engine_cpus, [7, 8]);
        assert_eq!(
            fits.text,
            "3 shards pinned to CPU 1,4-5, the first that the process may use; the engine gets \
             CPU 7-8"
        );
        for (shards, usable) in [(4, &[1, 4, 5, 7][..]), (1, &[3]), (63, &[0, 1])] {
            let full = plan(&Pin::Auto, shards, usable);
            assert_eq!(full.pins, vec![None; usize::from(shards)]);
            assert!(full.engine_cpus.is_empty());
            assert!(full.text.contains("do not fit"), "{}", full.text);
            assert!(full.text.contains(&cpu_list(usable)), "{}", full.text);
        }
    }

    #[test]
    fn off_pins_nothing() {
        let off = plan(&Pin::Off, 2, &[0, 1, 2, 3]);
        assert_eq!(off.pins, [None, None]);
        assert!(off.engine_cpus.is_empty());
        assert!(off.text.contains("QUEEN_PIN is off"), "{}", off.text);
    }

    #[test]
    fn a_list_pins_in_its_order_and_may_use_every_cpu() {
        let usable = [0, 1, 2, 3];
        let all = list(&[3, 0, 1, 2]);
        assert!(faults(&all, Some(4), &usable).is_empty());
        let every_one = plan(&all, 4, &usable);
        assert_eq!(every_one.pins, [Some(3), Some(0), Some(1), Some(2)]);
        assert!(every_one.engine_cpus.is_empty());
        assert!(every_one.text.ends_with("the engine, which is not pinned"));
        let shorter = plan(&list(&[3, 0]), 2, &usable);
        assert_eq!(shorter.engine_cpus, [1, 2], "what the list does not name");
        let longer = plan(&list(&[3, 0, 2]), 2, &usable);
        assert_eq!(longer.pins, [Some(3), Some(0)]);
        assert_eq!(
            longer.engine_cpus,
            [2],
            "what the list has left, and no other"
        );
        assert_eq!(
            longer.text,
            "2 shards pinned to CPU 3,0, as QUEEN_PIN lists them; the engine gets CPU 2"
        );
    }

    #[test]
    fn every_fault_of_a_list_names_the_usable_cpus() {
        let found = faults(&list(&[0, 7, 8, 2, 0, 2, 2]), Some(5), &[0, 1, 2]);
        assert_eq!(
            found,
            [
                "names CPU 7-8, which the process may not use; it may use 0-2",
                "names CPU 0,2 more than once; each shard needs one of its own, and the process \
                 may use 0-2",
                "names 4 CPUs for 5 shards; the process may use 0-2, and QUEEN_SHARDS sets the \
                 shards",
            ]
        );
        assert!(faults(&list(&[1]), None, &[0, 1]).is_empty());
        assert!(faults(&Pin::Auto, Some(63), &[0]).is_empty());
        assert!(faults(&Pin::Off, Some(63), &[0]).is_empty());
    }
}
