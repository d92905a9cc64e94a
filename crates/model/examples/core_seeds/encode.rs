//! The bytes that `arbitrary` reads as a given value. Numbers are in little endian. The variant of an enum is a whole
//! number of 32 bits. In a list, a byte before each element says that there is one more.

use tollgate_model::{
    Amount, Bytes, DeniedCharge, GcraCase, Joint, KeyedCase, LayoutCase, LimitVerb, Mixed,
    MixedCase, Op, PenaltyCase, Period, PolicyCase, QuotaCase, Rated, RequestStep, RulesCase,
    SketchCase, SlidingLogCase, SnapshotCase, Span, StepCost, Steps, SubjectKind, TogetherCase,
    WindowCase, WindowShape,
};

/// The inverse of `Arbitrary::arbitrary`. The program that writes the seeds checks this for each seed.
pub(crate) trait Encode {
    fn encode(&self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Encode for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}

numbers!(u8 i8 u16 u32 u64);

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<T: Encode> Encode for Steps<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        for step in &self.0 {
            true.encode(out);
            step.encode(out);
        }
        false.encode(out);
    }
}

/// These bytes come last in their case, so they are written without a length.
impl Encode for Bytes<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0);
    }
}

impl Encode for SnapshotCase<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whatever(bytes) => {
                variant(out, 0, 2);
                bytes.encode(out);
            }
            Self::Changed { table, keep, sealed, edits } => {
                variant(out, 1, 2);
                table.encode(out);
                keep.encode(out);
                sealed.encode(out);
                edits.encode(out);
            }
        }
    }
}

/// The variant `index` of `of` variants.
fn variant(out: &mut Vec<u8>, index: u64, of: u64) {
    // `arbitrary` scales a 32-bit number down to an index; this is the least number that gives this index.
    u32::try_from((index << 32).div_ceil(of)).expect("index < of").encode(out);
}

/// Encodes a variant and then its fields.
macro_rules! variants {
    ($type:ident of $count:literal { $($index:literal $variant:ident $(($field:ident))? $({$($name:ident),*})?),* $(,)? }) => {
        impl Encode for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {$(
                    Self::$variant $(($field))? $({$($name),*})? => {
                        variant(out, $index, $count);
                        $($field.encode(out);)?
                        $($($name.encode(out);)*)?
                    }
                )*}
            }
        }
    };
}

variants!(Amount of 5 { 0 One, 1 Small(n), 2 Medium(n), 3 Large(n), 4 Huge(n) });
variants!(DeniedCharge of 3 { 0 Uncounted, 1 Counted, 2 CountedUpTo(n) });
variants!(Period of 7 {
    0 Second, 1 Minute, 2 Day, 3 Nanos(n), 4 Millis(n), 5 Minutes(n), 6 Odd(n),
});
variants!(WindowShape of 7 {
    0 Fixed, 1 FromFirst, 2 Sliding, 3 RoundDown, 4 Strict, 5 Segmented(n), 6 Calendar(n),
});
variants!(PolicyCase of 2 { 0 Gcra(quota), 1 Window { shape, limit, period } });
variants!(Span of 10 {
    0 Still, 1 Thousandths(n), 2 Intervals(n), 3 Periods(n), 4 Granules(n), 5 EpochEighths(n),
    6 Turns(n), 7 ToRetry, 8 ToReset, 9 To(n),
});
variants!(StepCost of 8 {
    0 Nothing, 1 Single, 2 Units(n), 3 Rest, 4 RestAndOne, 5 Whole, 6 Never, 7 AnyCost(n),
});
variants!(Op of 5 {
    0 Check { key, cost }, 1 Crowd { first, keys, cost }, 2 Peek { key, cost },
    3 Advance { span, fine }, 4 Back { span, fine },
});
variants!(LimitVerb of 9 {
    0 Take { cost }, 1 UpTo { cost }, 2 Charge { cost }, 3 Reserve { cost, thousandths },
    4 Refund { nth, most }, 5 Cancel { nth }, 6 Reset, 7 Later { span, fine },
    8 Earlier { span, fine },
});

variants!(Joint of 8 {
    0 Ask { key, second, cost }, 1 All { key, costs, again }, 2 Requote { second, rated },
    3 Carry { key, back }, 4 Lend { key, cost }, 5 Report { headroom }, 6 Batch { units, spent },
    7 Pass { steps },
});

variants!(SubjectKind of 6 { 0 Alone, 1 Table(n), 2 Alive, 3 Tiered(n), 4 Striped(n), 5 Sketched });
variants!(Mixed of 11 {
    0 Does { key, verb }, 1 Looks { key, cost }, 2 Again { key, nth, most },
    3 Unqueue { key, nth, most }, 4 Foreign { key, cost, other }, 5 LeaseOut { units },
    6 LeaseUse { cost, renew }, 7 LeaseBack, 8 Change { second, quota }, 9 ChangeBack { second },
    10 Migrate { key, back },
});

macro_rules! fields {
    ($($type:ident { $($name:ident),* })*) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$name.encode(out);)*
            }
        }
    )*};
}

fields! {
    QuotaCase { count, period, burst }
    RequestStep { span, fine, backward, cost }
    RulesCase { soft_bp, counts, penalty }
    PenaltyCase { longer, after, extended }
    GcraCase { quota, steps, rules }
    WindowCase { shape, limit, period, steps, rules }
    LayoutCase { policy, start_ns, steps, rules }
    KeyedCase { policy, capacity, own_clock, ops, rules }
    SketchCase { policy, rows, cells, ops }
    SlidingLogCase { limit, window, capacity, ops, rules }
    MixedCase { policy, rules, kind, own_clock, ops }
    Rated { rate, burst }
    TogetherCase { first, second, single, own, pool, ops }
}
