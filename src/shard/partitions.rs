//! The rings that one shard has of one queue, by partition. An inbox has one: it needs no table.

use std::sync::Arc;

use hashbrown::HashMap;

#[derive(Debug, Default)]
pub(super) enum Partitions {
    #[default]
    None,
    One(Arc<str>, u32),
    /// Two once, at least.
    Many(Box<HashMap<Arc<str>, u32>>),
}

impl Partitions {
    pub(super) fn len(&self) -> usize {
        match self {
            Partitions::None => 0,
            Partitions::One(..) => 1,
            Partitions::Many(rings) => rings.len(),
        }
    }

    pub(super) fn get(&self, partition: &str) -> Option<u32> {
        match self {
            Partitions::None => None,
            Partitions::One(known, ring) => (&**known == partition).then_some(*ring),
            Partitions::Many(rings) => rings.get(partition).copied(),
        }
    }

    /// The ring, if it is the only one.
    pub(super) fn only(&self) -> Option<u32> {
        match self {
            Partitions::One(_, ring) => Some(*ring),
            Partitions::Many(rings) if rings.len() == 1 => rings.values().next().copied(),
            Partitions::None | Partitions::Many(_) => None,
        }
    }

    /// Enters the ring of a partition that has none.
    pub(super) fn insert(&mut self, partition: Arc<str>, ring: u32) {
        *self = match std::mem::take(self) {
            Partitions::None => Partitions::One(partition, ring),
            Partitions::One(first, its) => {
                assert!(first != partition, "a partition has one ring");
                Partitions::Many(Box::new([(first, its), (partition, ring)].into()))
            }
            Partitions::Many(mut rings) => {
                let before = rings.insert(partition, ring);
                assert!(before.is_none(), "a partition has one ring");
                Partitions::Many(rings)
            }
        };
    }

    pub(super) fn remove(&mut self, partition: &str) {
        match self {
            Partitions::Many(rings) => {
                rings.remove(partition);
                if rings.is_empty() {
                    *self = Partitions::None;
                } else if rings.len() * 8 < rings.capacity() {
                    rings.shrink_to(rings.len() * 2);
                }
            }
            Partitions::One(known, _) if &**known == partition => *self = Partitions::None,
            Partitions::One(..) | Partitions::None => {}
        }
    }

    /// All rings, in no order.
    pub(super) fn rings(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Partitions::None => (None, None),
            Partitions::One(_, ring) => (Some(*ring), None),
            Partitions::Many(rings) => (None, Some(rings.values().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_found_until_it_is_removed() {
        let mut partitions = Partitions::default();
        for ring in 0..5 {
            partitions.insert(ring.to_string().into(), ring);
            assert_eq!(partitions.len(), ring as usize + 1);
            assert_eq!(partitions.only(), (ring == 0).then_some(0));
        }
        let mut rings: Vec<u32> = partitions.rings().collect();
        rings.sort_unstable();
        assert_eq!(rings, [0, 1, 2, 3, 4]);
        partitions.remove("other");
        for ring in (0..5).rev() {
            assert_eq!(partitions.get(&ring.to_string()), Some(ring));
            partitions.remove(&ring.to_string());
            assert_eq!(partitions.get(&ring.to_string()), None);
            assert_eq!(partitions.only(), (ring == 1).then_some(0));
        }
        assert!(matches!(partitions, Partitions::None));
    }
}
