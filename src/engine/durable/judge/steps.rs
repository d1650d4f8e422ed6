//! Steps: acks and pushes that happen together or not at all. Judged in the order acks, then pushes;
//! nothing changes before all of it is judged.

use uuid::Uuid;

use super::acks::{Judgement, parts_of};
use super::{Judge, Judged, new_id};
use crate::engine::durable::draft::Answer;
use crate::engine::durable::image::CursorRef;
use crate::engine::durable::settle::Settled;
use crate::model::TenantId;
use crate::model::durable::{
    Ack, AckRefused, PushItem, Reply, Step, StepOperation, StepOutcome, StepRefused, StepResult,
};

/// What all acks of a step come to.
struct Acks {
    settled: Vec<(CursorRef, Settled)>,
    /// By the number of the operation: whether its message goes to the dead letters.
    dead_lettered: Vec<bool>,
}

impl Judge<'_> {
    pub(super) fn step(&mut self, tenant: TenantId, step: &Step) -> Judged<Answer> {
        let mut pushes = step
            .operations
            .iter()
            .filter_map(|operation| match operation {
                StepOperation::Push(item) => Some(item),
                StepOperation::Ack(_) => None,
            });
        if let Some(refusal) = self.find_full(tenant, &mut pushes)? {
            return Ok(Answer::Refused(refusal));
        }
        let result = match self.judge_step(tenant, step)? {
            Err(refused) => {
                self.draft.refuses = true;
                Err(refused)
            }
            Ok(acks) => Ok(self.carry_out_step(tenant, step, acks)?),
        };
        Ok(Answer::Reply(Reply::Stepped(Box::new(StepOutcome {
            id: new_id(),
            result,
        }))))
    }

    fn judge_step(&mut self, tenant: TenantId, step: &Step) -> Judged<Result<Acks, StepRefused>> {
        for lease_id in &step.required_leases {
            if !self.is_live(tenant, lease_id)? {
                let lease_id = lease_id.clone();
                return Ok(Err(StepRefused::Lease { lease_id }));
            }
        }
        let acks = match self.judge_acks(tenant, step)? {
            Ok(acks) => acks,
            Err(refused) => return Ok(Err(refused)),
        };
        for (index, operation) in step.operations.iter().enumerate() {
            let StepOperation::Push(item) = operation else {
                continue;
            };
            if self.is_stored(tenant, item)? {
                return Ok(Err(StepRefused::Duplicate {
                    index,
                    transaction_id: item.transaction_id.clone(),
                }));
            }
        }
        Ok(Ok(acks))
    }

    /// Whether a lease holds something of the tenant's.
    fn is_live(&mut self, tenant: TenantId, lease_id: &str) -> Judged<bool> {
        let Ok(lease_id) = Uuid::try_parse(lease_id) else {
            return Ok(false);
        };
        // One place is enough: the lease need not be known whole.
        let remembered = self.remembered_of(tenant, lease_id);
        if self.is_any_leased(&remembered) {
            return Ok(true);
        }
        let held = self.held_by(tenant, lease_id)?;
        Ok(self.is_any_leased(&held))
    }

    fn is_any_leased(&self, cursors: &[CursorRef]) -> bool {
        let mut states = cursors.iter().map(|&cursor| self.cursor_state(cursor));
        states.any(|state| state.lease_until_us > self.now_us)
    }

    fn judge_acks(&mut self, tenant: TenantId, step: &Step) -> Judged<Result<Acks, StepRefused>> {
        let (places, acks): (Vec<usize>, Vec<Ack>) = step
            .operations
            .iter()
            .enumerate()
            .filter_map(|(place, operation)| match operation {
                StepOperation::Ack(ack) => Some((place, fenced(ack, step))),
                StepOperation::Push(_) => None,
            })
            .unzip();
        let mut judged = Acks {
            settled: Vec::new(),
            dead_lettered: vec![false; step.operations.len()],
        };
        for numbers in parts_of(&acks).into_values() {
            let part: Vec<&Ack> = numbers.iter().map(|&number| &acks[number]).collect();
            let judgement = self.judge_part(tenant, &part)?;
            let refusal = |number: usize, reason| StepRefused::Ack {
                index: places[number],
                reason,
                transaction_id: acks[number].transaction_id.clone(),
            };
            let Judgement::Settled(cursor, settled) = judgement else {
                return Ok(Err(refusal(numbers[0], AckRefused::NoConsumer)));
            };
            for (outcome, &number) in settled.outcomes.iter().zip(&numbers) {
                // What is settled already has been done by an earlier step.
                let settled_before = outcome.noop.then_some(AckRefused::Committed);
                if let Some(reason) = outcome.refused.or(settled_before) {
                    return Ok(Err(refusal(number, reason)));
                }
                judged.dead_lettered[places[number]] = outcome.dead_lettered;
            }
            judged.settled.push((cursor, settled));
        }
        Ok(Ok(judged))
    }

    /// Whether a message is stored already; makes nothing.
    pub(super) fn is_stored(&mut self, tenant: TenantId, item: &PushItem) -> Judged<bool> {
        let slot = self.queue(tenant, &item.queue)?;
        let Some(partition) = self.memory.queue(slot).partition(&item.partition) else {
            return Ok(false);
        };
        let known = self.find_known(slot, partition, item.transaction_id.as_bytes())?;
        Ok(known.is_some())
    }

    fn carry_out_step(
        &mut self,
        tenant: TenantId,
        step: &Step,
        acks: Acks,
    ) -> Judged<Vec<StepResult>> {
        for (cursor, settled) in acks.settled {
            self.carry_out(cursor, settled)?;
        }
        let mut results = Vec::with_capacity(step.operations.len());
        for (operation, dead_lettered) in step.operations.iter().zip(acks.dead_lettered) {
            results.push(match operation {
                StepOperation::Push(item) => {
                    let slot = self.queue(tenant, &item.queue)?;
                    StepResult::Pushed {
                        outcome: self.push(slot, item)?,
                    }
                }
                StepOperation::Ack(ack) => StepResult::Acked {
                    transaction_id: ack.transaction_id.clone(),
                    dead_lettered,
                },
            });
        }
        Ok(results)
    }
}

/// The ack under the lease that is meant: its own, else the only one that the step requires.
fn fenced(ack: &Ack, step: &Step) -> Ack {
    let mut ack = ack.clone();
    if let ([lease_id], None) = (&*step.required_leases, &ack.lease_id) {
        ack.lease_id = Some(lease_id.clone());
    }
    ack
}
