//! The options of a durable queue.

use serde::{Deserialize, Serialize};

/// The options of a durable queue, all in force. Names are those of the wire (README "Options of a
/// durable queue"), units last. As JSON under the names of the fields they are stored: a field may be
/// added, and none changes its name or meaning.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct QueueOptions {
    /// `leaseTime`: how long a pop holds what it takes, if it does not say.
    pub lease_s: u32,
    /// `retryLimit`: failures that are charged before a message is given up.
    pub retry_limit: u32,
    /// `retryDelay`: how long the group waits on the partition after a failure; `None`: was never set,
    /// and is echoed as 1,000 without effect.
    pub retry_delay_ms: Option<u32>,
    /// `deadLetterQueue`.
    pub dead_letter_queue: bool,
    /// `dlqAfterMaxRetries`.
    pub dead_letter_after_retries: bool,
    /// `delayedProcessing`: age from which a message is delivered.
    pub delay_s: u32,
    /// `windowBuffer`: how long a partition gathers from its first undelivered message on.
    pub window_s: u32,
    /// `retentionEnabled`: whether the next two have an effect.
    pub retention_enabled: bool,
    /// `retentionSeconds`: age from which what all groups have passed is removed; 0: never.
    pub retention_s: u32,
    /// `completedRetentionSeconds`: the same.
    pub completed_retention_s: u32,
    /// `maxWaitTimeSeconds`: age from which a message is given up, passed or not; 0: never.
    pub max_wait_s: u32,
    /// `encryptionEnabled`.
    pub encryption: bool,
    /// No option of the wire: whether `encryptionEnabled` was set before, so that stored messages may be
    /// encrypted. The database's own: it is read, never written.
    #[serde(skip_serializing)]
    pub was_encrypted: bool,
    /// `dedupWindowSeconds`: how long a transaction id is remembered; 0: not at all.
    pub dedup_window_s: u32,
    /// `minPopWaitTime`: how long a waiting pop gathers, at most 60,000.
    pub min_pop_wait_ms: u32,
    /// `maxSize`: messages that some group has not passed, at most; 0: no bound.
    pub max_size: u64,
    /// `ttl`, echoed without effect.
    pub ttl_s: u32,
    /// `priority`, echoed without effect.
    pub priority: i32,
    /// `retentionSinkHold`, echoed without effect.
    pub sink_hold: Box<str>,
    /// `retentionSinkHoldMaxSeconds`, echoed without effect.
    pub sink_hold_max_s: u32,
}

/// Lease of a queue that was configured without saying.
const LEASE_S: u32 = 300;
/// Lease of a queue that came to be by a push or pop.
const LEASE_IMPLICIT_S: u32 = 60;

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions {
            lease_s: LEASE_S,
            retry_limit: 3,
            retry_delay_ms: None,
            dead_letter_queue: true,
            dead_letter_after_retries: true,
            delay_s: 0,
            window_s: 0,
            retention_enabled: false,
            retention_s: 0,
            completed_retention_s: 0,
            max_wait_s: 0,
            encryption: false,
            was_encrypted: false,
            dedup_window_s: 3_600,
            min_pop_wait_ms: 0,
            max_size: 0,
            ttl_s: 3_600,
            priority: 0,
            sink_hold: "".into(),
            sink_hold_max_s: 604_800,
        }
    }
}

impl QueueOptions {
    /// Those of a queue that came to be by a push.
    pub fn implicit() -> QueueOptions {
        QueueOptions {
            lease_s: LEASE_IMPLICIT_S,
            ..QueueOptions::default()
        }
    }

    /// Whether stored messages may be encrypted.
    pub fn may_hold_encrypted(&self) -> bool {
        self.encryption || self.was_encrypted
    }

    /// Whether a message that is given up is kept as a dead letter.
    pub fn keeps_dead_letters(&self) -> bool {
        self.dead_letter_queue || self.dead_letter_after_retries
    }
}

/// One option that a configure names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OptionChange<T> {
    /// Not named: the stored value is kept.
    #[default]
    Keep,
    /// `null`: back to its default.
    Reset,
    /// A value.
    Set(T),
}

/// What a configure changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionChanges {
    /// `leaseTime`.
    pub lease_s: OptionChange<u32>,
    /// `retryLimit`.
    pub retry_limit: OptionChange<u32>,
    /// `retryDelay`.
    pub retry_delay_ms: OptionChange<u32>,
    /// `deadLetterQueue`.
    pub dead_letter_queue: OptionChange<bool>,
    /// `dlqAfterMaxRetries`.
    pub dead_letter_after_retries: OptionChange<bool>,
    /// `delayedProcessing`.
    pub delay_s: OptionChange<u32>,
    /// `windowBuffer`.
    pub window_s: OptionChange<u32>,
    /// `retentionEnabled`.
    pub retention_enabled: OptionChange<bool>,
    /// `retentionSeconds`.
    pub retention_s: OptionChange<u32>,
    /// `completedRetentionSeconds`.
    pub completed_retention_s: OptionChange<u32>,
    /// `maxWaitTimeSeconds`.
    pub max_wait_s: OptionChange<u32>,
    /// `encryptionEnabled`.
    pub encryption: OptionChange<bool>,
    /// `dedupWindowSeconds`.
    pub dedup_window_s: OptionChange<u32>,
    /// `minPopWaitTime`.
    pub min_pop_wait_ms: OptionChange<u32>,
    /// `maxSize`.
    pub max_size: OptionChange<u64>,
    /// `ttl`.
    pub ttl_s: OptionChange<u32>,
    /// `priority`.
    pub priority: OptionChange<i32>,
    /// `retentionSinkHold`.
    pub sink_hold: OptionChange<Box<str>>,
    /// `retentionSinkHoldMaxSeconds`.
    pub sink_hold_max_s: OptionChange<u32>,
    /// `namespace`; its default is the name's part before the first dot.
    pub namespace: OptionChange<Box<str>>,
    /// `task`; its default is the name's part between the first dot and the second.
    pub task: OptionChange<Box<str>>,
}

impl OptionChanges {
    /// The options with the changes made.
    pub fn applied_to(&self, stored: &QueueOptions) -> QueueOptions {
        let default = QueueOptions::default();
        QueueOptions {
            lease_s: one(&self.lease_s, &stored.lease_s, &default.lease_s),
            retry_limit: one(&self.retry_limit, &stored.retry_limit, &default.retry_limit),
            retry_delay_ms: match self.retry_delay_ms {
                OptionChange::Keep => stored.retry_delay_ms,
                OptionChange::Reset => default.retry_delay_ms,
                OptionChange::Set(value) => Some(value),
            },
            dead_letter_queue: one(
                &self.dead_letter_queue,
                &stored.dead_letter_queue,
                &default.dead_letter_queue,
            ),
            dead_letter_after_retries: one(
                &self.dead_letter_after_retries,
                &stored.dead_letter_after_retries,
                &default.dead_letter_after_retries,
            ),
            delay_s: one(&self.delay_s, &stored.delay_s, &default.delay_s),
            window_s: one(&self.window_s, &stored.window_s, &default.window_s),
            retention_enabled: one(
                &self.retention_enabled,
                &stored.retention_enabled,
                &default.retention_enabled,
            ),
            retention_s: one(&self.retention_s, &stored.retention_s, &default.retention_s),
            completed_retention_s: one(
                &self.completed_retention_s,
                &stored.completed_retention_s,
                &default.completed_retention_s,
            ),
            max_wait_s: one(&self.max_wait_s, &stored.max_wait_s, &default.max_wait_s),
            encryption: one(&self.encryption, &stored.encryption, &default.encryption),
            was_encrypted: stored.was_encrypted,
            dedup_window_s: one(
                &self.dedup_window_s,
                &stored.dedup_window_s,
                &default.dedup_window_s,
            ),
            min_pop_wait_ms: one(
                &self.min_pop_wait_ms,
                &stored.min_pop_wait_ms,
                &default.min_pop_wait_ms,
            ),
            max_size: one(&self.max_size, &stored.max_size, &default.max_size),
            ttl_s: one(&self.ttl_s, &stored.ttl_s, &default.ttl_s),
            priority: one(&self.priority, &stored.priority, &default.priority),
            sink_hold: one(&self.sink_hold, &stored.sink_hold, &default.sink_hold),
            sink_hold_max_s: one(
                &self.sink_hold_max_s,
                &stored.sink_hold_max_s,
                &default.sink_hold_max_s,
            ),
        }
    }
}

fn one<T: Clone>(change: &OptionChange<T>, stored: &T, default: &T) -> T {
    match change {
        OptionChange::Keep => stored.clone(),
        OptionChange::Reset => default.clone(),
        OptionChange::Set(value) => value.clone(),
    }
}
