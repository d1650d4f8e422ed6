//! A listing of queues, built and written in bounded steps.

use std::borrow::Cow;

use bytes::BytesMut;

use crate::api::{ListRequest, ListWriter};
use crate::http::ResponseStyle;
use crate::limits;
use crate::model::{ClientRef, Command, ListQueues, QueuePage, TenantId};

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    client: ClientRef,
    tenant: TenantId,
    after: Option<String>,
    prefix: String,
    /// Rows that may still be written; `None`: all there are.
    left: Option<u64>,
    writer: Option<ListWriter>,
}

impl Listing {
    /// Writes the head of the answer.
    pub(super) fn begin(
        client: ClientRef,
        tenant: TenantId,
        request: ListRequest<'_>,
        style: ResponseStyle,
        out: &mut BytesMut,
    ) -> Listing {
        Listing {
            client,
            tenant,
            after: request.after.map(Cow::into_owned),
            prefix: request.prefix.into_owned(),
            left: request.limit,
            writer: Some(ListWriter::begin(style, out)),
        }
    }

    /// Who is answered.
    pub(super) fn client(&self) -> ClientRef {
        self.client
    }

    /// Whose queues are listed.
    pub(super) fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The command of the next step.
    pub(super) fn command(&self) -> Command<'_> {
        let step = limits::LIST_STEP_ROWS as u64;
        Command::Queues(ListQueues {
            after: self.after.as_deref().map(Cow::Borrowed),
            prefix: Cow::Borrowed(&self.prefix),
            limit: self.left.map_or(step, |left| left.min(step)) as u32,
        })
    }

    /// Writes a step; `false` when it was the last.
    pub(super) fn step(&mut self, page: &QueuePage, out: &mut BytesMut) -> bool {
        let Some(mut writer) = self.writer.take() else {
            return false;
        };
        writer.rows(&page.rows, out);
        if let Some(left) = &mut self.left {
            *left -= page.rows.len() as u64;
        }
        if let Some(last) = page.rows.last() {
            self.after = Some(last.queue.to_string());
        }
        if page.more && self.left != Some(0) {
            self.writer = Some(writer);
            return true;
        }
        let next_after = self.after.as_deref().filter(|_| page.more);
        writer.end(page.broker_bytes, next_after, out);
        false
    }
}
