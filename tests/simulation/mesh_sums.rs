//! Sums that must agree when everything that was sent has arrived.

use std::collections::BTreeMap;

use queen::model::TenantId;
use queen::shard::Statistics;

use crate::mesh_world::World;
use crate::model::ensure;

type Checked = Result<(), String>;

impl World {
    /// What is counted for the broker and its tenants is what their queues count.
    pub(crate) fn check_sums(&self) -> Checked {
        let (mut bytes, mut cursors) = (0, 0);
        let mut tenants: BTreeMap<TenantId, (u64, u64)> = BTreeMap::new();
        for &(tenant, name) in self.lives.names.keys() {
            if let Some(cell) = self.mesh.directory.peek(tenant, name) {
                bytes += cell.bytes();
                cursors += cell.partitions() * u64::from(cell.group_version());
                let sum = tenants.entry(tenant).or_default();
                *sum = (sum.0 + cell.bytes(), cell.tenant().budget().used());
            }
        }
        // A push that waits for room keeps what the tenant and the broker have reserved for it.
        for core in &self.mesh.cores {
            for (tenant, waiting) in core.shard().waiting_bytes() {
                bytes += waiting;
                let cell = self.mesh.directory.tenant(tenant).expect("few tenants");
                let sum = tenants.entry(tenant).or_default();
                *sum = (sum.0 + waiting, cell.budget().used());
            }
        }
        let directory = &self.mesh.directory;
        let counted = (directory.broker().used(), directory.cursors() as u64);
        ensure!(
            counted == (bytes, cursors),
            "the broker counts {counted:?} bytes and cursors and not {bytes} and {cursors}"
        );
        for (tenant, (bytes, used)) in tenants {
            ensure!(
                used == bytes,
                "{tenant} counts {used} bytes and not {bytes}"
            );
        }
        Ok(())
    }

    /// What the cores count together is what clients were told.
    pub(crate) fn check_statistics(&self) -> Checked {
        let mut told = Statistics::default();
        for core in &self.mesh.cores {
            let of_core = core.statistics();
            told.pushed += of_core.pushed;
            told.popped += of_core.popped;
            told.acked += of_core.acked;
            told.dropped.bounds += of_core.dropped.bounds;
            told.dropped.ttl += of_core.dropped.ttl;
            told.dropped.retry += of_core.dropped.retry;
        }
        let mut known = self.ledger.statistics();
        for drops in self.lives.names.values().map(|named| named.drops()) {
            known.dropped.bounds += drops.bounds;
            known.dropped.ttl += drops.ttl;
            known.dropped.retry += drops.retry;
        }
        let untold = self.ledger.untold();
        ensure!(
            (known.acked..=known.acked + untold).contains(&told.acked),
            "{} acks are counted, {} and {untold} are known",
            told.acked,
            known.acked
        );
        known.acked = told.acked;
        ensure!(told == known, "counted {told:?} and not {known:?}");
        Ok(())
    }
}
