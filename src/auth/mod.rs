//! Who asks: the tenant from the trusted header, the principal and what that one may do from a bearer
//! token. On the core of the connection, which remembers the tokens it has verified. Knows no queues.

mod access;
mod token;
#[cfg(test)]
mod token_vectors;

pub use access::Access;
pub use token::{AuthFault, Authenticator, Principal, TokenSettings, TokenVerifier};

use crate::http::Head;
use crate::model::TenantId;

/// The header that a trusted proxy sets where tenancy is on.
pub const TENANT_HEADER: &str = "x-queen-tenant";

/// Why a request has no tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantFault {
    /// The header is not there.
    #[error("the header x-queen-tenant is required")]
    Missing,
    /// The header is there more than once.
    #[error("the header x-queen-tenant must not be repeated")]
    Repeated,
    /// The header is not a UUID.
    #[error("the header x-queen-tenant must be a UUID")]
    Malformed,
}

/// The tenant of a request. Without tenancy it is [`TenantId::DEFAULT`], whatever the headers say;
/// with it, exactly one header must name a UUID.
pub fn tenant(head: &Head<'_>, tenancy: bool) -> Result<TenantId, TenantFault> {
    if !tenancy {
        return Ok(TenantId::DEFAULT);
    }
    let mut values = head.fields(TENANT_HEADER);
    let value = values.next().ok_or(TenantFault::Missing)?;
    if values.next().is_some() {
        return Err(TenantFault::Repeated);
    }
    std::str::from_utf8(value)
        .ok()
        .and_then(TenantId::parse)
        .ok_or(TenantFault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{FieldSlots, HeadScan, ParsedHead, parse_head};

    fn tenant_of(fields: &str, tenancy: bool) -> Result<TenantId, TenantFault> {
        let bytes = format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        let mut slots = FieldSlots::new();
        match parse_head(bytes.as_bytes(), &mut HeadScan::default(), &mut slots) {
            ParsedHead::Complete { head, .. } => tenant(&head, tenancy),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_tenancy_the_header_is_ignored() {
        for fields in ["", "x-queen-tenant: nonsense\r\n"] {
            assert_eq!(tenant_of(fields, false), Ok(TenantId::DEFAULT));
        }
    }

    #[test]
    fn with_tenancy_one_uuid_is_required() {
        let uuid = "018f4d3e-2b7c-7e0f-9d6e-0a1b2c3d4e5f";
        let field = format!("X-Queen-Tenant:  {uuid} \r\n");
        let expected = TenantId::parse(uuid).unwrap();
        assert_eq!(tenant_of(&field, true), Ok(expected));
        assert_eq!(tenant_of("", true), Err(TenantFault::Missing));
        assert_eq!(
            tenant_of(&field.repeat(2), true),
            Err(TenantFault::Repeated)
        );
        for value in ["", "x", "\u{e9}", "018f4d3e-2b7c-7e0f-9d6e-0a1b2c3d4e5"] {
            let field = format!("x-queen-tenant: {value}\r\n");
            assert_eq!(tenant_of(&field, true), Err(TenantFault::Malformed));
        }
    }
}
