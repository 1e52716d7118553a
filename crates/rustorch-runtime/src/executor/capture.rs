//! Capturing: an executor that records operations instead of running them.

use super::dispatch::{DispatchOutcome, Request};
use super::plan::OutputDevice;
use super::{Handle, HybridExecutor, Operand, Output};
use crate::device_state::DeviceState;
use crate::graph::{Capture, Captured};
use rustorch_core::{DType, Device, Error, Layout, Op, PhiloxKey, Result, Shape};
use std::sync::Arc;

/// Ends a capture, also by an error or a panic.
struct End<'a>(&'a Capture);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Checks that an operand has memory, or stands for something in a capture.
fn check_known(capture: &Capture, operand: &Operand<'_>, op: &'static str) -> Result<()> {
    match capture.owns(operand.storage) && operand.is_valid_symbol() {
        true => Ok(()),
        false => operand.check_for(op),
    }
}

impl HybridExecutor {
    /// Runs `f` by an executor that records what is run, on symbolic inputs of these dtypes, shapes and devices: nothing is computed, and
    /// no memory taken. `f` gets the inputs, and returns what the graph is to return, with something for the caller.
    ///
    /// # Errors
    /// That of `f`; and if a capture runs on this thread already, a device is not here, or `f` did what cannot be recorded.
    pub fn capture<R>(
        &self,
        inputs: &[(DType, Shape, Device)],
        f: impl FnOnce(Vec<Output>) -> Result<(Vec<Output>, R)>,
    ) -> Result<(Captured, R)> {
        if self.0.capture.is_some() {
            return Err(Error::argument(
                "capture",
                "a capture runs on this thread already; captures do not nest",
            ));
        }
        let capture = Arc::new(Capture::new());
        let _end = End(&capture);
        let recorder =
            HybridExecutor::assemble(Handle { capture: Some(Arc::clone(&capture)), ..(*self.0).clone() });
        let inputs = inputs
            .iter()
            .map(|(dtype, shape, device)| recorder.record_input(*dtype, shape, *device))
            .collect::<Result<Vec<Output>>>()?;
        let (outputs, rest) = recorder.scope(|| f(inputs))?;
        let operands: Vec<Operand<'_>> = outputs.iter().map(Output::operand).collect();
        for operand in &operands {
            check_known(&capture, operand, "capture")?;
        }
        let captured = capture.finish(&operands)?;
        captured.graph.verify()?;
        Ok((captured, rest))
    }

    /// Whether operations are recorded instead of run.
    #[inline]
    pub fn is_capturing(&self) -> bool {
        self.0.capture.is_some()
    }

    /// The executor that records nothing, for what a captured function does beside its operations.
    pub fn outside_capture(&self) -> HybridExecutor {
        match self.is_capturing() {
            true => HybridExecutor::assemble(Handle { capture: None, ..(*self.0).clone() }),
            false => self.clone(),
        }
    }

    /// Records another input of the graph, behind those that there are: a tensor that each run is given.
    ///
    /// # Errors
    /// If nothing is captured on this thread, or the device is not here.
    pub fn record_input(&self, dtype: DType, shape: &Shape, device: Device) -> Result<Output> {
        let Some(capture) = &self.0.capture else {
            return Err(Error::argument("capture", "nothing is captured"));
        };
        let storage = capture.input(dtype, shape, &self.state(device)?)?;
        Ok(Output { storage, dtype, layout: Layout::contiguous(shape.clone()) })
    }

    /// Records that so many Philox blocks are drawn from the stream of random numbers: the key that stands for the one that each run
    /// draws.
    ///
    /// # Errors
    /// If nothing is captured on this thread.
    pub fn record_draw(&self, blocks: u64) -> Result<PhiloxKey> {
        match &self.0.capture {
            Some(capture) => capture.draw(blocks),
            None => Err(Error::argument("random", "nothing is captured")),
        }
    }

    /// An argument that has no memory: of the running capture, or an error.
    #[cold]
    pub(super) fn check_symbolic(&self, arg: &Operand<'_>, op: &Op) -> Result<()> {
        match &self.0.capture {
            Some(capture) => check_known(capture, arg, op.name()),
            None => arg.check_for(op.name()),
        }
    }

    pub(super) fn record_in(&self, capture: &Capture, request: &Request<'_>) -> Result<DispatchOutcome> {
        let (state, asked) = match &request.output_device {
            OutputDevice::At(state) => (Arc::clone(state), request.places.is_none().then_some(state.device)),
            OutputDevice::Anywhere => (self.home_of(request.args), None),
        };
        let destinations = request.places.map(|places| places.destinations);
        let outputs = capture.record(request.op, request.args, request.outs, destinations, &state, asked)?;
        Ok(if destinations.is_some() { DispatchOutcome::InPlace } else { DispatchOutcome::Fresh(outputs) })
    }

    pub(super) fn record_transfer_in(
        &self,
        capture: &Capture,
        source: &Operand<'_>,
        state: &Arc<DeviceState>,
    ) -> Result<Output> {
        check_known(capture, source, "transfer")?;
        source.meta().check("transfer")?;
        capture.record_transfer(source, state)
    }

    /// Where an operation's results will be, as a rule: beside the first argument that is not on the CPU.
    fn home_of(&self, args: &[Operand<'_>]) -> Arc<DeviceState> {
        let away = args.iter().find(|arg| !arg.device().is_cpu());
        away.map_or_else(|| Arc::clone(self.cpu()), |arg| self.home(arg.storage))
    }
}
