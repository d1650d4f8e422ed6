//! Whose answer comes next: HTTP/1.1 answers in the order of the requests.

use std::collections::VecDeque;

use crate::run::Slot;

/// The slots that wait for an answer, by connection. For workloads without standing work.
#[derive(Clone, Debug)]
pub(super) struct InOrder(Vec<VecDeque<usize>>);

impl InOrder {
    pub(super) fn new(connections: usize) -> InOrder {
        InOrder(vec![VecDeque::new(); connections])
    }

    /// A request was written for this slot.
    pub(super) fn sent(&mut self, slot: Slot) {
        self.0[slot.connection].push_back(slot.index);
    }

    /// The slot whose request was answered on this connection.
    pub(super) fn answered(&mut self, connection: usize) -> Slot {
        let index = self.0[connection]
            .pop_front()
            .expect("an answer follows a request");
        Slot { index, connection }
    }
}
