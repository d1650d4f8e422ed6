//! Sets of cores.

/// The cores of a set, a bit each, in order.
pub fn cores_of(mut set: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let core = set.trailing_zeros() as u16;
        set &= set.checked_sub(1)?;
        Some(core)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_core_belong_to_a_set_as_well() {
        assert_eq!(cores_of(0).count(), 0);
        assert!(cores_of(1 << 63 | 0b101).eq([0, 2, 63]));
    }
}
