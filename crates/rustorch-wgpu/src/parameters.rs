//! Parameter blocks: how they reach a kernel.
//!
//! In WGSL they are a uniform buffer. Where the device has immediates (Vulkan's push constants, Metal's `setBytes`) and the
//! block fits, the declaration is changed to those on the way: nothing is uploaded, and bind groups do not depend on
//! parameters. Otherwise the blocks of a batch are gathered on the host and uploaded in front of it, each in a slot of
//! one uniform buffer, which launches choose by a dynamic offset.

use wgpu::naga;

/// How a kernel gets its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Style {
    /// It has none.
    None,
    /// In the command itself.
    Immediate,
    /// From a slot of the batch's uniform buffer.
    Uniform,
}

impl Style {
    /// The most bytes that are sent as immediates, where the device allows more.
    pub(crate) const IMMEDIATES: usize = 256;

    /// The style for a block of `bytes` where `immediates` bytes fit in a command.
    pub(crate) fn of(bytes: usize, immediates: usize) -> Style {
        match bytes {
            0 => Style::None,
            _ if bytes <= immediates => Style::Immediate,
            _ => Style::Uniform,
        }
    }
}

/// Turns the uniform buffer at this binding of group 0 into immediates.
pub(crate) fn as_immediates(module: &mut naga::Module, binding: usize) {
    for (_, variable) in module.global_variables.iter_mut() {
        if variable.space == naga::AddressSpace::Uniform
            && variable.binding.is_some_and(|at| at.binding as usize == binding)
        {
            variable.space = naga::AddressSpace::Immediate;
            variable.binding = None;
        }
    }
}

/// The parameter blocks of a batch, uploaded in front of it.
pub(crate) struct Slots {
    buffer: wgpu::Buffer,
    staged: Vec<u8>,
    alignment: usize,
}

impl Slots {
    /// The bytes that one batch may upload in front of itself.
    pub(crate) const CAPACITY: usize = 256 * 1024;

    /// `alignment` is a power of two: that of windows onto uniform buffers.
    pub(crate) fn new(wgpu: &wgpu::Device, alignment: usize) -> Slots {
        let buffer = wgpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: Slots::CAPACITY as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Slots { buffer, staged: Vec::with_capacity(Slots::CAPACITY), alignment }
    }

    /// The buffer that launches read.
    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// Whether so many bytes fit into the batch yet.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.staged.len().next_multiple_of(self.alignment) + bytes <= Slots::CAPACITY
    }

    /// Takes a block that fits; returns its offset in the buffer.
    pub(crate) fn push(&mut self, block: &[u32]) -> u32 {
        let start = self.staged.len().next_multiple_of(self.alignment);
        self.staged.resize(start, 0);
        self.staged.extend(block.iter().flat_map(|word| word.to_ne_bytes()));
        // At most the capacity, which is far below the range.
        start as u32
    }

    /// Uploads what was taken, in front of the next submission, and starts anew.
    pub(crate) fn upload(&mut self, queue: &wgpu::Queue) {
        if !self.staged.is_empty() {
            queue.write_buffer(&self.buffer, 0, &self.staged);
            self.staged.clear();
        }
    }
}
