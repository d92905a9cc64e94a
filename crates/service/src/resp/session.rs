//! [`Session`]: the state of a connection, and the answers to its requests. Opens no socket.

use std::net::IpAddr;

use tollgate_rules::{Answer, RequestError};

use super::limit::{self, ByRules, Dialect, RulesAsked, StoreRequest};
use super::parse::{RequestWords, WordPlaces};
use super::refusal::RespRefusal;
use super::reply;
use crate::metrics::{OUTCOMES_COUNT, Protocol, RequestOutcome};
use crate::observe::DeniedFrom;
use crate::service::Service;

/// When this many bytes of answers wait, they are sent before further requests are decided. So the answers to a client
/// that does not read cannot pile up.
const MAX_WAITING_BYTES: usize = 16 << 10;

/// The length of the longest name of a command.
const LONGEST_NAME: usize = 16;

#[derive(Debug)]
pub(super) struct Session<'s> {
    service: &'s Service,
    from: DeniedFrom,
    /// The password that the client must send before anything else.
    password: Option<&'s [u8]>,
    is_authenticated: bool,
    is_resp3: bool,
    places: WordPlaces,
    /// The number of requests with each outcome since the last call of `take_outcomes`.
    outcomes: [u64; OUTCOMES_COUNT],
}

/// The reason why no more requests are decided for now.
#[derive(Debug)]
pub(super) enum Pause {
    /// The rest of the input is empty, or the beginning of a request.
    Incomplete,
    /// The answers have to be sent first.
    Full,
    /// The store has to decide the last request.
    Ask(StoreRequest),
    /// The connection ends after its answers are sent.
    End,
}

impl<'s> Session<'s> {
    pub(super) fn new(
        service: &'s Service,
        password: Option<&'s [u8]>,
        peer: Option<IpAddr>,
    ) -> Self {
        let from = DeniedFrom { protocol: Protocol::Resp, peer };
        let (is_authenticated, is_resp3) = (password.is_none(), false);
        let (places, outcomes) = (WordPlaces::default(), [0; OUTCOMES_COUNT]);
        Self { service, from, password, is_authenticated, is_resp3, places, outcomes }
    }

    /// Decides requests one after the other; returns the number of bytes of these requests, and the reason for the
    /// pause.
    pub(super) fn decide(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Pause) {
        let mut at = 0;
        let mut places = std::mem::take(&mut self.places);
        let pause = loop {
            if out.len() >= MAX_WAITING_BYTES {
                break Pause::Full;
            }
            let rest = &input[at..];
            match places.find(rest) {
                Ok(None) => break Pause::Incomplete,
                Ok(Some(size)) => {
                    at += size;
                    if let Some(pause) = self.answer(places.words(rest), out) {
                        break pause;
                    }
                }
                Err(error) => {
                    self.count(RequestOutcome::Refused);
                    reply::error(out, "ERR", error);
                    break Pause::End;
                }
            }
        };
        self.places = places;
        (at, pause)
    }

    /// Counts a request by its outcome.
    pub(super) fn count(&mut self, outcome: RequestOutcome) {
        self.outcomes[outcome as usize] += 1;
    }

    /// Takes the numbers of outcomes since the last call.
    pub(super) fn take_outcomes(&mut self) -> [u64; OUTCOMES_COUNT] {
        std::mem::take(&mut self.outcomes)
    }

    /// Writes, counts and logs the store's answer.
    pub(super) fn answered(
        &mut self,
        request: &StoreRequest,
        answer: Result<Answer, RequestError>,
        out: &mut Vec<u8>,
    ) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.count(RequestOutcome::Refused);
                return reply::error(out, "ERR", RespRefusal::Request(error));
            }
        };
        let denials = self.service.observers.denials.as_ref().filter(|_| !answer.is_allowed());
        if let Some(denials) = denials.filter(|_| request.is_logged()) {
            denials.by_rules(request, &answer, self.from);
        }
        let outcome = limit::write(&answer, out);
        self.count(outcome);
    }

    /// Answers one request. If it returns a pause, no further request is decided until the pause is over.
    fn answer(&mut self, mut words: RequestWords<'_>, out: &mut Vec<u8>) -> Option<Pause> {
        // An empty request gets no answer, as in Redis.
        let name = words.next()?;
        let mut upper = [0; LONGEST_NAME];
        let upper = upper.get_mut(..name.len()).map(|upper| {
            upper.copy_from_slice(name);
            upper.make_ascii_uppercase();
            &*upper
        });
        match self.run(name, upper.unwrap_or_default(), words, out) {
            Ok(pause) => pause,
            Err(refusal) => {
                self.count(RequestOutcome::Refused);
                reply::error(out, "ERR", refusal);
                None
            }
        }
    }

    fn run<'a>(
        &mut self,
        name: &'a [u8],
        upper: &[u8],
        words: RequestWords<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Pause>, RespRefusal<'a>> {
        match upper {
            b"QUIT" => {
                reply::simple(out, "OK");
                return Ok(Some(Pause::End));
            }
            // These words begin lines of HTTP. A web page can make a browser send such a request to this port, with
            // commands in later lines, so the connection is closed.
            b"POST" | b"HOST:" => return Ok(Some(Pause::End)),
            b"AUTH" => return self.auth(words, out).map(|()| None),
            b"HELLO" => return self.hello(words, out).map(|()| None),
            _ if !self.is_authenticated => {
                reply::error(out, "NOAUTH", "Authentication required.");
                self.count(RequestOutcome::Refused);
                return Ok(None);
            }
            _ => {}
        }
        let (service, from) = (self.service, self.from);
        let outcome = match upper {
            b"CL.THROTTLE" => limit::throttle(service, from, Dialect::RedisCell, words, out)?,
            b"THROTTLE" => limit::throttle(service, from, Dialect::Throttlecrab, words, out)?,
            b"TOLLGATE.CHECK" => {
                match limit::by_rules(service, from, ByRules::Check, words, out)? {
                    RulesAsked::Answered(outcome) => outcome,
                    RulesAsked::InStore(request) => return Ok(Some(Pause::Ask(request))),
                }
            }
            b"TOLLGATE.PEEK" => match limit::by_rules(service, from, ByRules::Peek, words, out)? {
                RulesAsked::Answered(outcome) => outcome,
                RulesAsked::InStore(request) => return Ok(Some(Pause::Ask(request))),
            },
            _ => return self.manage(name, upper, words, out).map(|()| None),
        };
        self.count(outcome);
        Ok(None)
    }

    /// Answers the commands that do not ask for a decision. They are not counted.
    fn manage<'a>(
        &mut self,
        name: &'a [u8],
        upper: &[u8],
        mut words: RequestWords<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(), RespRefusal<'a>> {
        let one = |mut words: RequestWords<'a>, command, takes| match (words.next(), words.next()) {
            (Some(word), None) => Ok(word),
            _ => Err(RespRefusal::Words { command, takes }),
        };
        match upper {
            b"PING" if words.len() == 0 => reply::simple(out, "PONG"),
            b"PING" => reply::bulk(out, one(words, "ping", "[message]")?),
            b"ECHO" => reply::bulk(out, one(words, "echo", "message")?),
            b"SELECT" => match one(words, "select", "index")? {
                b"0" => reply::simple(out, "OK"),
                other => return Err(RespRefusal::Database(other)),
            },
            b"CLIENT" => match words.next() {
                // The service does not use the client's name.
                Some(part) if is_one_of(part, &["SETNAME", "SETINFO"]) => reply::simple(out, "OK"),
                part => return Err(unknown_part("client", part)),
            },
            // Clients use the answer to COMMAND for completion, and work without it.
            b"COMMAND" => match words.next() {
                None => reply::array(out, 0),
                Some(part) if is_one_of(part, &["DOCS", "INFO"]) => reply::array(out, 0),
                part => return Err(unknown_part("command", part)),
            },
            b"INFO" => reply::bulk(out, INFO.as_bytes()),
            _ => return Err(RespRefusal::Unknown(name)),
        }
        Ok(())
    }

    /// `AUTH password` or `AUTH user password`, where the user is `default`.
    fn auth<'a>(
        &mut self,
        mut words: RequestWords<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(), RespRefusal<'a>> {
        let (user, password) = match (words.next(), words.next(), words.next()) {
            (Some(password), None, _) => (&b"default"[..], password),
            (Some(user), Some(password), None) => (user, password),
            _ => return Err(RespRefusal::Words { command: "auth", takes: "[username] password" }),
        };
        if self.knows(user, password) {
            reply::simple(out, "OK");
        } else {
            self.reject(out);
        }
        Ok(())
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`.
    fn hello<'a>(
        &mut self,
        mut words: RequestWords<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(), RespRefusal<'a>> {
        let takes = "[version [AUTH username password] [SETNAME name]]";
        let wrong = RespRefusal::Words { command: "hello", takes };
        let is_resp3 = match words.next() {
            None => self.is_resp3,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(_) => {
                reply::error(out, "NOPROTO", "unsupported protocol version; it is 2 or 3");
                self.count(RequestOutcome::Refused);
                return Ok(());
            }
        };
        while let Some(part) = words.next() {
            if is_one_of(part, &["AUTH"]) {
                let (user, password) = (words.next().ok_or(wrong)?, words.next().ok_or(wrong)?);
                if !self.knows(user, password) {
                    self.reject(out);
                    return Ok(());
                }
            } else if is_one_of(part, &["SETNAME"]) {
                words.next().ok_or(wrong)?;
            } else {
                return Err(wrong);
            }
        }
        if !self.is_authenticated {
            let reason = "HELLO must be called with the client already authenticated, or with AUTH";
            reply::error(out, "NOAUTH", reason);
            self.count(RequestOutcome::Refused);
            return Ok(());
        }
        self.is_resp3 = is_resp3;
        reply::map(out, 6, is_resp3);
        for (name, value) in [
            ("server", "tollgate"),
            ("version", VERSION),
            ("mode", "standalone"),
            ("role", "master"),
        ] {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, value.as_bytes());
        }
        reply::bulk(out, b"proto");
        reply::integer(out, if is_resp3 { 3 } else { 2 });
        reply::bulk(out, b"modules");
        reply::array(out, 0);
        Ok(())
    }

    /// Checks the credentials; if they are right, marks the client as authenticated. A service without a password
    /// accepts no credentials.
    fn knows(&mut self, user: &[u8], password: &[u8]) -> bool {
        let is_right =
            self.password.is_some_and(|own| user == b"default" && is_same(own, password));
        self.is_authenticated |= is_right;
        is_right
    }

    fn reject(&mut self, out: &mut Vec<u8>) {
        self.count(RequestOutcome::Refused);
        if self.password.is_some() {
            reply::error(out, "WRONGPASS", "invalid username-password pair; the user is 'default'");
        } else {
            reply::error(out, "ERR", "AUTH is called, and this service has no password");
        }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The answer to `INFO`. Some clients ask for it first, to see that the server is not loading data.
const INFO: &str = concat!(
    "# Server\r\nserver_name:tollgate\r\ntollgate_version:",
    env!("CARGO_PKG_VERSION"),
    "\r\nredis_mode:standalone\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n"
);

fn is_one_of(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

fn unknown_part<'a>(command: &'static str, part: Option<&'a [u8]>) -> RespRefusal<'a> {
    RespRefusal::UnknownPart { command, part: part.unwrap_or_default() }
}

/// Compares two texts in a time that does not reveal how much of a guess is right.
fn is_same(own: &[u8], given: &[u8]) -> bool {
    let differs = |folded, (one, other): (&u8, &u8)| folded | (one ^ other);
    own.len() == given.len() && own.iter().zip(given).fold(0, differs) == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_http::headers::Headers;
    use tollgate_http::keys::ClientAddress;
    use tollgate_rules::{DecisionMaker, RuleCache, RuleSettings};

    use super::*;
    use crate::metrics_names::MetricsNames;
    use crate::options::AnswerParts;

    #[test]
    fn from_16_kib_of_answers_on_nothing_more_is_decided_until_they_are_sent() {
        let cache = Arc::new(RuleCache::new(RuleSettings::default()));
        let maker = DecisionMaker::new(cache).expect("tables");
        let (answers, headers) = (AnswerParts::default(), Headers::default());
        let (address, clock) = (ClientAddress::peer(), tollgate::Clock::unix());
        let service = Service::new(maker, answers, headers, address, MetricsNames::Own, clock);
        let mut session = Session::new(&service, None, None);
        let request = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", "x".repeat(1_000));
        let input = request.repeat(40);
        let (mut at, mut sent) = (0, Vec::new());
        loop {
            let mut out = Vec::new();
            let (size, pause) = session.decide(&input.as_bytes()[at..], &mut out);
            at += size;
            sent.push(size / request.len());
            if matches!(pause, Pause::Incomplete) {
                break;
            }
            assert!(matches!(pause, Pause::Full));
        }
        // An answer has 1,009 bytes.
        assert_eq!((sent, at), (vec![17, 17, 6], input.len()));
    }
}
