//! Compiles the wire protocol, without `protoc`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message;

/// `TYPE_BYTES` of `google/protobuf/descriptor.proto`.
const BYTES: i32 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], ["proto"])?;
    // The descriptors that reflection serves.
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    // Envoy sends in a value whatever a header holds, also what is no UTF-8. A decoder of `string` would refuse all of the
    // request, and Envoy let it pass. `bytes` are the same on the wire.
    let messages = files.file.iter_mut().flat_map(|file| &mut file.message_type);
    let entries = messages
        .flat_map(|message| &mut message.nested_type)
        .filter(|nested| nested.name() == "Entry");
    for field in entries.flat_map(|entry| &mut entry.field).filter(|field| field.name() == "value")
    {
        field.r#type = Some(BYTES);
    }
    // Clients bring their own transport.
    let builder = tonic_prost_build::configure().build_transport(false);
    builder.include_file("protocol.rs").compile_fds(files)?;
    Ok(())
}
