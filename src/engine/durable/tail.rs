//! The newest messages of a partition, kept so that what was just stored is delivered without reading.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::model::durable::Piece;

/// Segments that follow upon each other up to the partition's end.
#[derive(Debug, Default)]
pub(super) struct Tail {
    segments: VecDeque<TailSegment>,
    bytes: usize,
}

/// A segment.
#[derive(Clone, Debug)]
pub(super) struct TailSegment {
    pub(super) base_offset: i64,
    pub(super) count: i64,
    pub(super) payload: Bytes,
}

impl TailSegment {
    fn end(&self) -> i64 {
        self.base_offset + self.count
    }
}

impl Tail {
    /// Appends a segment; what does not follow upon the last one begins anew.
    pub(super) fn push(&mut self, segment: TailSegment) {
        if self
            .segments
            .back()
            .is_some_and(|last| last.end() != segment.base_offset)
        {
            self.clear();
        }
        self.bytes += segment.payload.len();
        self.segments.push_back(segment);
    }

    /// Forgets the oldest until at most `bytes` are left.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(segment) = self.segments.pop_front()
        {
            self.bytes -= segment.payload.len();
        }
    }

    /// Forgets what lies at or behind an offset, with the segments that it is in.
    pub(super) fn forget_from(&mut self, offset: i64) {
        while let Some(segment) = self.segments.back()
            && segment.end() > offset
        {
            self.bytes -= segment.payload.len();
            self.segments.pop_back();
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Tail::default();
    }

    /// Bytes of memory, about: the messages, and what each of their segments takes besides.
    pub(super) fn memory_bytes(&self) -> usize {
        const SEGMENT_BYTES: usize = size_of::<TailSegment>() + 64;
        self.bytes + self.segments.len() * SEGMENT_BYTES
    }

    /// The messages `from..to`; `None` where not all of them are kept.
    pub(super) fn pieces(&self, from: i64, to: i64) -> Option<Vec<Piece>> {
        if self.segments.front()?.base_offset > from || self.segments.back()?.end() < to {
            return None;
        }
        let first = self
            .segments
            .partition_point(|segment| segment.end() <= from);
        let pieces = self
            .segments
            .range(first..)
            .take_while(|segment| segment.base_offset < to);
        let pieces = pieces.map(|segment| Piece {
            segment: segment.payload.clone(),
            base_offset: segment.base_offset,
            from: from.max(segment.base_offset),
            to: to.min(segment.end()),
        });
        Some(pieces.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(base_offset: i64, count: i64) -> TailSegment {
        TailSegment {
            base_offset,
            count,
            payload: Bytes::from(vec![0; 100]),
        }
    }

    #[test]
    fn pieces_are_cut_out_of_what_is_kept() {
        let mut tail = Tail::default();
        for segment in [segment(5, 3), segment(8, 2), segment(10, 5)] {
            tail.push(segment);
        }
        let cut = |from, to| {
            let pieces = tail.pieces(from, to)?;
            Some(
                pieces
                    .iter()
                    .map(|piece| (piece.from, piece.to))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(cut(6, 12), Some(vec![(6, 8), (8, 10), (10, 12)]));
        assert_eq!(cut(8, 10), Some(vec![(8, 10)]));
        assert_eq!(cut(4, 6), None);
        assert_eq!(cut(14, 16), None);
    }

    #[test]
    fn the_oldest_goes_first_and_a_gap_begins_anew() {
        let mut tail = Tail::default();
        for segment in [segment(0, 1), segment(1, 1), segment(2, 1)] {
            tail.push(segment);
        }
        tail.shrink_to(200);
        assert_eq!(tail.bytes, 200);
        assert!(tail.pieces(0, 1).is_none() && tail.pieces(1, 3).is_some());
        tail.push(segment(7, 1));
        assert!(tail.pieces(1, 3).is_none() && tail.pieces(7, 8).is_some());
    }
}
