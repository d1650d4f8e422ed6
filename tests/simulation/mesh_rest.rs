//! What must hold when everything that was sent has arrived, and when everything is over.

use queen::model::{
    Command, Depth, GroupName, PartitionName, Pop, QueueName, TenantId, WindowBuffer,
};

use crate::mesh_ledger::GROUPS;
use crate::mesh_lives::{Life, Name};
use crate::mesh_world::{Asked, Kind, PopAsked, World};
use crate::model::ensure;

type Checked = Result<(), String>;

/// Milliseconds after which no push waits for room any more.
const HELD_MS: u64 = 300;

impl World {
    /// Lets everything arrive and looks at it. `windows`: those that were open have closed.
    pub(crate) fn check_rest(&mut self, windows: bool) -> Checked {
        self.settle_lanes()?;
        for core in &self.mesh.cores {
            core.shard().check();
            ensure!(
                !core.shard().holds_dead_queue(),
                "a queue that is dead stays known"
            );
        }
        self.check_open()?;
        let names: Vec<Name> = self.lives.names.keys().copied().collect();
        for name in &names {
            self.check_waiters(*name)?;
        }
        for name in names {
            self.check_queue(name, windows)?;
        }
        self.check_sums()?;
        self.check_statistics()
    }

    /// Whoever waits may do so.
    fn check_open(&mut self) -> Checked {
        let (now, paused) = (self.mesh.now, self.mesh.directory.paused());
        for (client, asked) in &mut self.open {
            let rested = *asked.rested.get_or_insert(now);
            let may_wait = match &asked.kind {
                Kind::Push(_) => rested.after_ms(HELD_MS) > now,
                Kind::Pop(pop) => {
                    !paused && !asked.hurried && rested.after_ms(pop.wait_ms.unwrap_or(0)) > now
                }
                _ => false,
            };
            ensure!(may_wait, "{client:?} is not answered: {asked:?}");
        }
        let parked: usize = self.mesh.cores.iter().map(|core| core.parked()).sum();
        let waiting = self.waiting_pops().count();
        ensure!(
            parked == waiting,
            "{parked} pops are parked and not {waiting}"
        );
        Ok(())
    }

    fn waiting_pops(&self) -> impl Iterator<Item = (&Asked, &PopAsked)> {
        self.open.values().filter_map(|asked| match &asked.kind {
            Kind::Pop(pop) => Some((asked, pop)),
            _ => None,
        })
    }

    /// The counts of waiting pops are those of the clients.
    fn check_waiters(&self, (tenant, name): Name) -> Checked {
        let of_queue = || {
            self.waiting_pops()
                .filter(move |(asked, _)| (asked.tenant, asked.queue) == (tenant, name))
        };
        let Some(cell) = self.mesh.directory.peek(tenant, name) else {
            ensure!(of_queue().next().is_none(), "a pop waits at no queue");
            return Ok(());
        };
        let waiting = of_queue().count() as u64;
        ensure!(
            cell.waiters() == waiting,
            "{name} counts {} waiters and not {waiting}",
            cell.waiters()
        );
        for group in cell.groups_since(0) {
            let anywhere = of_queue()
                .any(|(_, pop)| pop.partition.is_none() && GROUPS[pop.group] == &**group.name());
            ensure!(
                group.is_awaited() == anywhere,
                "{name}, {group:?}: awaited {anywhere}"
            );
        }
        Ok(())
    }

    /// Nobody waits beside a message; the sums of all shards are what the cell says.
    fn check_queue(&mut self, (tenant, name): Name, windows: bool) -> Checked {
        let Some(cell) = self.mesh.directory.peek(tenant, name) else {
            return Ok(());
        };
        let window = cell.configuration().effective.window_buffer;
        let holds = window != WindowBuffer::default() && (!windows || window.ms == 0);
        for group in 0..GROUPS.len() {
            let waits = |(asked, pop): (&Asked, &PopAsked)| {
                (asked.tenant, asked.queue, pop.group) == (tenant, name, group)
            };
            let waiting: Vec<Asked> = self
                .waiting_pops()
                .filter(|&one| waits(one))
                .map(|(asked, _)| asked.clone())
                .collect();
            if waiting.is_empty() && group > 0 {
                continue;
            }
            let before = self.open.len();
            let Some(depth) = self.measure((tenant, name), group)? else {
                continue;
            };
            ensure!(
                self.open.len() == before || holds,
                "to look at {name} has served somebody: {waiting:?}"
            );
            let bytes: u64 = depth.partitions.iter().map(|one| one.bytes).sum();
            ensure!(
                (bytes, cell.bytes(), cell.drops()) == (depth.bytes, depth.bytes, depth.drops),
                "{name}: {depth:?}"
            );
            let partitions = depth.partitions.len() as u64;
            ensure!(
                cell.partitions() == partitions,
                "{name} counts {} partitions and not {partitions}",
                cell.partitions()
            );
            if holds {
                continue;
            }
            for asked in waiting {
                let Kind::Pop(pop) = &asked.kind else {
                    continue;
                };
                let there = depth.partitions.iter().filter(|one| {
                    pop.partition
                        .is_none_or(|partition| partition == &*one.partition)
                });
                let pending: u64 = there.map(|one| one.pending).sum();
                ensure!(pending == 0, "{asked:?} waits beside {depth:?}");
            }
        }
        Ok(())
    }

    /// How much a queue holds, asked at some core.
    fn measure(&mut self, (tenant, name): Name, group: usize) -> Result<Option<Depth>, String> {
        let command = Command::Depth {
            queue: QueueName::new(name).expect("a name"),
            group: Some(GroupName::new(GROUPS[group]).expect("a name")),
        };
        let core = (self.step() % self.mesh.len() as u64) as usize;
        self.depth = None;
        // Only commands of clients are refused while the class is paused.
        let paused = self.mesh.directory.paused();
        self.mesh.directory.set_paused(false);
        self.ask(core, (tenant, name), Kind::Depth, command)?;
        self.settle_lanes()?;
        self.mesh.directory.set_paused(paused);
        Ok(self.depth.take())
    }

    /// Ends everything: pops until nothing is left, then deletes, and closes the books.
    pub(crate) fn finish(&mut self) -> Checked {
        self.mesh.directory.set_paused(false);
        self.check_rest(false)?;
        // The longest wait, and then the lease of what it was answered with.
        for chunk in 0..20 {
            while !self.in_flight.is_empty() {
                if chunk == 0 && self.in_flight.len().is_multiple_of(2) {
                    self.give_back(0)?;
                } else {
                    self.deliver(0);
                }
            }
            self.settle_lanes()?;
            self.sleep_ms(5_000)?;
            self.check_rest(chunk > 7)?;
        }
        self.in_flight.clear();
        ensure!(self.open.is_empty(), "not answered: {:?}", self.open);
        let names: Vec<Name> = self.lives.names.keys().copied().collect();
        for &name in &names {
            self.empty(name)?;
        }
        self.check_rest(true)?;
        self.close_books()?;
        for (turn, &(tenant, name)) in names.iter().enumerate() {
            let command = Command::Delete(QueueName::new(name).expect("a name"));
            let core = turn % self.mesh.len();
            self.ask(core, (tenant, name), Kind::Delete, command)?;
            self.settle_lanes()?;
        }
        self.check_end()
    }

    /// The cores stop one after the other, with somebody parked.
    pub(crate) fn end(&mut self, (tenant, name): Name) -> Checked {
        for (turn, partition) in [None, Some("a"), None, Some("d")].into_iter().enumerate() {
            let asked = PopAsked {
                partition,
                group: 0,
                batch: 1,
                wait_ms: Some(60_000),
                auto_ack: false,
            };
            self.pop(turn % self.mesh.len(), (tenant, name), asked)?;
        }
        for core in 0..self.mesh.len() {
            self.stop(core)?;
            self.receive(core, (core + 1) % self.mesh.len())?;
        }
        self.settle_lanes()?;
        ensure!(
            self.open.is_empty(),
            "not answered at the end: {:?}",
            self.open
        );
        for core in &self.mesh.cores {
            ensure!(core.parked() == 0, "somebody stays parked");
        }
        Ok(())
    }

    fn check_end(&mut self) -> Checked {
        self.check_rest(true)?;
        ensure!(self.open.is_empty(), "not answered: {:?}", self.open);
        let directory = &self.mesh.directory;
        let left = (
            directory.queue_count(),
            directory.cursors(),
            directory.broker().used(),
        );
        ensure!(
            left == (0, 0, 0),
            "queues, cursors, bytes are left: {left:?}"
        );
        for core in &self.mesh.cores {
            ensure!(core.open_requests() == 0, "requests stay open");
        }
        for life in self.lives.names.values().flat_map(|named| &named.lives) {
            let cell = &life.cell;
            let left = (cell.length(), cell.bytes(), cell.waiters());
            let partitions = cell.partitions();
            ensure!(
                (left, partitions) == ((0, 0, 0), 0) && cell.tenant().budget().used() == 0,
                "a cell is left with {left:?} and {partitions} partitions"
            );
        }
        Ok(())
    }

    /// Every group takes what it can.
    fn empty(&mut self, (tenant, name): Name) -> Checked {
        let Some(cell) = self.mesh.directory.peek(tenant, name) else {
            return Ok(());
        };
        for group in 0..GROUPS.len() {
            while self.pop_some((tenant, name), group, None)? > 0 {}
            let depth = self.measure((tenant, name), group)?;
            let partitions = depth.map(|depth| depth.partitions).unwrap_or_default();
            for place in partitions {
                let known = crate::mesh_program::PARTITIONS;
                let partition = known.iter().find(|known| **known == &*place.partition);
                let left = self.pop_some((tenant, name), group, partition.copied())?;
                ensure!(
                    left == 0,
                    "{name}: a pop without partition left {left} in {place:?}"
                );
            }
        }
        let left = (cell.length(), cell.bytes());
        ensure!(left == (0, 0), "{name} holds {left:?} for nobody");
        Ok(())
    }

    fn pop_some(
        &mut self,
        (tenant, name): Name,
        group: usize,
        partition: Option<&'static str>,
    ) -> Result<usize, String> {
        let asked = PopAsked {
            partition,
            group,
            batch: 5,
            wait_ms: None,
            auto_ack: true,
        };
        let core = (self.step() % self.mesh.len() as u64) as usize;
        self.pop(core, (tenant, name), asked)?;
        self.settle_lanes()?;
        let taken = self.in_flight.iter().map(|one| one.popped.messages.len());
        let taken = taken.sum();
        self.in_flight.clear();
        Ok(taken)
    }

    pub(crate) fn pop(
        &mut self,
        core: usize,
        (tenant, name): (TenantId, &'static str),
        asked: PopAsked,
    ) -> Checked {
        let partition = |partition| PartitionName::new(partition).expect("a name");
        let command = Command::Pop(Pop {
            queue: QueueName::new(name).expect("a name"),
            partition: asked.partition.map(partition),
            group: GroupName::new(GROUPS[asked.group]).expect("a name"),
            batch: asked.batch as u32,
            wait_ms: asked.wait_ms,
            since: None,
            auto_ack: asked.auto_ack,
        });
        self.ask(core, (tenant, name), Kind::Pop(asked), command)?;
        Ok(())
    }

    /// Whatever was accepted is accounted for.
    fn close_books(&mut self) -> Checked {
        let lease_ms = |name: &Name| self.lives.names[name].lease_ms;
        let lease = self.lives.names.keys().map(lease_ms).min().unwrap_or(0);
        let collects = self.mesh.rules.idle_ms > 0;
        self.ledger.audit(lease, collects)?;
        for (&name, named) in &self.lives.names {
            let mut missing = Missing::default();
            for message in 0..self.ledger.messages.len() {
                let place = self.place_of(message);
                if (place.tenant, place.queue) == name {
                    self.count_missing(message, &mut missing);
                }
            }
            let drops = named.drops();
            let dropped = drops.bounds + drops.ttl + drops.retry + named.reset;
            let explained = dropped + named.lost();
            ensure!(
                missing.messages <= explained,
                "{name:?}: {missing:?}, but {drops:?}, {} reset, {} lost with the queue",
                named.reset,
                named.lost()
            );
            // Where no queue ended and no group came late, every drop is a message that some
            // group misses.
            if !named.ended() && !missing.late && !collects {
                ensure!(
                    dropped <= missing.pairs,
                    "{name:?}: {drops:?}, {} reset, and only {missing:?}",
                    named.reset
                );
            }
        }
        Ok(())
    }

    fn count_missing(&self, number: usize, missing: &mut Missing) {
        let message = &self.ledger.messages[number];
        let push = &self.ledger.pushes[message.push];
        if push.stored != Some(true) {
            return;
        }
        let named = &self.lives.names[&(push.place.tenant, push.place.queue)];
        let life = self.life_of(number);
        let known = |group: usize| life.is_some_and(|life| life.knew(group, push.issued_step));
        let delivered = message.seen.iter().any(|seen| seen.is_delivered());
        let (mut pairs, mut excused, mut leased) = (0, 0, false);
        for (group, seen) in message.seen.iter().enumerate() {
            let ever = named.lives.iter().any(|life| life.knew(group, u64::MAX));
            missing.late |= ever && !known(group);
            if known(group) && !seen.is_settled() {
                pairs += 1;
                excused += u64::from(seen.was_given_back());
            }
            missing.late |= seen.is_untold();
            leased |= named.expires && seen.is_leased();
        }
        if pairs == 0 && !delivered {
            pairs = 1;
        }
        missing.pairs += pairs;
        if pairs > 0 {
            self.tell(|| format!("message {number} is missing: {push:?} {message:?}"));
        }
        // What had passed all groups when its queue was reset or collected and then came back is
        // counted nowhere, nor is what was past its TTL under a lease.
        let may_vanish = named.resets || named.ended() || self.mesh.rules.idle_ms > 0;
        let excused = may_vanish && (leased || excused == pairs);
        missing.messages += u64::from(pairs > 0 && !excused);
    }

    /// The life of the queue that a message was stored in, if there is no doubt.
    fn life_of(&self, number: usize) -> Option<&Life> {
        let message = &self.ledger.messages[number];
        let push = &self.ledger.pushes[message.push];
        let named = &self.lives.names[&(push.place.tenant, push.place.queue)];
        if let Some((generation, _)) = message.id {
            let mut lives = named.lives.iter();
            return lives.find(|life| life.cell.generation() == generation);
        }
        let answered = push.answered_step.unwrap_or(u64::MAX);
        let mut possible = named.lives.iter().filter(|life| {
            life.born_step <= answered && life.died_step.is_none_or(|died| died >= push.issued_step)
        });
        let first = possible.next();
        first.filter(|_| possible.next().is_none())
    }
}

/// Messages that some group did not get.
#[derive(Debug, Default)]
struct Missing {
    messages: u64,
    /// The same, by group.
    pairs: u64,
    /// A group came late, or an ack has an unknown outcome.
    late: bool,
}
