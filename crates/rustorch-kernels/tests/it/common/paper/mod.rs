//! Devices that exist on paper, and every kernel that the conformance suite would run on them.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

pub mod bundle;
pub mod kinds;

use rustorch_core::{
    BinaryOp, Cast, ConvBackwardWeight, ConvParams, DType, Device, Dims, Layout, MulMatId, Numerics, Op,
    Shape, TensorMeta,
};
use rustorch_kernels::plan::Request;
use rustorch_kernels::{Arithmetic, Hardware, Kernel, Language, Subgroups, family};
use rustorch_testkit::conformance::{self, Argument, Case, Extent};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// A device that has everything.
pub fn strong() -> Hardware {
    Hardware {
        device: Device::vulkan(0),
        name: "strong".into(),
        driver: String::new(),
        language: Language::Wgsl,
        f64: true,
        i64: true,
        subgroups: Some(Subgroups { least: 32, most: 32 }),
        tensor_cores: false,
        software: false,
        workgroup: 1024,
        workgroup_memory: 32 << 10,
        groups: 65535,
        max_buffer: 1 << 32,
        max_binding: 1 << 32,
        buffers: 1 << 20,
        parameters: 4096,
        window: Some(256),
        memory: None,
        arithmetic: Arithmetic {
            fused: true,
            contracts: false,
            divides: true,
            divides_doubles: true,
            subnormals: true,
            faithful: true,
        },
    }
}

/// The same, but that quotients and square roots of doubles are not the nearest numbers.
pub fn divides_doubles_badly() -> Hardware {
    let arithmetic = Arithmetic { divides_doubles: false, ..strong().arithmetic };
    Hardware { name: "divides doubles badly".into(), arithmetic, ..strong() }
}

/// A device that has nothing that WebGPU does not promise, and is a software renderer on the CPU.
pub fn weak() -> Hardware {
    Hardware {
        name: "weak".into(),
        f64: false,
        i64: false,
        subgroups: None,
        tensor_cores: false,
        software: true,
        workgroup: 256,
        workgroup_memory: 16 << 10,
        max_buffer: 256 << 20,
        max_binding: 128 << 20,
        buffers: 8,
        parameters: 1024,
        arithmetic: Arithmetic::default(),
        ..strong()
    }
}

/// An Apple GPU as wgpu states it: an M2 under macOS 15. How it rounds is not known without one, so the worst is assumed.
pub fn apple() -> Hardware {
    Hardware {
        device: Device::metal(0),
        name: "Apple".into(),
        f64: false,
        max_buffer: 9 << 30,
        max_binding: 9 << 30,
        buffers: 28,
        parameters: 256 << 10,
        window: Some(32),
        arithmetic: Arithmetic::default(),
        ..strong()
    }
}

/// A GPU of Intel under DirectX 12 as wgpu states it, which has `f64` on none.
pub fn directx() -> Hardware {
    Hardware {
        name: "DirectX".into(),
        f64: false,
        subgroups: Some(Subgroups { least: 8, most: 32 }),
        max_buffer: (1 << 31) - 16,
        max_binding: (1 << 31) - 16,
        buffers: 1 << 18,
        parameters: 64 << 10,
        window: Some(16),
        arithmetic: Arithmetic::default(),
        ..strong()
    }
}

/// A device whose kernels see so little at once that the suite's operands are cut.
pub fn narrow(bytes: u64) -> Hardware {
    Hardware { name: format!("{bytes} bytes at once"), max_binding: bytes, window: Some(16), ..strong() }
}

/// The kernels of narrow devices that no other device has: where indices choose from a part of a table, and where sums over
/// images go on from launch to launch.
pub fn kernels_of_parts() -> Vec<Kernel> {
    static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(find_kernels_of_parts);
    KERNELS.clone()
}

fn find_kernels_of_parts() -> Vec<Kernel> {
    let ops = Extent::Of("embedding,index_select,gather,matmul,mul_mat_id".into());
    let mut cases = ops.of([conformance::cases(), conformance::weight_cases()].concat());
    let argument = |dtype: DType, dims: &[usize]| {
        let layout = Layout::contiguous(Shape::new(dims).expect("small"));
        Argument { dtype, bytes: Vec::new(), layout }
    };
    for weight in [DType::F32, DType::F16] {
        let args = vec![
            argument(DType::F32, &[2, 1, 16]),
            argument(weight, &[40, 1, 16]),
            argument(DType::I32, &[2, 3]),
        ];
        cases.push(Case { op: Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), args });
    }
    // Of tiles, and of single rows, which take the memory that the largest window has.
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for channels in [1, 3] {
            let params = ConvParams::new(2);
            let op = Op::from(ConvBackwardWeight { params, kernel: Dims::from_slice(&[3, 3]) });
            let args = [[120, 1, 18, 18], [120, channels, 16, 16]].map(|dims| argument(dtype, &dims));
            cases.push(Case { op, args: args.into() });
        }
    }
    let parts = ["part: true", "from: true", "on: true"];
    let mut found = HashSet::new();
    // Of dense tables some rows, of matrices some, and of tables of blocks, whose rows are longer.
    [64, 256, 2560, 32 << 10]
        .into_iter()
        .flat_map(|bytes| kernels_in(&cases, &narrow(bytes)))
        .filter(|kernel| {
            parts.iter().any(|part| kernel.label().contains(part)) && found.insert(kernel.clone())
        })
        .collect()
}

/// The kernels that write rows with gaps between them.
pub fn kernels_of_rows(hardware: &Hardware) -> Vec<Kernel> {
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    let (x, y) = (layout(&[3, 2, 4]), layout(&[3, 5, 4]).slice(1, 2, 2, 1).expect("inside"));
    let across = layout(&[2, 3, 4]).transpose(0, 1).expect("two dimensions");
    let mut list = Vec::new();
    for dtype in [DType::Bool, DType::U8, DType::I16, DType::F16, DType::F32, DType::I64] {
        for (op, args) in [
            (Op::Cast(Cast { to: dtype }), vec![(DType::F32, &x)]),
            (ADD, vec![(dtype, &x), (dtype, &across)]),
        ] {
            let meta = |&(dtype, layout)| TensorMeta { dtype, layout, device: hardware.device };
            let (args, outs): (Vec<_>, [_; 1]) = (args.iter().map(meta).collect(), [meta(&(dtype, &y))]);
            let plan = family::plan(&Request::new(&op, &args, &outs, hardware)).expect("these have kernels");
            list.extend(plan.steps.into_iter().map(|step| step.kernel));
        }
    }
    assert!(list.iter().all(|kernel| kernel.label().contains("rows: true")));
    list
}

const ADD: Op = Op::Binary(BinaryOp::Add);

/// The kernels of every case of the conformance suite that the device takes, found once in a process.
pub fn kernels(hardware: &Hardware) -> Vec<Kernel> {
    type Known = (Hardware, Arc<OnceLock<Vec<Kernel>>>);
    static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let list = {
        let mut known = KNOWN.lock().expect("nothing panics under the lock");
        match known.iter().find(|(of, _)| of == hardware) {
            Some((_, list)) => Arc::clone(list),
            None => {
                let list = Arc::default();
                known.push((hardware.clone(), Arc::clone(&list)));
                list
            }
        }
    };
    list.get_or_init(|| kernels_of(&Extent::All, hardware)).clone()
}

/// The kernels of a part of the suite.
pub fn kernels_of(extent: &Extent, hardware: &Hardware) -> Vec<Kernel> {
    let lists = [conformance::weight_cases(), conformance::large_cases(), conformance::attention_cases()];
    kernels_in(&extent.of([conformance::cases(), lists.concat()].concat()), hardware)
}

fn kernels_in(cases: &[Case], hardware: &Hardware) -> Vec<Kernel> {
    let mut found = HashSet::new();
    let mut list = Vec::new();
    let capability = family::capability(hardware);
    for case in cases {
        let metas: Vec<TensorMeta<'_>> = case
            .args
            .iter()
            .map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device: hardware.device })
            .collect();
        if capability.check(&case.op, &metas).is_err()
            || family::supports(&case.op, &metas, hardware).is_err()
        {
            continue;
        }
        let outs = case.op.infer(&metas).expect("the suite's cases are valid");
        let layouts: Vec<Layout> = outs.iter().map(|out| Layout::contiguous(out.shape.clone())).collect();
        if layouts.iter().all(|layout| layout.numel() == 0) {
            continue;
        }
        let outs: Vec<TensorMeta<'_>> = outs
            .iter()
            .zip(&layouts)
            .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device: hardware.device })
            .collect();
        let request = Request::new(&case.op, &metas, &outs, hardware);
        let plan = family::plan(&request)
            .unwrap_or_else(|decline| panic!("{case}: {decline} after support was promised"));
        for step in plan.steps {
            if found.insert(step.kernel.clone()) {
                list.push(step.kernel);
            }
        }
    }
    list
}
