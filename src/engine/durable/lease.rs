//! Ids of leases. One says which group it is of, so that who holds nothing but the id finds the lease in
//! the database without an index of all of them, which would make each pop and each ack a third dearer.

use uuid::Uuid;

/// Bits of a group's id that go into one.
const GROUP_BITS: u32 = 60;

/// Says that it is of a discovery, which may hold places of several queues: of the groups of the same
/// name and tenant.
const WIDE: u128 = 1 << 61;

/// Where a lease is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// The group, or one of them.
    pub(super) group_id: i64,
    /// Whether it may hold places of other groups of that name, too.
    pub(super) is_wide: bool,
}

/// A new id. The rest of it is chance: 61 bits.
pub(super) fn new_lease_id(home: Home) -> Uuid {
    let group = u128::try_from(home.group_id).expect("ids are counted from 1");
    assert!(group >> GROUP_BITS == 0, "nobody has made so many groups");
    let (high, low) = (group >> 12, group & 0xFFF);
    let chance = Uuid::new_v4().as_u128() & (WIDE - 1);
    let wide = if home.is_wide { WIDE } else { 0 };
    // Version 8, whose bits are the maker's own, and the variant of all versions.
    Uuid::from_u128(high << 80 | 8 << 76 | low << 64 | 2 << 62 | wide | chance)
}

/// What an id says; `None`: it is no lease's.
pub(super) fn home_of(lease_id: Uuid) -> Option<Home> {
    let bits = lease_id.as_u128();
    if bits >> 76 & 0xF != 8 || bits >> 62 & 3 != 2 {
        return None;
    }
    let group = bits >> 80 << 12 | bits >> 64 & 0xFFF;
    Some(Home {
        group_id: i64::try_from(group).expect("60 bits"),
        is_wide: bits & WIDE != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_where_it_is_and_is_another_one_each_time() {
        for group_id in [1, 0xFFF, 0x1000, 123_456_789_012, (1 << GROUP_BITS) - 1] {
            for is_wide in [false, true] {
                let home = Home { group_id, is_wide };
                let (first, second) = (new_lease_id(home), new_lease_id(home));
                assert_ne!(first, second);
                assert_eq!((home_of(first), home_of(second)), (Some(home), Some(home)));
                assert_eq!(first.get_version_num(), 8);
                assert_eq!(first.get_variant(), uuid::Variant::RFC4122);
            }
        }
    }

    #[test]
    fn other_ids_are_nobodys() {
        for other in [Uuid::nil(), Uuid::max(), Uuid::new_v4(), Uuid::now_v7()] {
            assert_eq!(home_of(other), None, "{other}");
        }
    }
}
