//! [`SpanQueue`]: wraps the SDK's queue of spans, and counts the spans that were sent and lost, which the SDK does not
//! do.
//!
//! The SDK's processor sends spans from a thread of its own. A span counts as waiting from before it is handed to the
//! SDK until it is sent. The bound on waiting spans is enforced here. The SDK's own queue has the same bound, so it has
//! room for every span that is accepted here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{ServiceTotal, encode_total};

/// The maximum number of spans that wait or are being sent. They take some 2 MiB. It is also the SDK's default.
const MAX_WAITING: usize = 2_048;

/// The maximum number of spans of one message.
const MAX_BATCH: usize = 512;

/// The time for which spans are gathered before they are sent.
const GATHER: Duration = Duration::from_secs(1);

/// The numbers of spans that wait, were sent, and were lost.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    waiting: AtomicUsize,
    sent: ServiceTotal,
    failed: ServiceTotal,
    dropped: ServiceTotal,
}

/// Takes spans that have ended. It ignores the shutdown of its provider, so that dropping a service does not wait for
/// spans.
#[derive(Debug)]
pub(super) struct SpanQueue {
    batches: Arc<BatchSpanProcessor>,
    counts: Arc<SpanCounts>,
}

/// Sends the spans that still wait when the service stops.
#[derive(Debug)]
pub(crate) struct LastSpans(Arc<BatchSpanProcessor>, Arc<SpanCounts>);

/// Counts the spans that an exporter sends.
#[derive(Debug)]
struct CountedExporter<E> {
    inner: E,
    counts: Arc<SpanCounts>,
    /// Whether the last message was refused, and whether spans were dropped for lack of room before that message. The
    /// beginning and the end of each are logged.
    is_refused: AtomicBool,
    is_slow: AtomicBool,
    /// The number of spans that had been dropped for lack of room when the last message was answered.
    dropped: AtomicU64,
}

pub(super) fn span_queue<E: SpanExporter + 'static>(
    inner: E,
    resource: &Resource,
) -> (SpanQueue, LastSpans, Arc<SpanCounts>) {
    let counts = Arc::new(SpanCounts::default());
    let exporter = CountedExporter::new(inner, Arc::clone(&counts));
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_WAITING)
        .with_max_export_batch_size(MAX_BATCH)
        .with_scheduled_delay(GATHER);
    let mut batches = BatchSpanProcessor::new(exporter, config.build());
    batches.set_resource(resource);
    let batches = Arc::new(batches);
    let queue = SpanQueue { batches: Arc::clone(&batches), counts: Arc::clone(&counts) };
    (queue, LastSpans(batches, Arc::clone(&counts)), counts)
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    /// Never waits: a span for which there is no room is dropped.
    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let one_more = |waiting| (waiting < MAX_WAITING).then_some(waiting + 1);
        // Relaxed: no other memory is published with this count, since the span goes through a channel.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        match self.counts.waiting.fetch_update(set, fetch, one_more) {
            Ok(_) => self.batches.on_end(span),
            Err(_) => self.counts.dropped.add(1),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl LastSpans {
    /// Sends the spans, for at most this time. Returns the number of spans that are given up, which are counted as
    /// failed.
    pub(crate) async fn send(self, grace: Duration) -> usize {
        let Self(batches, counts) = self;
        // The shutdown blocks its thread, and if the SDK's queue is full, even for longer than the given time.
        let sent = tokio::task::spawn_blocking(move || batches.shutdown_with_timeout(grace));
        // The result is not used, because `export` counts the spans.
        let _ = tokio::time::timeout(grace, sent).await;
        // Relaxed: no other memory is published with this count. `export` then finds too few waiting spans, so it does
        // not count these spans again.
        let given_up = counts.waiting.swap(0, Ordering::Relaxed);
        counts.failed.add(given_up as u64);
        given_up
    }
}

impl<E> CountedExporter<E> {
    fn new(inner: E, counts: Arc<SpanCounts>) -> Self {
        let [is_refused, is_slow] = [false; 2].map(AtomicBool::new);
        Self { inner, counts, is_refused, is_slow, dropped: AtomicU64::new(0) }
    }
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.inner.export(batch).await;
        let fewer = |waiting: usize| waiting.checked_sub(spans);
        // Relaxed: no other memory is published with this count.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        // An error means that the spans were given up meanwhile, and are already counted.
        if self.counts.waiting.fetch_update(set, fetch, fewer).is_ok() {
            let became = if result.is_ok() { &self.counts.sent } else { &self.counts.failed };
            became.add(spans as u64);
        }
        let dropped = self.counts.dropped.get();
        // Relaxed, for all three: only the SDK's sending thread uses them.
        let has_dropped = self.dropped.swap(dropped, Ordering::Relaxed) < dropped;
        let was_slow = self.is_slow.swap(has_dropped, Ordering::Relaxed);
        let was_refused = self.is_refused.swap(result.is_err(), Ordering::Relaxed);
        if has_dropped && !was_slow {
            tracing::warn!("the collector of traces is slow: {dropped} spans have found no room");
        }
        match &result {
            Err(error) if !was_refused => {
                tracing::warn!(
                    "spans are not taken by the collector of traces, so far {spans}: {error}"
                );
            }
            Ok(()) if (was_refused || was_slow) && !has_dropped => {
                let failed = self.counts.failed.get();
                tracing::info!(
                    "spans are taken by the collector of traces again; in all {failed} were not, and {dropped} found no \
                     room while it was slow"
                );
            }
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Reports the counts of spans as metrics.
#[derive(Debug)]
pub(crate) struct OfSpans(pub(super) Arc<SpanCounts>);

impl Collector for OfSpans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(counts) = self;
        for (name, help, count) in [
            ("spans_sent", "Spans in messages that the collector of traces took", &counts.sent),
            ("spans_failed", "Spans that the collector of traces did not take", &counts.failed),
            (
                "spans_dropped",
                "Spans that were dropped while the collector was slow",
                &counts.dropped,
            ),
        ] {
            encode_total(&mut encoder, name, help, count.get())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::error::OTelSdkError;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

    use super::*;

    /// Sends the number of spans of each message to the test, and answers with the next result from a channel.
    #[derive(Debug)]
    struct FakeCollector(Sender<usize>, Mutex<Receiver<OTelSdkResult>>);

    impl SpanExporter for FakeCollector {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.send(batch.len()).unwrap();
            // When the test has ended, every message is refused.
            self.1.lock().unwrap().recv().unwrap_or(Err(OTelSdkError::AlreadyShutdown))
        }
    }

    #[tokio::test]
    async fn a_collector_that_is_slow_and_one_that_refuses_are_told_each_by_itself() {
        let ((told, messages), (answer, answers)) = (channel(), channel());
        let fake = FakeCollector(told, Mutex::new(answers));
        let exporter = CountedExporter::new(fake, Arc::default());
        let failure = || Err(OTelSdkError::InternalFailure("no".to_owned()));
        for (newly_dropped, result, expected) in [
            (0, Ok(()), [false, false]),
            (3, Ok(()), [true, false]),
            (1, failure(), [true, true]),
            (0, failure(), [false, true]),
            (0, Ok(()), [false, false]),
        ] {
            exporter.counts.dropped.add(newly_dropped);
            answer.send(result).unwrap();
            let _ = exporter.export(Vec::new()).await;
            assert_eq!(messages.recv(), Ok(0));
            let flags = [&exporter.is_slow, &exporter.is_refused];
            assert_eq!(flags.map(|flag| flag.load(Ordering::Relaxed)), expected, "{newly_dropped}");
        }
    }

    #[test]
    fn no_more_spans_wait_than_the_bound_and_each_is_counted_once() {
        let ((told, messages), (answer, answers)) = (channel(), channel());
        let fake = FakeCollector(told, Mutex::new(answers));
        let (queue, last, counts) = span_queue(fake, &Resource::builder_empty().build());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::AlwaysOn)
            .build();
        let tracer = provider.tracer("test");
        let spans = |number: usize| (0..number).for_each(|_| tracer.start("span").end());
        let told = || [&counts.sent, &counts.failed, &counts.dropped].map(ServiceTotal::get);

        // The first message is on its way: its spans are counted as waiting until it is answered.
        spans(MAX_BATCH);
        assert_eq!(messages.recv(), Ok(MAX_BATCH));
        spans(MAX_WAITING);
        let dropped = MAX_BATCH as u64;
        assert_eq!(told(), [0, 0, dropped]);

        answer.send(Ok(())).unwrap();
        for _ in 1..MAX_WAITING / MAX_BATCH {
            assert_eq!(messages.recv(), Ok(MAX_BATCH));
            answer.send(Err(OTelSdkError::InternalFailure("no".to_owned()))).unwrap();
        }
        last.0.force_flush().unwrap();
        let failed = (MAX_WAITING - MAX_BATCH) as u64;
        assert_eq!(told(), [MAX_BATCH as u64, failed, dropped]);

        // There is room again, and the spans that still wait are sent at the end.
        spans(3);
        answer.send(Ok(())).unwrap();
        last.0.shutdown_with_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(messages.recv(), Ok(3));
        assert_eq!(told(), [MAX_BATCH as u64 + 3, failed, dropped]);
    }
}
