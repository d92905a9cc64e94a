//! Compiles the wire protocols, without `protoc`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message;

/// The protocols that the service serves. It describes them to clients by reflection.
const SERVED: [&str; 2] =
    ["envoy/service/ratelimit/v3/rls.proto", "envoy/service/rate_limit_quota/v3/rlqs.proto"];

/// The protocol that the service speaks with a control plane.
const ASKED: [&str; 2] =
    ["envoy/service/discovery/v3/discovery.proto", "ratelimit/config/ratelimit/v3/rls_conf.proto"];

/// `TYPE_BYTES` of `google/protobuf/descriptor.proto`.
const BYTES: i32 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let served = protox::compile(SERVED, ["proto"])?;
    fs::write(out.join("descriptors.bin"), served.encode_to_vec())?;
    let mut all = protox::compile(SERVED.iter().chain(&ASKED), ["proto"])?;
    // A value that Envoy sends has the bytes of a header, which need not be UTF-8. A decoder of `string` would refuse
    // the whole request, and Envoy would then let it pass. So these fields are decoded as `bytes`, which have the same
    // form on the wire.
    let messages = all.file.iter_mut().flat_map(|file| &mut file.message_type);
    let entries = messages
        .flat_map(|message| &mut message.nested_type)
        // `BucketEntry` is the entry of the map in a bucket's identifier.
        .filter(|nested| matches!(nested.name(), "Entry" | "BucketEntry"));
    for field in entries.flat_map(|entry| &mut entry.field).filter(|field| field.name() == "value")
    {
        field.r#type = Some(BYTES);
    }
    // The generated clients get no `connect` method, because their callers pass them a channel.
    let builder = tonic_prost_build::configure().build_transport(false);
    builder.include_file("protocol.rs").compile_fds(all)?;
    Ok(())
}
