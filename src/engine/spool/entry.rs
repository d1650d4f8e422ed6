//! One spooled push.

use bytes::{Buf, BufMut, Bytes};

use crate::model::TenantId;
use crate::model::durable::{Record, SegmentWriter, records};

const IS_UNCERTAIN: u8 = 1;

/// A message that waits to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Entry {
    /// Whose it is.
    pub(in crate::engine) tenant: TenantId,
    /// Its queue.
    pub(in crate::engine) queue: Box<str>,
    /// Its partition.
    pub(in crate::engine) partition: Box<str>,
    /// Whether it may be stored already: it was on its way when the connection broke.
    pub(in crate::engine) uncertain: bool,
    /// The message, with the id that was answered.
    pub(in crate::engine) record: Record,
}

impl Entry {
    /// Appends the entry.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.put_u8(if self.uncertain { IS_UNCERTAIN } else { 0 });
        bytes.put_u128_le(self.tenant.as_u128());
        for name in [&self.queue, &self.partition] {
            let length = u16::try_from(name.len()).expect("names are shorter");
            bytes.put_u16_le(length);
            bytes.put_slice(name.as_bytes());
        }
        let mut writer = SegmentWriter::default();
        writer.push(&self.record);
        bytes.put_slice(&writer.finish());
    }

    /// Reads an entry; `None`: it is none.
    pub(super) fn read(body: &[u8]) -> Option<Entry> {
        let mut bytes = Bytes::copy_from_slice(body);
        let flags = bytes.try_get_u8().ok()?;
        let tenant = TenantId::from_u128(bytes.try_get_u128_le().ok()?);
        let mut name = || -> Option<Box<str>> {
            let length = usize::from(bytes.try_get_u16_le().ok()?);
            let text = (length <= bytes.len()).then(|| bytes.split_to(length))?;
            Some(std::str::from_utf8(&text).ok()?.into())
        };
        let (queue, partition) = (name()?, name()?);
        Some(Entry {
            tenant,
            queue,
            partition,
            uncertain: flags & IS_UNCERTAIN != 0,
            record: records(&bytes).next()?,
        })
    }
}

#[cfg(test)]
pub(in crate::engine) mod test {
    use std::fs;
    use std::ops::Deref;
    use std::path::{Path, PathBuf};

    use uuid::Uuid;

    use super::*;

    /// A folder of a test; gone with all that is in it when dropped.
    #[derive(Debug)]
    pub(in crate::engine) struct Folder(PathBuf);

    impl Folder {
        pub(in crate::engine) fn new() -> Folder {
            let path = std::env::temp_dir().join(format!("queen-spool-{}", Uuid::new_v4()));
            fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }
    }

    impl Deref for Folder {
        type Target = Path;

        fn deref(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it is there");
        }
    }

    pub(in crate::engine) fn entry(number: u64) -> Entry {
        Entry {
            tenant: TenantId::DEFAULT,
            queue: "orders".into(),
            partition: format!("p{number}").into(),
            uncertain: number % 2 == 1,
            record: Record {
                message_id: Uuid::from_u128(u128::from(number) + 1),
                transaction_id: Bytes::from(format!("t{number}")),
                created_us: 1_000 + number as i64,
                trace_id: None,
                producer: None,
                encrypted: false,
                payload: Bytes::from_static(b"{\"a\":1}"),
            },
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_a_cut_one_is_none() {
        let mut bytes = Vec::new();
        entry(7).write(&mut bytes);
        assert_eq!(Entry::read(&bytes), Some(entry(7)));
        for end in 0..bytes.len() {
            assert_eq!(Entry::read(&bytes[..end]), None, "cut at {end}");
        }
    }
}
