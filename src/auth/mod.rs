//! Who asks: the tenant from the trusted header. Knows no queues.
