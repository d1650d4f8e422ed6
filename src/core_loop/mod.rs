//! Where everything meets: one turn of a shard core.
