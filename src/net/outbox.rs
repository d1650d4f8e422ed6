//! What a connection still owes: answers in request order, the bytes of those that may leave, and
//! the claims of those that have not left.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use bytes::BytesMut;

use super::Called;
use crate::http::ResponseStyle;
use crate::limits;

/// Capacity above which a buffer is not kept once it is empty.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// Requests that a connection keeps room for while it waits for an answer.
const ORDER_KEPT: usize = 4;

const _: () = assert!(size_of::<Slot<[u64; 16], [u64; 16]>>() <= 16);

/// The answers of one connection.
#[derive(Debug)]
pub(super) struct Outbox<C, L> {
    /// Requests without an answer in `out`, oldest first; the oldest is never ready, except while
    /// a listing is under way.
    order: VecDeque<Slot<C, L>>,
    /// Number of the first request of `order`.
    first: u64,
    /// Answers that may leave.
    out: BytesMut,
    /// `out` is with the writer of an answer.
    lent: bool,
    /// Bytes in the slots of `order`.
    slot_bytes: usize,
    /// The answer in steps that is under way; nothing behind it leaves.
    listing: Option<L>,
    /// An answer in steps waits in `order`.
    listing_waits: bool,
    /// Claims by the stream offset behind the last byte of their answers.
    claims: VecDeque<(u64, C)>,
    /// Stream offset behind the last byte that was put into `out`.
    queued: u64,
    /// Stream offset behind the last byte that the kernel accepted.
    accepted: u64,
    /// No further request is taken: the last one was, or never will come.
    sealed: bool,
}

/// One request and what became of it.
#[derive(Debug)]
enum Slot<C, L> {
    /// Its answer comes later; `forwarded`: even if the client closes its half meanwhile.
    Open {
        style: ResponseStyle,
        forwarded: bool,
    },
    /// Its answer waits for its turn.
    Ready(Box<Answer<C, L>>),
    /// It gets no answer, and neither does what is behind it.
    Dropped,
}

/// An answer that waits for its turn.
#[derive(Debug)]
struct Answer<C, L> {
    bytes: BytesMut,
    claim: Option<C>,
    listing: Option<L>,
}

/// A buffer lent for an answer.
#[derive(Debug)]
pub(super) struct Draft {
    /// Number of the request on its connection.
    pub(super) request: u64,
    /// How the answer is framed.
    pub(super) style: ResponseStyle,
    /// Where to append it.
    pub(super) bytes: BytesMut,
    /// Bytes that belong to earlier answers.
    before: usize,
    /// Whether `bytes` is the outbox's own buffer.
    direct: bool,
}

/// What is left when a connection ends.
#[derive(Debug)]
pub(super) struct Remains<C> {
    /// Requests that were never answered and not dropped either.
    pub(super) open: Vec<u64>,
    /// Claims of answers that did not leave whole.
    pub(super) claims: Vec<C>,
}

impl<C, L> Outbox<C, L> {
    /// Owes nothing.
    pub(super) fn new() -> Outbox<C, L> {
        Outbox {
            order: VecDeque::new(),
            first: 0,
            out: BytesMut::new(),
            lent: false,
            slot_bytes: 0,
            listing: None,
            listing_waits: false,
            claims: VecDeque::new(),
            queued: 0,
            accepted: 0,
            sealed: false,
        }
    }

    /// Whether another request may be called now.
    pub(super) fn can_take(&self) -> bool {
        !self.sealed
            && self.listing.is_none()
            && !self.listing_waits
            && self.order.len() < limits::PIPELINE_REQUESTS_MAX
            && self.out.len() + self.slot_bytes <= limits::PIPELINE_ANSWER_BYTES_MAX
    }

    /// No further request is taken.
    pub(super) fn seal(&mut self) {
        self.sealed = true;
    }

    /// Whether no further request is taken.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether a request waits for its answer.
    pub(super) fn has_open(&self) -> bool {
        !self.order.is_empty()
    }

    /// Whether a request waits for its answer that only a client waits for that has not closed its
    /// half.
    pub(super) fn has_parked(&self) -> bool {
        let parked = |slot: &Slot<C, L>| {
            matches!(
                slot,
                Slot::Open {
                    forwarded: false,
                    ..
                }
            )
        };
        self.order.iter().any(parked)
    }

    /// Whether this request waits for its answer.
    pub(super) fn is_open(&self, request: u64) -> bool {
        let index = self.index(request);
        index.is_some_and(|index| matches!(self.order[index], Slot::Open { .. }))
    }

    /// Numbers of the requests whose answers are not in `out`.
    pub(super) fn unsettled(&self) -> Range<u64> {
        self.first..self.requests()
    }

    /// Whether the next to be answered never will be, after everything before it is in `out`.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.order.front(), Some(Slot::Dropped))
    }

    /// Whether every answer is in `out` or has left.
    pub(super) fn is_settled(&self) -> bool {
        self.order.is_empty() && self.listing.is_none()
    }

    /// Whether everything has left and nothing will follow.
    pub(super) fn is_finished(&self) -> bool {
        self.sealed && self.is_settled() && self.out.is_empty()
    }

    /// Number of the next request; also how many there were.
    pub(super) fn requests(&self) -> u64 {
        self.first + self.order.len() as u64
    }

    /// Appends bytes that are no answer. Only when settled.
    pub(super) fn push_interim(&mut self, bytes: &[u8]) {
        assert!(self.is_settled());
        self.out.extend_from_slice(bytes);
        self.queued += bytes.len() as u64;
    }

    /// Takes the next request and lends a buffer for an immediate answer.
    pub(super) fn begin_call(&mut self, style: ResponseStyle) -> Draft {
        assert!(self.order.len() < limits::PIPELINE_REQUESTS_MAX);
        assert!(!self.lent);
        let request = self.requests();
        self.order.push_back(Slot::Open {
            style,
            forwarded: false,
        });
        self.lend(request, style, self.order.len() == 1)
    }

    /// Takes the buffer back with what became of the call.
    pub(super) fn end_call(&mut self, draft: Draft, called: Called<C, L>) {
        match called {
            Called::Answered(claim) => self.ready(draft, claim, None),
            Called::Streaming(listing) => {
                if !draft.style.keeps_alive_after_stream() {
                    self.sealed = true;
                }
                self.ready(draft, None, listing);
            }
            Called::Parked => self.leave_open(draft, false),
            Called::Forwarded => self.leave_open(draft, true),
        }
    }

    /// The answer to the request of `draft` comes later, or came while it was called.
    fn leave_open(&mut self, draft: Draft, is_forwarded: bool) {
        assert!(
            draft.bytes.len() == draft.before,
            "a request without an answer wrote one"
        );
        if let Some(index) = self.index(draft.request)
            && let Slot::Open { forwarded, .. } = &mut self.order[index]
        {
            *forwarded = is_forwarded;
        }
        if draft.direct {
            self.take_back(draft.bytes);
        }
        self.settle();
    }

    /// Lends a buffer for the answer to an open request; `None` if it is not open (any more).
    pub(super) fn begin_answer(&mut self, request: u64) -> Option<Draft> {
        let index = self.index(request)?;
        let Slot::Open { mut style, .. } = self.order[index] else {
            return None;
        };
        let is_last = matches!(self.order.get(index + 1), None | Some(Slot::Dropped));
        if self.sealed && is_last {
            style.keep_alive = false;
        }
        let direct = index == 0 && !self.lent && self.listing.is_none();
        Some(self.lend(request, style, direct))
    }

    /// Takes the buffer back with the answer in it.
    pub(super) fn end_answer(&mut self, draft: Draft, claim: Option<C>) {
        self.ready(draft, claim, None);
    }

    /// An open request gets no answer; no further request is taken.
    pub(super) fn drop_request(&mut self, request: u64) {
        if self.is_open(request)
            && let Some(index) = self.index(request)
        {
            self.order[index] = Slot::Dropped;
            self.sealed = true;
        }
    }

    /// Where a request is in `order`.
    fn index(&self, request: u64) -> Option<usize> {
        let index = usize::try_from(request.checked_sub(self.first)?).ok()?;
        (index < self.order.len()).then_some(index)
    }

    fn lend(&mut self, request: u64, style: ResponseStyle, direct: bool) -> Draft {
        let direct = direct && self.listing.is_none();
        let bytes = if direct {
            mem::take(&mut self.out)
        } else {
            BytesMut::new()
        };
        self.lent |= direct;
        Draft {
            request,
            style,
            before: bytes.len(),
            bytes,
            direct,
        }
    }

    fn take_back(&mut self, bytes: BytesMut) {
        assert!(self.lent);
        self.lent = false;
        self.out = bytes;
    }

    /// The request of `draft` has its answer.
    fn ready(&mut self, draft: Draft, claim: Option<C>, listing: Option<L>) {
        let index = (draft.request - self.first) as usize;
        assert!(
            matches!(self.order[index], Slot::Open { .. }),
            "a request was answered twice, or answered and dropped"
        );
        if draft.direct {
            assert!(index == 0);
            self.order.pop_front();
            self.first += 1;
            self.queued += (draft.bytes.len() - draft.before) as u64;
            self.take_back(draft.bytes);
            self.listing = listing;
            self.claims.extend(claim.map(|claim| (self.queued, claim)));
        } else {
            self.slot_bytes += draft.bytes.len();
            self.listing_waits |= listing.is_some();
            self.order[index] = Slot::Ready(Box::new(Answer {
                bytes: draft.bytes,
                claim,
                listing,
            }));
        }
        self.settle();
    }

    /// Moves the answers whose turn it is into `out`.
    fn settle(&mut self) {
        while self.listing.is_none() && !self.lent {
            if !matches!(self.order.front(), Some(Slot::Ready(_))) {
                return;
            }
            let Some(Slot::Ready(answer)) = self.order.pop_front() else {
                unreachable!()
            };
            self.first += 1;
            self.slot_bytes -= answer.bytes.len();
            self.queued += answer.bytes.len() as u64;
            if self.out.is_empty() {
                self.out = answer.bytes;
            } else {
                self.out.extend_from_slice(&answer.bytes);
            }
            self.claims
                .extend(answer.claim.map(|claim| (self.queued, claim)));
            if answer.listing.is_some() {
                self.listing = answer.listing;
                self.listing_waits = false;
            }
        }
    }

    /// The answer in steps that is under way, and the buffer for its next step.
    pub(super) fn begin_step(&mut self) -> Option<(L, BytesMut)> {
        let listing = self.listing.take()?;
        Some((listing, mem::take(&mut self.out)))
    }

    /// Takes the next step back; without a listing it was the last one.
    pub(super) fn end_step(&mut self, listing: Option<L>, before: usize, bytes: BytesMut) {
        self.queued += (bytes.len() - before) as u64;
        self.out = bytes;
        self.listing = listing;
        self.settle();
    }

    /// The bytes that may leave now, if any.
    pub(super) fn take_out(&mut self) -> Option<BytesMut> {
        assert!(!self.lent);
        if self.out.is_empty() {
            return None;
        }
        Some(mem::take(&mut self.out))
    }

    /// The kernel accepted `count` more bytes; the claims of whole answers end.
    pub(super) fn accept(&mut self, count: usize) {
        self.accepted += count as u64;
        assert!(self.accepted <= self.queued);
        while self
            .claims
            .front()
            .is_some_and(|(end, _)| *end <= self.accepted)
        {
            self.claims.pop_front();
        }
    }

    /// Keeps a written buffer for the next answers unless it is large.
    pub(super) fn recycle(&mut self, mut bytes: BytesMut) {
        if self.out.capacity() == 0 && bytes.capacity() <= KEEP_BYTES_MAX {
            bytes.clear();
            self.out = bytes;
        }
    }

    /// Gives back what answers have used that have left: whoever waits for long holds no buffer.
    pub(super) fn release(&mut self) {
        assert!(!self.lent);
        if self.out.is_empty() {
            self.out = BytesMut::new();
        }
        if self.claims.is_empty() {
            self.claims = VecDeque::new();
        }
        self.order.shrink_to(ORDER_KEPT);
    }

    /// Ends everything.
    pub(super) fn tear_down(&mut self) -> Remains<C> {
        let mut claims: Vec<C> = self.claims.drain(..).map(|(_, claim)| claim).collect();
        let mut open = Vec::new();
        for (request, slot) in (self.first..).zip(self.order.drain(..)) {
            match slot {
                Slot::Open { .. } => open.push(request),
                Slot::Ready(answer) => claims.extend(answer.claim),
                Slot::Dropped => {}
            }
        }
        self.listing = None;
        self.sealed = true;
        Remains { open, claims }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: ResponseStyle = ResponseStyle {
        http_1_0: false,
        keep_alive: true,
        head_only: false,
    };

    type TestOutbox = Outbox<char, ()>;

    fn answer_now(outbox: &mut TestOutbox, bytes: &[u8], claim: char) {
        let mut draft = outbox.begin_call(STYLE);
        draft.bytes.extend_from_slice(bytes);
        outbox.end_call(draft, Called::Answered(Some(claim)));
    }

    fn park(outbox: &mut TestOutbox) -> u64 {
        leave(outbox, Called::Parked)
    }

    fn forward(outbox: &mut TestOutbox) -> u64 {
        leave(outbox, Called::Forwarded)
    }

    fn leave(outbox: &mut TestOutbox, called: Called<char, ()>) -> u64 {
        let draft = outbox.begin_call(STYLE);
        let request = draft.request;
        outbox.end_call(draft, called);
        request
    }

    fn answer_later(outbox: &mut TestOutbox, request: u64, bytes: &[u8], claim: char) -> bool {
        let Some(mut draft) = outbox.begin_answer(request) else {
            return false;
        };
        draft.bytes.extend_from_slice(bytes);
        outbox.end_answer(draft, Some(claim));
        true
    }

    fn written(outbox: &mut TestOutbox) -> Vec<u8> {
        let bytes = outbox.take_out().unwrap_or_default();
        outbox.accept(bytes.len());
        bytes.to_vec()
    }

    #[test]
    fn answers_leave_in_request_order() {
        let mut outbox = Outbox::new();
        answer_now(&mut outbox, b"0", 'a');
        let (first, second) = (park(&mut outbox), park(&mut outbox));
        answer_now(&mut outbox, b"3", 'd');
        assert_eq!(written(&mut outbox), b"0");
        assert!(answer_later(&mut outbox, second, b"2", 'c'));
        assert_eq!(written(&mut outbox), b"");
        assert!(answer_later(&mut outbox, first, b"1", 'b'));
        assert!(!answer_later(&mut outbox, first, b"1", 'b'));
        assert!(!answer_later(&mut outbox, 99, b"1", 'b'));
        assert_eq!(written(&mut outbox), b"123");
        assert!(outbox.is_settled() && !outbox.is_finished());
        assert!(outbox.tear_down().claims.is_empty());
    }

    #[test]
    fn a_claim_ends_with_the_last_byte_of_its_answer() {
        let mut outbox = Outbox::new();
        answer_now(&mut outbox, b"1234", 'a');
        answer_now(&mut outbox, b"5678", 'b');
        let parked = park(&mut outbox);
        answer_now(&mut outbox, b"9", 'c');
        assert_eq!(outbox.take_out().unwrap().len(), 8);
        outbox.accept(7);
        let remains = outbox.tear_down();
        assert_eq!(remains.claims, ['b', 'c']);
        assert_eq!(remains.open, [parked]);
    }

    #[test]
    fn the_last_answer_of_a_sealed_connection_says_so() {
        let mut outbox = TestOutbox::new();
        let (first, second) = (park(&mut outbox), park(&mut outbox));
        outbox.seal();
        let draft = outbox.begin_answer(first).unwrap();
        assert!(draft.style.keep_alive);
        outbox.end_answer(draft, None);
        let draft = outbox.begin_answer(second).unwrap();
        assert!(!draft.style.keep_alive);
        outbox.end_answer(draft, None);
        assert!(outbox.is_finished());
    }

    #[test]
    fn only_an_open_request_is_parked() {
        let mut outbox = TestOutbox::new();
        let forwarded = forward(&mut outbox);
        assert!(outbox.has_open() && !outbox.has_parked());
        let parked = park(&mut outbox);
        assert!(outbox.has_parked());
        assert!(answer_later(&mut outbox, parked, b"1", 'b'));
        assert!(!outbox.has_parked());
        assert!(!outbox.is_open(parked) && outbox.is_open(forwarded));
        assert_eq!(outbox.unsettled(), forwarded..parked + 1);
        assert!(answer_later(&mut outbox, forwarded, b"0", 'a'));
        assert!(!outbox.has_open() && !outbox.is_open(forwarded));
        assert_eq!(written(&mut outbox), b"01");
    }

    #[test]
    fn nothing_behind_a_dropped_request_leaves() {
        let mut outbox = TestOutbox::new();
        let (first, dropped) = (forward(&mut outbox), forward(&mut outbox));
        answer_now(&mut outbox, b"2", 'c');
        let (later, last) = (forward(&mut outbox), forward(&mut outbox));
        outbox.drop_request(dropped);
        outbox.drop_request(dropped);
        assert!(outbox.is_sealed() && !outbox.is_cut());
        assert!(!answer_later(&mut outbox, dropped, b"1", 'b'));
        assert!(answer_later(&mut outbox, later, b"3", 'd'));
        let mut draft = outbox.begin_answer(first).unwrap();
        assert!(!draft.style.keep_alive, "nothing follows it");
        draft.bytes.extend_from_slice(b"0");
        outbox.end_answer(draft, Some('a'));
        assert!(outbox.is_cut() && !outbox.is_finished());
        outbox.drop_request(first);
        assert_eq!(written(&mut outbox), b"0");
        let remains = outbox.tear_down();
        assert_eq!(remains.claims, ['c', 'd']);
        assert_eq!(remains.open, [last]);
    }

    #[test]
    fn a_request_may_be_answered_or_dropped_while_it_is_called() {
        let mut outbox = TestOutbox::new();
        let draft = outbox.begin_call(STYLE);
        assert!(answer_later(&mut outbox, 0, b"0", 'a'));
        outbox.end_call(draft, Called::Forwarded);
        assert_eq!(written(&mut outbox), b"0");
        let before = forward(&mut outbox);
        let draft = outbox.begin_call(STYLE);
        assert!(answer_later(&mut outbox, draft.request, b"2", 'c'));
        assert!(answer_later(&mut outbox, before, b"1", 'b'));
        outbox.end_call(draft, Called::Forwarded);
        assert_eq!(written(&mut outbox), b"12");
        let draft = outbox.begin_call(STYLE);
        outbox.drop_request(draft.request);
        outbox.end_call(draft, Called::Forwarded);
        assert!(outbox.is_cut());
        assert!(outbox.tear_down().open.is_empty());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut outbox = TestOutbox::new();
        for _ in 0..limits::PIPELINE_REQUESTS_MAX {
            assert!(outbox.can_take());
            park(&mut outbox);
        }
        assert!(!outbox.can_take());
        let mut outbox = TestOutbox::new();
        park(&mut outbox);
        answer_now(
            &mut outbox,
            &vec![0; limits::PIPELINE_ANSWER_BYTES_MAX + 1],
            'a',
        );
        assert!(!outbox.can_take());
    }
}
