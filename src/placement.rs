//! Which shard owns a partition: a pure function of (tenant, queue, partition), the same on every
//! core and in every process. Knows `model` only.

use crate::model::TenantId;

/// The shard that owns the ring of (`tenant`, `queue`, `partition`), in `0..shards`.
///
/// FNV-1a over the three names, length-prefixed so that no two keys run together, then a
/// multiply-shift instead of a division.
pub fn owner(tenant: TenantId, queue: &str, partition: &str, shards: u16) -> u16 {
    assert!(shards > 0);
    if shards == 1 {
        return 0;
    }
    let mut hash = Fnv::default();
    hash.write(&tenant.as_u128().to_le_bytes());
    hash.write(&(queue.len() as u64).to_le_bytes());
    hash.write(queue.as_bytes());
    hash.write(partition.as_bytes());
    let mixed = (hash.0 ^ (hash.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * u128::from(shards)) >> 64) as u16
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shard_owns_everything() {
        assert_eq!(owner(TenantId::DEFAULT, "q", "p", 1), 0);
    }

    #[test]
    fn owners_are_spread_and_stable() {
        let mut counts = [0_u32; 4];
        for number in 0..4_000 {
            let queue = format!("reply/{number}");
            let shard = owner(TenantId::DEFAULT, &queue, "Default", 4);
            assert_eq!(shard, owner(TenantId::DEFAULT, &queue, "Default", 4));
            counts[usize::from(shard)] += 1;
        }
        assert!(
            counts.iter().all(|&count| (800..1_200).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn names_do_not_run_together() {
        let shards = 1_024;
        let pairs = (0..64).filter(|number| {
            let left = owner(TenantId::DEFAULT, "ab", &format!("c{number}"), shards);
            left == owner(TenantId::DEFAULT, "a", &format!("bc{number}"), shards)
        });
        assert!(pairs.count() < 8);
    }
}
