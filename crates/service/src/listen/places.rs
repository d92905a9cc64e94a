//! [`ConnectionPlaces`]: bounds the number of connections of all listeners together.
//!
//! Each connection takes a file descriptor. Without a bound of its own the service would reach the system's limit. Then
//! no listener could accept connections any more, and no probe could find out whether the service is healthy. So each
//! connection takes a place. There are as many places as the system allows descriptors, less the descriptors that the
//! process needs itself. Besides the places there is a reserve: a connection that finds no place is still accepted into
//! the reserve, but may only ask for health and metrics, or use the admin's routes. The reserve is bounded, too: when
//! it is full, its oldest connection is closed for a new one. A probe is answered within milliseconds, so connections
//! that fill the reserve and ask nothing do not keep probes out.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::oneshot;

use crate::metrics::{ServiceTotal, encode_gauge, encode_total};

/// The maximum number of connections in the reserve: enough for a few probes at a time.
pub(super) const RESERVE: usize = 32;

/// Descriptors that are kept for the process itself. Twice the reserve is for connections that are closed in favour of
/// others, since each keeps its descriptor until its task has run. The other descriptors are for the listeners, the
/// log, the files of the state and the rules, Redis, a control plane, and a collector.
const KEPT: u64 = 96;

/// Descriptors that are kept for each core: each thread of connections needs two for its events, and the runtime a few.
const KEPT_PER_CORE: u64 = 4;

/// The maximum number of places by default. Each connection takes some 10 KiB of memory.
const MAX_BY_DEFAULT: u64 = 65_536;

/// The number of descriptors to assume on a system that does not report its limit.
#[cfg(not(unix))]
const MAX_UNKNOWN: u64 = 8_192;

/// An episode of many connections begins at `NEAR` hundredths of the maximum, and ends below `FAR` hundredths.
const NEAR: usize = 90;
const FAR: usize = 75;

/// The error if more places were asked for than the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyPlaces {
    pub(crate) most: usize,
    /// The system's limit of descriptors.
    pub(crate) descriptors: u64,
}

/// The places of all connections.
#[derive(Debug)]
pub(crate) struct ConnectionPlaces {
    max: usize,
    open: AtomicUsize,
    reserve: Mutex<Reserve>,
    /// Connections of the reserve that are not closed yet.
    reserved: AtomicUsize,
    beyond: ServiceTotal,
    pub(super) timed_out: ServiceTotal,
    /// Whether the two warnings of this episode were logged: that there are many connections, and that there are too
    /// many.
    is_near_told: AtomicBool,
    is_full_told: AtomicBool,
}

/// The connections of the reserve, oldest first. Dropping a sender closes its connection.
#[derive(Debug, Default)]
struct Reserve(VecDeque<oneshot::Sender<()>>);

/// The place of a connection. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    pub(super) places: Arc<ConnectionPlaces>,
    /// `Some` in the reserve. The sender of this channel is dropped if another connection takes the place.
    lost: Option<oneshot::Receiver<()>>,
}

impl ConnectionPlaces {
    /// Makes as many places as were asked for; by default, as many as the system's limit of descriptors allows.
    pub(crate) fn new(asked: Option<usize>) -> Result<Arc<Self>, TooManyPlaces> {
        let descriptors = descriptor_limit();
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let most = max_places(descriptors, cores);
        let max = match asked {
            None => most.min(MAX_BY_DEFAULT),
            Some(asked) if asked as u64 <= most => asked as u64,
            Some(_) => return Err(TooManyPlaces { most: whole(most), descriptors }),
        };
        Ok(Arc::new(Self::of(whole(max))))
    }

    pub(super) fn of(max: usize) -> Self {
        Self {
            max,
            open: AtomicUsize::new(0),
            reserve: Mutex::default(),
            reserved: AtomicUsize::new(0),
            beyond: ServiceTotal::default(),
            timed_out: ServiceTotal::default(),
            is_near_told: AtomicBool::new(false),
            is_full_told: AtomicBool::new(false),
        }
    }

    /// Takes a place, or a place in the reserve if all others are taken.
    pub(super) fn take(self: &Arc<Self>) -> ConnectionPlace {
        let more = |open| (open < self.max).then_some(open + 1);
        // Relaxed, like all accesses of `open` and `reserved`: each number keeps its bound by itself, and no memory is
        // published with it.
        let taken = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let lost = match taken {
            Ok(before) => {
                self.tell_near(before + 1);
                None
            }
            Err(_) => Some(self.take_reserve()),
        };
        ConnectionPlace { places: Arc::clone(self), lost }
    }

    fn take_reserve(&self) -> oneshot::Receiver<()> {
        self.beyond.add(1);
        // Relaxed for the same reason as in `take`: the flag alone decides which connection logs the warning.
        if !self.is_full_told.swap(true, Ordering::Relaxed) {
            let max = self.max;
            tracing::warn!(
                "all {max} connections are open that there may be; others are answered health and metrics alone \
                 (--max-connections, ulimit -n)"
            );
        }
        // Relaxed: as in `take`.
        self.reserved.fetch_add(1, Ordering::Relaxed);
        let (close, lost) = oneshot::channel();
        // The poison is ignored, because a panic leaves no entry half made.
        let Reserve(waiting) = &mut *self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|close| !close.is_closed());
        while waiting.len() >= RESERVE {
            waiting.pop_front();
        }
        waiting.push_back(close);
        lost
    }

    /// Whether so many connections of the reserve are still to be closed that no further connection may be accepted.
    pub(super) fn is_crowded(&self) -> bool {
        // Relaxed: as in `take`.
        self.reserved.load(Ordering::Relaxed) >= 2 * RESERVE
    }

    fn tell_near(&self, open: usize) {
        // Relaxed, for the read and for the swap, as in `take_reserve`. The flag is read first, so that it is written
        // only once.
        if open.saturating_mul(100) >= self.max.saturating_mul(NEAR)
            && !self.is_near_told.load(Ordering::Relaxed)
            && !self.is_near_told.swap(true, Ordering::Relaxed)
        {
            let max = self.max;
            tracing::warn!(
                "{open} of at most {max} connections are open; beyond that only health and metrics are answered \
                 (--max-connections, ulimit -n)"
            );
        }
    }

    fn give_back(&self) {
        // Relaxed: as in `take` and `take_reserve`.
        let before = self.open.fetch_sub(1, Ordering::Relaxed);
        let is_far = before.saturating_sub(1).saturating_mul(100) < self.max.saturating_mul(FAR);
        if is_far && self.is_near_told.load(Ordering::Relaxed) {
            self.is_near_told.store(false, Ordering::Relaxed);
            self.is_full_told.store(false, Ordering::Relaxed);
        }
    }
}

impl ConnectionPlace {
    /// Whether this place is in the reserve, so that its connection may not ask for decisions.
    pub(super) fn is_reserved(&self) -> bool {
        self.lost.is_some()
    }

    /// Ready when another connection has taken this place.
    pub(super) fn poll_lost(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.lost {
            None => Poll::Pending,
            // The loss was already reported to a read or a write; the other direction polls later.
            Some(lost) if lost.is_terminated() => Poll::Ready(()),
            Some(lost) => Pin::new(lost).poll(context).map(drop),
        }
    }

    /// Counts a connection that is closed because its client sent or took nothing in time.
    pub(super) fn time_out(&self) {
        self.places.timed_out.add(1);
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        match self.lost.take() {
            None => self.places.give_back(),
            // Relaxed: as in `take`.
            Some(_) => drop(self.places.reserved.fetch_sub(1, Ordering::Relaxed)),
        }
    }
}

/// The maximum number of places for this number of descriptors. Some descriptors are kept for the process, but no more
/// than half.
fn max_places(descriptors: u64, cores: u64) -> u64 {
    let kept = (KEPT + KEPT_PER_CORE * cores).min(descriptors / 2);
    descriptors - kept
}

fn whole(places: u64) -> usize {
    usize::try_from(places).unwrap_or(usize::MAX)
}

#[cfg(unix)]
fn descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    // `None` means that the system has no limit.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
fn descriptor_limit() -> u64 {
    MAX_UNKNOWN
}

/// Reports the connections as metrics.
#[derive(Debug)]
pub(crate) struct OfPlaces(pub(crate) Arc<ConnectionPlaces>);

impl Collector for OfPlaces {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(places) = self;
        // Relaxed: the number is only shown.
        let open = places.open.load(Ordering::Relaxed) as u64;
        let help = "Connections of all listeners that are open";
        encode_gauge(&mut encoder, "connections", help, open)?;
        let help = "The maximum number of connections of all listeners";
        encode_gauge(&mut encoder, "connections_max", help, places.max as u64)?;
        let help = "Connections beyond the maximum, which were answered health and metrics alone, or closed";
        encode_total(&mut encoder, "connections_beyond_max", help, places.beyond.get())?;
        let help = "Connections that were closed because no first request came in time, or nothing was sent or taken";
        encode_total(&mut encoder, "connections_timed_out", help, places.timed_out.get())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn is_lost(place: &mut ConnectionPlace) -> bool {
        place.poll_lost(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_share_of_the_descriptors_is_kept_for_the_process() {
        for (descriptors, cores, most) in
            [(1_024, 2, 920), (1_024, 64, 672), (64, 2, 32), (1, 1, 1), (65_536, 4, 65_424)]
        {
            assert_eq!(max_places(descriptors, cores), most, "{descriptors} on {cores}");
        }
        assert!(max_places(u64::MAX, 64) > 1 << 60);
    }

    #[test]
    fn beyond_the_maximum_there_is_the_reserve_whose_oldest_place_goes_to_the_next() {
        let places = Arc::new(ConnectionPlaces::of(2));
        let ordinary = [places.take(), places.take()];
        let mut reserved: Vec<ConnectionPlace> = (0..RESERVE).map(|_| places.take()).collect();
        assert!(reserved.iter_mut().all(|place| place.is_reserved() && !is_lost(place)));
        let mut next = places.take();
        let lost = reserved.iter_mut().map(is_lost).collect::<Vec<_>>();
        assert!(lost[0] && !lost[1..].contains(&true) && !is_lost(&mut next));
        // A place that is polled again gives the same answer.
        assert!(is_lost(&mut reserved[0]));
        // A connection that has ended by itself makes room in the reserve.
        drop(reserved.remove(5));
        let _more = places.take();
        assert!(!is_lost(&mut reserved[1]));
        // Connections that have lost their place but are not closed still take descriptors.
        assert!(!places.is_crowded());
        let crowd: Vec<ConnectionPlace> = (0..RESERVE).map(|_| places.take()).collect();
        assert!(places.is_crowded());
        drop((crowd, reserved));
        assert!(!places.is_crowded());
        drop(ordinary);
        assert!(!places.take().is_reserved());
        assert_eq!(places.beyond.get(), 2 * RESERVE as u64 + 2);
    }
}
