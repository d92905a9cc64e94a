//! [`OnRuntime`]: sends requests to a collector over HTTP, from threads that have no runtime of their own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

/// The maximum time for one request, even if `OTEL_EXPORTER_OTLP_TIMEOUT` is longer. The default of that variable is 10
/// s.
const PATIENCE: Duration = Duration::from_secs(60);

/// The SDK sends spans from a thread of its own, which has no runtime for the client to run on. So each request runs in
/// a task of this runtime, and the thread waits for it.
#[derive(Debug)]
pub(super) struct OnRuntime(Handle, Arc<dyn HttpClient>);

impl OnRuntime {
    /// Must be called in a runtime. Over TLS the client trusts the certificate authorities of the machine.
    pub(super) fn open(is_https: bool) -> io::Result<Self> {
        let client: Arc<dyn HttpClient> = if is_https {
            let provider = rustls::crypto::ring::default_provider();
            let builder = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider)?;
            let connector = builder.https_only().enable_http1().build();
            Arc::new(HyperClient::new(connector, PATIENCE, None))
        } else {
            Arc::new(HyperClient::new(HttpConnector::new(), PATIENCE, None))
        };
        Ok(Self(Handle::current(), client))
    }
}

impl HttpClient for OnRuntime {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let Self(runtime, client) = self;
        let client = Arc::clone(client);
        let sent = runtime.spawn(async move { client.send_bytes(request).await });
        Box::pin(async move { sent.await? })
    }
}
