//! Dead letters that are pushed once more: a push like any other, with which the dead letter goes.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Judge, Judged, new_id};
use crate::engine::durable::draft::Answer;
use crate::engine::durable::image::QueueSlot;
use crate::engine::seal::Place;
use crate::model::durable::{
    Administer, Administered, LetterFilter, PushStatus, Record, Replay, Replayed, Reply, Unopened,
    is_whole, records, replayed_id,
};
use crate::model::{Refusal, TenantId};
use crate::postgres::durable::{LetterRow, Letters, LettersWanted};

impl Judge<'_> {
    /// Judges what an operator asks that pushes something.
    pub(super) fn administer(&mut self, tenant: TenantId, asked: &Administer) -> Judged<Answer> {
        let answer = match asked {
            Administer::Replay(asked) => self.replay(tenant, asked)?,
            Administer::ReplayLetters(filter) => self.replay_meant(tenant, filter)?,
            Administer::DeleteGroup(_)
            | Administer::Seek(_)
            | Administer::Subscribe(_)
            | Administer::DiscardLetter(_)
            | Administer::DiscardLetters(_)
            | Administer::RecordTrace(_) => unreachable!("carried out one by one"),
        };
        Ok(match answer {
            Ok(answer) => Answer::Reply(Reply::Administered(Box::new(answer))),
            Err(refusal) => Answer::Refused(refusal),
        })
    }

    fn replay(
        &mut self,
        tenant: TenantId,
        asked: &Replay,
    ) -> Judged<Result<Administered, Refusal>> {
        let (wanted, queue, partition) = match asked {
            Replay::Newest(address) => (Some(LettersWanted::Newest(address)), None, None),
            Replay::One {
                letter_id,
                queue,
                partition,
                ..
            } => {
                let wanted = letter_id.map(LettersWanted::One);
                (wanted, queue.as_deref(), partition.as_deref())
            }
        };
        let found = match wanted {
            Some(wanted) => self.store.find_letters(tenant, wanted)?,
            None => Letters::default(),
        };
        let replayed = match found.rows.first() {
            Some(letter) => {
                let record = match self.unpack(letter) {
                    Ok(record) => record,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let slot = self.queue(tenant, queue.unwrap_or(&letter.queue))?;
                if let Some(refusal) = self.refuse_full(slot, 1) {
                    return Ok(Err(refusal));
                }
                let replayed = self.replay_letter(slot, (letter, record), partition)?;
                Some(Box::new(replayed))
            }
            None => None,
        };
        Ok(Ok(Administered::Replayed {
            asked: asked.clone(),
            replayed,
        }))
    }

    fn replay_meant(
        &mut self,
        tenant: TenantId,
        filter: &LetterFilter,
    ) -> Judged<Result<Administered, Refusal>> {
        let found = self
            .store
            .find_letters(tenant, LettersWanted::Meant(filter))?;
        let (mut opened, mut refused) = (Vec::with_capacity(found.rows.len()), Vec::new());
        for letter in &found.rows {
            match self.unpack(letter) {
                Ok(record) => opened.push((letter, record)),
                Err(refusal) => refused.push(refusal),
            }
        }
        let unreadable = refused.len() as u64;
        if opened.is_empty()
            && let Some(refusal) = refused.into_iter().next()
        {
            return Ok(Err(refusal));
        }
        let mut wanted: BTreeMap<QueueSlot, i64> = BTreeMap::new();
        for (letter, _) in &opened {
            let slot = self.queue(tenant, &letter.queue)?;
            *wanted.entry(slot).or_default() += 1;
        }
        let full = wanted
            .into_iter()
            .find_map(|(slot, more)| self.refuse_full(slot, more));
        if let Some(refusal) = full {
            return Ok(Err(refusal));
        }
        let (mut moved, mut duplicates) = (0, 0);
        for (letter, record) in opened {
            let slot = self.queue(tenant, &letter.queue)?;
            match self.replay_letter(slot, (letter, record), None)?.duplicate {
                true => duplicates += 1,
                false => moved += 1,
            }
        }
        Ok(Ok(Administered::LettersReplayed {
            moved,
            duplicates,
            unreadable,
            more: found.more,
        }))
    }

    /// The message of a dead letter, decrypted.
    fn unpack(&self, letter: &LetterRow) -> Result<Record, Refusal> {
        let place = Place::Stored {
            partition_id: letter.partition_id,
            offset: letter.offset,
        };
        let record = records(&letter.record).next();
        let whole = record.filter(|_| is_whole(&letter.record, 1));
        let opened = whole.ok_or(Unopened::Damaged);
        let opened = opened.and_then(|record| self.memory.rules.seal.open(place, record));
        opened.map_err(|why| Refusal::Unopened {
            message: format!("the dead letter {}", letter.id),
            why,
        })
    }

    /// Pushes a dead letter to the end of a partition: its own, or another one.
    fn replay_letter(
        &mut self,
        slot: QueueSlot,
        (letter, record): (&LetterRow, Record),
        partition: Option<&str>,
    ) -> Judged<Replayed> {
        let transaction_id = String::from_utf8_lossy(&record.transaction_id).into();
        let partition = partition.unwrap_or(&letter.partition);
        let again = Record {
            message_id: new_id(),
            transaction_id: Bytes::from(replayed_id(letter.id).into_string()),
            created_us: self.now_us,
            ..record
        };
        let outcome = self.push_record(slot, partition, again)?;
        let is_first = self.draft.replayed.insert(letter.id);
        assert!(is_first, "what operators ask for is served one by one");
        let (offset, duplicate) = match outcome.status {
            PushStatus::Queued { offset } => (offset, false),
            PushStatus::Duplicate { offset } => (offset, true),
            PushStatus::Buffered | PushStatus::BufferedBefore => {
                unreachable!("nothing is buffered where it is judged")
            }
        };
        Ok(Replayed {
            letter_id: letter.id,
            queue: (&*outcome.queue).into(),
            partition: partition.into(),
            group: letter.group.clone(),
            transaction_id,
            message_id: outcome.message_id,
            offset,
            duplicate,
        })
    }
}
