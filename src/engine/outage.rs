//! Pushes while PostgreSQL does not answer: accepted into the spool, and stored when it is back, in the
//! order in which they were accepted. As long as one is left, later pushes go the same way, so that none
//! overtakes another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hashbrown::HashMap;
use uuid::Uuid;

use super::seal::{Place, Seal};
use super::spool::{Entry, Spool, SpoolFault};
use crate::limits::{SPOOL_LOCK_MS, SPOOL_READ_BYTES, SPOOL_READ_ENTRIES};
use crate::model::TenantId;
use crate::model::durable::{PushItem, PushOutcome, PushStatus, Record, Reply};
use crate::postgres::durable::SpoolStep;

/// Where pushes are spooled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolPlan {
    /// The folder, this broker's own.
    pub folder: PathBuf,
    /// Bytes that it may hold.
    pub bytes_max: u64,
}

/// Pushes of one request that cannot be stored now.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) tenant: TenantId,
    pub(super) items: Vec<PushItem>,
    /// Whether they may be stored already.
    pub(super) uncertain: bool,
}

/// A message as a client names it.
type Key = (TenantId, Box<str>, Box<str>, Box<str>);

/// What is spooled.
#[derive(Debug)]
pub(super) struct Outage {
    plan: SpoolPlan,
    /// Encrypts what is spooled, of all queues: what their options are cannot be asked now.
    seal: Seal,
    spool: Option<Spool>,
    /// Up to which number everything is stored; `None`: the database has to be asked.
    stored: Option<u64>,
    /// The messages that wait, so that a repeated push is recognised.
    known: HashMap<Key, Uuid>,
    /// Why they still wait, as it was logged last.
    complaint: Option<String>,
}

impl Outage {
    /// Nothing is opened before it is needed, but what an earlier run has left: see
    /// [`Outage::take_over`].
    pub(super) fn new(plan: SpoolPlan, seal: Seal) -> Outage {
        Outage {
            plan,
            seal,
            spool: None,
            stored: None,
            known: HashMap::new(),
            complaint: None,
        }
    }

    /// Opens what an earlier run has left.
    pub(super) fn take_over(&mut self) {
        self.take_over_within(Duration::from_millis(SPOOL_LOCK_MS));
    }

    /// Tries again, where another broker had it or the disk failed: what is in there waits.
    pub(super) fn take_over_late(&mut self) {
        if self.spool.is_none() {
            self.take_over_within(Duration::ZERO);
        }
    }

    fn take_over_within(&mut self, patience: Duration) {
        if !self.plan.folder.is_dir() {
            return;
        }
        if let Err(fault) = self.open_within(patience) {
            let text = fault.to_string();
            if self.complaint.as_ref() != Some(&text) {
                tracing::error!(folder = %self.plan.folder.display(), "{text}");
                self.complaint = Some(text);
            }
        }
    }

    fn open(&mut self) -> Result<&mut Spool, SpoolFault> {
        self.open_within(Duration::from_millis(SPOOL_LOCK_MS))
    }

    fn open_within(&mut self, patience: Duration) -> Result<&mut Spool, SpoolFault> {
        if self.spool.is_none() {
            let spool = Spool::open(&self.plan.folder, self.plan.bytes_max, patience)?;
            let mut next = 0;
            loop {
                let step = spool.read(next, SPOOL_READ_ENTRIES, SPOOL_READ_BYTES)?;
                let Some(&(last, _)) = step.last() else {
                    break;
                };
                next = last + 1;
                for (_, entry) in step {
                    self.known.insert(key_of(&entry), entry.record.message_id);
                }
            }
            self.spool = Some(spool);
        }
        Ok(self.spool.as_mut().expect("it was just opened"))
    }

    /// Whether pushes wait to be stored, or the database has to be asked whether they do.
    pub(super) fn has_waiting(&self) -> bool {
        let Some(spool) = &self.spool else {
            return false;
        };
        match self.stored {
            None => spool.next() > 0,
            // What is no longer in the spool was stored by a database: not by this one, if it knows of
            // less. Were more stored than there is, what is spooled next would be taken for stored.
            Some(stored) => stored.max(spool.first()) != spool.next(),
        }
    }

    /// Pushes that wait to be stored, and the bytes of the spool.
    pub(super) fn size(&self) -> (u64, u64) {
        let bytes = self.spool.as_ref().map_or(0, Spool::bytes);
        (self.known.len() as u64, bytes)
    }

    /// The spool's own name, where it has something that is to be stored.
    pub(super) fn identity(&self) -> Option<Uuid> {
        self.spool.as_ref().map(Spool::identity)
    }

    /// The database says up to which number everything is stored. What lies before it and was not removed,
    /// because the broker was killed, waits no more.
    pub(super) fn set_stored(&mut self, stored: u64) -> Result<(), SpoolFault> {
        if self.stored.replace(stored) == Some(stored) {
            return Ok(());
        }
        let Some(spool) = &mut self.spool else {
            return Ok(());
        };
        if stored > spool.next() {
            return Ok(());
        }
        let mut next = spool.first();
        while next < stored {
            let step = spool.read(next, SPOOL_READ_ENTRIES, SPOOL_READ_BYTES)?;
            let Some(&(last, _)) = step.last() else {
                break;
            };
            next = last + 1;
            for (_, entry) in step.iter().filter(|(number, _)| *number < stored) {
                let key = key_of(entry);
                // A later one of the same name may wait still.
                if self.known.get(&key) == Some(&entry.record.message_id) {
                    self.known.remove(&key);
                }
            }
        }
        Ok(spool.remove_before(stored)?)
    }

    /// The database has to be asked: the last answer may have been lost.
    pub(super) fn forget_stored(&mut self) {
        self.stored = None;
    }

    /// Up to which number everything is stored, as far as that is known.
    pub(super) fn stored(&self) -> Option<u64> {
        self.stored
    }

    /// Accepts pushes, all of them with one wait for the disk; what does not fit is refused, request by
    /// request.
    pub(super) fn accept(&mut self, late: &[Late]) -> Vec<Result<Reply, String>> {
        // What waits is known once it is open.
        if let Err(fault) = self.open() {
            return late.iter().map(|_| Err(fault.to_string())).collect();
        }
        let now_us = wall_us();
        let mut fresh = HashMap::new();
        let parts: Vec<(Vec<Entry>, Reply)> = late
            .iter()
            .map(|one| self.entries_of(one, now_us, &mut fresh))
            .collect();
        let all: Vec<Entry> = parts
            .iter()
            .flat_map(|(entries, _)| entries.clone())
            .collect();
        match self.append(&all) {
            Ok(()) => parts.into_iter().map(|(_, reply)| Ok(reply)).collect(),
            // What one repeats of another one that does not fit is its own.
            Err(_) if late.len() > 1 => late.chunks(1).flat_map(|one| self.accept(one)).collect(),
            Err(fault) => late.iter().map(|_| Err(fault.to_string())).collect(),
        }
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), SpoolFault> {
        if entries.is_empty() {
            return Ok(());
        }
        let seal = self.seal.clone();
        let stored = self.stored;
        let spool = self.open()?;
        // It would be taken for stored once the numbers have come so far.
        if let Some(stored) = stored.filter(|stored| *stored > spool.next()) {
            return Err(SpoolFault::Behind { stored });
        }
        let numbered = (spool.next()..).zip(entries);
        let sealed: Vec<Entry> = numbered
            .map(|(number, entry)| Entry {
                record: seal.close(
                    place_of(spool.identity(), number, entry),
                    entry.record.clone(),
                ),
                ..entry.clone()
            })
            .collect();
        spool.append(&sealed)?;
        for entry in entries {
            self.known.insert(key_of(entry), entry.record.message_id);
        }
        Ok(())
    }

    /// What is to be spooled of a request, and its answer.
    fn entries_of(
        &self,
        late: &Late,
        now_us: i64,
        fresh: &mut HashMap<Key, Uuid>,
    ) -> (Vec<Entry>, Reply) {
        let mut entries = Vec::new();
        let mut outcomes = Vec::with_capacity(late.items.len());
        for item in &late.items {
            let entry = entry_of(late, item, now_us);
            let key = key_of(&entry);
            let known = self.known.get(&key).or_else(|| fresh.get(&key)).copied();
            outcomes.push(PushOutcome {
                queue: Arc::from(&*item.queue),
                message_id: known.unwrap_or(item.message_id),
                transaction_id: item.transaction_id.clone(),
                status: match known {
                    Some(_) => PushStatus::BufferedBefore,
                    None => PushStatus::Buffered,
                },
            });
            if known.is_none() {
                fresh.insert(key, item.message_id);
                entries.push(entry);
            }
        }
        (entries, Reply::Pushed(outcomes))
    }

    /// The next pushes to be stored, and the step that says so. What cannot be decrypted waits, and what
    /// is behind it: nothing overtakes it.
    pub(super) fn next(&self) -> Result<Option<(Vec<Entry>, SpoolStep)>, SpoolFault> {
        let (Some(spool), Some(stored)) = (&self.spool, self.stored) else {
            return Ok(None);
        };
        let mut entries = Vec::new();
        let mut next = stored;
        for (number, entry) in spool.read(stored, SPOOL_READ_ENTRIES, SPOOL_READ_BYTES)? {
            let place = place_of(spool.identity(), number, &entry);
            match self.seal.open(place, entry.record.clone()) {
                Ok(record) => entries.push(Entry { record, ..entry }),
                Err(_) if !entries.is_empty() => break,
                Err(why) => {
                    let text = why.text();
                    return Err(SpoolFault::Unopened { number, text });
                }
            }
            next = number + 1;
        }
        let step = SpoolStep {
            identity: spool.identity(),
            from: signed(stored),
            to: signed(next),
        };
        Ok((!entries.is_empty()).then_some((entries, step)))
    }

    /// Logs why they wait, once for each reason: it is tried over and over.
    pub(super) fn complain(&mut self, reason: String) {
        if self.complaint.as_ref() != Some(&reason) {
            tracing::warn!("spooled pushes are not stored yet: {reason}");
            self.complaint = Some(reason);
        }
    }

    /// Pushes are stored.
    pub(super) fn settle(&mut self, entries: &[Entry], step: &SpoolStep) -> Result<(), SpoolFault> {
        for entry in entries {
            self.known.remove(&key_of(entry));
        }
        self.complaint = None;
        let stored = u64::try_from(step.to).expect("numbers count up from 0");
        self.stored = Some(stored);
        if let Some(spool) = &mut self.spool {
            spool.remove_before(stored)?;
        }
        Ok(())
    }
}

fn place_of(identity: Uuid, number: u64, entry: &Entry) -> Place<'_> {
    Place::Spooled {
        identity,
        number,
        tenant: entry.tenant,
        names: [&entry.queue, &entry.partition],
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("no spool holds that many")
}

fn key_of(entry: &Entry) -> Key {
    let transaction_id = String::from_utf8_lossy(&entry.record.transaction_id);
    (
        entry.tenant,
        entry.queue.clone(),
        entry.partition.clone(),
        transaction_id.into(),
    )
}

fn entry_of(late: &Late, item: &PushItem, now_us: i64) -> Entry {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Entry {
        tenant: late.tenant,
        queue: item.queue.clone(),
        partition: item.partition.clone(),
        uncertain: late.uncertain,
        record: Record {
            message_id: item.message_id,
            transaction_id: bytes(&item.transaction_id),
            created_us: now_us,
            trace_id: item.trace_id,
            producer: item.producer.as_deref().map(bytes),
            encrypted: false,
            payload: item.payload.clone(),
        },
    }
}

/// The machine's own time: the database's cannot be asked.
fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::spool::test::Folder;

    /// Its outage, with what an earlier run has left.
    fn outage(folder: &Folder) -> Outage {
        let plan = SpoolPlan {
            folder: folder.to_path_buf(),
            bytes_max: 1 << 20,
        };
        let mut outage = Outage::new(plan, Seal::default());
        outage.take_over();
        outage
    }

    fn late(payload_bytes: usize) -> Late {
        Late {
            tenant: TenantId::DEFAULT,
            items: vec![PushItem {
                queue: "orders".into(),
                partition: "p".into(),
                transaction_id: "t".into(),
                message_id: Uuid::from_u128(payload_bytes as u128),
                payload: vec![b'1'; payload_bytes].into(),
                trace_id: None,
                producer: None,
            }],
            uncertain: false,
        }
    }

    #[test]
    fn what_repeats_a_push_that_does_not_fit_is_spooled_itself() {
        let folder = Folder::new();
        let mut outage = outage(&folder);
        let accepted = outage.accept(&[late(2 << 20), late(10)]);
        assert!(accepted[0].is_err(), "{accepted:?}");
        let Ok(Reply::Pushed(outcomes)) = &accepted[1] else {
            panic!("{accepted:?}");
        };
        assert_eq!(outcomes[0].status, PushStatus::Buffered);
        assert_eq!(outcomes[0].message_id, Uuid::from_u128(10));
        assert_eq!(outage.size().0, 1);
    }

    /// Stores the next pushes, which are these, as the database would.
    #[track_caller]
    fn store(outage: &mut Outage, ids: &[u128], from: i64, to: i64) {
        let (entries, step) = outage.next().expect("it reads").expect("some wait");
        let found: Vec<u128> = entries
            .iter()
            .map(|entry| entry.record.message_id.as_u128())
            .collect();
        assert_eq!((&*found, step.from, step.to), (ids, from, to));
        outage.settle(&entries, &step).expect("it is written");
        assert!(!outage.has_waiting());
    }

    #[test]
    fn what_another_database_has_stored_does_not_wait_for_this_one() {
        let folder = Folder::new();
        let mut one = outage(&folder);
        assert!(one.accept(&[late(10)])[0].is_ok());
        one.set_stored(0).expect("it reads");
        assert!(one.has_waiting());
        store(&mut one, &[10], 0, 1);
        drop(one);
        let mut other = outage(&folder);
        assert!(other.has_waiting(), "the database has not been asked");
        other.set_stored(0).expect("it reads");
        assert!(!other.has_waiting());
        // What is spooled from now on is stored, and noted as following what the database knows.
        assert!(other.accept(&[late(11)])[0].is_ok());
        assert!(other.has_waiting());
        store(&mut other, &[11], 0, 2);
    }

    #[test]
    fn a_database_that_knows_of_more_than_the_spool_had_is_not_trusted() {
        let folder = Folder::new();
        let mut outage = outage(&folder);
        assert!(outage.accept(&[late(10)])[0].is_ok());
        outage.set_stored(3).expect("it reads");
        assert!(outage.has_waiting());
        // Were more accepted, all would be taken for stored once there are so many.
        for number in 11..14 {
            let mut other = late(number);
            other.items[0].transaction_id = number.to_string().into();
            assert!(outage.accept(&[other])[0].is_err());
        }
        assert!(outage.has_waiting());
    }

    #[test]
    fn a_folder_that_another_broker_had_is_taken_over_once_it_is_free() {
        let folder = Folder::new();
        let mut before = outage(&folder);
        assert!(before.accept(&[late(10)])[0].is_ok());
        let mut behind = Outage::new(before.plan.clone(), before.seal.clone());
        behind.take_over_late();
        assert!(!behind.has_waiting());
        drop(before);
        behind.take_over_late();
        assert!(behind.has_waiting());
        assert_eq!(behind.size().0, 1);
    }

    #[test]
    fn what_is_stored_but_was_not_removed_does_not_wait() {
        let folder = Folder::new();
        let mut broker = outage(&folder);
        assert!(broker.accept(&[late(10)])[0].is_ok());
        let mut second = late(11);
        second.items[0].transaction_id = "u".into();
        assert!(broker.accept(&[second])[0].is_ok());
        drop(broker);
        let mut broker = outage(&folder);
        assert_eq!(broker.size().0, 2);
        broker.set_stored(1).expect("it reads");
        assert_eq!(broker.size().0, 1);
        drop(broker);
        let mut broker = outage(&folder);
        broker.set_stored(2).expect("it reads");
        assert!(!broker.has_waiting());
        assert_eq!(broker.size().0, 0);
        let bytes = broker.size().1;
        assert!(bytes < 50, "{bytes} bytes are left");
    }
}
