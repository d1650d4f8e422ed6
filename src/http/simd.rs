//! Sixteen bytes at once: where a run of the usual bytes of a name, a value or a target ends.
//!
//! The runs are of what clients send, not of all that the grammar allows: what ends a run may still
//! be allowed, and the caller looks it up in its table of [`super::octets`].

/// Bytes that are looked at together.
pub(super) const WIDTH: usize = 16;

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    /// Letters and hyphens.
    Name,
    /// Letters, digits, hyphens and dots.
    Host,
    /// Printable ASCII.
    Value,
    /// Graphic ASCII without `!`, `#`, `%`, `'` and `?`.
    Target,
}

/// A chunk of two halves.
#[inline]
pub(super) fn halves(first: &[u8; WIDTH / 2], last: &[u8; WIDTH / 2]) -> [u8; WIDTH] {
    let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    (u128::from(first) | u128::from(last) << 64).to_le_bytes()
}

/// How many bytes at the start of `chunk` are of the run.
#[inline]
pub(super) fn run_length(run: Run, chunk: &[u8; WIDTH]) -> usize {
    // A bit above those of the bytes: a chunk without any stop is one run.
    (stops(run, chunk) | 1 << WIDTH).trailing_zeros() as usize
}

/// A bit for each byte that is not of the run, that of the first byte lowest.
#[inline]
pub(super) fn stops(run: Run, chunk: &[u8; WIDTH]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has SSE2.
    #[allow(unsafe_code, reason = "the compiler makes no such scan of safe code")]
    return unsafe { sse2::stops(run, chunk) };
    #[cfg(not(target_arch = "x86_64"))]
    portable::stops(run, chunk)
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8,
        _mm_cmplt_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    };

    use super::{Run, WIDTH};

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn stops(run: Run, chunk: &[u8; WIDTH]) -> u32 {
        // By value: the load instruction takes a pointer, which would be unsafe.
        let number = u128::from_le_bytes(*chunk);
        let bytes = _mm_set_epi64x((number >> 64) as i64, number as i64);
        let stops = match run {
            Run::Name => name_stops(bytes),
            Run::Host => host_stops(bytes),
            Run::Value => stops_below(bytes, b' '),
            Run::Target => target_stops(bytes),
        };
        _mm_movemask_epi8(stops) as u32
    }

    /// Bytes below `bound`, DEL and those above ASCII: one more than these is below one more than
    /// `bound`, as signed numbers.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn stops_below(bytes: __m128i, bound: u8) -> __m128i {
        let next = _mm_add_epi8(bytes, _mm_set1_epi8(1));
        _mm_cmplt_epi8(next, _mm_set1_epi8(bound as i8 + 1))
    }

    /// Bytes from `first` to `last`, both ASCII: moved so that `last` is the highest of the signed
    /// numbers, one comparison finds them.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn from_to(bytes: __m128i, first: u8, last: u8) -> __m128i {
        let moved = _mm_add_epi8(bytes, _mm_set1_epi8((0x7f - last) as i8));
        _mm_cmpgt_epi8(moved, _mm_set1_epi8((0x7f - last + first - 1) as i8))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn letters(bytes: __m128i) -> __m128i {
        from_to(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), b'a', b'z')
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn name_stops(bytes: __m128i) -> __m128i {
        let hyphens = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'-' as i8));
        _mm_andnot_si128(_mm_or_si128(letters(bytes), hyphens), _mm_set1_epi8(-1))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn host_stops(bytes: __m128i) -> __m128i {
        // What stands from the hyphen to the digits, less the one that is neither, nor a dot.
        let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'/' as i8));
        let usual = _mm_or_si128(letters(bytes), from_to(bytes, b'-', b'9'));
        _mm_or_si128(slashes, _mm_andnot_si128(usual, _mm_set1_epi8(-1)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn target_stops(bytes: __m128i) -> __m128i {
        // Four of one pattern: `!`, `#`, `%` and `'`.
        let pattern = _mm_and_si128(bytes, _mm_set1_epi8(!0x06));
        let escapes = _mm_cmpeq_epi8(pattern, _mm_set1_epi8(b'!' as i8));
        let questions = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'?' as i8));
        let marks = _mm_or_si128(escapes, questions);
        _mm_or_si128(marks, stops_below(bytes, b'!'))
    }
}

/// For other processors, and what the other way is tested against.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::{Run, WIDTH};

    pub(super) fn stops(run: Run, chunk: &[u8; WIDTH]) -> u32 {
        let bits = chunk.iter().rev();
        bits.fold(0, |stops, &byte| {
            stops << 1 | u32::from(!is_usual(run, byte))
        })
    }

    fn is_usual(run: Run, byte: u8) -> bool {
        match run {
            Run::Name => byte.is_ascii_alphabetic() || byte == b'-',
            Run::Host => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'),
            Run::Value => byte == b' ' || byte.is_ascii_graphic(),
            Run::Target => {
                byte.is_ascii_graphic() && !matches!(byte, b'!' | b'#' | b'%' | b'\'' | b'?')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_stop_at_the_same_bytes() {
        for run in [Run::Name, Run::Host, Run::Value, Run::Target] {
            for byte in 0..=255 {
                for position in 0..WIDTH {
                    let mut chunk = [b'v'; WIDTH];
                    chunk[position] = byte;
                    let expected = portable::stops(run, &chunk);
                    assert_eq!(stops(run, &chunk), expected, "{run:?} {byte} {position}");
                }
            }
        }
    }
}
