//! The vocabulary of RusTorch: no tensor, no threads, no device code, only the types that every other crate speaks.
//!
//! An operation is a value ([`Op`]), a device is a plug-in ([`Backend`]), and what may go wrong has a name
//! ([`Error`], [`Decline`], [`Fault`]).
//!
//! ```
//! use rustorch_core::{BinaryOp, DType, Device, Layout, Op, Shape, TensorMeta};
//!
//! let a = Layout::contiguous(Shape::new([2, 1].as_slice())?);
//! let b = Layout::contiguous(Shape::new([3].as_slice())?);
//! let meta = |layout| TensorMeta { dtype: DType::F32, layout, device: Device::CPU };
//! let outs = Op::Binary(BinaryOp::Add).infer(&[meta(&a), meta(&b)])?;
//! assert_eq!(outs[0].shape.dims(), [2, 3]);
//! # Ok::<(), rustorch_core::Error>(())
//! ```

mod backend;
mod buffer;
mod cache;
mod capability;
mod compiler;
mod cost;
mod device;
mod dispatch;
mod dtype;
mod error;
mod extensions;
mod graph;
mod layout;
mod meta;
mod op;
mod overlap;
mod philox;
pub mod profile;
mod promote;
mod quant_type;
mod scalar;
#[cfg(feature = "serde")]
mod serial;
mod shape;
mod stream;
mod view_op;

pub use backend::{Backend, Call, PrepareRequest, PreparedOp, copy_mismatch, run_checked};
pub use buffer::{Buffer, HOST_ALIGN, View, ViewMut, bytes_reached};
pub use cache::cache_dir;
pub use capability::{DTypeSet, DeviceCapability};
pub use compiler::{CompiledRegion, Compiler, RegionPrice, Rewrite, UpdatedInput};
pub use cost::{CostModel, Link, Rate, RateOf};
pub use device::{Device, DeviceKind, DeviceType, IntoDevice, KindInfo};
pub use dtype::{C64, C128, DType, DTypeKind, Element};
pub use error::{Decline, DispatchError, Error, Fault, Result, Verdict};
pub use extensions::{DeviceMetrics, Extensions, Remarks, Streams, VendorBlas};
pub use graph::{Draw, Graph, GraphOperand, Node, NodeResult, Source, State, Value, ValueId};
pub use half::{bf16, f16};
pub use layout::{Indices, Layout};
pub use meta::{OutputMeta, Outputs, TensorMeta, packed_bytes};
pub use op::*;
pub use overlap::Overlap;
pub use philox::{Philox, PhiloxKey, philox4x32, unit_f32, unit_f64};
pub use promote::{PromotionCategory, promote_types, result_type};
pub use quant_type::QuantType;
pub use scalar::{FromScalar, Scalar};
pub use shape::{Dims, Shape, resolve_axis};
pub use stream::{StreamScope, current_stream};
pub use view_op::ViewOp;
