//! What operators ask for. Whatever pushes something is judged like a push (`judge/replays`); the rest
//! changes rows by itself, and what was remembered of them is forgotten.

use super::state::Memory;
use super::{Asked, judge_of, set_clock};
use crate::engine::{Engine, Shards};
use crate::model::TenantId;
use crate::model::durable::{Administer, Administered, Command, Reply};
use crate::postgres::{Session, SessionFault};

impl<S: Shards> Engine<S> {
    /// Serves an operator. What came before is stored already.
    pub(super) fn serve_operator(&mut self, asked: Asked) {
        let Command::Administer(administer) = &asked.command else {
            unreachable!("only what operators ask for comes here");
        };
        if asked.command.pushes() {
            return self.serve_batch(vec![asked]);
        }
        let Some(session) = &mut self.session else {
            let reason = "PostgreSQL does not answer";
            return self.refuse_durable(asked.client, reason, false);
        };
        let memory = &mut self.durable;
        let done = set_clock(memory, session)
            .and_then(|()| carry_out(memory, session, asked.tenant, administer));
        match done {
            Ok(answer) => {
                let reply = Reply::Administered(Box::new(answer));
                self.answer_durable(asked.client, Ok(reply));
                // Whoever waits may have something now.
                self.serve_batch(Vec::new());
            }
            Err(fault) => self.durable_failed(vec![asked], fault),
        }
    }
}

fn carry_out(
    memory: &mut Memory,
    session: &mut Session,
    tenant: TenantId,
    administer: &Administer,
) -> Result<Administered, SessionFault> {
    match administer {
        Administer::DeleteGroup(asked) => {
            let changed = session.delete_group(tenant, asked)?;
            for queue in &changed.queues {
                memory.changed(tenant, queue);
            }
            Ok(Administered::GroupDeleted {
                asked: asked.clone(),
                cursors: changed.cursors,
            })
        }
        Administer::Seek(asked) => {
            let partitions = session.seek_group(tenant, asked)?;
            if partitions > 0 {
                memory.changed(tenant, &asked.queue);
            }
            Ok(Administered::Sought {
                asked: asked.clone(),
                partitions,
            })
        }
        Administer::Subscribe(asked) => Ok(Administered::Subscribed {
            asked: asked.clone(),
            queues: session.set_group_start(tenant, asked)?,
        }),
        Administer::DiscardLetter(asked) => Ok(Administered::LetterDiscarded {
            asked: asked.clone(),
            discarded: session.discard_letters_of(tenant, asked)?,
        }),
        Administer::DiscardLetters(filter) => {
            let (discarded, more) = session.discard_letters(tenant, filter)?;
            Ok(Administered::LettersDiscarded { discarded, more })
        }
        Administer::RecordTrace(trace) => {
            let offset =
                judge_of(memory, session).offset_of(tenant, &trace.message, &trace.group)?;
            Ok(Administered::TraceRecorded {
                message: trace.message.clone(),
                id: session.record_trace(tenant, trace, offset)?,
            })
        }
        Administer::Replay(_) | Administer::ReplayLetters(_) => {
            unreachable!("what pushes something is judged")
        }
    }
}
