//! The names that a pickle may ask for.

use super::super::{ErrorKind, dtype};
use rustorch_core::DType;

/// A function or class of Python that the machine knows. None of Python's code is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    OrderedDict,
    Counter,
    Set,
    /// `_codecs.encode`, as which protocol 2 writes bytes.
    Encode,
    Size,
    Device,
    /// `torch.Tensor` and `torch.nn.Parameter`, as the types of tensors with attributes.
    TensorType,
    DType(DType),
    /// The type of a storage and of its elements.
    StorageType(DType),
    UntypedStorage,
    RebuildTensor,
    RebuildTensorV2,
    RebuildTensorV3,
    RebuildParameter,
    RebuildParameterWithState,
    RebuildFromType,
}

impl Global {
    /// The function or class of this name.
    pub(super) fn find(module: &str, name: &str) -> Result<Self, ErrorKind> {
        Self::known(module, name)
            .ok_or_else(|| ErrorKind::ForbiddenObject { name: format!("{module}.{name}") })
    }

    fn known(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("collections", "Counter") => Global::Counter,
            ("__builtin__" | "builtins", "set") => Global::Set,
            ("_codecs", "encode") => Global::Encode,
            ("torch", "Size") => Global::Size,
            ("torch", "device") => Global::Device,
            ("torch", "Tensor") | ("torch.nn.parameter" | "torch.nn", "Parameter") => Global::TensorType,
            ("torch.storage", "UntypedStorage") => Global::UntypedStorage,
            ("torch._utils", "_rebuild_tensor") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensorV2,
            ("torch._utils", "_rebuild_tensor_v3") => Global::RebuildTensorV3,
            ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
            ("torch._utils", "_rebuild_parameter_with_state") => Global::RebuildParameterWithState,
            ("torch._tensor", "_rebuild_from_type_v2") => Global::RebuildFromType,
            ("torch", name) => match dtype::from_name(name) {
                Some(dtype) => Global::DType(dtype),
                None => Global::StorageType(dtype::from_storage_type(name)?),
            },
            _ => return None,
        })
    }

    /// The name, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Global::OrderedDict => "OrderedDict",
            Global::Counter => "Counter",
            Global::Set => "set",
            Global::Encode => "_codecs.encode",
            Global::Size => "torch.Size",
            Global::Device => "torch.device",
            Global::TensorType => "torch.Tensor",
            Global::DType(_) => "a dtype",
            Global::StorageType(_) | Global::UntypedStorage => "a storage",
            Global::RebuildTensor => "_rebuild_tensor",
            Global::RebuildTensorV2 => "_rebuild_tensor_v2",
            Global::RebuildTensorV3 => "_rebuild_tensor_v3",
            Global::RebuildParameter => "_rebuild_parameter",
            Global::RebuildParameterWithState => "_rebuild_parameter_with_state",
            Global::RebuildFromType => "_rebuild_from_type_v2",
        }
    }
}
