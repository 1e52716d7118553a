//! Devices that fail change no bit of a training: a step gives what the CPU gives, or errs and may be done again.

use rustorch_core::{Backend, DTypeSet, Decline, Device, OpType};
use rustorch_cpu::CpuBackend;
use rustorch_nn::optim::{AdamW, AdamWOptions, OptimizerState, clip_grad_norm_};
use rustorch_nn::{Layer, Linear, Module, Sequential, StateDict};
use rustorch_runtime::{HybridExecutor, Placement};
use rustorch_tensor::{DType, Error, Generator, Result, Tensor};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const CUDA: Device = Device::cuda(0);
const OPENCL: Device = Device::opencl(0);

/// One for all fake devices.
static CPU: LazyLock<Arc<dyn Backend>> = LazyLock::new(|| Arc::new(CpuBackend::new(1)));

/// Two fake devices, which compute all that they can before the CPU does, and follow a script. The first has no matmul, so that data moves.
fn devices(script: &[Rule]) -> ([Arc<FakeDevice>; 2], HybridExecutor) {
    let cuda = FakeDevice::new(CUDA, Arc::clone(&CPU));
    let cuda = cuda.capability(|c| c.dtypes[OpType::LinearAlgebra as usize] = DTypeSet::of(&[DType::I8]));
    let fakes = [cuda, FakeDevice::new(OPENCL, Arc::clone(&CPU))].map(|fake| Arc::new(fake.with_peers()));
    script.iter().for_each(|rule| fakes.iter().for_each(|fake| fake.script(rule.clone())));
    let builder = HybridExecutor::builder().threads(1).check_numbers(true);
    let builder =
        fakes.iter().fold(builder, |builder, fake| builder.backend(Arc::clone(fake) as Arc<dyn Backend>));
    (fakes, builder.placement(Placement::FirstSupported).build().unwrap())
}

/// An MLP, its optimizer and its data.
struct Training {
    model: Sequential,
    optimizer: AdamW,
    x: Tensor,
    y: Tensor,
    losses: Vec<f32>,
}

impl Training {
    fn new() -> Result<Training> {
        let random = Generator::new(4);
        let model = Sequential::new().push(Linear::new(6, 16)?).push(Tensor::tanh).push(Linear::new(16, 3)?);
        for parameter in model.parameters() {
            let shape = parameter.tensor().shape().clone();
            parameter.replace(&random.randn(shape, DType::F32)?.mul(0.3)?, |grad| Ok(grad.clone()))?;
        }
        let optimizer = AdamW::new(&model, AdamWOptions { lr: 0.05, amsgrad: true, ..Default::default() })?;
        let (x, y) = (random.randn([8, 6], DType::F32)?, random.randint(0, 3, [8], DType::I64)?);
        Ok(Training { model, optimizer, x, y, losses: Vec::new() })
    }

    fn step(&mut self) -> Result<()> {
        self.optimizer.zero_grad();
        let loss = self.model.forward(&self.x)?.cross_entropy(&self.y, &Default::default())?;
        loss.backward()?;
        clip_grad_norm_(&self.model, 1.0, 2.0)?;
        self.optimizer.step()?;
        self.losses.push(loss.to_vec::<f32>()?[0]);
        Ok(())
    }

    /// Copies of the parameters and of what the optimizer remembers.
    fn snapshot(&self) -> Result<(StateDict, OptimizerState)> {
        let parameters = self.model.state_dict().into_iter().map(|(name, x)| Ok((name, x.copy()?)));
        let mut optimizer = self.optimizer.state_dict();
        for state in optimizer.parameters.values_mut() {
            let copies: Vec<(String, Tensor)> =
                state.tensors().map(|(name, x)| Ok((name.to_owned(), x.copy()?))).collect::<Result<_>>()?;
            copies.into_iter().for_each(|(name, x)| state.set_tensor(&name, x));
        }
        Ok((parameters.collect::<Result<_>>()?, optimizer))
    }

    /// Ten steps; one that errs by a device's fault is done again from where it began. How often that was.
    fn run(&mut self, executor: &HybridExecutor) -> Result<usize> {
        let mut again = 0;
        for _ in 0..10 {
            let (parameters, optimizer) = self.snapshot()?;
            let losses = self.losses.len();
            while let Err(error) = executor.scope(|| self.step()) {
                assert!(matches!(error, Error::Fault(_)), "{error}");
                again += 1;
                assert!(again < 10, "{error}");
                self.losses.truncate(losses);
                self.model.load_state_dict(&parameters)?;
                self.optimizer.load_state_dict(&optimizer)?;
            }
        }
        Ok(again)
    }

    /// All losses, parameters and states.
    fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes: Vec<u8> = self.losses.iter().flat_map(|loss| loss.to_ne_bytes()).collect();
        let (parameters, optimizer) = self.snapshot()?;
        for (_, x) in parameters {
            bytes.extend(x.to_bytes()?);
        }
        for state in optimizer.parameters.values() {
            for (_, x) in state.tensors() {
                bytes.extend(x.to_bytes()?);
            }
            bytes.extend(state.numbers().flat_map(|(_, number)| number.to_ne_bytes()));
        }
        Ok(bytes)
    }
}

/// The CPU's bytes.
static EXPECTED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut training = Training::new().unwrap();
    (0..10).try_for_each(|_| training.step()).unwrap();
    training.bytes().unwrap()
});

/// Trains under a script; the devices, and how many steps were done again.
fn check(script: &[Rule]) -> Result<([Arc<FakeDevice>; 2], HybridExecutor, usize)> {
    let (fakes, executor) = devices(script);
    let mut training = Training::new()?;
    let again = training.run(&executor)?;
    assert!(training.bytes()? == *EXPECTED, "other bits than the CPU's under {script:?}");
    Ok((fakes, executor, again))
}

#[test]
fn devices_without_faults_compute_the_cpu_s_bits() -> Result<()> {
    let (fakes, _, again) = check(&[])?;
    assert_eq!(again, 0);
    let calls =
        |point| fakes.each_ref().map(|fake| fake.calls().iter().filter(|call| call.point == point).count());
    // Faults at these points concern the training.
    for point in
        [Point::Supports, Point::Alloc, Point::Run, Point::CopyIn, Point::CopyOut, Point::CopyFromPeer]
    {
        assert!(calls(point).iter().all(|&count| count >= 10), "{point:?}: {:?}", calls(point));
    }
    Ok(())
}

#[test]
fn operations_that_fail_run_elsewhere() -> Result<()> {
    let acts =
        [Act::Fail, Act::Doubt, Act::TimeOut, Act::RunOut, Act::Nan, Act::Delay(Duration::from_millis(1))];
    for act in acts {
        for after in [0, 10, 60, 80] {
            let (_, executor, again) = check(&[Rule::at(Point::Run).act(act.clone()).after(after).times(2)])?;
            assert_eq!(again, 0, "{act:?} after {after}");
            let quarantines = matches!(act, Act::Fail | Act::Doubt | Act::TimeOut | Act::Nan);
            assert_eq!(!executor.health().quarantined().is_empty(), quarantines, "{act:?} after {after}");
        }
    }
    let declines = Rule::at(Point::Supports).act(Act::Decline(Decline::Compiling)).after(7).times(50);
    assert_eq!(check(&[declines])?.2, 0);
    Ok(())
}

#[test]
fn an_optimizer_s_steps_that_fail_run_elsewhere() -> Result<()> {
    for after in 0..10 {
        for act in [Act::Fail, Act::RunOut] {
            let rule = Rule::at(Point::Run).op("fused_adam").act(act).after(after).times(1);
            let (fakes, _, again) = check(&[rule])?;
            assert!(fakes[0].runs("fused_adam") > after);
            assert_eq!(again, 0);
        }
    }
    Ok(())
}

#[test]
fn memory_and_copies_that_fail_change_no_bit() -> Result<()> {
    for point in [Point::Alloc, Point::CopyIn, Point::CopyOut, Point::CopyFromPeer, Point::Synchronize] {
        for act in [Act::Fail, Act::TimeOut, Act::RunOut, Act::Delay(Duration::from_millis(1))] {
            for after in [0, 15, 90] {
                check(&[Rule::at(point).act(act.clone()).after(after).times(1)])?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_step_is_done_again_where_its_device_was_lost() -> Result<()> {
    let mut errors = 0;
    for point in [Point::Alloc, Point::Run, Point::CopyIn, Point::CopyOut, Point::CopyFromPeer] {
        for after in [0, 7, 15, 30] {
            let (_, executor, again) = check(&[Rule::at(point).act(Act::Lose).after(after).times(1)])?;
            assert!(!executor.health().lost().is_empty(), "{point:?} after {after}");
            errors += again;
        }
    }
    // What was on them is gone.
    assert!(errors > 0);
    Ok(())
}

/// Ten steps with model, states and data on the second device, whose memory each operation comes back to.
fn train_there(rule: &Rule) -> Result<Training> {
    let ([_, opencl], executor) = devices(&[]);
    let executor = executor.with_policy(Placement::Resident)?;
    let mut training = Training::new()?;
    executor.scope(|| {
        training.model.to_device(OPENCL)?;
        (training.x, training.y) = (training.x.to_device(OPENCL)?, training.y.to_device(OPENCL)?);
        opencl.script(rule.clone());
        (0..10).try_for_each(|_| training.step())?;
        assert!(
            training.optimizer.state_dict().parameters["0.weight"].tensor("exp_avg").unwrap().device()
                == OPENCL
        );
        training.model.to_device(Device::CPU)
    })?;
    Ok(training)
}

#[test]
fn a_model_on_a_device_that_fails_gets_the_cpu_s_bits() -> Result<()> {
    let mut script = Vec::new();
    for after in [0, 10, 45, 46, 47, 48, 49, 300] {
        for act in [Act::Fail, Act::Doubt, Act::TimeOut, Act::RunOut] {
            script.push(Rule::at(Point::Run).act(act).after(after).times(1));
        }
        // Numbers are checked where operations gave them, not where the executor copies a result into its place.
        for op in ["matmul", "fused_adam"] {
            script.push(Rule::at(Point::Run).op(op).act(Act::Nan).after(after).times(1));
        }
    }
    for rule in &script {
        assert!(train_there(rule)?.bytes()? == *EXPECTED, "other bits than the CPU's under {rule:?}");
    }
    // What was on it is gone, and no step says otherwise.
    let lost = train_there(&Rule::at(Point::Run).act(Act::Lose).after(100)).err().expect("an error");
    assert!(matches!(lost, Error::Fault(_)), "{lost}");
    Ok(())
}

#[test]
fn a_step_over_states_that_fails_is_an_error() -> Result<()> {
    for after in [0, 1, 5] {
        // A device that writes over arguments: what a failed step has left there cannot be computed from again.
        let cuda = Arc::new(FakeDevice::new(CUDA, Arc::clone(&CPU)).capability(|c| c.in_place = true));
        let builder = HybridExecutor::builder().threads(1).backend(Arc::clone(&cuda) as Arc<dyn Backend>);
        let executor = builder.placement(Placement::Resident).build()?;
        let mut training = Training::new()?;
        let again = executor.scope(|| -> Result<usize> {
            training.model.to_device(CUDA)?;
            (training.x, training.y) = (training.x.to_device(CUDA)?, training.y.to_device(CUDA)?);
            cuda.script(Rule::at(Point::Run).op("fused_adam").act(Act::Fail).after(after).times(1));
            let again = training.run(&executor)?;
            training.model.to_device(Device::CPU)?;
            Ok(again)
        })?;
        assert_eq!(again, 1, "after {after}");
        assert!(training.bytes()? == *EXPECTED, "other bits than the CPU's after {after} steps");
    }
    Ok(())
}
