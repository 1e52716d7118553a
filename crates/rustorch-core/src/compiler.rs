//! The `Compiler` trait: devices that run a part of a graph as one program.

use crate::{Decline, Fault, Graph, Value, View, ViewMut};
use std::borrow::Cow;

/// What a device has that makes one program of many operations, such as Core ML or CUDA graphs. Given by
/// [`Backend::compiler`](crate::Backend::compiler).
///
/// A *region* is a part of a graph that is compiled as one: a [`Graph`] of its own, which [`Graph::verify`] accepts. Its inputs are the
/// values that cross into it, its outputs those that are needed outside, each the whole result of a node; tensors that runs
/// find as they were are its constants. It has no states, nothing is written in place or drawn at random, nothing goes to another device,
/// and no operation is the user's own. All its values are on the compiler's device. A node that writes a whole state in place has a result of its own
/// in a region ([`takes_states`](Compiler::takes_states)).
///
/// Planning (`accepts`, `price`) runs nothing and is the same whenever it is asked the same: a plan is a function of the graph.
pub trait Compiler: Send + Sync {
    /// Whether it can compile a node of this graph, else why not, in words that tell a person what to change.
    ///
    /// It is asked of the whole graph's nodes, before there are regions: of shapes and dtypes, not of where values are. An operation that
    /// [fails for values](crate::Op::fails_on_values) may be accepted only if the compiled region finds that out.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn accepts(&self, graph: &Graph, node: usize) -> Result<(), Cow<'static, str>>;

    /// How long a region takes; `None` if that is not known, with which no region is made.
    fn price(&self, region: &Graph) -> Option<RegionPrice>;

    /// Changes of graphs without which it would accept less. They leave the bits of results as they are.
    fn rewrites(&self) -> &[Rewrite] {
        &[]
    }

    /// Whether regions may have nodes that write all of a state in place. What the state holds before a run is an input of the region then, and what it is
    /// to hold behind it an output, which is written to the state when the region is done: if it fails, states are as they were. Of nodes that
    /// [update a range](UpdatedInput) the range is returned alone.
    fn takes_states(&self) -> bool {
        false
    }

    /// Whether it would keep such an [updated input](UpdatedInput) from run to run, so that it need not be given in each.
    fn keeps(&self, _input: &Value) -> bool {
        false
    }

    /// Makes a program of a region, in which nodes update inputs as `updates` says. It may return before the program is there, if
    /// [`CompiledRegion::ready`] says so meanwhile.
    ///
    /// # Safety
    /// [`Graph::verify`] accepts the region, and the updates are of it. There is a view for each of its constants, in order: contiguous, of the value's dtype
    /// and shape, on this device or one that it reaches. Until the compiled region is dropped, their memory stays allocated where it is,
    /// and while [`CompiledRegion::run`] runs, it holds the same bytes as now. At other times somebody may write there.
    ///
    /// # Errors
    /// If the region cannot be compiled.
    unsafe fn compile(
        &self,
        region: &Graph,
        updates: &[UpdatedInput],
        constants: &[View<'_>],
    ) -> Result<Box<dyn CompiledRegion>, Fault>;
}

/// An input of a region of which nodes overwrite a range, one after the other ([`SliceUpdate`](crate::SliceUpdate)): a state, such as a cache.
///
/// What the last node makes of it is no output. When the region is done, the same nodes run on the state, in place, with what the region returns for their other
/// arguments: so a run moves the ranges alone, and the state is as it was if the region fails. A program that keeps the input between runs
/// ([`CompiledRegion::keeps`]) has the same in its own memory then, and is given it again only if somebody else has written to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatedInput {
    /// The number of the input.
    pub input: usize,
    /// The nodes: the first argument of the first is all of the input, and that of each other all that the one before made.
    pub nodes: Vec<usize>,
}

/// A region, ready to run.
///
/// # Safety
/// The promises of [`Backend`](crate::Backend) hold for [`run`](Self::run): when it returns `Ok`, every element of every output
/// is written with a valid value of its dtype, or will be before anything can read it through the device's backend; it reads and writes
/// only what the views reach and the constants that it was compiled with; it accesses no memory from the host after it has returned; and
/// work that the device does later is ordered before whatever it is asked for afterwards on the same memory, its release included.
pub unsafe trait CompiledRegion: Send + Sync {
    /// Whether it can run now. While it cannot (it is still compiling, or was refused when its results were checked), the region's
    /// operations run one by one elsewhere, and it is asked again at the next run.
    ///
    /// # Errors
    /// Why it cannot.
    fn ready(&self) -> Result<(), Decline> {
        Ok(())
    }

    /// Whether it is to be shown the inputs of a run for which it is not [ready](Self::ready): its results are checked with them first.
    fn wants_inputs(&self) -> bool {
        false
    }

    /// Shows it the inputs of such a run, whose operations then run one by one elsewhere.
    ///
    /// # Safety
    /// As of [`run`](Self::run), with a view for each input.
    unsafe fn show_inputs(&self, _inputs: &[View<'_>]) {}

    /// The [updated inputs](UpdatedInput) that it keeps from run to run, by number; asked once it is ready.
    fn keeps(&self) -> &[usize] {
        &[]
    }

    /// Computes the outputs. Several threads may call it at once, if they give all inputs.
    ///
    /// An input that it [keeps](Self::keeps) may be missing, if it is what the last run, which went well, left of it.
    ///
    /// # Safety
    /// There is a view for each other input and each output of the region, in order: contiguous, of the value's dtype and shape. Outputs are on the
    /// compiler's device, inputs there or on one that it reaches; outputs overlap nothing. The constants are as they were when
    /// it was compiled.
    ///
    /// # Errors
    /// [`Fault::Invalid`] if an operation fails for the values of its arguments, which is the caller's mistake; another fault if
    /// the device fails, after which the region's operations run elsewhere.
    unsafe fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<(), Fault>;
}

/// How long a region takes on a compiler's device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionPrice {
    /// Seconds for a run, inputs and outputs being where the device reads and writes them.
    pub run: f64,
    /// Seconds to compile it.
    pub compile: f64,
}

/// A change of graphs that a [`Compiler`] may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rewrite {
    /// Padding that repeats elements of the tensor (reflecting, replicating, circular), which is an [`IndexSelect`](crate::IndexSelect)
    /// by a constant index, as a [`Concat`](crate::Concat) of slices.
    ReflectPad,
}
