//! Core ML's compute plan: which unit it prefers for each operation, and the operation's share of the cost.

use super::said;
use crate::runtime::{PlanShares, RuntimeError};
use block2::RcBlock;
use objc2_core_ml::{
    MLCPUComputeDevice, MLComputePlan, MLGPUComputeDevice, MLModelConfiguration, MLNeuralEngineComputeDevice,
};
use objc2_foundation::{NSError, NSObjectProtocol, NSURL};
use std::sync::mpsc;

/// The shares of a compiled program. The class `MLComputePlan` is there.
pub(super) fn shares(
    compiled: &NSURL,
    configuration: &MLModelConfiguration,
) -> Result<Option<PlanShares>, RuntimeError> {
    let (send, receive) = mpsc::channel::<Result<PlanShares, String>>();
    // Core ML calls it on a thread of its own, once. What it captures is `Send`, and what it sends has no Objective-C objects.
    let handler = RcBlock::new(move |plan: *mut MLComputePlan, error: *mut NSError| {
        // SAFETY: Core ML gives valid objects, or null.
        let (plan, error) = unsafe { (plan.as_ref(), error.as_ref()) };
        // Nobody listens any more if the receiver is gone.
        let _ = send.send(plan.map(read).ok_or_else(|| said(error)));
    });
    // SAFETY: the handler takes what the method gives it, and is kept by Core ML until it was called.
    unsafe {
        MLComputePlan::loadContentsOfURL_configuration_completionHandler(compiled, configuration, &handler);
    }
    drop(handler);
    let answer = receive.recv().unwrap_or_else(|_| Err("Core ML did not answer".to_owned()));
    answer.map(Some).map_err(RuntimeError::Refused)
}

/// Adds up the costs of operations by preferred unit.
fn read(plan: &MLComputePlan) -> PlanShares {
    let mut shares = PlanShares::default();
    // SAFETY: getters of objects that the plan owns.
    unsafe {
        let Some(program) = plan.modelStructure().program() else { return shares };
        for function in program.functions().allValues() {
            for operation in function.block().operations() {
                let Some(usage) = plan.computeDeviceUsageForMLProgramOperation(&operation) else { continue };
                let Some(cost) = plan.estimatedCostOfMLProgramOperation(&operation) else { continue };
                let device = usage.preferredComputeDevice();
                let share = if device.isKindOfClass(<MLCPUComputeDevice as objc2::ClassType>::class()) {
                    &mut shares.cpu
                } else if device.isKindOfClass(<MLGPUComputeDevice as objc2::ClassType>::class()) {
                    &mut shares.gpu
                } else if device.isKindOfClass(<MLNeuralEngineComputeDevice as objc2::ClassType>::class()) {
                    &mut shares.neural_engine
                } else {
                    continue;
                };
                *share += cost.weight();
            }
        }
    }
    shares
}
