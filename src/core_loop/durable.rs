//! Requests of the durable class on a shard core: they go to the engine, stay open here, and their
//! answers come back as those from another shard do.

use std::collections::VecDeque;
use std::time::Instant;

use uuid::Uuid;

use super::open::{Open, OpenDurable};
use super::shard_core::{Answer, ShardCore};
use crate::api::DurableEcho;
use crate::limits::{GIVE_BACK_RETRY_MS, GIVE_BACKS_MAX};
use crate::model::durable::{Command, Popped, Reply as DurableReply};
use crate::model::{Change, ClientRef, Job, Moment, Refusal, Reply, TenantId};

/// What became of a request of the durable class.
#[derive(Debug)]
pub enum DurableOutcome {
    /// It is answered.
    Answered(Reply),
    /// It is a pop that may wait.
    Waits,
    /// The engine answers it as soon as it can.
    Forwarded,
}

/// What the engine has to be told and had no room for.
#[derive(Debug, Default)]
pub(super) struct Untold {
    jobs: VecDeque<Job>,
    /// When it is tried again; only where there is something.
    at: Option<Moment>,
}

impl Untold {
    /// When there is something to do.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.at
    }
}

impl ShardCore {
    /// Whether there is an engine.
    pub fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Hands a request of the durable class to the engine, which answers some time; its answer is left
    /// in [`ShardCore::next_answer`].
    ///
    /// # Panics
    /// If there is no engine.
    pub fn durable(
        &mut self,
        (client, tenant): (ClientRef, TenantId),
        mut command: Command,
    ) -> DurableOutcome {
        match &mut command {
            Command::Push(items) if items.is_empty() => {
                return answered(DurableReply::Pushed(vec![]));
            }
            Command::Ack(acks) if acks.is_empty() => return answered(DurableReply::Acked(vec![])),
            // Nobody begins to wait at a broker that stops.
            Command::Pop(pop) if self.stopping => pop.wait_ms = None,
            _ => {}
        }
        let waits = matches!(&command, Command::Pop(pop) if pop.wait_ms.is_some());
        let open = OpenDurable {
            echo: DurableEcho::of(&command),
            waits,
        };
        let change = Change::Durable(Box::new(command));
        if let Err(refusal) = self.send_to_engine(client, tenant, change) {
            return DurableOutcome::Answered(Reply::Refused(refusal));
        }
        let before = self.open.insert(client, Open::Durable(open));
        assert!(before.is_none(), "a request is open twice");
        if waits {
            DurableOutcome::Waits
        } else {
            DurableOutcome::Forwarded
        }
    }

    /// The client of a request that the engine has is gone. What it takes all the same will find nobody
    /// and is given back then.
    pub(super) fn abandon_durable(&mut self, now: Moment, client: ClientRef, open: &OpenDurable) {
        if open.waits {
            self.tell_engine(now, Command::Abandon { client });
        }
    }

    /// What a lease holds could not be delivered.
    pub fn release(&mut self, now: Moment, lease_id: Uuid) {
        self.tell_engine(now, Command::Release { lease_id });
    }

    /// The broker stops: every pop that waits is answered with nothing.
    pub(super) fn answer_durable_waits(&mut self, now: Moment) {
        let waits = |open: &Open| matches!(open, Open::Durable(open) if open.waits);
        let waiting: Vec<_> = self.open.extract_if(|_, open| waits(open)).collect();
        for (client, open) in waiting {
            let Open::Durable(open) = open else {
                unreachable!("only these were taken out");
            };
            self.abandon_durable(now, client, &open);
            let nothing = Popped {
                queue: None,
                group: "".into(),
                lease_id: None,
                claims: Vec::new(),
            };
            self.give(Answer {
                client,
                reply: Reply::Durable(Box::new(DurableReply::Popped(Box::new(nothing)))),
                command: None,
                durable: Some(open.echo),
            });
        }
    }

    /// Tells the engine what it need not answer, as soon as there is room.
    fn tell_engine(&mut self, now: Moment, command: Command) {
        // One that is not told ends by itself: a lease at its end, a wait when its time is up.
        if self.engine.is_none() || self.untold.jobs.len() == GIVE_BACKS_MAX {
            return;
        }
        self.untold.jobs.push_back(Job {
            client: ClientRef::NOBODY,
            tenant: TenantId::DEFAULT,
            change: Change::Durable(Box::new(command)),
            since: Instant::now(),
        });
        self.tell_untold(now);
    }

    /// Tells the engine what there was no room for, if there is room now.
    pub(super) fn tell_untold(&mut self, now: Moment) {
        let Some(engine) = &self.engine else {
            return;
        };
        while let Some(job) = self.untold.jobs.pop_front() {
            if let Some(job) = engine.tell(job) {
                self.untold.jobs.push_front(job);
                break;
            }
        }
        let is_left = !self.untold.jobs.is_empty();
        self.untold.at = is_left.then(|| now.after_ms(GIVE_BACK_RETRY_MS));
    }
}

fn answered(reply: DurableReply) -> DurableOutcome {
    DurableOutcome::Answered(Reply::Durable(Box::new(reply)))
}

/// The refusal of whatever would need an engine, where there is none.
pub(super) fn without_engine(why: Option<&str>) -> Reply {
    let why = why.unwrap_or("no database is wanted");
    Reply::Refused(Refusal::DurableAway {
        reason: format!("durable queues need PostgreSQL: {why}"),
        uncertain: false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crossbeam_channel::Receiver;

    use super::*;
    use crate::channel::{self, Frame, Port, mesh};
    use crate::core_loop::EngineLine;
    use crate::directory::{Bounds, Directory};
    use crate::engine::Status;
    use crate::model::Incarnation;
    use crate::model::durable::{Pop, Source};
    use crate::shard::{Shard, ShardSettings};

    const TENANT: TenantId = TenantId::from_u128(5);

    struct Rig {
        core: ShardCore,
        engine: Port,
        inbox: Receiver<Job>,
    }

    fn rig(inbox_jobs: usize) -> Rig {
        let directory = Arc::new(Directory::new(Bounds {
            broker_bytes: 1 << 20,
            queue_bytes: 1 << 20,
            queue_length: 100,
            lease_ms: 30_000,
            retry_limit: 5,
            rate: None,
            require_grant: false,
            tenants: 10,
            shards: 1,
        }));
        let settings = ShardSettings {
            incarnation: Incarnation(7),
            shard: 0,
            shards: 1,
            ttl_tick_ms: 100,
            linger_ms: 0,
            implicit_idle_ms: 0,
        };
        let (sender, inbox) = crossbeam_channel::bounded(inbox_jobs);
        let line = EngineLine::new(sender, Arc::new(Status::starting()));
        let mut ports = mesh(2, 4, 4);
        let engine = ports.pop().expect("the engine's");
        let port = ports.pop().expect("the core's");
        let shard = Shard::new(settings, Arc::clone(&directory));
        Rig {
            core: ShardCore::new(port, shard, directory).with_engine(line),
            engine,
            inbox,
        }
    }

    fn client(request: u64) -> ClientRef {
        ClientRef {
            core: 0,
            connection: 3,
            request,
            generation: 1,
        }
    }

    fn pop(wait_ms: Option<u64>) -> Command {
        Command::Pop(Pop {
            source: Source::Queue("q".into()),
            group: "g".into(),
            batch: 1,
            partitions: 1,
            autopilot: false,
            wait_ms,
            auto_ack: false,
            lease_s: None,
            start: None,
        })
    }

    impl Rig {
        fn ask(&mut self, request: u64, command: Command) -> DurableOutcome {
            self.core.durable((client(request), TENANT), command)
        }

        /// What the engine was told last.
        fn told(&self) -> (ClientRef, Command) {
            let job = self.inbox.try_recv().expect("a job");
            match job.change {
                Change::Durable(command) => (job.client, *command),
                other => panic!("{other:?}"),
            }
        }

        /// The engine answers a request.
        fn answer(&mut self, request: u64, reply: DurableReply) -> Option<Answer> {
            let answer = Box::new(channel::Answer {
                client: client(request),
                reply: Reply::Durable(Box::new(reply)),
            });
            self.engine.reply(0, Frame::Reply(answer));
            assert!(self.core.receive_next(Moment::ZERO));
            self.core.next_answer()
        }
    }

    #[test]
    fn a_request_goes_to_the_engine_and_its_answer_comes_back_with_what_it_repeats() {
        let mut rig = rig(4);
        let delete = Command::Delete { queue: "q".into() };
        assert!(matches!(rig.ask(1, delete), DurableOutcome::Forwarded));
        assert!(matches!(rig.told(), (to, Command::Delete { .. }) if to == client(1)));
        assert!(matches!(rig.ask(2, pop(None)), DurableOutcome::Forwarded));
        assert!(matches!(rig.ask(3, pop(Some(5))), DurableOutcome::Waits));
        assert_eq!(rig.core.open_requests(), 3);
        let answer = rig.answer(1, DurableReply::Deleted { existed: true });
        let echo = DurableEcho::Delete { queue: "q".into() };
        assert_eq!(answer.and_then(|answer| answer.durable), Some(echo));
        assert_eq!(rig.core.open_requests(), 2);
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        let mut rig = rig(1);
        for command in [Command::Push(Vec::new()), Command::Ack(Vec::new())] {
            assert!(matches!(rig.ask(1, command), DurableOutcome::Answered(_)));
        }
        assert!(rig.inbox.is_empty());
    }

    #[test]
    fn a_full_inbox_is_an_answer() {
        let mut rig = rig(1);
        assert!(matches!(rig.ask(1, pop(None)), DurableOutcome::Forwarded));
        let DurableOutcome::Answered(Reply::Refused(refusal)) = rig.ask(2, pop(None)) else {
            panic!("there is no room");
        };
        assert!(matches!(refusal, Refusal::Overloaded { .. }));
        assert_eq!(rig.core.open_requests(), 1);
    }

    #[test]
    fn who_waits_and_vanishes_is_taken_back() {
        let mut rig = rig(4);
        rig.ask(1, pop(Some(5)));
        rig.told();
        rig.core.abandon(Moment::ZERO, client(1));
        let (to, command) = rig.told();
        assert_eq!(to, ClientRef::NOBODY);
        assert!(matches!(command, Command::Abandon { client: gone } if gone == client(1)));
        assert_eq!(rig.core.open_requests(), 0);
        // One that does not wait is answered, and gives back then what it took.
        rig.ask(2, pop(None));
        rig.told();
        rig.core.abandon(Moment::ZERO, client(2));
        assert!(rig.inbox.is_empty());
    }

    #[test]
    fn what_could_not_be_delivered_is_given_back_as_soon_as_there_is_room() {
        let mut rig = rig(1);
        let (start, lease_id) = (Moment::from_us(1_000), Uuid::from_u128(9));
        rig.ask(1, pop(None));
        rig.core.release(start, lease_id);
        let due = start.after_ms(GIVE_BACK_RETRY_MS);
        assert_eq!(rig.core.next_deadline(), Some(due));
        rig.core.tick(due);
        let again = due.after_ms(GIVE_BACK_RETRY_MS);
        assert_eq!(rig.core.next_deadline(), Some(again));
        assert!(matches!(rig.told(), (_, Command::Pop(_))));
        rig.core.tick(again);
        let (to, command) = rig.told();
        assert_eq!(to, ClientRef::NOBODY);
        assert!(matches!(command, Command::Release { lease_id: told } if told == lease_id));
        assert_eq!(rig.core.next_deadline(), None);
    }

    #[test]
    fn nobody_waits_at_a_broker_that_stops() {
        let mut rig = rig(8);
        rig.ask(1, pop(Some(5)));
        rig.ask(2, pop(None));
        rig.core.stop(Moment::ZERO);
        let answer = rig.core.next_answer().expect("it waited");
        assert_eq!(
            (answer.client, answer.durable),
            (client(1), Some(DurableEcho::Pop { autopilot: None }))
        );
        assert!(rig.core.next_answer().is_none());
        assert!(matches!(
            rig.ask(3, pop(Some(5))),
            DurableOutcome::Forwarded
        ));
        let told: Vec<Command> = (0..4).map(|_| rig.told().1).collect();
        let [
            Command::Pop(_),
            Command::Pop(_),
            Command::Abandon { .. },
            Command::Pop(last),
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(last.wait_ms, None);
    }
}
