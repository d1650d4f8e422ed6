//! What a request needs and what a token grants, in the same words.

/// A level of access. They are ordered by what they include: every level includes [`Access::Authenticated`],
/// [`Access::ReadWrite`] includes reading and writing, [`Access::Admin`] includes all. Reading and
/// writing do not include each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A token that holds, whatever its roles.
    Authenticated,
    /// To look at what is there, and to take from ephemeral queues.
    Read,
    /// To push.
    Write,
    /// All but what [`Access::Admin`] alone may.
    ReadWrite,
    /// To delete durable queues and groups, and to operate the broker.
    Admin,
}

impl Access {
    /// The least level that includes both: what two roles grant together, or what a request needs
    /// that needs both.
    pub fn join(self, other: Access) -> Access {
        match (self, other) {
            (Access::Authenticated, level) | (level, Access::Authenticated) => level,
            (Access::Admin, _) | (_, Access::Admin) => Access::Admin,
            (level, same) if level == same => level,
            _ => Access::ReadWrite,
        }
    }

    /// Whether who has this level may do what needs the other one.
    pub fn includes(self, needed: Access) -> bool {
        self.join(needed) == self
    }

    /// The level as a role of a token names it, and an error text.
    pub fn name(self) -> &'static str {
        match self {
            Access::Authenticated => "none",
            Access::Read => "read-only",
            Access::Write => "write-only",
            Access::ReadWrite => "read-write",
            Access::Admin => "admin",
        }
    }

    /// What a role of a token grants; one that is not known grants nothing.
    pub fn of_role(role: &str) -> Access {
        let known = [
            Access::Read,
            Access::Write,
            Access::ReadWrite,
            Access::Admin,
        ];
        let named = known.into_iter().find(|level| level.name() == role);
        named.unwrap_or(Access::Authenticated)
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Admin, Authenticated, Read, ReadWrite, Write};
    use super::*;

    const LEVELS: [Access; 5] = [Authenticated, Read, Write, ReadWrite, Admin];

    #[test]
    fn each_level_includes_what_it_should() {
        for (level, included) in [
            (Authenticated, vec![Authenticated]),
            (Read, vec![Authenticated, Read]),
            (Write, vec![Authenticated, Write]),
            (ReadWrite, vec![Authenticated, Read, Write, ReadWrite]),
            (Admin, LEVELS.to_vec()),
        ] {
            for needed in LEVELS {
                let includes = level.includes(needed);
                assert_eq!(includes, included.contains(&needed), "{level:?} {needed:?}");
            }
        }
    }

    #[test]
    fn both_together_need_the_least_that_includes_both() {
        for one in LEVELS {
            for other in LEVELS {
                let both = one.join(other);
                assert_eq!(both, other.join(one));
                assert!(both.includes(one) && both.includes(other));
                for level in LEVELS {
                    let includes = level.includes(one) && level.includes(other);
                    assert_eq!(
                        level.includes(both),
                        includes,
                        "{level:?}: {one:?} {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_role_is_the_name_of_a_level() {
        for level in LEVELS {
            assert_eq!(Access::of_role(level.name()), level);
        }
        assert_eq!(Access::of_role("Admin"), Authenticated);
        assert_eq!(Access::of_role(""), Authenticated);
    }
}
