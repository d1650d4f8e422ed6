//! What a connection received and has not consumed.

use std::cell::RefCell;

use bytes::BytesMut;

/// Bytes of a read buffer at rest: what every idle connection holds.
pub(super) const READ_BYTES: usize = 4 * 1024;

/// Bytes of a read buffer of a connection that fills the small one.
const READ_BYTES_WIDE: usize = 64 * 1024;

/// Read buffers that a core keeps for connections that gave theirs back.
const POOL_BUFFERS_MAX: usize = 256;

/// Read buffers of one core that nobody uses.
#[derive(Debug, Default)]
pub(super) struct BufferPool(RefCell<Vec<BytesMut>>);

impl BufferPool {
    /// An empty buffer of [`READ_BYTES`].
    pub(super) fn take(&self) -> BytesMut {
        let pooled = self.0.borrow_mut().pop();
        pooled.unwrap_or_else(|| BytesMut::with_capacity(READ_BYTES))
    }

    /// Keeps a buffer that came from here, if it is still as it was.
    pub(super) fn give(&self, mut buffer: BytesMut) {
        let mut buffers = self.0.borrow_mut();
        if buffer.capacity() == READ_BYTES && buffers.len() < POOL_BUFFERS_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }
}

/// The read buffer of one connection.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: BytesMut,
    /// Bytes of `bytes` that were consumed.
    start: usize,
    /// The last read filled the buffer.
    wide: bool,
}

impl Input {
    /// What was not consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Whether all was consumed.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Consumes `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.bytes.len());
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Lends the buffer for a read, with room for at least one more byte and for `needed` unread
    /// bytes in all.
    pub(super) fn lend(&mut self, pool: &BufferPool, needed: usize) -> BytesMut {
        let mut bytes = std::mem::take(&mut self.bytes);
        if self.start > 0 {
            let rest = bytes.len() - self.start;
            bytes.copy_within(self.start.., 0);
            bytes.truncate(rest);
            self.start = 0;
        }
        if bytes.is_empty() {
            if self.wide && bytes.capacity() < READ_BYTES_WIDE {
                pool.give(bytes);
                bytes = BytesMut::with_capacity(READ_BYTES_WIDE);
            } else if !self.wide && bytes.capacity() != READ_BYTES {
                bytes = pool.take();
            }
        }
        let full = if bytes.len() == bytes.capacity() {
            bytes.len() * 2
        } else {
            0
        };
        let needed = needed.max(full);
        if needed > bytes.capacity() {
            bytes.reserve(needed - bytes.len());
        }
        bytes
    }

    /// Takes the buffer back after a read of `count` bytes.
    pub(super) fn restore(&mut self, bytes: BytesMut, count: usize) {
        assert!(self.bytes.is_empty() && self.start == 0);
        self.wide = bytes.len() == bytes.capacity() || (self.wide && count > READ_BYTES / 2);
        self.bytes = bytes;
    }

    /// Gives the buffer back if nothing is in it.
    pub(super) fn release(&mut self, pool: &BufferPool) {
        if self.is_empty() {
            pool.give(std::mem::take(&mut self.bytes));
            self.start = 0;
        }
    }

    /// Drops what was received.
    pub(super) fn discard(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(input: &mut Input, pool: &BufferPool, needed: usize, data: &[u8]) -> usize {
        let mut bytes = input.lend(pool, needed);
        let count = data.len().min(bytes.capacity() - bytes.len());
        bytes.extend_from_slice(&data[..count]);
        input.restore(bytes, count);
        count
    }

    #[test]
    fn a_partial_request_moves_to_the_front_and_grows() {
        let pool = BufferPool::default();
        let mut input = Input::default();
        assert_eq!(
            receive(&mut input, &pool, 0, &[7; READ_BYTES * 2]),
            READ_BYTES
        );
        input.consume(READ_BYTES - 1);
        assert_eq!(input.unread(), [7]);
        assert_eq!(
            receive(&mut input, &pool, READ_BYTES * 3, &[8; READ_BYTES * 2]),
            READ_BYTES * 2
        );
        assert_eq!(input.unread().len(), READ_BYTES * 2 + 1);
    }

    #[test]
    fn a_quiet_connection_returns_to_a_small_buffer() {
        let pool = BufferPool::default();
        let mut input = Input::default();
        receive(&mut input, &pool, 0, &[1; READ_BYTES]);
        input.consume(READ_BYTES);
        receive(&mut input, &pool, 0, b"x");
        assert_eq!(input.bytes.capacity(), READ_BYTES_WIDE);
        input.consume(1);
        receive(&mut input, &pool, 0, b"x");
        assert_eq!(input.bytes.capacity(), READ_BYTES);
        input.consume(1);
        input.release(&pool);
        assert_eq!(input.bytes.capacity(), 0);
        assert_eq!(pool.0.borrow().len(), 1);
    }
}
