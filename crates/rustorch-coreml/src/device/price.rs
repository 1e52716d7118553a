//! What a region is taken to cost before its program was measured.

use rustorch_core::{Graph, OutputMeta, RegionPrice, TensorMeta};

/// By which the time of a program is estimated when a graph is partitioned. They decide which regions are worth an examination, and nothing else: what
/// a program takes is measured [there](crate::admission), and one that is not faster than the other devices is refused. So they are rather too
/// good than too bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumptions {
    /// Seconds of a call.
    pub call: f64,
    /// Floating-point operations per second.
    pub flops: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Seconds of compiling and examining.
    pub compile: f64,
}

impl Default for Assumptions {
    /// 0.2 ms a call, 4 TFLOP/s, 100 GB/s, a second to compile.
    fn default() -> Self {
        Assumptions { call: 2e-4, flops: 4e12, bandwidth: 1e11, compile: 1.0 }
    }
}

impl Assumptions {
    pub(super) fn price(&self, region: &Graph) -> RegionPrice {
        let (mut flops, mut bytes) = (0f64, 0f64);
        for node in &region.nodes {
            let args: Vec<TensorMeta<'_>> = node.args.iter().map(|arg| region.meta(arg)).collect();
            let outs: Vec<OutputMeta> = (node.results.iter())
                .map(|result| {
                    let value = &region.values[result.value.index()];
                    OutputMeta { dtype: value.dtype, shape: value.shape.clone() }
                })
                .collect();
            flops += node.op.work(&args, &outs).flops as f64;
        }
        // Temporaries may stay in caches; what crosses, and the constants, are read and written at least.
        let crossing = region.values.iter().enumerate().filter(|(i, value)| {
            let is_output = region.outputs.iter().any(|output| output.value.index() == *i);
            is_output || !matches!(value.source, rustorch_core::Source::Result { .. })
        });
        bytes += crossing.map(|(_, value)| value.bytes() as f64).sum::<f64>();
        let run = self.call + (flops / self.flops).max(bytes / self.bandwidth);
        RegionPrice { run, compile: self.compile }
    }
}
