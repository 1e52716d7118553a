//! Kernels: WGSL to pipelines.

use crate::cache::Cache;
use crate::faults::{Faults, lock};
use crate::parameters::{self, Slots, Style};
use rustorch_core::Fault;
use rustorch_kernels::KernelSource;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;
use wgpu::naga;

/// A kernel ready to run.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) pipeline: wgpu::ComputePipeline,
    /// The layout of its buffers; none without buffers and parameters.
    pub(crate) layout: Option<wgpu::BindGroupLayout>,
    pub(crate) buffers: Vec<Binding>,
    /// The bytes of its parameters.
    pub(crate) parameters: usize,
    pub(crate) style: Style,
    pub(crate) label: String,
}

/// What a kernel does with one of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Binding {
    pub(crate) writes: bool,
    /// The least bytes that it must have.
    pub(crate) least: u64,
}

/// Makes kernels.
pub(crate) struct Compiler {
    wgpu: wgpu::Device,
    faults: Faults,
    /// The most bytes of parameters that are sent as immediates.
    immediates: usize,
    /// The most bytes of parameters.
    most_parameters: u64,
    layouts: Mutex<HashMap<Shape, (Option<wgpu::BindGroupLayout>, wgpu::PipelineLayout)>>,
    cache: Cache,
}

/// What a pipeline's layout depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Shape {
    buffers: Vec<Binding>,
    parameters: usize,
    style: Style,
}

impl Compiler {
    /// `immediates` is the most bytes of parameters that are sent as immediates; 0 where there are none.
    pub(crate) fn new(wgpu: wgpu::Device, faults: Faults, immediates: usize, cache: Cache) -> Compiler {
        let most_parameters = wgpu.limits().max_uniform_buffer_binding_size.min(Slots::CAPACITY as u64);
        Compiler { wgpu, faults, immediates, most_parameters, layouts: Mutex::default(), cache }
    }

    /// The compiled kernels that outlive the process.
    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Makes a kernel of WGSL.
    pub(crate) fn compile(&self, text: &KernelSource<'_>) -> Result<Kernel, Fault> {
        let refuse = |why: String| self.faults.refuse(format!("kernel `{}`: {why}", text.label));
        let mut module = naga::front::wgsl::parse_str(text.source)
            .map_err(|error| refuse(error.emit_to_string(text.source).trim_end().to_owned()))?;
        let entry = module
            .entry_points
            .iter()
            .find(|entry| entry.name == text.entry && entry.stage == naga::ShaderStage::Compute)
            .ok_or_else(|| refuse(format!("it has no compute entry point `{}`", text.entry)))?;
        if entry.workgroup_size != text.workgroup {
            return Err(refuse(format!(
                "its workgroup is {:?} in the source and {:?} beside it",
                entry.workgroup_size, text.workgroup
            )));
        }
        if !text.parameters.is_multiple_of(16) || text.parameters as u64 > self.most_parameters {
            return Err(refuse(format!(
                "its parameters take {} bytes: they must be a multiple of 16 and, here, at most {}",
                text.parameters, self.most_parameters
            )));
        }
        let style = Style::of(text.parameters, self.immediates);
        let buffers = bindings(&module, text).map_err(refuse)?;
        if style == Style::Immediate {
            parameters::as_immediates(&mut module, text.buffers);
        }
        let (layout, pipeline_layout) =
            self.layout(Shape { buffers: buffers.clone(), parameters: text.parameters, style })?;

        let pipeline = self
            .faults
            .scoped(&self.wgpu, 0, || {
                let source = wgpu::ShaderModuleDescriptor {
                    label: Some(text.label),
                    source: wgpu::ShaderSource::Naga(Cow::Owned(module)),
                };
                if text.checked {
                    return self.pipeline(text, &pipeline_layout, &self.wgpu.create_shader_module(source));
                }
                // SAFETY: kernels are this library's or its caller's own; they check their bounds where data decides an
                // index, end their loops and divide by no zero, as the same source must where CUDA or OpenCL runs it, which
                // check nothing. Where Vulkan runs it, robust buffer access, which wgpu always asks for, confines an error
                // to the device's memory besides; Metal and Direct3D have no such second line.
                let module = unsafe {
                    self.wgpu.create_shader_module_trusted(source, wgpu::ShaderRuntimeChecks::unchecked())
                };
                self.pipeline(text, &pipeline_layout, &module)
            })
            .map_err(|fault| match fault {
                Fault::Backend { message, .. } => refuse(located(text).unwrap_or(message)),
                other => other,
            })?;
        self.cache.grew();
        Ok(Kernel {
            pipeline,
            layout,
            buffers,
            parameters: text.parameters,
            style,
            label: text.label.to_owned(),
        })
    }

    fn pipeline(
        &self,
        text: &KernelSource<'_>,
        layout: &wgpu::PipelineLayout,
        module: &wgpu::ShaderModule,
    ) -> wgpu::ComputePipeline {
        self.wgpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(text.label),
            layout: Some(layout),
            module,
            entry_point: Some(text.entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: self.cache.pipelines(),
        })
    }

    /// The layout for kernels of this shape.
    fn layout(&self, shape: Shape) -> Result<(Option<wgpu::BindGroupLayout>, wgpu::PipelineLayout), Fault> {
        let mut layouts = lock(&self.layouts);
        if let Some(layout) = layouts.get(&shape) {
            return Ok(layout.clone());
        }
        let mut entries: Vec<wgpu::BindGroupLayoutEntry> = (0..)
            .zip(&shape.buffers)
            .map(|(binding, buffer)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: !buffer.writes },
                    has_dynamic_offset: false,
                    min_binding_size: wgpu::BufferSize::new(buffer.least),
                },
                count: None,
            })
            .collect();
        let mut immediate_size = 0;
        match shape.style {
            Style::None => {}
            // The length fits: it is at most the limit, a `u32`.
            Style::Immediate => immediate_size = shape.parameters as u32,
            Style::Uniform => entries.push(wgpu::BindGroupLayoutEntry {
                binding: entries.len() as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Uniform,
                    has_dynamic_offset: true,
                    min_binding_size: wgpu::BufferSize::new(shape.parameters as u64),
                },
                count: None,
            }),
        }
        let layout = self.faults.scoped(&self.wgpu, 0, || {
            let group = (!entries.is_empty()).then(|| {
                self.wgpu.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                    label: None,
                    entries: &entries,
                })
            });
            let groups = [group.as_ref()];
            let pipeline = self.wgpu.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: if group.is_some() { &groups } else { &[] },
                immediate_size,
            });
            (group, pipeline)
        })?;
        layouts.insert(shape, layout.clone());
        Ok(layout)
    }
}

/// What naga finds wrong with a kernel, and where. wgpu knows the module only, not the source.
fn located(text: &KernelSource<'_>) -> Option<String> {
    let module = naga::front::wgsl::parse_str(text.source).ok()?;
    let all = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let error = naga::valid::Validator::new(all.0, all.1).validate(&module).err()?;
    Some(error.emit_to_string(text.source).trim_end().to_owned())
}

/// What the kernel does with its buffers, from its declarations. A buffer that it does not declare is read.
fn bindings(module: &naga::Module, text: &KernelSource<'_>) -> Result<Vec<Binding>, String> {
    let mut buffers = vec![Binding { writes: false, least: 4 }; text.buffers];
    for (_, variable) in module.global_variables.iter() {
        let Some(at) = variable.binding else { continue };
        let name = variable.name.as_deref().unwrap_or("?");
        if at.group != 0 {
            return Err(format!("`{name}` is in group {}; only group 0 is used", at.group));
        }
        let bytes = module.types[variable.ty].inner.try_size(module.to_ctx()).map(u64::from);
        let bytes = bytes.ok_or_else(|| format!("the type of `{name}` is too large"))?;
        let index = at.binding as usize;
        match variable.space {
            naga::AddressSpace::Storage { access } if index < text.buffers => {
                buffers[index] =
                    Binding { writes: access.contains(naga::StorageAccess::STORE), least: bytes.max(4) };
            }
            naga::AddressSpace::Uniform if index == text.buffers => {
                if bytes > text.parameters as u64 {
                    return Err(format!(
                        "its parameters `{name}` take {bytes} bytes, {} were stated",
                        text.parameters
                    ));
                }
            }
            _ => {
                return Err(format!(
                    "`{name}` at binding {index} is neither one of its {} storage buffers nor, after them, its uniform \
                     parameters",
                    text.buffers
                ));
            }
        }
    }
    Ok(buffers)
}
