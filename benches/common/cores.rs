//! Benchmarks measure on 1, 2, 4 and so on threads, and finally on as many threads as the machine runs at once.

/// The number of threads that the machine runs at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The numbers 1, 2, 4 and so on, and finally the number of threads that the machine runs at once.
pub(crate) fn counts() -> Vec<usize> {
    let most = cores();
    let doubled = std::iter::successors(Some(1), |threads| Some(2 * threads));
    doubled.take_while(|threads| *threads < most).chain([most]).collect()
}
