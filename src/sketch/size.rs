//! [`SketchSize`]: the number of rows, and of cells in each row.
//!
//! # From a load to a size
//! A key is *live* as long as a separate limiter for the key would not be idle. Let n be the number of live keys, on
//! average over time, w the number of cells in a row, and d the number of rows.
//!
//! 1. A key is refused wrongly only if other keys have charges in *each* of its cells. A cell without charges of other
//!    keys decides as a separate limiter for the key would.
//! 2. *How long other keys keep a cell live.* Under GCRA a cell is a queue that drains at the rate of one key, no
//!    matter how many keys charge it. The share of the time in which such a queue is not empty equals the work that
//!    arrives per unit of time (utilisation: Kleinrock, Queueing Systems 1, 1975, section 2.1). A key that is live for
//!    a share `u` of the time brings the work `u`, by the same law for a queue of this key alone. So the share of the
//!    time for which a cell is live is at most the *sum* of the shares of its keys. This may be more than their union:
//!    two keys that are charged at the same time drain one after the other. In a window all charges end at the same
//!    time, so for windows the share is the union, which is at most the sum. For window policies n is the number of
//!    keys seen within a window, or within two of them for sliding windows.
//! 3. The sum of the shares of all keys is n, by the definition of n, and a row distributes keys evenly. So the share
//!    of the time for which other keys keep a given cell live is at most `n / w`, on average over the seeds.
//! 4. Keys are placed independently in each row, so other keys keep all d cells of a key live with a probability of at
//!    most `(n / w)^d`. (Steps 3 and 4 are the argument of Cormode and Muthukrishnan, An improved data stream summary:
//!    the count-min sketch and its applications, J. Algorithms 55, 2005, theorem 1, applied to being live instead of to
//!    counts.)
//!
//! So at most 1 key in m is refused wrongly if `w = n * m^(1/d)`. The memory `d * w` is least for w = e * n and ln m
//! rows, but the minimum is flat. Rows with `w = 4n`, in which 1 key in 4 shares a live cell, need 6 % more memory, but
//! 28 % fewer rows. Each row costs a cache line and a compare-and-swap. So the least d with `4^d >= m` is used.
//!
//! The bound assumes that the load is steady. If n is a mean over quiet and busy hours, the bound may fail in the busy
//! hours. So use the n of the busy hours.

use super::place::ROWS_MAX;
use crate::error::BuildError;

/// The size of a cell in bytes: one 64-bit word.
const CELL_BYTES: usize = size_of::<u64>();

/// The memory of a [`SketchLimiter`](crate::SketchLimiter): rows of cells, 8 bytes each.
///
/// ```
/// use tollgate::SketchSize;
/// // 10,000 keys live at once, of which at most 1 in 1,000 is refused without a reason.
/// let size = SketchSize::for_load(10_000, 1_000)?;
/// assert_eq!((size.rows(), size.cells_per_row()), (5, 39_811));
/// assert_eq!(size.bytes(), 1_592_440);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SketchSize {
    rows: usize,
    cells_per_row: usize,
}

impl SketchSize {
    /// A size of `rows` rows (1 to 8) with `cells_per_row` cells in each row (at least 1).
    ///
    /// # Errors
    /// Returns an error if there are no rows or more than 8, if there are no cells, or if the bytes cannot be
    /// addressed.
    ///
    /// ```
    /// use tollgate::SketchSize;
    /// assert_eq!(SketchSize::new(4, 1_000)?.bytes(), 32_000);
    /// assert!(SketchSize::new(9, 1_000).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(rows: usize, cells_per_row: usize) -> Result<Self, BuildError> {
        if rows == 0 || rows > ROWS_MAX {
            return Err(BuildError::OutOfRange(format!(
                "a sketch cannot have {rows} rows; use 1 to {ROWS_MAX}"
            )));
        }
        if cells_per_row == 0 {
            return Err(BuildError::OutOfRange(
                "a row of 0 cells has none for a key; it must have at least 1".to_string(),
            ));
        }
        // An allocation is at most `isize::MAX` bytes.
        let bytes = rows.checked_mul(cells_per_row).and_then(|cells| cells.checked_mul(CELL_BYTES));
        match bytes.map(isize::try_from) {
            Some(Ok(_)) => Ok(Self { rows, cells_per_row }),
            _ => Err(BuildError::OutOfRange(format!(
                "{rows} rows of {cells_per_row} cells need more memory than can be addressed"
            ))),
        }
    }

    /// The size for `live_keys` keys that are live at the same time. At most one key in `refused_one_in` is then
    /// refused although its own quota would admit it: 1,000 means 0.1 %.
    ///
    /// A key is live from a request until the debt of that request has drained, or its window is over. With d rows of w
    /// cells, at most a share of `(live_keys / w)^d` of the keys is refused wrongly if the load is steady. Keys that
    /// use only a little of a large burst are refused far more rarely. The size has the least d for which 4^d is at
    /// least `refused_one_in`, but at most 8 rows, and w follows from the formula. A live key then takes 101 bytes for
    /// 1 in 100, 159 bytes for 1 in 1,000 and 209 bytes for 1 in 10,000. In a [`KeyedLimiter`](crate::KeyedLimiter) a
    /// key takes 14.7 bytes.
    ///
    /// # Errors
    /// Returns an error if the load is 0 keys, if the target is 1 in 0 or 1 in 1, which any sketch would meet, or if
    /// the bytes cannot be addressed.
    ///
    /// ```
    /// use tollgate::SketchSize;
    /// assert!(SketchSize::for_load(1_000, 1).is_err());
    /// assert_eq!(SketchSize::for_load(1_000, 100)?.rows(), 4);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn for_load(live_keys: usize, refused_one_in: u64) -> Result<Self, BuildError> {
        if live_keys == 0 {
            return Err(BuildError::OutOfRange(
                "a load of 0 live keys needs no sketch; it must be at least 1".to_string(),
            ));
        }
        if refused_one_in < 2 {
            return Err(BuildError::OutOfRange(format!(
                "that 1 key in {refused_one_in} may be refused is no target, any sketch would meet it; \
                 use at least 2, as in 1000 for 0.1 %"
            )));
        }
        // This computes the least d for which 4^d >= m, and then w = n * m^(1/d): see the top of this file.
        let lets_through = |rows: &u32| 4_u64.pow(*rows) >= refused_one_in;
        let rows = (1..8).find(lets_through).unwrap_or(8);
        let root = (refused_one_in as f64).powf(1.0 / f64::from(rows));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and cut at the largest number, which is refused"
        )]
        let cells_per_row = (live_keys as f64 * root).ceil() as usize;
        Self::new(rows as usize, cells_per_row).map_err(|_| {
            BuildError::OutOfRange(format!(
                "{live_keys} live keys, of which 1 in {refused_one_in} may be refused, need more \
                 memory than can be addressed"
            ))
        })
    }

    /// The number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The number of cells in each row.
    #[must_use]
    pub const fn cells_per_row(&self) -> usize {
        self.cells_per_row
    }

    /// The memory of all cells: 8 bytes each.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.rows * self.cells_per_row * CELL_BYTES
    }
}
