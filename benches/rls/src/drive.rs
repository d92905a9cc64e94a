//! The client has connections that make requests one after the other, and checks the answers.

use std::error::Error;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tollgate_service::protocol::common::{RateLimitDescriptor, rate_limit_descriptor::Entry};
use tollgate_service::protocol::rls::rate_limit_response::Code;
use tollgate_service::protocol::rls::rate_limit_service_client::RateLimitServiceClient;
use tollgate_service::protocol::rls::{RateLimitRequest, RateLimitResponse};
use tonic::transport::{Channel, Endpoint};

use crate::options::{RlsOptions, ServerKind};
use crate::server::{LIMIT, rules};

/// The result of one round of one server.
pub(crate) struct DriveRound {
    pub(crate) requests: u64,
    pub(crate) took: Duration,
    pub(crate) latencies_ns: Histogram<u64>,
    /// The processor time that the server took.
    pub(crate) cpu_s: f64,
}

/// The end of a round: after this much time, or after this many requests.
#[derive(Clone, Copy)]
pub(crate) enum Span {
    Time(Duration),
    /// The number of requests of each connection.
    Requests(u32),
}

/// All connections to one server.
pub(crate) struct Clients {
    clients: Vec<BenchClient>,
}

/// One connection.
struct BenchClient {
    kind: ServerKind,
    client: RateLimitServiceClient<Channel>,
    request: RateLimitRequest,
    calls: u32,
}

impl Clients {
    pub(crate) async fn connect(
        kind: ServerKind,
        address: &str,
        options: &RlsOptions,
    ) -> Result<Self, Box<dyn Error>> {
        let mut clients = Vec::new();
        for n in 0..options.connections {
            let endpoint = Endpoint::from_shared(address.to_owned())?.tcp_nodelay(true);
            let client = RateLimitServiceClient::new(endpoint.connect().await?);
            let request = request(n, options.descriptors);
            clients.push(BenchClient { kind, client, request, calls: 0 });
        }
        Ok(Self { clients })
    }

    /// Makes requests on all connections until the span ends.
    pub(crate) async fn round(&mut self, span: Span) -> Result<DriveRound, Box<dyn Error>> {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for client in self.clients.drain(..) {
            tasks.spawn(client.ask(begun, span));
        }
        let (mut requests, mut latencies_ns) = (0, Histogram::new(3)?);
        while let Some(ended) = tasks.join_next().await {
            let (client, own) = ended?;
            requests += own.len();
            latencies_ns.add(own)?;
            self.clients.push(client);
        }
        assert!(
            latencies_ns.value_at_quantile(0.5) > 1_000,
            "nothing answers within a microsecond"
        );
        Ok(DriveRound { requests, took: begun.elapsed(), latencies_ns, cpu_s: 0.0 })
    }
}

impl BenchClient {
    async fn ask(mut self, start: Instant, span: Span) -> (Self, Histogram<u64>) {
        let mut latencies_ns = Histogram::new(3).expect("three digits are few enough");
        let mut begun = Instant::now();
        let goes_on = |begun: Instant, asked| match span {
            Span::Time(most) => begun < start + most,
            Span::Requests(most) => asked < u64::from(most),
        };
        while goes_on(begun, latencies_ns.len()) {
            let answer = self.client.should_rate_limit(self.request.clone()).await;
            let ended = Instant::now();
            let took_ns = u64::try_from((ended - begun).as_nanos()).unwrap_or(u64::MAX);
            latencies_ns.record(took_ns).expect("it grows");
            self.calls += 1;
            self.look_at(answer.expect("an answer").get_ref());
            begun = Instant::now();
        }
        (self, latencies_ns)
    }

    /// Panics if the answer is not the expected one.
    fn look_at(&self, answer: &RateLimitResponse) {
        let left = match self.kind {
            ServerKind::Ours => LIMIT - self.calls,
            ServerKind::Echo => LIMIT,
        };
        assert_eq!(answer.overall_code(), Code::Ok);
        assert_eq!(answer.statuses.len(), self.request.descriptors.len());
        for status in &answer.statuses {
            let limit = status.current_limit.as_ref().map(|limit| limit.requests_per_unit);
            assert_eq!((limit, status.limit_remaining), (Some(LIMIT), left));
        }
    }
}

fn request(client: usize, descriptors: usize) -> RateLimitRequest {
    let descriptor = |n| RateLimitDescriptor {
        entries: vec![Entry {
            key: format!("user{n}"),
            value: format!("client-{client:05}").into(),
        }],
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: "bench".to_owned(),
        descriptors: (0..descriptors).map(descriptor).collect(),
        hits_addend: 0,
    }
}

/// Makes decisions in this process without a socket, from the bytes of a request to the bytes of its answer.
pub(crate) fn decide(decisions: u32, descriptors: usize) -> Result<(), Box<dyn Error>> {
    use tollgate_service::offline::Offline;
    let settings = tollgate_rules::RuleSettings::default();
    let service = Offline::new(&rules(descriptors, "exact"), settings, tollgate::Clock::unix())?;
    let messages: Vec<Vec<u8>> =
        (0..64).map(|client| Offline::message(&request(client, descriptors))).collect();
    let begun = Instant::now();
    let mut bytes = 0;
    for message in messages.iter().cycle().take(decisions as usize) {
        bytes += service.rls(message)?.len();
    }
    let each_ns = begun.elapsed().as_nanos() / u128::from(decisions.max(1));
    println!("{decisions} decisions, {each_ns} ns each, {bytes} bytes of answers");
    Ok(())
}
