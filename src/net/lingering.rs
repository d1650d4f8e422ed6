//! Closing in a way that lets the peer read the last answer: a socket that is closed with unread
//! bytes is reset, and a reset may overtake the answer (RFC 9112 section 9.6).

use bytes::BytesMut;

use crate::limits;
use crate::runtime::Stream;

/// Ends our direction, then reads and drops what still comes until the peer ends its own, `is_due`
/// says so or too much came. Whoever calls sees to it that a read under way ends in time.
pub(super) async fn linger(
    stream: &Stream,
    mut buffer: BytesMut,
    is_due: impl Fn() -> bool,
) -> BytesMut {
    stream.shutdown_write();
    let mut dropped = 0;
    loop {
        buffer.clear();
        let (result, returned) = stream.read(buffer, usize::MAX).await;
        buffer = returned;
        match result {
            Ok(count) if count > 0 => dropped += count,
            _ => return buffer,
        }
        if is_due() || dropped > limits::LINGER_BYTES_MAX {
            return buffer;
        }
    }
}
