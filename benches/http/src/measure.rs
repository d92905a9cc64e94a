//! Runs rounds of requests in one process without a socket, by calling the service as a server would.

use crate::contender::HttpContender;

/// Prints the time of each contender, the time that its limit adds, and this as a share of what tower_governor adds.
pub(crate) fn run(rounds: usize, requests: usize, clients: u16) {
    let mut apps = HttpContender::ALL.map(HttpContender::measured);
    let mut nanos: [Vec<f64>; HttpContender::ALL.len()] = Default::default();
    for round_number in 0..=rounds {
        // The order rotates, so that each contender runs equally often at each place in it.
        for offset in 0..apps.len() {
            let which = (round_number + offset) % apps.len();
            let each = apps[which](requests, clients, usize::MAX);
            // The first round creates the clients' limits and warms the memory up.
            if round_number > 0 {
                nanos[which].push(each);
            }
        }
    }
    // Compares each round with the same round of the other contenders, because a disturbance of the machine affects
    // neighbours alike.
    let of = |who: HttpContender| &nanos[who as usize];
    let added = |who: HttpContender| -> Vec<f64> {
        of(who).iter().zip(of(HttpContender::Bare)).map(|(with, without)| with - without).collect()
    };
    let theirs = added(HttpContender::Theirs);
    println!("{rounds} rounds of {requests} requests from {clients} clients; median (quartiles)\n");
    println!("{:<22} {:>22} {:>22} {:>22}", "", "ns per request", "ns added", "share of theirs");
    for who in HttpContender::ALL {
        print!("{:<22} {:>22}", who.name(), spread(of(who)));
        if who == HttpContender::Bare {
            println!();
            continue;
        }
        let ours = added(who);
        let share: Vec<f64> =
            ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        println!(" {:>22} {:>22}", spread(&ours), spread(&share));
    }
}

fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
    let digits = if at(2) < 10.0 { 3 } else { 0 };
    format!("{:.digits$} ({:.digits$} - {:.digits$})", at(2), at(1), at(3))
}
