//! [`CommonClient`]: the client of most lines, which may in fact be a proxy.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::replay::chain::is_address_text;
use crate::replay::event::ReplayEvent;
use crate::replay::wanted::Wanted;

/// The client with more than half of the lines of a block. Over all blocks so far, the only client that can have more
/// than half of the lines.
///
///
/// It is found by a majority vote over the blocks. After several blocks `lines` is never too high, but may be too low.
#[derive(Debug, Default)]
pub(crate) struct CommonClient {
    text: Box<[u8]>,
    lines: u64,
    /// The lead of this client over all other clients together, in lines.
    lead: u64,
}

/// A note is due if one client has this share of the lines, in percent.
const NEARLY_ALL: u64 = 90;

/// The least number of lines for a note about a public address; a shorter log may well be of a single client.
const MANY_LINES: u64 = 1_000;

impl CommonClient {
    /// Returns the client with more than half of the requests of a block, if there is one. `texts` are the texts of the
    /// keys.
    pub(super) fn of(events: &[ReplayEvent], texts: &[impl AsRef<[u8]>], wanted: &Wanted) -> Self {
        let mut by_key = vec![0_u64; texts.len()];
        events.iter().for_each(|event| by_key[event.key() as usize] += 1);
        let mut by_client = HashMap::<&[u8], u64>::new();
        for (text, lines) in texts.iter().zip(by_key) {
            if let Some(client) = wanted.client(text.as_ref()) {
                *by_client.entry(client).or_default() += lines;
            }
        }
        let total = events.len() as u64;
        let most = by_client.into_iter().find(|(_, lines)| *lines > total / 2);
        let of = |(text, lines): (&[u8], u64)| Self {
            text: text.into(),
            lines,
            lead: (2 * lines).saturating_sub(total),
        };
        most.map(of).unwrap_or_default()
    }

    /// Adds the common client of the next block.
    pub(super) fn append(&mut self, next: Self) {
        if self.text == next.text {
            self.lines += next.lines;
            self.lead += next.lead;
        } else if self.lead < next.lead {
            *self = Self { lead: next.lead - self.lead, ..next };
        } else {
            self.lead -= next.lead;
        }
    }

    /// Returns a note for the user, if the client has nearly all of the good lines and may well be a proxy. It may be a
    /// proxy if it is no address or an address of a private network, or if the log is long.
    pub(super) fn note(&self, file: &str, good: u64) -> Option<String> {
        let text = std::str::from_utf8(&self.text).ok()?;
        if good < 2 || self.lines * 100 < good * NEARLY_ALL {
            return None;
        }
        let share = self.lines * 100 / good;
        let what = match text.parse::<IpAddr>() {
            _ if !is_address_text(&self.text) && !text.contains('/') => "which is no address",
            Ok(address) if is_private(address) => "an address of a private network",
            _ if good >= MANY_LINES => "one client of many",
            _ => return None,
        };
        Some(format!(
            "{share} % of the lines of {file} have the client {text}, {what}; if that is a proxy, its own log or \
             --trusted-proxies tells clients apart, and --key another field"
        ))
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_private() || address.is_loopback() || address.is_link_local()
        }
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}
