//! Tests of [`Io`].

use std::future::poll_fn;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::listen::places::ConnectionPlaces;

fn place() -> ConnectionPlace {
    Arc::new(ConnectionPlaces::of(1)).take()
}

/// A connection over this stream.
fn over(stream: impl ByteStream + 'static) -> Io {
    let (stream, peer) = (Box::new(stream), Ipv4Addr::LOCALHOST.into());
    Io { stream, peer, closing: None, life: None, place: place(), first: None, quiet: None }
}

/// The connection of a client that has its answer and still sends is not reset before the client closes its own side.
#[tokio::test]
async fn a_connection_that_ends_is_read_until_its_client_has_closed_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let mut io = Raw::Tcp(stream, peer.ip()).ready(None, place()).await.unwrap();
    client.write_all(b"a question that is not read").await.unwrap();
    let ends = tokio::spawn(async move {
        io.write_all(b"answer").await.unwrap();
        io.shutdown().await.unwrap();
    });
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    for _ in 0..10 {
        client.write_all(&[7; 10_000]).await.expect("it is read");
        assert_eq!(client.read(&mut [0; 8]).await.expect("no reset"), 0);
    }
    drop(client);
    ends.await.unwrap();
}

/// The client's input is ready at every poll, so a read never waits.
#[tokio::test(start_paused = true)]
async fn a_client_that_never_stops_sending_is_closed_when_its_time_is_over() {
    let mut io = over(tokio::io::join(tokio::io::repeat(7), tokio::io::sink()));
    let mut is_closed = async || {
        poll_fn(|context| Poll::Ready(Pin::new(&mut io).poll_shutdown(context).is_ready())).await
    };
    assert!(!is_closed().await);
    tokio::time::advance(CLOSE_WITHIN - Duration::from_millis(1)).await;
    assert!(!is_closed().await);
    tokio::time::advance(Duration::from_millis(2)).await;
    assert!(is_closed().await);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_read_until_its_life_is_over_even_if_there_is_more() {
    let life = Duration::from_secs(9);
    let io = over(tokio::io::join(tokio::io::repeat(7), tokio::io::sink()));
    let mut io = io.living(Some(life));
    tokio::time::advance(life - Duration::from_millis(1)).await;
    assert_eq!(io.read_u8().await.expect("it lives"), 7);
    tokio::time::advance(Duration::from_millis(2)).await;
    let error = io.read_u8().await.expect_err("it is over");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

async fn ends(mut io: Io) -> Duration {
    let begun = Instant::now();
    while let Ok(read) = io.read(&mut [0; 64]).await {
        assert!(read > 0, "the client is there");
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_ends_in_time_and_one_with_a_request_stays() {
    let most = Duration::from_secs(30);
    let (_stop, stopped) = watch::channel(false);
    let headers = [&[0; 24][..], &[0, 0, 0, 1, 0, 0, 0, 0, 1]].concat();
    for (sent, is_over) in [(&headers[..33], false), (&headers[..32], true), (&[], true)] {
        let (mut client, stream) = tokio::io::duplex(64);
        client.write_all(sent).await.expect("it is open");
        let io = over(stream).asking_within(most, stopped.clone());
        let places = Arc::clone(&io.place.places);
        let ended = tokio::time::timeout(2 * most, ends(io)).await;
        assert_eq!(ended.ok(), is_over.then_some(most), "{sent:?}");
        assert_eq!(places.timed_out.get(), u64::from(is_over));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_does_not_hold_up_the_end_of_the_service() {
    let (stop, stopped) = watch::channel(false);
    let (_client, stream) = tokio::io::duplex(64);
    let io = over(stream).asking_within(Duration::from_secs(30), stopped);
    let (ended, ()) = tokio::join!(ends(io), async { stop.send(true).expect("it is heard") });
    assert_eq!(ended, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_once_nothing_was_sent_and_nothing_taken_for_a_while() {
    let most = Duration::from_secs(30);
    let (mut client, stream) = tokio::io::duplex(64);
    let io = over(stream).never_quiet(most);
    let (ended, ()) = tokio::join!(ends(io), async {
        sleep(most - Duration::from_secs(1)).await;
        client.write_all(b"x").await.expect("it is open");
    });
    assert_eq!(ended, 2 * most, "it was active in the first of the two");
    let (_client, stream) = tokio::io::duplex(64);
    let (mut io, begun) = (over(stream).never_quiet(most), Instant::now());
    let error = io.write_all(&[7; 65]).await.expect_err("an answer that is not taken");
    assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, 2 * most));
}
