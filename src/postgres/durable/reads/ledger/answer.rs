//! Brings what is remembered up to the moment of a question, and answers it.

use std::collections::VecDeque;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::feed::{Feed, State};
use super::part::{Part, Place, Sums, Tail, View};
use super::{Kept, Ledger, Queue};
use crate::limits::{LEDGER_STALE_FEW, LEDGER_STALE_SHARE};
use crate::model::TenantId;
use crate::model::durable::read::{Counts, QueueFace, QueueSummary};
use crate::postgres::SessionFault;
use crate::postgres::durable::reads::queues::face_of;
use crate::postgres::durable::reads::{QueueQuery, QueueSums, ReadSession, unreadable, uuid_of};
use crate::postgres::durable::{BATCH_LOCK, Mark};

/// Prepares a statement of the ledger's folder.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../../sql/durable/reads/ledger/", $name, ".sql"))
    };
}

/// A queue of the page that is asked for.
struct Listed {
    face: QueueFace,
    dead_letters: i64,
    /// All its groups.
    groups: HashSet<i64>,
    /// Those that are asked for.
    seen: HashSet<i64>,
}

impl Listed {
    fn view(&self, now_us: i64, with_ages: bool) -> View<'_> {
        View {
            groups: &self.seen,
            now_us,
            with_ages,
        }
    }
}

/// A question under way.
struct Asked<'a> {
    tenant: TenantId,
    query: QueueQuery<'a>,
}

/// What comes of a question.
enum Found {
    /// The answer.
    Sums(QueueSums),
    /// More would have to be remembered than may be: beside what is, or though nothing is.
    TooMuch { alone: bool },
    /// What is remembered does not reach that far: it is to be counted anew.
    Missed,
    /// Somebody stores for long: nothing can be remembered from now on.
    Held,
}

impl ReadSession {
    /// As [`ReadSession::queues`], by what is remembered.
    ///
    /// # Errors
    /// `Away`, or `Write`.
    pub fn queues_by(
        &mut self,
        ledger: &mut Ledger,
        (tenant, query): (TenantId, QueueQuery<'_>),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<QueueSums, SessionFault> {
        let now = Instant::now();
        ledger.forget_old(now);
        ledger.looked = 0;
        let asked = Asked { tenant, query };
        if ledger.is_too_large(tenant, now) {
            return self.queues(tenant, query, waiting);
        }
        // The second time nothing else is remembered.
        for _ in 0..2 {
            let is_first_look = ledger.kept.is_none();
            match self.found(ledger, &asked, waiting)? {
                Found::Sums(sums) => return Ok(sums),
                Found::Held => break,
                Found::Missed if is_first_look => {
                    ledger.forget();
                    break;
                }
                Found::Missed | Found::TooMuch { alone: false } => ledger.forget(),
                Found::TooMuch { alone: true } => {
                    ledger.forget();
                    ledger.note_too_large(tenant, now);
                    break;
                }
            }
        }
        self.queues(tenant, query, waiting)
    }

    /// The answer in one snapshot.
    fn found(
        &mut self,
        ledger: &mut Ledger,
        asked: &Asked<'_>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Found, SessionFault> {
        let mut own_us = None;
        if ledger.kept.is_none() {
            if !ledger.marks.start() {
                return Ok(Found::Held);
            }
            // What others begin behind the lock they tell to whoever lives by this sign.
            own_us = Some(self.state(waiting)?.own_us);
            // What began before is over, or noted, before the snapshot: other brokers hold the lock while
            // they store, and whoever takes it behind us tells us.
            let lock = include_str!("../../../sql/durable/lock.sql");
            match self.ask(lock, &[&BATCH_LOCK], waiting) {
                Err(SessionFault::Write { .. }) => {
                    ledger.forget();
                    return Ok(Found::Held);
                }
                held => held?,
            };
        }
        let over = ledger.marks.over();
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.ask(begin, &[], waiting)?;
        let found = self.answer(ledger, asked, (over, own_us), waiting);
        match &found {
            Ok(_) => {
                self.ask("COMMIT", &[], waiting)?;
            }
            Err(fault) => {
                // What was noted has been taken.
                ledger.forget();
                if matches!(fault, SessionFault::Write { .. }) {
                    self.ask("ROLLBACK", &[], waiting)?;
                }
            }
        }
        found
    }

    fn answer(
        &mut self,
        ledger: &mut Ledger,
        asked: &Asked<'_>,
        (over, own_us): (u64, Option<i64>),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Found, SessionFault> {
        // The snapshot begins with the first statement.
        let mut state = self.state(waiting)?;
        let kept = ledger.kept.take();
        let Some(marks) = ledger.marks.take(over) else {
            return Ok(Found::Missed);
        };
        let mut kept = match kept {
            Some(mut kept) => {
                if !kept.feed.reaches(&state) {
                    return Ok(Found::Missed);
                }
                let (number, late) = kept.feed.asked();
                let (numbers, told) = self.told(number, &late, waiting)?;
                kept.feed.go_on(state, numbers);
                kept.take(marks.into_iter().chain(told));
                kept
            }
            None => {
                state.own_us = own_us.unwrap_or(state.own_us);
                let (numbers, _) = self.told(Feed::first_of(&state), &[], waiting)?;
                let feed = Feed::at(state, numbers);
                if !feed.reaches(&state) {
                    return Ok(Found::Missed);
                }
                Kept::new(feed)
            }
        };
        let page = self.page(asked, waiting)?;
        let alone = kept.queues.is_empty();
        let room = ledger.rows_max;
        let Some(looked) = self.catch_up(&mut kept, asked.tenant, &page, room, waiting)? else {
            return Ok(Found::TooMuch { alone });
        };
        ledger.looked = looked;
        let sums = self.sum_up(&mut kept, page, (asked, state.now_us), waiting)?;
        ledger.kept = Some(kept);
        Ok(Found::Sums(sums))
    }

    fn state(&mut self, waiting: &mut dyn FnMut() -> bool) -> Result<State, SessionFault> {
        let rows = self.ask(sql!("state"), &[], waiting)?;
        let row = rows.first().expect("a select without tables has a row");
        let columns = |row: &Row| -> Result<State, Error> {
            Ok(State {
                now_us: row.try_get("now_us")?,
                others_us: row.try_get("others_us")?,
                own_us: row.try_get("own_us")?,
                last_change: row.try_get("last_change")?,
            })
        };
        columns(row).map_err(unreadable)
    }

    /// What brokers have told: the numbers of it, and what others have changed.
    fn told(
        &mut self,
        number: i64,
        late: &[i64],
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<i64>, Vec<Mark>), SessionFault> {
        let rows = self.ask(sql!("changes"), &[&number, &late], waiting)?;
        let (mut numbers, mut marks) = (Vec::new(), Vec::new());
        let mut take =
            |row: &Row| -> Result<(), Error> {
                numbers.push(row.try_get("number")?);
                let tenant: Option<Uuid> = row.try_get("tenant")?;
                let queue: Option<&str> = row.try_get("queue")?;
                let named = tenant.zip(queue);
                marks.extend(named.map(|(tenant, queue)| {
                    Mark::queue(TenantId::from_u128(tenant.as_u128()), queue)
                }));
                let ids: Option<Vec<i64>> = row.try_get("partition_ids")?;
                marks.extend(ids.into_iter().flatten().map(Mark::Partition));
                Ok(())
            };
        rows.iter().try_for_each(&mut take).map_err(unreadable)?;
        Ok((numbers, marks))
    }

    fn page(
        &mut self,
        asked: &Asked<'_>,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Listed>, SessionFault> {
        let (query, owner) = (&asked.query, uuid_of(asked.tenant));
        let page = query.page_values();
        let rows = self.ask(
            sql!("queues"),
            &[
                &owner,
                &query.name,
                &page.namespace,
                &page.task,
                &page.after,
                &page.limit,
                &page.offset,
            ],
            waiting,
        )?;
        rows.iter().map(|row| listed_of(row, query.group)).collect()
    }

    /// Looks at what is not remembered of some queues, and at what has changed; at how many partitions.
    /// `None`: more would have to be remembered than there is room for.
    fn catch_up(
        &mut self,
        kept: &mut Kept,
        tenant: TenantId,
        page: &[Listed],
        room: usize,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Option<usize>, SessionFault> {
        let is_known = |listed: &&Listed| {
            let queue = kept.queues.get(&listed.face.id);
            queue.is_some_and(|queue| queue.serves(&listed.groups))
        };
        let (known, unknown): (Vec<_>, Vec<_>) = page.iter().partition(is_known);
        let (mut stale, mut pairs) = (Vec::new(), (Vec::new(), Vec::new()));
        for listed in known {
            let queue = &kept.queues[&listed.face.id];
            let mut ids = Vec::from_iter(queue.stale.iter().copied());
            // Neighbours in an index are found sooner one after the other.
            ids.sort_unstable();
            for group in &queue.groups {
                pairs.0.extend(ids.iter().map(|_| *group));
                pairs.1.extend_from_slice(&ids);
            }
            stale.append(&mut ids);
        }
        let ids: HashSet<i64> = unknown.iter().map(|listed| listed.face.id).collect();
        kept.drop_queues(|id, _| ids.contains(&id));
        if ids.is_empty() && stale.is_empty() {
            return Ok(Some(0));
        }
        let mut groups = Vec::new();
        for listed in unknown {
            groups.extend(listed.groups.iter().copied());
            let queue = Queue::new(tenant, listed);
            kept.queues.insert(listed.face.id, queue);
        }
        let ids = Vec::from_iter(ids);
        // What is looked at again is remembered already.
        let free = (room + stale.len() + pairs.0.len()).saturating_sub(kept.rows);
        let tails = self.tails((&ids, &stale), free, waiting)?;
        let places = self.places((&groups, &pairs.0, &pairs.1), free, waiting)?;
        if tails.len() + places.len() > free {
            return Ok(None);
        }
        let looked = tails.len();
        kept.put(&stale, tails, places);
        Ok(Some(looked))
    }

    fn tails(
        &mut self,
        (queue_ids, ids): (&Vec<i64>, &Vec<i64>),
        free: usize,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(i64, i64, Option<Tail>)>, SessionFault> {
        let limit = free as i64 + 1;
        let rows = self.ask(sql!("tails"), &[queue_ids, ids, &limit], waiting)?;
        let row = rows.first().expect("an aggregate has a row");
        let names = [
            "ids",
            "queue_ids",
            "firsts",
            "newest_bases",
            "newest_counts",
            "newest_times",
            "newest_bytes",
        ];
        let rows = columns_of(row, names).map_err(unreadable)?;
        let tail_of = |[id, queue_id, first, base, count, time, bytes]: [Option<i64>; 7]| {
            let tail = first.zip(base).zip(count).zip(time).zip(bytes);
            let tail = tail.map(
                |((((first, newest_base), newest_count), newest_us), newest_bytes)| Tail {
                    first,
                    newest_base,
                    newest_count,
                    newest_us,
                    newest_bytes,
                },
            );
            (id.unwrap_or_default(), queue_id.unwrap_or_default(), tail)
        };
        Ok(rows.map(tail_of).collect())
    }

    fn places(
        &mut self,
        (groups, pair_groups, pair_ids): (&Vec<i64>, &Vec<i64>, &Vec<i64>),
        free: usize,
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(i64, Place)>, SessionFault> {
        let limit = free as i64 + 1;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [groups, pair_groups, pair_ids, &limit];
        let rows = self.ask(sql!("places"), &values, waiting)?;
        let row = rows.first().expect("an aggregate has a row");
        let failed: Option<Vec<bool>> = row.try_get("failed").map_err(unreadable)?;
        let names = [
            "partition_ids",
            "group_ids",
            "committed",
            "batch_ends",
            "lease_untils",
        ];
        let rows = columns_of(row, names).map_err(unreadable)?;
        let place_of = |(numbers, has_failed): ([Option<i64>; 5], bool)| {
            let [id, group_id, committed, batch_end, lease_until_us] =
                numbers.map(Option::unwrap_or_default);
            (
                id,
                Place {
                    group_id,
                    committed,
                    batch_end,
                    lease_until_us,
                    has_failed,
                },
            )
        };
        Ok(rows.zip(failed.unwrap_or_default()).map(place_of).collect())
    }

    /// The sums of a page, with the ages that are not known yet.
    fn sum_up(
        &mut self,
        kept: &mut Kept,
        page: Vec<Listed>,
        (asked, now_us): (&Asked<'_>, i64),
        waiting: &mut dyn FnMut() -> bool,
    ) -> Result<QueueSums, SessionFault> {
        let with_ages = asked.query.with_ages;
        let (mut ids, mut places) = (Vec::new(), Vec::new());
        for listed in &page {
            for (id, part) in &kept.queue(listed.face.id).parts {
                if let Some(since) = part.unknown_age(listed.view(now_us, with_ages)) {
                    ids.push(*id);
                    places.push(since);
                }
            }
        }
        if !ids.is_empty() {
            let rows = self.ask(sql!("waiting"), &[&ids, &places], waiting)?;
            let row = rows.first().expect("an aggregate has a row");
            let rows = columns_of(row, ["ids", "places", "times"]).map_err(unreadable)?;
            kept.note_ages(rows.map(|row| row.map(Option::unwrap_or_default)));
        }
        let mut answer = QueueSums {
            now_us: Some(now_us),
            ..QueueSums::default()
        };
        for listed in page {
            let mut sums = Sums::default();
            let parts = kept.queue(listed.face.id).parts.values();
            parts.for_each(|part| sums.add(part, listed.view(now_us, with_ages)));
            let pending = (sums.lags.partitions, sums.ready);
            answer.pending_partitions.push(pending);
            answer.rows.push(summary_of(listed, sums));
        }
        Ok(answer)
    }
}

impl Queue {
    fn new(tenant: TenantId, listed: &Listed) -> Queue {
        Queue {
            tenant,
            name: listed.face.name.clone(),
            groups: listed.groups.clone(),
            parts: HashMap::new(),
            stale: HashSet::new(),
        }
    }

    /// Whether it is worth to look only at what has changed, and what is remembered is of all these groups.
    fn serves(&self, groups: &HashSet<i64>) -> bool {
        let stale = self.stale.len();
        let rows: usize = self.parts.values().map(Part::rows).sum();
        self.groups.is_superset(groups)
            && stale * LEDGER_STALE_SHARE <= self.parts.len().max(LEDGER_STALE_FEW)
            // Each is looked for in each group, where most may have no place.
            && stale * self.groups.len() <= rows.max(LEDGER_STALE_FEW)
    }
}

fn summary_of(listed: Listed, sums: Sums) -> QueueSummary {
    QueueSummary {
        face: listed.face,
        partitions: sums.partitions,
        counts: Counts {
            dead_letters: listed.dead_letters,
            ..sums.counts
        },
        segments: sums.segments,
        bytes: sums.bytes,
        leases: sums.leases,
        lags: sums.lags,
    }
}

fn listed_of(row: &Row, group: Option<&str>) -> Result<Listed, SessionFault> {
    let face = face_of(row)?;
    let columns = |row: &Row| -> Result<Listed, Error> {
        let ids: Option<Vec<i64>> = row.try_get("group_ids")?;
        let names: Option<Vec<&str>> = row.try_get("group_names")?;
        let groups: HashSet<i64> = ids.iter().flatten().copied().collect();
        let named = ids.into_iter().flatten().zip(names.into_iter().flatten());
        let seen = named.filter(|(_, name)| group.is_none_or(|wanted| wanted == *name));
        Ok(Listed {
            face,
            dead_letters: row.try_get("dead_letters")?,
            groups,
            seen: seen.map(|(id, _)| id).collect(),
        })
    };
    columns(row).map_err(unreadable)
}

/// Columns of arrays as rows; none where nothing was found.
fn columns_of<const N: usize>(
    row: &Row,
    names: [&str; N],
) -> Result<impl Iterator<Item = [Option<i64>; N]>, Error> {
    let mut columns: [VecDeque<Option<i64>>; N] = [const { VecDeque::new() }; N];
    for (column, name) in columns.iter_mut().zip(names) {
        let values: Option<Vec<Option<i64>>> = row.try_get(name)?;
        *column = values.unwrap_or_default().into();
    }
    let rows = columns[0].len();
    let mut next = move || {
        columns
            .each_mut()
            .map(|column| column.pop_front().flatten())
    };
    Ok((0..rows).map(move |_| next()))
}
