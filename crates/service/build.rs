//! Compiles the wire protocol, without `protoc`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let files = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], ["proto"])?;
    // The descriptors that reflection serves.
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    // Clients bring their own transport.
    let builder = tonic_prost_build::configure().build_transport(false);
    builder.include_file("protocol.rs").compile_fds(files)?;
    Ok(())
}
