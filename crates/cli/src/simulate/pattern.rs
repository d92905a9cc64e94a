//! Generated traffic, in patterns that different limiters decide differently.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};

use super::args::{SimulateArgs, TrafficPattern};
use crate::spans::seconds;
use crate::traffic::{REQUESTS_MOST, SPAN_MOST_NS, Traffic, TrafficError};

/// In the pattern `boundary` requests come in the last part of a window and in the first part of the next one. A window
/// has this many parts.
const BOUNDARY_PART: u64 = 10;

/// Generates the traffic that the arguments describe.
pub(super) fn make(args: &SimulateArgs) -> Result<Traffic, TrafficError> {
    let pattern = args.pattern.unwrap_or(TrafficPattern::Uniform); // not used: one is required without times
    let (count, period_ns) = args.rate();
    let ten_periods = args.period_ns().saturating_mul(10).min(SPAN_MOST_NS);
    let span_ns = checked("--for", args.duration.unwrap_or(ten_periods))?;
    let burst = args.burst.unwrap_or_else(|| args.count());
    let rate = format!("{count} per {}s", seconds(period_ns));
    let even = Even { count, period_ns };
    let (name, times, end_ns) = match pattern {
        TrafficPattern::Uniform => (format!("uniform, {rate}"), even.until(0, span_ns)?, span_ns),
        TrafficPattern::Burst => {
            let name = format!("bursts of {burst}, {rate}");
            (name, even.bursts(burst, span_ns)?, span_ns)
        }
        TrafficPattern::Boundary => {
            let window_ns = args.window.unwrap_or_else(|| args.period_ns());
            let window_ns = checked("--window", window_ns.min(SPAN_MOST_NS))?;
            let name = format!("{burst} before and {burst} after {}s", seconds(window_ns));
            (name, boundary(burst, window_ns)?, 2 * window_ns)
        }
        TrafficPattern::Poisson => {
            let name = format!("poisson, {rate}, seed {}", args.seed);
            (name, even.at_random(args.seed, span_ns)?, span_ns)
        }
        TrafficPattern::OnOff => {
            let on_ns = checked("--on", args.on.unwrap_or_else(|| args.period_ns()))?;
            let off_ns = args.off.unwrap_or_else(|| args.period_ns()).min(SPAN_MOST_NS);
            let name =
                format!("{rate} for {}s, then none for {}s", seconds(on_ns), seconds(off_ns));
            (name, even.on_and_off(on_ns, off_ns, span_ns)?, span_ns)
        }
    };
    if times.is_empty() {
        return Err(TrafficError::Nothing);
    }
    Ok(Traffic { name, times, span_ns: (0, end_ns) })
}

fn checked(option: &'static str, span_ns: u64) -> Result<u64, TrafficError> {
    match span_ns {
        0 => Err(TrafficError::NoSpan { option }),
        1..=SPAN_MOST_NS => Ok(span_ns),
        _ => Err(TrafficError::TooLong),
    }
}

/// A rate: this many requests in a period.
#[derive(Clone, Copy)]
struct Even {
    count: u64,
    period_ns: u64,
}

impl Even {
    /// Returns the time at which this many requests are due, rounded up so that no request is early.
    fn due_ns(self, number: u64) -> Result<u64, TrafficError> {
        let due =
            (u128::from(number) * u128::from(self.period_ns)).div_ceil(u128::from(self.count));
        u64::try_from(due).ok().filter(|due| *due <= SPAN_MOST_NS).ok_or(TrafficError::TooLong)
    }

    /// Returns the times of requests at the rate, from `start_ns` until before `end_ns`.
    fn until(self, start_ns: u64, end_ns: u64) -> Result<Vec<u64>, TrafficError> {
        let mut times = Vec::new();
        self.append(start_ns, end_ns, &mut times)?;
        Ok(times)
    }

    fn append(self, start_ns: u64, end_ns: u64, times: &mut Vec<u64>) -> Result<(), TrafficError> {
        for number in 0.. {
            let Ok(after_ns) = self.due_ns(number) else { break };
            let at_ns = start_ns.saturating_add(after_ns);
            if at_ns >= end_ns {
                break;
            }
            push(times, at_ns)?;
        }
        Ok(())
    }

    /// Returns the times of bursts. The interval from one burst to the next is the time in which the rate yields as
    /// many requests as a burst has.
    fn bursts(self, burst: u64, end_ns: u64) -> Result<Vec<u64>, TrafficError> {
        let mut times = Vec::new();
        for number in 0_u64.. {
            let due_ns = number.checked_mul(burst).map(|number| self.due_ns(number));
            let Some(Ok(at_ns)) = due_ns else { break };
            if at_ns >= end_ns {
                break;
            }
            for _ in 0..burst {
                push(&mut times, at_ns)?;
            }
        }
        Ok(times)
    }

    /// Returns the times of a Poisson process: the gaps are independent and exponential.
    fn at_random(self, seed: u64, end_ns: u64) -> Result<Vec<u64>, TrafficError> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mean = Duration::from_nanos(self.period_ns);
        let mut times = Vec::new();
        let mut gaps = 0.0;
        loop {
            let gap: f64 = Exp1.sample(&mut random);
            gaps += gap;
            let at = Duration::try_from_secs_f64(gaps * mean.as_secs_f64() / f64_of(self.count));
            let at_ns = at.ok().and_then(|at| u64::try_from(at.as_nanos()).ok());
            match at_ns {
                Some(at_ns) if at_ns < end_ns => push(&mut times, at_ns)?,
                _ => return Ok(times),
            }
        }
    }

    fn on_and_off(self, on_ns: u64, off_ns: u64, end_ns: u64) -> Result<Vec<u64>, TrafficError> {
        let mut times = Vec::new();
        let mut start_ns = 0;
        while start_ns < end_ns {
            self.append(start_ns, end_ns.min(start_ns + on_ns), &mut times)?;
            start_ns += on_ns + off_ns; // below 3 * 2^61
        }
        Ok(times)
    }
}

/// Spreads requests evenly over the last part of a window, and over the first part of the next window.
fn boundary(burst: u64, window_ns: u64) -> Result<Vec<u64>, TrafficError> {
    if burst > REQUESTS_MOST as u64 / 2 {
        return Err(TrafficError::TooMany);
    }
    let part_ns = window_ns / BOUNDARY_PART;
    let both = |number: u64| {
        let offset = u128::from(part_ns) * u128::from(number) / u128::from(burst);
        u64::try_from(offset).unwrap_or(part_ns)
    };
    let before = (0..burst).map(|number| window_ns - part_ns + both(number));
    let after = (0..burst).map(|number| window_ns + both(number));
    Ok(before.chain(after).collect())
}

fn push(times: &mut Vec<u64>, at_ns: u64) -> Result<(), TrafficError> {
    if times.len() == REQUESTS_MOST {
        return Err(TrafficError::TooMany);
    }
    times.push(at_ns);
    Ok(())
}

/// Returns the nearest floating-point number. Rates lie far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a rate that is off by 1e-16 is the same rate")]
fn f64_of(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Even = Even { count: 3, period_ns: 10 };

    #[test]
    fn even_requests_do_not_drift() {
        assert_eq!(THREE.until(0, 21), Ok(vec![0, 4, 7, 10, 14, 17, 20]));
        assert_eq!(THREE.until(100, 100), Ok(vec![]));
        let fast = Even { count: u64::MAX, period_ns: 1 };
        assert_eq!(fast.until(0, 10), Err(TrafficError::TooMany));
    }

    #[test]
    fn bursts_keep_the_rate() {
        assert_eq!(THREE.bursts(2, 21), Ok(vec![0, 0, 7, 7, 14, 14, 20, 20]));
        assert_eq!(THREE.bursts(u64::MAX, 21), Err(TrafficError::TooMany));
    }

    #[test]
    fn a_boundary_lies_between_two_bursts() {
        let times = boundary(5, 1_000).expect("few requests");
        assert_eq!(times, [900, 920, 940, 960, 980, 1_000, 1_020, 1_040, 1_060, 1_080]);
        assert_eq!(boundary(1, 1), Ok(vec![1, 1]));
        assert_eq!(boundary(500_001, 1_000), Err(TrafficError::TooMany));
    }

    #[test]
    fn on_and_off_begins_anew_each_time() {
        assert_eq!(THREE.on_and_off(8, 12, 45), Ok(vec![0, 4, 7, 20, 24, 27, 40, 44]));
        assert_eq!(THREE.on_and_off(1, SPAN_MOST_NS, SPAN_MOST_NS), Ok(vec![0]));
    }

    #[test]
    fn random_requests_are_those_of_the_seed_and_keep_the_rate() {
        let rate = Even { count: 100, period_ns: 1_000_000_000 };
        let times = rate.at_random(7, 1_000_000_000_000).expect("100,000 requests");
        assert_eq!(rate.at_random(7, 1_000_000_000_000), Ok(times.clone()));
        assert!(times.is_sorted());
        // The number is within four standard deviations, each of which is sqrt(100,000) = 316.
        assert!(times.len().abs_diff(100_000) < 1_264, "{}", times.len());
        // A share of e^-2 of all gaps is longer than twice the mean.
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 20_000_000).count();
        assert!(long.abs_diff(13_534) < 4 * 116, "{long}");
        assert_ne!(rate.at_random(8, 1_000_000_000_000), Ok(times));
        assert_eq!(rate.at_random(7, u64::MAX), Err(TrafficError::TooMany));
    }
}
