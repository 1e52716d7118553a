//! `FakeCompiler`: compiles regions by script, and runs them by the inner backend.

use super::memory::Reach;
use super::script::{Act, Point, Script};
use super::{plant, spoil};
use rustorch_core::{
    Backend, Buffer, CompiledRegion, Compiler, Decline, Fault, Graph, GraphOperand, Layout, Node, Op,
    RegionPrice, Rewrite, Source, UpdatedInput, Value, ValueId, View, ViewMut, copy_mismatch, packed_bytes,
    run_checked,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Accepts = dyn Fn(&Graph, usize) -> Result<(), Cow<'static, str>> + Send + Sync;
type Price = dyn Fn(&Graph) -> Option<RegionPrice> + Send + Sync;

/// What a [`FakeDevice`](super::FakeDevice) compiles: regions of the nodes that it is told to accept, at the price that it is told. Faults
/// are those of the device's script, at [`Point::Compile`] and [`Point::RunRegion`].
pub struct FakeCompiler {
    accepts: Box<Accepts>,
    price: Box<Price>,
    rewrites: Vec<Rewrite>,
    takes_states: bool,
    keeps_inputs: bool,
}

impl Default for FakeCompiler {
    fn default() -> Self {
        FakeCompiler::new()
    }
}

impl FakeCompiler {
    /// One that accepts everything, and takes no time for it.
    pub fn new() -> FakeCompiler {
        FakeCompiler {
            accepts: Box::new(|_, _| Ok(())),
            price: Box::new(|_| Some(RegionPrice { run: 0.0, compile: 0.0 })),
            rewrites: Vec::new(),
            takes_states: false,
            keeps_inputs: false,
        }
    }

    /// Lets it accept nodes of a graph only where this says so.
    pub fn accepts(
        mut self,
        accepts: impl Fn(&Graph, usize) -> Result<(), Cow<'static, str>> + Send + Sync + 'static,
    ) -> FakeCompiler {
        self.accepts = Box::new(accepts);
        self
    }

    /// Lets it accept only operations for which this holds; the reason names the others.
    pub fn accepts_ops(self, accepts: impl Fn(&Op) -> bool + Send + Sync + 'static) -> FakeCompiler {
        self.accepts(move |graph, node| {
            let op = &graph.nodes[node].op;
            if accepts(op) { Ok(()) } else { Err(format!("there is no {}", op.name()).into()) }
        })
    }

    /// Lets it tell this price of a region.
    pub fn price(
        mut self,
        price: impl Fn(&Graph) -> Option<RegionPrice> + Send + Sync + 'static,
    ) -> FakeCompiler {
        self.price = Box::new(price);
        self
    }

    /// Lets it take nodes that write states in place, or not.
    pub fn takes_states(mut self, takes_states: bool) -> FakeCompiler {
        self.takes_states = takes_states;
        self
    }

    /// Lets it keep the inputs that regions update, or not.
    pub fn keeps_inputs(mut self, keeps_inputs: bool) -> FakeCompiler {
        self.keeps_inputs = keeps_inputs;
        self
    }

    /// Lets it ask for changes of graphs.
    pub fn rewrites(mut self, rewrites: &[Rewrite]) -> FakeCompiler {
        self.rewrites = rewrites.to_vec();
        self
    }
}

/// A fake compiler as part of its device.
pub(super) struct OfDevice {
    pub(super) compiler: FakeCompiler,
    pub(super) script: Arc<Script>,
    pub(super) inner: Arc<dyn Backend>,
    pub(super) reach: Reach,
}

impl Compiler for OfDevice {
    fn accepts(&self, graph: &Graph, node: usize) -> Result<(), Cow<'static, str>> {
        (self.compiler.accepts)(graph, node)
    }

    fn price(&self, region: &Graph) -> Option<RegionPrice> {
        (self.compiler.price)(region)
    }

    fn takes_states(&self) -> bool {
        self.compiler.takes_states
    }

    fn keeps(&self, _: &Value) -> bool {
        self.compiler.keeps_inputs
    }

    fn rewrites(&self) -> &[Rewrite] {
        &self.compiler.rewrites
    }

    unsafe fn compile(
        &self,
        region: &Graph,
        updates: &[UpdatedInput],
        constants: &[View<'_>],
    ) -> Result<Box<dyn CompiledRegion>, Fault> {
        self.script.enter(Point::Compile, None)?;
        region.verify()?;
        let copies = constants.iter().map(|constant| {
            let constant = self.reach.view(constant)?;
            let bytes = constant.as_bytes().ok_or_else(copy_mismatch)?;
            filled(bytes)
        });
        let constants = copies.collect::<Result<Vec<Buffer>, Fault>>()?;
        let updates = updates.iter().filter(|_| self.compiler.keeps_inputs);
        // All that the last node makes of each.
        let (keeps, last) = updates
            .filter_map(|update| {
                let last = *update.nodes.last()?;
                Some((update.input, region.nodes[last].results[0].value))
            })
            .unzip();
        Ok(Box::new(FakeRegion {
            graph: region.clone(),
            keeps,
            last,
            kept: Mutex::default(),
            constants,
            script: Arc::clone(&self.script),
            inner: Arc::clone(&self.inner),
            reach: self.reach.clone(),
        }))
    }
}

/// A region, with copies of its constants.
struct FakeRegion {
    graph: Graph,
    /// The inputs that it keeps, and what their updates make of them.
    keeps: Vec<usize>,
    last: Vec<ValueId>,
    /// What the last run left of them.
    kept: Mutex<Vec<Buffer>>,
    constants: Vec<Buffer>,
    script: Arc<Script>,
    inner: Arc<dyn Backend>,
    reach: Reach,
}

// SAFETY: every output is copied whole from a buffer that the inner backend has filled; views are read as they reach.
unsafe impl CompiledRegion for FakeRegion {
    fn ready(&self) -> Result<(), Decline> {
        match self.script.enter(Point::Ready, None) {
            Ok(Some(Act::Decline(decline))) => Err(decline),
            // What else is wrong shows in the run.
            _ => Ok(()),
        }
    }

    fn keeps(&self) -> &[usize] {
        &self.keeps
    }

    unsafe fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<(), Fault> {
        let act = match self.script.enter(Point::RunRegion, None) {
            Ok(act) => act,
            Err(fault) => {
                // What fails may have written anything.
                for output in outputs.iter_mut() {
                    spoil(&mut self.reach.place(output)?);
                }
                return Err(fault);
            }
        };
        // What a run that fails leaves is not known.
        let kept = std::mem::take(&mut *self.lock_kept());
        let layouts: Vec<Layout> = (self.graph.inputs.iter())
            .map(|id| Layout::contiguous(self.graph.values[id.index()].shape.clone()))
            .collect();
        let inputs = inputs.iter().enumerate().map(|(i, input)| match input {
            Some(input) => self.reach.view(input),
            None => {
                let buffer = self.keeps.iter().position(|kept| *kept == i).and_then(|at| kept.get(at));
                let buffer = buffer.ok_or_else(|| missing(i))?;
                let dtype = self.graph.values[self.graph.inputs[i].index()].dtype;
                // SAFETY: the value that the last run made of the input, which has its dtype and as many elements.
                Ok(unsafe { View::new(buffer, dtype, &layouts[i]) })
            }
        });
        let inputs = inputs.collect::<Result<Vec<_>, Fault>>()?;
        let mut memory: Vec<Option<Buffer>> = Vec::new();
        memory.resize_with(self.graph.values.len(), || None);
        for node in &self.graph.nodes {
            let made = self.run_node(node, &inputs, &memory)?;
            for (result, buffer) in node.results.iter().zip(made) {
                memory[result.value.index()] = Some(buffer);
            }
        }
        for (output, place) in self.graph.outputs.iter().zip(outputs.iter_mut()) {
            let buffer = memory[output.value.index()].as_ref().expect("outputs are results");
            // SAFETY: the whole value, which was written.
            let bytes = unsafe { View::new(buffer, output.dtype, &output.layout) }.as_bytes();
            let mut place = self.reach.place(place)?;
            if !bytes.is_some_and(|bytes| place.write_bytes(bytes)) {
                return Err(copy_mismatch());
            }
            match act {
                Some(Act::Nan) => plant(&mut place, f64::NAN),
                Some(Act::Err(error)) => plant(&mut place, error),
                _ => {}
            }
        }
        *self.lock_kept() = self.last.iter().filter_map(|id| memory[id.index()].take()).collect();
        Ok(())
    }
}

impl FakeRegion {
    fn lock_kept(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a node; its results, in new memory.
    fn run_node(
        &self,
        node: &Node,
        inputs: &[View<'_>],
        memory: &[Option<Buffer>],
    ) -> Result<SmallVec<[Buffer; 1]>, Fault> {
        let values = || node.results.iter().map(|result| &self.graph.values[result.value.index()]);
        let made = values().map(|value| Buffer::host(packed_bytes(value.dtype, value.shape.numel())));
        let mut made = made.collect::<Result<SmallVec<[Buffer; 1]>, Fault>>()?;
        let layouts: Vec<Layout> = values().map(|value| Layout::contiguous(value.shape.clone())).collect();
        let moved: Vec<Layout> = node.args.iter().map(|arg| self.layout(arg, inputs)).collect();
        let args: SmallVec<[View<'_>; 4]> = (node.args.iter().zip(&moved))
            .map(|(arg, layout)| {
                let buffer = match self.graph.values[arg.value.index()].source {
                    Source::Input(i) => inputs[i as usize].buffer(),
                    Source::Constant(i) => &self.constants[i as usize],
                    _ => memory[arg.value.index()].as_ref().expect("a verified graph makes values first"),
                };
                // SAFETY: the graph was verified: the layout stays inside the value, which was written.
                unsafe { View::new(buffer, arg.dtype, layout) }
            })
            .collect();
        let mut places: SmallVec<[ViewMut<'_>; 1]> = (made.iter_mut().zip(values()).zip(&layouts))
            // SAFETY: fresh memory of the value's size.
            .map(|((buffer, value), layout)| unsafe { ViewMut::new(buffer, value.dtype, layout) })
            .collect();
        run_checked(&*self.inner, &node.op, &args, &mut places)?;
        drop(places);
        Ok(made)
    }

    /// The layout of an operand in its memory: that of an input may begin anywhere in it.
    fn layout(&self, operand: &GraphOperand, inputs: &[View<'_>]) -> Layout {
        let start = match self.graph.values[operand.value.index()].source {
            Source::Input(i) => inputs[i as usize].layout().offset(),
            _ => 0,
        };
        let layout = operand.layout.clone();
        let offset = layout.offset() + start;
        layout.at_offset(offset).expect("inside the input's memory")
    }
}

fn missing(input: usize) -> Fault {
    let message = format!("input {input} is missing, and not kept from a run that went well");
    Fault::Backend { device: rustorch_core::Device::CPU, message }
}

/// New host memory with these bytes.
fn filled(bytes: &[u8]) -> Result<Buffer, Fault> {
    let buffer = Buffer::host(bytes.len())?;
    if let Some(address) = buffer.host_address() {
        // SAFETY: fresh memory of this size.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.as_ptr(), bytes.len()) };
    }
    Ok(buffer)
}
