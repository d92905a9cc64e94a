//! How many threads the machine runs at once, and the numbers of threads that are measured up to that.

/// As many threads as run at the same time.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// 1, 2, 4 and so on, and at last as many as run at the same time.
pub(crate) fn counts() -> Vec<usize> {
    let most = cores();
    let doubled = std::iter::successors(Some(1), |threads| Some(2 * threads));
    doubled.take_while(|threads| *threads < most).chain([most]).collect()
}
