//! Tenants.

use std::fmt;

use uuid::Uuid;

/// A tenant, named by a UUID. Without tenancy every request is of [`TenantId::DEFAULT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(u128);

impl TenantId {
    /// The tenant of every request while tenancy is off.
    pub const DEFAULT: TenantId = TenantId(1);

    /// Reads a UUID in any of its textual forms; `None` if it is not one.
    pub fn parse(text: &str) -> Option<TenantId> {
        Uuid::try_parse(text)
            .ok()
            .map(|uuid| TenantId(uuid.as_u128()))
    }

    /// The tenant that has these 128 bits as its UUID.
    pub const fn from_u128(bits: u128) -> TenantId {
        TenantId(bits)
    }

    /// The UUID's 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).fmt(formatter)
    }
}
