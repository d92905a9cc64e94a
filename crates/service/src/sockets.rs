//! [`Sockets`]: listens at the addresses of the options.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::host_port::HostPort;
use crate::listen::{BoundSocket, Socket, Tls, TlsError, TlsFiles};
use crate::options::Options;
use crate::start_error::StartError;

/// All listening sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) http: Vec<Socket>,
    pub(crate) grpc: Vec<Socket>,
    pub(crate) resp: Option<BoundSocket>,
    pub(crate) admin: BoundSocket,
    pub(crate) metrics: Option<BoundSocket>,
    pub(crate) http_address: SocketAddr,
    pub(crate) grpc_address: SocketAddr,
    pub(crate) tls: Vec<Arc<Tls>>,
}

impl Sockets {
    pub(crate) async fn bind(options: &Options) -> Result<Self, StartError> {
        // The protocols to negotiate: HTTP/1.1 for HTTP, and HTTP/2 for gRPC.
        let http_tls = load(options.http_tls.as_ref(), b"http/1.1")?;
        let grpc_tls = load(options.grpc_tls.as_ref(), b"h2")?;
        let http = bind(&options.http, http_tls.clone()).await?;
        let grpc = bind(&options.grpc, grpc_tls.clone()).await?;
        let admin = bind(&options.admin, None).await?;
        let resp = bind_if(options.resp.as_ref().map(|options| &options.address)).await?;
        let metrics = bind_if(options.metrics.as_ref()).await?;
        let with = |socket, path: &Option<PathBuf>| -> Result<Vec<Socket>, StartError> {
            let unix = path.as_deref().map(bind_unix).transpose()?;
            Ok([Some(socket), unix].into_iter().flatten().collect())
        };
        Ok(Self {
            http: with(http.socket, &options.http_socket)?,
            grpc: with(grpc.socket, &options.grpc_socket)?,
            resp,
            admin,
            metrics,
            http_address: http.address,
            grpc_address: grpc.address,
            tls: [http_tls, grpc_tls].into_iter().flatten().collect(),
        })
    }
}

fn load(files: Option<&TlsFiles>, protocol: &'static [u8]) -> Result<Option<Arc<Tls>>, StartError> {
    let load = |files: &TlsFiles| Tls::load(files.clone(), protocol).map(Arc::new);
    let refused = |TlsError { file, problem }| StartError::Tls { file, problem };
    files.map(load).transpose().map_err(refused)
}

async fn bind_if(at: Option<&HostPort>) -> Result<Option<BoundSocket>, StartError> {
    match at {
        Some(at) => bind(at, None).await.map(Some),
        None => Ok(None),
    }
}

/// Listens on the first address of a name that the system lets the service use.
async fn bind(at: &HostPort, tls: Option<Arc<Tls>>) -> Result<BoundSocket, StartError> {
    if let HostPort::Everywhere(port) = *at {
        let address = (Ipv6Addr::UNSPECIFIED, port).into();
        let refused = |error| StartError::Listen { address, error };
        return Socket::everywhere(port, tls).await.map_err(refused);
    }
    let unknown = |error| StartError::Resolve { address: at.clone(), error };
    let all = at.addresses().await.map_err(unknown)?;
    let mut refused = None;
    for address in &all {
        match Socket::tcp(*address, tls.clone()).await {
            Ok(bound) => {
                if all.len() > 1 {
                    tracing::info!(
                        "{at} has {} addresses; listening on {}",
                        all.len(),
                        bound.address
                    );
                }
                return Ok(bound);
            }
            Err(error) => refused = refused.or(Some((*address, error))),
        }
    }
    // The error is never used, because a name has at least one address.
    let (address, error) = refused.ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))?;
    Err(StartError::Listen { address, error })
}

fn bind_unix(path: &Path) -> Result<Socket, StartError> {
    Socket::unix(path).map_err(|error| StartError::Socket { path: path.to_owned(), error })
}
