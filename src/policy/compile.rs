//! Compiles a policy into arithmetic: the [`Kernel`], the [`Rules`] for its limit, and the layout of its word.

use super::{Algorithm, CountDenied, Policy};
use crate::algorithm::{
    CalendarWindow, FixedWindow, FromFirst, Gcra, Kernel, Packing, Penalty, Rules, SegmentedWindow,
    SlidingWindow, bits_for,
};
use crate::word::Fields;

/// The fineness of the units in a word. Each algorithm uses only some of these fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fineness {
    /// For GCRA: one unit is `2^unit_bits` ticks.
    pub(crate) unit_bits: u8,
    /// For windows from the first request: the start is rounded to a multiple of this length.
    pub(crate) quantum_ns: u64,
    /// For segmented windows: the way in which the word holds the counts.
    pub(crate) packing: Packing,
    /// For other windows: the end of a penalty is rounded to a multiple of this length.
    pub(crate) end_quantum_ns: u64,
}

impl Policy {
    /// The arithmetic of a word without a key, the layout of the word, and the rules for the limit. Returns `None` if
    /// the policy is stored in slots and not in a word.
    pub(crate) fn compile(&self) -> Option<(Kernel, Fields, Rules)> {
        let (needs, counts) = (self.needs(), self.needs().unkeyed());
        let fineness = Fineness {
            unit_bits: needs.unit_bits().unwrap_or(0), // every valid policy has them
            quantum_ns: needs.quantum_ns(),
            packing: counts.packing,
            end_quantum_ns: counts.end_quantum_ns,
        };
        #[expect(clippy::cast_possible_truncation, reason = "below 64, or there is no policy")]
        let count_bits = counts.bits as u8;
        Some((self.kernel(fineness)?, Fields { count_bits }, self.rules(fineness)))
    }

    /// The arithmetic for a word with a given fineness; `None` if the policy is stored in slots.
    pub(crate) fn kernel(&self, fineness: Fineness) -> Option<Kernel> {
        let Fineness { unit_bits, quantum_ns, packing, .. } = fineness;
        let (limit, window_ns) = (self.ceiling(), self.quota.period_ns());
        let count_bits = bits_for(self.needs().largest_count());
        let sliding = |rounding| {
            Kernel::SlidingWindow(SlidingWindow::new(limit, window_ns, rounding, count_bits))
        };
        Some(match self.algorithm {
            Algorithm::Gcra => {
                Kernel::Gcra(Gcra::new(self.quota.count(), window_ns, limit, unit_bits))
            }
            Algorithm::FixedWindow => Kernel::FixedWindow(FixedWindow::new(limit, window_ns)),
            Algorithm::Calendar(unit) => Kernel::CalendarWindow(CalendarWindow::new(unit, limit)),
            Algorithm::FixedWindowFromFirst => {
                Kernel::FromFirst(FromFirst::new(limit, window_ns, quantum_ns))
            }
            Algorithm::SlidingWindow { rounding } => sliding(rounding),
            Algorithm::SlidingLog => return None,
            Algorithm::SegmentedWindow { segments } => {
                let segment_ns = window_ns / u64::from(segments);
                Kernel::SegmentedWindow(SegmentedWindow::new(
                    limit, segment_ns, segments, count_bits, packing,
                ))
            }
        })
    }

    /// The longest wait of a request in nanoseconds, and the largest number of units behind which it may wait. Returns
    /// `None` if the policy has no queue.
    pub(crate) fn queue_bounds(&self) -> Option<[u64; 2]> {
        self.at_limit.queue.map(|wait| wait.bounds())
    }

    /// The rules for the limit, for a word with a given fineness.
    pub(crate) fn rules(&self, fineness: Fineness) -> Rules {
        let (needs, at_limit) = (self.needs(), &self.at_limit);
        let stop = match self.algorithm {
            _ if at_limit.count_denied == CountDenied::No => None,
            // GCRA's word is a time, so its debt can go beyond the burst. The count of a window stops at the largest
            // count for denied requests.
            Algorithm::Gcra => needs.denied_ticks(fineness.unit_bits),
            _ => Some(needs.denied_count().into()),
        };
        // GCRA needs no such bound, since only the room in the word bounds its debt.
        let is_count = self.algorithm != Algorithm::Gcra;
        Rules {
            any: !at_limit.is_plain(),
            queue: self.queue_bounds(),
            soft_bp: at_limit.soft.hundredths(),
            beyond: self.ceiling() - self.named_limit(),
            // The number fits, since the policy would have been refused otherwise.
            denied_most: stop.map(|most| u64::try_from(most).unwrap_or(u64::MAX)),
            debt: if is_count { at_limit.debt } else { 0 },
            penalty: at_limit.penalty.map(|penalty| Penalty {
                length_ns: at_limit.penalty_ns(),
                after: penalty.after.into(),
                extended: penalty.extended,
                denial_bits: bits_for(penalty.after.into()),
                unit_ns: needs.unit_ns(fineness.quantum_ns),
                quantum_ns: match self.algorithm {
                    // The word already counts time in quanta.
                    Algorithm::FixedWindowFromFirst => fineness.quantum_ns,
                    _ => fineness.end_quantum_ns,
                },
            }),
        }
    }
}
