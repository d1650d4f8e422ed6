//! From a question to the statements that answer it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::seal::{Place, Seal};
use crate::model::TenantId;
use crate::model::durable::read::{
    Counts, DeadLetter, DeadLetterFilter, DeadLetterPage, Overview, OverviewForm, Page,
    PartitionDepth, PartitionRanks, QueueDepth, QueueDetail, QueueFilter, QueueForm, QueueListing,
    QueueSummary, Read, ReadReply,
};
use crate::model::durable::{SegmentWriter, records};
use crate::postgres::SessionFault;
use crate::postgres::durable::reads::{Ledger, QueueQuery, QueueSums, ReadSession};

/// A question of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) tenant: TenantId,
    pub(super) read: &'a Read,
}

/// Queues of one namespace or task: its name, queues, partitions, and messages.
type SumOf = (Box<str>, i64, i64, Counts);

/// What was read, unless the session failed.
type Found<T> = Result<T, SessionFault>;

/// A session, what decrypts payloads, and whether to go on.
pub(super) struct Source<'a> {
    pub(super) session: &'a mut ReadSession,
    pub(super) ledger: &'a mut Ledger,
    pub(super) seal: &'a Seal,
    pub(super) waiting: &'a mut dyn FnMut() -> bool,
}

impl Source<'_> {
    /// Queues in sums, by what is remembered.
    fn queues(&mut self, tenant: TenantId, query: QueueQuery<'_>) -> Found<QueueSums> {
        let asked = (tenant, query);
        self.session.queues_by(self.ledger, asked, self.waiting)
    }

    /// Decrypts what a dead letter holds, where that can be done.
    fn reveal(&self, letter: &mut DeadLetter) {
        let Some(record) = records(&letter.record).next() else {
            return;
        };
        let is_encrypted = record.encrypted;
        let place = Place::Stored {
            partition_id: letter.partition_id,
            offset: letter.offset,
        };
        match self.seal.open(place, record) {
            Ok(record) if is_encrypted => {
                let mut writer = SegmentWriter::default();
                writer.push(&record);
                letter.record = writer.finish();
            }
            Err(_) if !is_encrypted => letter.record = Bytes::new(),
            Ok(_) | Err(_) => {}
        }
    }
}

pub(super) type Answered = Result<ReadReply, SessionFault>;

impl Asking<'_> {
    /// Asks the database.
    pub(super) fn answer(self, source: &mut Source<'_>) -> Answered {
        match self.read {
            Read::Queues { filter, page, form } => self.queues(source, filter, page, *form),
            Read::Queue { queue, page, form } => self.queue(source, queue, page, *form),
            Read::Depth { queue, group, page } => self.depth(source, queue, group.as_deref(), page),
            Read::Overview(form) => self.overview(source, *form),
            Read::Namespaces => {
                let sums = self.sums_by(source, |queue| &queue.face.namespace)?;
                Ok(ReadReply::Namespaces(sums))
            }
            Read::Tasks => {
                let sums = self.sums_by(source, |queue| &queue.face.task)?;
                Ok(ReadReply::Tasks(sums))
            }
            Read::Partitions { queue, limit } => {
                let Source {
                    session, waiting, ..
                } = source;
                let rows =
                    session.partition_ranks(self.tenant, queue.as_deref(), *limit, waiting)?;
                Ok(ReadReply::Partitions(PartitionRanks { rows }))
            }
            Read::Traces(asked) => {
                let Source {
                    session,
                    seal,
                    waiting,
                    ..
                } = source;
                let mut reveal = |(partition_id, offset), record| {
                    let place = Place::Stored {
                        partition_id,
                        offset,
                    };
                    seal.open(place, record).ok().map(|record| record.payload)
                };
                let found = session.find_traces(self.tenant, asked, waiting, &mut reveal)?;
                Ok(ReadReply::Traces(found))
            }
            Read::Refresh => {
                source.session.look(source.waiting)?;
                source.ledger.forget();
                Ok(ReadReply::Refreshed)
            }
            Read::Messages(filter) => self.messages(source, filter),
            Read::Message {
                partition_id,
                transaction_id,
            } => self.message(source, *partition_id, transaction_id),
            Read::DeadLetters(filter) => self.dead_letters(source, filter),
            Read::Groups(page) => {
                let groups = source.session.groups(self.tenant, page, source.waiting)?;
                Ok(ReadReply::Groups(groups))
            }
            Read::Lagging { min_lag_us, page } => {
                let asked = (*min_lag_us, page);
                let rows = source.session.lagging(self.tenant, asked, source.waiting)?;
                Ok(ReadReply::Lagging(rows))
            }
            Read::Group { group, page } => {
                let Source {
                    session, waiting, ..
                } = source;
                let rows = session.group_places(self.tenant, (group, page), waiting)?;
                Ok(ReadReply::Group(rows))
            }
            Read::Fetch(fetch) => self.fetch(source, fetch),
            Read::Changed(entries) => self.changed(source, entries),
        }
    }

    fn dead_letters(self, source: &mut Source<'_>, filter: &DeadLetterFilter) -> Answered {
        let Source {
            session, waiting, ..
        } = source;
        let (mut rows, total) = session.dead_letters(self.tenant, filter, waiting)?;
        rows.iter_mut().for_each(|letter| source.reveal(letter));
        Ok(ReadReply::DeadLetters(DeadLetterPage {
            rows,
            total,
            limit: filter.limit,
            offset: filter.offset,
        }))
    }

    fn queues(
        self,
        source: &mut Source<'_>,
        filter: &QueueFilter,
        page: &Page,
        form: QueueForm,
    ) -> Answered {
        let query = QueueQuery {
            filter: Some(filter),
            page: Some(&one_more(page)),
            ..QueueQuery::default()
        };
        let sums = source.queues(self.tenant, query)?;
        let (rows, more) = cut(sums.rows, page);
        Ok(ReadReply::Queues(QueueListing {
            form,
            rows,
            limit: page.limit,
            offset: page.offset,
            more,
        }))
    }

    /// One queue in sums, with how many of its partitions are pending and ready.
    fn one_queue(
        self,
        source: &mut Source<'_>,
        name: &str,
        group: Option<&str>,
    ) -> Found<Option<(QueueSummary, (i64, i64))>> {
        let query = QueueQuery {
            name: Some(name),
            group,
            ..QueueQuery::default()
        };
        let mut sums = source.queues(self.tenant, query)?;
        Ok(sums.rows.pop().zip(sums.pending_partitions.pop()))
    }

    fn queue(self, source: &mut Source<'_>, name: &str, page: &Page, form: QueueForm) -> Answered {
        let Some((summary, _)) = self.one_queue(source, name, None)? else {
            return Ok(ReadReply::NoQueue);
        };
        let asked = (None, &one_more(page));
        let Source {
            session, waiting, ..
        } = source;
        let partitions = session.partitions(self.tenant, &summary.face, asked, *waiting)?;
        let (partitions, more) = cut(partitions, page);
        Ok(ReadReply::Queue(Box::new(QueueDetail {
            form,
            summary,
            partitions,
            more,
        })))
    }

    fn depth(
        self,
        source: &mut Source<'_>,
        name: &str,
        group: Option<&str>,
        page: &Page,
    ) -> Answered {
        let Some((summary, pending)) = self.one_queue(source, name, group)? else {
            return Ok(ReadReply::NoQueue);
        };
        let asked = (group, &one_more(page));
        let Source {
            session, waiting, ..
        } = source;
        let partitions = session.partitions(self.tenant, &summary.face, asked, *waiting)?;
        let (partitions, more) = cut(partitions, page);
        let depths = partitions.into_iter().map(|partition| PartitionDepth {
            name: partition.name,
            pending: partition.counts.pending,
            processing: partition.counts.processing,
        });
        Ok(ReadReply::Depth(QueueDepth {
            queue: summary.face.name,
            group: group.map(Box::from),
            counts: summary.counts,
            partitions_pending: pending.0,
            partitions_ready: pending.1,
            partitions: depths.collect(),
            more,
        }))
    }

    fn overview(self, source: &mut Source<'_>, form: OverviewForm) -> Answered {
        let query = QueueQuery {
            with_ages: true,
            ..QueueQuery::default()
        };
        let sums = source.queues(self.tenant, query)?;
        let now_us = match sums.now_us {
            Some(now_us) => now_us,
            None => source.session.now_us(source.waiting)?,
        };
        Ok(ReadReply::Overview(Box::new(Overview {
            form,
            now_us,
            queues: sums.rows,
        })))
    }

    /// All queues, summed up by a part of their names.
    fn sums_by(
        self,
        source: &mut Source<'_>,
        key: impl Fn(&QueueSummary) -> &str,
    ) -> Found<Vec<SumOf>> {
        let query = QueueQuery::default();
        let queues = source.queues(self.tenant, query)?;
        let mut sums: BTreeMap<Box<str>, (i64, i64, Counts)> = BTreeMap::new();
        for queue in &queues.rows {
            if key(queue).is_empty() {
                continue;
            }
            let sum = sums.entry(key(queue).into()).or_default();
            sum.0 += 1;
            sum.1 += queue.partitions;
            sum.2.add(&queue.counts);
        }
        let rows = sums
            .into_iter()
            .map(|(name, (queues, partitions, counts))| (name, queues, partitions, counts));
        Ok(rows.collect())
    }
}

/// A page with one row more, which tells whether more follow.
fn one_more(page: &Page) -> Page {
    Page {
        limit: page.limit + 1,
        ..page.clone()
    }
}

/// Takes the further row away; whether there was one.
fn cut<T>(mut rows: Vec<T>, page: &Page) -> (Vec<T>, bool) {
    let limit = page.limit as usize;
    let more = rows.len() > limit;
    rows.truncate(limit);
    (rows, more)
}
