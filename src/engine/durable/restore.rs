//! Pushes that were spooled, on their way into the database; later ones wait behind them.

use super::judge::Judge;
use super::state::Memory;
use super::store::Store;
use super::{Asked, Served, set_clock, store_judged};
use crate::engine::spool::Entry;
use crate::engine::{Engine, Shards};
use crate::postgres::SessionFault;
use crate::postgres::durable::SpoolStep;

impl<S: Shards> Engine<S> {
    /// While pushes wait to be stored, later ones wait behind them; what pushes and must happen at once
    /// is refused.
    pub(super) fn divert(&mut self, batch: Vec<Asked>) -> Vec<Asked> {
        // What gathered for the spool has come before.
        self.desk.spool_gathered();
        if !self.desk.outage.has_waiting() {
            return batch;
        }
        let (pushes, rest): (Vec<Asked>, Vec<Asked>) =
            batch.into_iter().partition(|asked| asked.command.pushes());
        let reason = "earlier pushes wait to be stored";
        pushes
            .into_iter()
            .for_each(|asked| self.refuse_or_spool(asked, reason, false));
        rest
    }

    /// Stores some of the pushes that were accepted while PostgreSQL did not answer.
    pub(super) fn restore_spooled(&mut self) {
        // What has come is behind what waits.
        self.desk.spool_gathered();
        while self.desk.outage.has_waiting() && self.session.is_some() {
            if let Err(reason) = self.restore_some() {
                self.desk.outage.complain(reason);
                break;
            }
            self.desk.tend();
        }
    }

    fn restore_some(&mut self) -> Result<(), String> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let known = match (self.desk.outage.stored(), self.desk.outage.identity()) {
            (None, Some(identity)) => set_clock(&mut self.durable, session)
                .and_then(|()| session.spool_position(identity))
                .map(Some),
            (stored, _) => Ok(stored),
        };
        let done = match known {
            Ok(Some(stored)) => {
                let noted = self.desk.outage.set_stored(stored);
                noted.map_err(|fault| fault.to_string())?;
                if !self.desk.outage.has_waiting() {
                    return Ok(());
                }
                let next = self.desk.outage.next().map_err(|fault| fault.to_string())?;
                let Some((entries, step)) = next else {
                    return Err(
                        "the spool has nothing where the database says it goes on".to_owned()
                    );
                };
                restore(&mut self.durable, session, (&entries, step))
                    .map(|served| (served, entries, step))
            }
            Ok(None) => return Ok(()),
            Err(fault) => Err(fault),
        };
        match done {
            Ok((Served::Done(answers), entries, step)) => {
                for (client, answer) in answers {
                    self.answer_durable(client, answer);
                }
                let settled = self.desk.outage.settle(&entries, &step);
                settled.map_err(|fault| fault.to_string())
            }
            Ok((Served::Contended, ..)) => {
                // Another one may have stored them, or it was this one and the answer was lost.
                self.desk.outage.forget_stored();
                Err("the spool is stored up to somewhere else; it is looked up again".to_owned())
            }
            Err(fault) => {
                self.desk.outage.forget_stored();
                let reason = fault.to_string();
                self.note_fault(fault);
                Err(reason)
            }
        }
    }
}

/// Stores spooled pushes.
fn restore(
    memory: &mut Memory,
    store: &mut dyn Store,
    (entries, step): (&[Entry], SpoolStep),
) -> Result<Served, SessionFault> {
    let mut judge_all = |judge: &mut Judge<'_>| {
        judge.draft.spooled = Some(step);
        entries.iter().try_for_each(|entry| judge.restore(entry))
    };
    store_judged(memory, store, &mut judge_all)
}
