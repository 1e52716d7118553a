//! The commands, a file each.

pub(crate) mod architectures;
pub(crate) mod bench;
pub(crate) mod bench_devices;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod coreml;
pub(crate) mod devices;
pub(crate) mod embed;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod imatrix;
pub(crate) mod inspect;
pub(crate) mod perplexity;
pub(crate) mod plan;
pub(crate) mod pull;
pub(crate) mod quantize;
pub(crate) mod rerank;
pub(crate) mod split;
pub(crate) mod tokenize;
pub(crate) mod watch;
