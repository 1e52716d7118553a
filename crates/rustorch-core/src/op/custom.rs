//! Custom operations: kernels of one's own, as an operation like any other.
//!
//! A custom op is a name, a version, a function that infers results, and a kernel: a closure for the CPU, a WGSL compute
//! shader for devices that compile one, or both. It goes through the executor like built-in operations, with placement,
//! fallback and records; a device that cannot run its WGSL declines, with the reason.

use super::{OpKind, OpType, Operation};
use crate::{DType, Element, Error, Layout, OutputMeta, Outputs, Result, Shape, TensorMeta, View, ViewMut};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a closure of a custom op may fail with: any error, or a text (`"takes two tensors".into()`).
pub type CustomError = Box<dyn std::error::Error + Send + Sync>;

type Infer = dyn Fn(&[TensorMeta<'_>], &[CustomParam]) -> Result<Vec<OutputMeta>, CustomError> + Send + Sync;
type Cpu = dyn Fn(&[CustomInput<'_>], &mut [CustomOutput<'_>], &[CustomParam]) -> Result<(), CustomError>
    + Send
    + Sync;
type Grid = dyn Fn(&[TensorMeta<'_>], &[TensorMeta<'_>], &[CustomParam]) -> [u32; 3] + Send + Sync;

/// The gradient of a custom op, which the op carries for the crate that records operations and does not look at:
/// `rustorch_tensor::autograd::CustomBackward`.
pub trait CustomGradient: Any + Send + Sync {}

/// An operation of one's own, and the scalars that it is called with. Cloning is cheap.
///
/// Two custom ops are equal if their names, versions and parameters are: give an op another name or version whenever its closures or
/// its WGSL change, since records, quarantine and cost are kept by them. (Compiled kernels are told apart by their WGSL itself.)
///
/// ```
/// use rustorch_core::{CustomOp, OutputMeta};
/// let saxpy = CustomOp::builder("saxpy", 1)
///     .infer(|args, _| {
///         let [x, y] = args else { return Err("takes two tensors".into()) };
///         if x.shape() != y.shape() {
///             return Err(format!("x is {} and y is {}", x.shape(), y.shape()).into());
///         }
///         Ok(vec![OutputMeta { dtype: x.dtype, shape: x.shape().clone() }])
///     })
///     .cpu(|args, outs, params| {
///         let a = params[0].to_f64() as f32;
///         let (x, y) = (args[0].slice::<f32>()?, args[1].slice::<f32>()?);
///         for ((out, x), y) in outs[0].slice_mut::<f32>()?.iter_mut().zip(x).zip(y) {
///             *out = a * x + y;
///         }
///         Ok(())
///     })
///     .wgsl(
///         "struct Params { a: f32 }
///         @group(0) @binding(0) var<storage, read> x: array<f32>;
///         @group(0) @binding(1) var<storage, read> y: array<f32>;
///         @group(0) @binding(2) var<storage, read_write> out: array<f32>;
///         @group(0) @binding(3) var<uniform> params: Params;
///         @compute @workgroup_size(64)
///         fn main(@builtin(global_invocation_id) id: vec3<u32>) {
///             if id.x < arrayLength(&out) { out[id.x] = params.a * x[id.x] + y[id.x]; }
///         }",
///         |_, outs, _| [outs[0].shape().numel().div_ceil(64) as u32, 1, 1],
///     )
///     .build()?;
/// let doubled = saxpy.with_params([2.0_f32]);
/// assert_eq!(doubled.to_string(), "saxpy(2)");
/// assert_ne!(doubled, saxpy);
/// # Ok::<(), rustorch_core::Error>(())
/// ```
#[derive(Clone)]
pub struct CustomOp {
    spec: Arc<Spec>,
    params: Arc<[CustomParam]>,
}

struct Spec {
    kind: CustomKind,
    infer: Box<Infer>,
    cpu: Option<Box<Cpu>>,
    wgsl: Option<CustomWgsl>,
    gradient: Option<Arc<dyn CustomGradient>>,
}

/// A custom op's compute shader.
struct CustomWgsl {
    source: Arc<str>,
    grid: Box<Grid>,
}

/// Which custom op it is: see [`OpKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomKind {
    name: &'static str,
    version: u32,
}

impl CustomKind {
    /// None: custom ops are known to those who made them.
    pub const ALL: &'static [CustomKind] = &[];

    /// The name that the op was given.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The version that the op was given.
    pub const fn version(self) -> u32 {
        self.version
    }
}

/// A scalar that a custom op is called with; in WGSL, a member of the uniform struct.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CustomParam {
    /// `f32`
    F32(f32),
    /// `i32`
    I32(i32),
    /// `u32`
    U32(u32),
}

impl CustomParam {
    /// The value, whatever its type; every one of these types fits.
    pub fn to_f64(self) -> f64 {
        match self {
            CustomParam::F32(x) => x.into(),
            CustomParam::I32(x) => x.into(),
            CustomParam::U32(x) => x.into(),
        }
    }

    /// The name of its type in WGSL.
    pub const fn wgsl_type(self) -> &'static str {
        match self {
            CustomParam::F32(_) => "f32",
            CustomParam::I32(_) => "i32",
            CustomParam::U32(_) => "u32",
        }
    }

    /// Its bits.
    pub const fn to_bits(self) -> u32 {
        match self {
            CustomParam::F32(x) => x.to_bits(),
            CustomParam::I32(x) => x.cast_unsigned(),
            CustomParam::U32(x) => x,
        }
    }
}

macro_rules! param_from {
    ($($ty:ty => $variant:ident),*) => {$(
        impl From<$ty> for CustomParam {
            fn from(x: $ty) -> CustomParam { CustomParam::$variant(x) }
        }
    )*};
}

param_from!(f32 => F32, i32 => I32, u32 => U32);

/// Puts a [`CustomOp`] together.
#[must_use = "`build` makes the op"]
pub struct CustomOpBuilder {
    kind: CustomKind,
    infer: Option<Box<Infer>>,
    cpu: Option<Box<Cpu>>,
    wgsl: Option<CustomWgsl>,
    gradient: Option<Arc<dyn CustomGradient>>,
}

impl CustomOpBuilder {
    /// Required: dtypes and shapes of the results, at least one, for arguments and parameters; or what is wrong with them. Results are
    /// contiguous. It may be called several times for one call of the op.
    pub fn infer(
        mut self,
        infer: impl Fn(&[TensorMeta<'_>], &[CustomParam]) -> Result<Vec<OutputMeta>, CustomError>
        + Send
        + Sync
        + 'static,
    ) -> CustomOpBuilder {
        self.infer = Some(Box::new(infer));
        self
    }

    /// The kernel for the CPU. Arguments are contiguous, results are contiguous and zero. It runs on the thread that asks for it.
    ///
    /// Its error, or panic, is the operation's error; no other device tries then.
    pub fn cpu(
        mut self,
        cpu: impl Fn(&[CustomInput<'_>], &mut [CustomOutput<'_>], &[CustomParam]) -> Result<(), CustomError>
        + Send
        + Sync
        + 'static,
    ) -> CustomOpBuilder {
        self.cpu = Some(Box::new(cpu));
        self
    }

    /// The kernel for Vulkan, Metal, Direct3D, OpenCL and CUDA: a WGSL module with one compute entry point, `main`, and the number of
    /// workgroups to launch, given arguments, results and parameters: 1 to 65535 in each dimension on most devices.
    ///
    /// Bindings of group 0, in this order, each of which `main` must use:
    ///
    /// 1. each argument, `var<storage, read>`;
    /// 2. each result, `var<storage, read_write>`, which is zero at first;
    /// 3. if there are parameters, `var<uniform>` of a struct with a member for each: `f32`, `i32` or `u32`.
    ///
    /// Tensors are contiguous and begin at the start of their bindings. The scalars of a binding's type are those of the dtype (`f32`,
    /// `i32`, `u32`, `i64`, `f64`; two for a complex number), or `u32`: as many words as the elements take, with several elements of the
    /// small dtypes in each. Results cannot be `bool`.
    ///
    /// Indices are checked: one out of bounds reads or writes some other element of the same binding, or nothing. A loop that does not
    /// end hangs the device, which may lose it. Subgroups, `override` and 16-bit floats are not available, and functions may declare
    /// 16 KiB of variables.
    pub fn wgsl(
        mut self,
        source: impl Into<Arc<str>>,
        grid: impl Fn(&[TensorMeta<'_>], &[TensorMeta<'_>], &[CustomParam]) -> [u32; 3] + Send + Sync + 'static,
    ) -> CustomOpBuilder {
        self.wgsl = Some(CustomWgsl { source: source.into(), grid: Box::new(grid) });
        self
    }

    /// What computes the gradients of the arguments: `rustorch_tensor::autograd::CustomBackward`. Without it the op cannot be recorded.
    pub fn backward(mut self, gradient: impl CustomGradient) -> CustomOpBuilder {
        self.gradient = Some(Arc::new(gradient));
        self
    }

    /// The op. Its WGSL is compiled when a device is first asked to run it.
    ///
    /// # Errors
    /// If there is no `infer` or no kernel, or if the name is empty or that of a built-in operation.
    pub fn build(self) -> Result<CustomOp> {
        let CustomOpBuilder { kind, infer, cpu, wgsl, gradient } = self;
        if kind.name.is_empty() || kind.name.parse::<OpKind>().is_ok() {
            let message = format!("`{}` is empty or a built-in operation; choose another name", kind.name);
            return Err(Error::argument("custom op", message));
        }
        let Some(infer) = infer else { return Err(kind.error("has no `infer`")) };
        if cpu.is_none() && wgsl.is_none() {
            return Err(kind.error("has no kernel: give it `cpu` or `wgsl`"));
        }
        Ok(CustomOp { spec: Arc::new(Spec { kind, infer, cpu, wgsl, gradient }), params: Arc::default() })
    }
}

impl CustomOp {
    /// Starts a custom op. The version tells ops of one name apart.
    pub fn builder(name: &'static str, version: u32) -> CustomOpBuilder {
        let kind = CustomKind { name, version };
        CustomOpBuilder { kind, infer: None, cpu: None, wgsl: None, gradient: None }
    }

    /// The op with these parameters.
    pub fn with_params<P: Into<CustomParam>>(&self, params: impl IntoIterator<Item = P>) -> CustomOp {
        let params = params.into_iter().map(Into::into).collect();
        CustomOp { spec: Arc::clone(&self.spec), params }
    }

    /// Which custom op it is.
    pub fn kind(&self) -> CustomKind {
        self.spec.kind
    }

    /// The name that it was given.
    pub fn name(&self) -> &'static str {
        self.spec.kind.name
    }

    /// The parameters.
    pub fn params(&self) -> &[CustomParam] {
        &self.params
    }

    /// Whether it has a kernel for the CPU.
    pub fn has_cpu(&self) -> bool {
        self.spec.cpu.is_some()
    }

    /// What computes its gradients, if it was given any.
    pub fn gradient(&self) -> Option<&Arc<dyn CustomGradient>> {
        self.spec.gradient.as_ref()
    }

    /// Its WGSL, if it has any.
    pub fn wgsl(&self) -> Option<&Arc<str>> {
        self.spec.wgsl.as_ref().map(|wgsl| &wgsl.source)
    }

    /// The workgroups that its WGSL is launched with.
    ///
    /// # Errors
    /// If it has no WGSL, or if the closure panics.
    pub fn grid(&self, args: &[TensorMeta<'_>], outs: &[TensorMeta<'_>]) -> Result<[u32; 3]> {
        let wgsl = self.spec.wgsl.as_ref().ok_or_else(|| self.spec.kind.error("has no WGSL"))?;
        self.caught("its grid", || Ok((wgsl.grid)(args, outs, &self.params)))
    }

    /// Runs its kernel for the CPU.
    ///
    /// # Errors
    /// If it has none, and if the closure fails or panics.
    pub fn run_on_cpu(&self, args: &[CustomInput<'_>], outs: &mut [CustomOutput<'_>]) -> Result<()> {
        let Some(cpu) = &self.spec.cpu else {
            return Err(self
                .spec
                .kind
                .error("has no kernel for the CPU: give it one, or a device for its WGSL"));
        };
        self.caught("its CPU kernel", || cpu(args, outs, &self.params))
    }

    /// What a closure of the user's gives; a panic is an error, so that nothing of the caller's is left half done.
    fn caught<T>(&self, what: &str, call: impl FnOnce() -> Result<T, CustomError>) -> Result<T> {
        // What the closure has captured is the user's; nothing else is shared with it.
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(result) => result.map_err(|error| self.spec.kind.error(error.to_string())),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text =
                    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
                Err(self.spec.kind.error(format!("{what} panicked: {text}")))
            }
        }
    }
}

impl CustomKind {
    fn error(self, message: impl Into<String>) -> Error {
        Error::Custom { op: self.name, version: self.version, message: message.into() }
    }
}

impl PartialEq for CustomOp {
    fn eq(&self, other: &CustomOp) -> bool {
        self.spec.kind == other.spec.kind && self.params == other.params
    }
}

impl fmt::Display for CustomOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut separator = "(";
        for param in self.params() {
            write!(f, "{separator}{}", param.to_f64())?;
            separator = ", ";
        }
        if separator == "(" { Ok(()) } else { f.write_str(")") }
    }
}

impl fmt::Debug for CustomOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomOp({self}, version {})", self.spec.kind.version)
    }
}

impl Operation for CustomOp {
    const CLASS: OpType = OpType::Custom;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.name();
        args.iter().try_for_each(|x| x.check(name))?;
        let outs = self.caught("its `infer`", || (self.spec.infer)(args, &self.params))?;
        if outs.is_empty() {
            return Err(self.spec.kind.error("its `infer` gives no result: there must be one at least"));
        }
        for out in &outs {
            let layout = Layout::contiguous(out.shape.clone());
            TensorMeta { dtype: out.dtype, layout: &layout, device: crate::Device::CPU }.check(name)?;
        }
        Ok(outs.into())
    }

    fn fails_on_values(&self) -> bool {
        true
    }
}

/// An argument of a custom op's CPU kernel: contiguous, in host memory.
#[derive(Clone, Copy, Debug)]
pub struct CustomInput<'a>(View<'a>);

impl<'a> CustomInput<'a> {
    /// An argument; `None` unless the view is contiguous, in host memory, and not aliased.
    pub fn new(view: View<'a>) -> Option<CustomInput<'a>> {
        view.as_bytes().map(|_| CustomInput(view))
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// The shape.
    pub fn shape(&self) -> &'a Shape {
        self.0.layout().shape()
    }

    /// The elements.
    ///
    /// # Errors
    /// If they are not of type `T`.
    pub fn slice<T: Element>(&self) -> Result<&'a [T]> {
        self.0.as_slice().ok_or_else(|| wrong_type::<T>(self.dtype()))
    }

    /// The bytes of the elements, whatever the dtype: for block types.
    pub fn bytes(&self) -> &'a [u8] {
        self.0.as_bytes().expect("`new` has looked")
    }
}

/// A result of a custom op's CPU kernel: contiguous, in host memory, zero at first.
#[derive(Debug)]
pub struct CustomOutput<'a> {
    dtype: DType,
    shape: &'a Shape,
    bytes: &'a mut [u8],
}

impl<'a> CustomOutput<'a> {
    /// A result, whose elements are set to zero; `None` unless the view is contiguous and in host memory.
    pub fn zeroed(view: &'a mut ViewMut<'_>) -> Option<CustomOutput<'a>> {
        let (dtype, shape) = (view.dtype(), view.layout().shape());
        let (address, len) = view.byte_range()?;
        // SAFETY: the range belongs to the view alone, which is borrowed for as long as the slice lives, and zeros initialise it.
        let bytes = unsafe {
            address.write_bytes(0, len);
            std::slice::from_raw_parts_mut(address, len)
        };
        Some(CustomOutput { dtype, shape, bytes })
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.shape
    }

    /// The elements.
    ///
    /// # Errors
    /// If they are not of type `T`.
    pub fn slice_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        if T::DTYPE != self.dtype {
            return Err(wrong_type::<T>(self.dtype));
        }
        let len = self.bytes.len() / size_of::<T>();
        // SAFETY: these are bytes of a view's elements, which are aligned and, being zero or written through such a slice, valid.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), len) })
    }

    /// The bytes of elements of a block type.
    ///
    /// # Errors
    /// If the dtype is not a block type.
    pub fn block_bytes_mut(&mut self) -> Result<&mut [u8]> {
        // Not every byte is a valid `bool`.
        if self.dtype.is_quant() { Ok(self.bytes) } else { Err(wrong_type::<u8>(self.dtype)) }
    }
}

fn wrong_type<T: Element>(dtype: DType) -> Error {
    Error::dtype("custom op", format!("its kernel asks for {} elements of another dtype", T::DTYPE), [dtype])
}
