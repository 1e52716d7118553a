//! What is said of a file whose architecture is not supported.

use super::fixture::{EncoderFixture, Fixture};
use rustorch_core::DType;
use rustorch_llm::arch::Architecture;

/// Every tensor of a fixture is one that a part of its architecture names.
#[test]
fn each_models_tensors_are_known() {
    let decoders = Fixture::all().into_iter().map(|fixture| fixture.header);
    let encoders = EncoderFixture::all().into_iter().map(|fixture| fixture.header);
    for header in decoders.chain(encoders) {
        let nearest = Architecture::nearest(header.names());
        assert!(nearest.unknown.is_empty(), "{}: {nearest}", header.name);
    }
}

#[test]
fn the_error_names_the_nearest_and_what_it_lacks() {
    let error = |name: &str, tensors: &[&str]| {
        let fixture = Fixture::all().into_iter().find(|fixture| fixture.header.name == name).unwrap();
        let header = fixture.header.renamed("unheard-of", tensors);
        header.open(|_, _| DType::F32).err().unwrap()
    };
    let message = error("gemma3n", &[]);
    assert!(message.contains("architecture `unheard-of` is not supported"), "{message}");
    assert!(message.contains("nearest to `gemma3n`, with a part for each"), "{message}");
    let message = error("mamba2", &["blk.0.attn_whirl.weight", "blk.1.attn_whirl.weight", "twirl.weight"]);
    assert!(message.contains("nearest to `mamba2`, "), "{message}");
    assert!(message.contains("without a part for `attn_whirl`, `twirl`"), "{message}");
    // Several architectures have these tensors.
    let message = error("llama-linear", &[]);
    assert!(message.contains("`llama`") && message.contains("`internlm2`"), "{message}");
}
