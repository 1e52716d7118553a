//! Custom operations: compute shaders of the user's.
//!
//! Nothing of such a shader is trusted: naga validates it, its bindings are compared with the operands of each call, and it is
//! compiled with bounds checks ([`Wgsl::checked`]), so that it reads and writes its bindings only. These are exactly the operands:
//! what is not contiguous, or begins where no binding may, is copied. A shader is validated once for each language and feature set.

use super::create;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::byte_range;
use crate::plan::{Operand, Request};
use crate::splitting::copy;
use crate::wgsl::Wgsl;
use crate::{Hardware, Language, translate};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, GlobalVariable, Module, Scalar, ScalarKind, StorageAccess, Type, TypeInner};
use rustorch_core::{CustomOp, CustomParam, DType, Decline, Layout, Scalar as Value, Shape};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Private memory that the functions of a shader may declare, in bytes: CPUs have it on their stacks.
const MOST_PRIVATE: u64 = 16 << 10;

/// A user's compute shader.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Custom {
    name: &'static str,
    source: Arc<str>,
    workgroup: [u32; 3],
    buffers: usize,
    words: usize,
}

impl std::fmt::Debug for Custom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Custom {
    pub(super) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let &Custom { workgroup, buffers, words, .. } = self;
        Wgsl { code: self.source.to_string(), workgroup, buffers, words, checked: true }
    }
}

impl Kernels for CustomOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let hardware = request.hardware;
        let source = self.wgsl().ok_or_else(|| kernel("it has no WGSL"))?;
        let shader = Shader::of(source, hardware).map_err(Decline::Kernel)?;
        shader.fits(self, request).map_err(kernel)?;
        let groups = self.grid(request.args, request.outs).map_err(|error| kernel(error.to_string()))?;
        if groups.iter().any(|&n| n == 0 || n > hardware.groups) {
            let most = hardware.groups;
            return Err(kernel(format!(
                "its grid is {groups:?}: there can be 1 to {most} workgroups in each dimension"
            )));
        }
        let words = self.params().len().next_multiple_of(4);
        let custom = Custom {
            name: self.name(),
            source: Arc::clone(source),
            workgroup: shader.workgroup,
            buffers: shader.buffers.len(),
            words,
        };
        let mut step = StepBuilder::new(hardware, custom);
        for i in 0..request.args.len() {
            bind(plan, &mut step, &request.arg(i), hardware, false)?;
        }
        let mut staged = Vec::new();
        for i in 0..request.outs.len() {
            let out = request.out(i);
            if let Some(place) = bind(plan, &mut step, &out, hardware, true)? {
                staged.push((place, out));
            }
        }
        plan.exact_step(step, self.params().iter().map(|param| param.to_bits()), words, groups);
        for (place, out) in staged {
            let layout = Layout::contiguous(out.layout.shape().clone());
            copy::plan(plan, hardware, &Operand { place, layout: &layout, ..out }, &out)?;
        }
        Ok(())
    }
}

fn kernel(reason: impl Into<Arc<str>>) -> Decline {
    Decline::Kernel(reason.into())
}

/// Binds exactly the bytes of an operand; if that cannot be where it is, of a contiguous copy, whose place is returned. A result is
/// set to zero first.
fn bind(
    plan: &mut Plan,
    step: &mut StepBuilder<'_>,
    x: &Operand<'_>,
    hardware: &Hardware,
    writes: bool,
) -> Result<Option<crate::plan::Place>, Decline> {
    let begins = |start: usize| match hardware.window {
        Some(align) => start.is_multiple_of(align as usize),
        None => start == 0,
    };
    let packed = Layout::contiguous(x.layout.shape().clone());
    let bytes = byte_range(x.dtype, &packed).ok_or_else(|| kernel("an operand is too large"))?.len();
    let direct = byte_range(x.dtype, x.layout).filter(|range| begins(range.start));
    let (operand, range) = match direct {
        Some(range) => (*x, range),
        None => (Operand { place: plan.scratch(bytes), layout: &packed, ..*x }, 0..bytes),
    };
    if writes {
        let layout = Layout::contiguous(Shape::new([bytes].as_slice()).map_err(|_| kernel("too large"))?);
        let layout = layout.at_offset(range.start).map_err(|_| kernel("too large"))?;
        let all = Operand { place: operand.place, dtype: DType::U8, layout: &layout };
        create::fill(plan, hardware, &all, Value::Int(0))?;
    } else if operand.place != x.place {
        copy::plan(plan, hardware, x, &operand)?;
    }
    step.bytes(operand.place, range.start as u64..range.end as u64, writes)?;
    Ok((operand.place != x.place).then_some(operand.place))
}

/// What a valid shader says of itself.
struct Shader {
    workgroup: [u32; 3],
    buffers: Vec<Buffer>,
    /// The types of the members of its uniform struct.
    params: Vec<&'static str>,
}

/// A storage buffer of a shader.
struct Buffer {
    name: String,
    writes: bool,
    /// The least bytes that it must have: one element of a runtime-sized array.
    least: u64,
    /// The scalars of its type.
    scalars: Vec<Scalar>,
}

/// Everything that a verdict on a shader depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    source: Arc<str>,
    language: Language,
    f64: bool,
    i64: bool,
    workgroup: u32,
    workgroup_memory: u32,
}

type Verdict = Result<Arc<Shader>, Arc<str>>;

impl Shader {
    /// The shader of a source, or what is wrong with it.
    fn of(source: &Arc<str>, hardware: &Hardware) -> Verdict {
        static KNOWN: Mutex<Option<HashMap<Key, Verdict>>> = Mutex::new(None);
        let key = Key {
            source: Arc::clone(source),
            language: hardware.language,
            f64: hardware.f64,
            i64: hardware.i64,
            workgroup: hardware.workgroup,
            workgroup_memory: hardware.workgroup_memory,
        };
        // The map is valid whatever happened under the lock.
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = known().as_ref().and_then(|known| known.get(&key)) {
            return verdict.clone();
        }
        let verdict = Shader::validated(&key).map(Arc::new).map_err(Arc::from);
        known().get_or_insert_default().entry(key).or_insert(verdict).clone()
    }

    fn validated(key: &Key) -> Result<Shader, String> {
        let source = &*key.source;
        let module = naga::front::wgsl::parse_str(source)
            .map_err(|error| at(error.location(source), error.message().to_owned()))?;
        // No subgroups: C leaves undefined what they do where invocations diverge.
        let features = [(key.f64, Capabilities::FLOAT64), (key.i64, Capabilities::SHADER_INT64)];
        let capabilities = features.into_iter().filter(|(has, _)| *has).map(|(_, feature)| feature).collect();
        let info = Validator::new(ValidationFlags::all(), capabilities)
            .validate(&module)
            .map_err(|error| at(error.location(source), causes(error.as_inner())))?;
        let shader = Shader::read(&module, &info, key)?;
        // What C cannot express is known before a device is asked to run it.
        let Shader { workgroup, buffers, params } = &shader;
        let words = params.len().next_multiple_of(4);
        let wgsl = Wgsl {
            code: source.to_owned(),
            workgroup: *workgroup,
            buffers: buffers.len(),
            words,
            checked: true,
        };
        translate(&wgsl, key.language)?;
        Ok(shader)
    }

    fn read(module: &Module, info: &ModuleInfo, key: &Key) -> Result<Shader, String> {
        let [entry] = &module.entry_points[..] else {
            return Err("there must be one entry point, `main`".into());
        };
        if entry.name != "main" || entry.stage != naga::ShaderStage::Compute {
            return Err(format!("its entry point is `{}`: it must be a compute shader, `main`", entry.name));
        }
        if !module.overrides.is_empty() {
            return Err("it has `override` constants, which nothing sets: use `const` or parameters".into());
        }
        let invocations: u64 = entry.workgroup_size.iter().map(|&n| u64::from(n)).product();
        if invocations > key.workgroup.into() {
            let most = key.workgroup;
            return Err(format!(
                "its workgroups have {invocations} invocations, the device's at most {most}"
            ));
        }
        let mut found: Vec<Option<(&GlobalVariable, bool)>> = Vec::new();
        let (mut private, mut shared) = (0, 0);
        for (handle, variable) in module.global_variables.iter() {
            let bytes =
                u64::from(module.types[variable.ty].inner.try_size(module.to_ctx()).unwrap_or(u32::MAX));
            let Some(binding) = variable.binding else {
                *(if variable.space == AddressSpace::WorkGroup { &mut shared } else { &mut private }) +=
                    bytes;
                continue;
            };
            let place = binding.binding as usize;
            if binding.group != 0 || place > module.global_variables.len() {
                return Err(format!("`{}` must be in group 0, with bindings from 0 on", name(variable)));
            }
            found.resize(found.len().max(place + 1), None);
            found[place] = Some((variable, !info.get_entry_point(0)[handle].is_empty()));
        }
        let locals = module.functions.iter().map(|(_, function)| function).chain([&entry.function]);
        for (_, local) in locals.flat_map(|function| function.local_variables.iter()) {
            private += u64::from(module.types[local.ty].inner.try_size(module.to_ctx()).unwrap_or(u32::MAX));
        }
        if private > MOST_PRIVATE || shared > u64::from(key.workgroup_memory) {
            let most = key.workgroup_memory;
            return Err(format!(
                "its variables take {private} bytes, of {MOST_PRIVATE}, and {shared} of workgroup memory, of {most}"
            ));
        }
        let mut shader = Shader { workgroup: entry.workgroup_size, buffers: Vec::new(), params: Vec::new() };
        let last = found.len().saturating_sub(1);
        for (place, variable) in found.into_iter().enumerate() {
            let (variable, used) = variable.ok_or_else(|| format!("there is no binding {place}"))?;
            if !used {
                return Err(format!("`main` must use `{}`, binding {place}", name(variable)));
            }
            match variable.space {
                AddressSpace::Storage { access } => {
                    shader.buffers.push(Buffer::of(module, variable, access)?)
                }
                AddressSpace::Uniform if place == last => shader.params = params(module, variable)?,
                _ => {
                    let name = name(variable);
                    return Err(format!(
                        "`{name}` is neither a storage buffer nor, after these, the uniform struct"
                    ));
                }
            }
        }
        Ok(shader)
    }

    /// Whether its bindings are those of an operation's operands.
    fn fits(&self, op: &CustomOp, request: &Request<'_>) -> Result<(), String> {
        let (args, outs) = (request.args.len(), request.outs.len());
        if self.buffers.len() != args + outs {
            let buffers = self.buffers.len();
            return Err(format!("it has {buffers} storage buffers, for {args} arguments and {outs} results"));
        }
        // A buffer is an address and a size, a parameter a word.
        let bytes = 12 * self.buffers.len() + 4 * self.params.len().next_multiple_of(4);
        let Hardware { buffers, parameters, .. } = *request.hardware;
        if self.buffers.len() > buffers as usize || bytes > parameters as usize {
            return Err(format!(
                "it has {} storage buffers, of {buffers}, and {bytes} bytes of arguments, of {parameters}",
                self.buffers.len()
            ));
        }
        let given: Vec<&str> = op.params().iter().copied().map(CustomParam::wgsl_type).collect();
        if self.params != given {
            return Err(format!(
                "its uniform struct has members [{}], for parameters [{}]",
                self.params.join(", "),
                given.join(", ")
            ));
        }
        for (i, (buffer, x)) in self.buffers.iter().zip(request.args.iter().chain(request.outs)).enumerate() {
            let (what, access) = if i < args { ("an argument", "read") } else { ("a result", "read_write") };
            let name = &buffer.name;
            if buffer.writes != (i >= args) {
                return Err(format!("`{name}`, binding {i}, is {what}: it must be `var<storage, {access}>`"));
            }
            if i >= args && x.dtype == DType::Bool {
                return Err(
                    "results of WGSL cannot be bool, of which not all bytes are values: use u8".into()
                );
            }
            if !buffer.scalars.iter().all(|&scalar| holds(scalar, x.dtype)) {
                let dtype = x.dtype;
                return Err(format!(
                    "`{name}`, binding {i}, is {what} of {dtype}: its scalars must be those, or u32"
                ));
            }
            let bytes = x.packed_bytes() as u64;
            if bytes < buffer.least || bytes == 0 {
                let least = buffer.least;
                return Err(format!(
                    "`{name}`, binding {i}, needs {least} bytes at least: the tensor has {bytes}"
                ));
            }
            if bytes > u64::from(u32::MAX) - 3 {
                return Err(format!("`{name}`, binding {i}, has {bytes} bytes: 4 GiB is too much"));
            }
        }
        Ok(())
    }
}

impl Buffer {
    fn of(module: &Module, variable: &GlobalVariable, access: StorageAccess) -> Result<Buffer, String> {
        let mut scalars = Vec::new();
        collect_scalars(module, &module.types[variable.ty], &mut scalars)
            .map_err(|what| format!("`{}` has {what}, which a tensor has not", name(variable)))?;
        let least = module.types[variable.ty].inner.try_size(module.to_ctx());
        let least = least.ok_or_else(|| format!("the type of `{}` is too large", name(variable)))?;
        let writes = access.contains(StorageAccess::STORE);
        Ok(Buffer { name: name(variable).to_owned(), writes, least: least.into(), scalars })
    }
}

/// The scalars that a type is made of.
fn collect_scalars(module: &Module, ty: &Type, scalars: &mut Vec<Scalar>) -> Result<(), String> {
    match &ty.inner {
        TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) | TypeInner::Vector { scalar, .. } => {
            scalars.push(*scalar);
            Ok(())
        }
        TypeInner::Array { base, .. } => collect_scalars(module, &module.types[*base], scalars),
        TypeInner::Struct { members, .. } => {
            members.iter().try_for_each(|member| collect_scalars(module, &module.types[member.ty], scalars))
        }
        other => Err(format!("a part of another kind: {other:?}")),
    }
}

/// Whether elements of a dtype may be seen as scalars of a type.
fn holds(scalar: Scalar, dtype: DType) -> bool {
    scalar == Scalar::U32
        || match dtype.to_real() {
            DType::F32 => scalar == Scalar::F32,
            DType::F64 => scalar == Scalar::F64,
            DType::I32 => scalar == Scalar::I32,
            DType::I64 => scalar == Scalar::I64,
            _ => false,
        }
}

/// The types of the members of the uniform struct: scalars of one word, one after the other.
fn params(module: &Module, variable: &GlobalVariable) -> Result<Vec<&'static str>, String> {
    let wrong = || format!("`{}` must be a struct of f32, i32 and u32", name(variable));
    let TypeInner::Struct { members, .. } = &module.types[variable.ty].inner else { return Err(wrong()) };
    let member = |(i, member): (usize, &naga::StructMember)| match module.types[member.ty].inner {
        TypeInner::Scalar(Scalar { kind, width: 4 }) if member.offset as usize == 4 * i => match kind {
            ScalarKind::Float => Ok("f32"),
            ScalarKind::Sint => Ok("i32"),
            ScalarKind::Uint => Ok("u32"),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    };
    members.iter().enumerate().map(member).collect()
}

fn name(variable: &GlobalVariable) -> &str {
    variable.name.as_deref().unwrap_or("?")
}

/// A message of naga's with its place in the source.
fn at(location: Option<naga::SourceLocation>, message: String) -> String {
    match location {
        Some(at) => format!("line {}, column {}: {message}", at.line_number, at.line_position),
        None => message,
    }
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |error| error.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
