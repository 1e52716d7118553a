//! What the functions and classes that pickles may call do.

use super::super::{ErrorKind, TensorView};
use super::global::Global;
use super::machine::{Container, Item, Machine};
use rustorch_core::DType;
use std::sync::Arc;

/// The result of calling `function` with a tuple of arguments.
pub(super) fn call(machine: &mut Machine<'_>, function: Global, arguments: &Item) -> Result<Item, ErrorKind> {
    let bad = |machine: &Machine<'_>, message| machine.bad_arguments(function, message);
    let Some(items) = machine.items(arguments) else { return Err(bad(machine, "they are no tuple")) };
    match (function, items) {
        (Global::OrderedDict | Global::Counter, []) => Ok(machine.add(Container::Dict(Vec::new()))),
        (Global::OrderedDict, [pairs]) => {
            let pairs = machine.items(pairs).ok_or_else(|| bad(machine, "its entries are no list"))?;
            let entry = |pair| match machine.items(pair) {
                Some([key, value]) => Ok((key.clone(), value.clone())),
                _ => Err(bad(machine, "an entry is no pair")),
            };
            let entries = pairs.iter().map(entry).collect::<Result<_, _>>()?;
            Ok(machine.add(Container::Dict(entries)))
        }
        (Global::Counter, [counts]) => {
            let counts =
                machine.entries(counts).ok_or_else(|| bad(machine, "its counts are no dict"))?.to_vec();
            Ok(machine.add(Container::Dict(counts)))
        }
        (Global::Set, []) => Ok(machine.add(Container::Set(Vec::new()))),
        (Global::Set, [items]) => {
            let items =
                machine.items(items).ok_or_else(|| bad(machine, "its elements are no list"))?.to_vec();
            Ok(machine.add(Container::Set(items)))
        }
        (Global::Size, [items]) => {
            let items =
                machine.items(items).ok_or_else(|| bad(machine, "its dimensions are no tuple"))?.to_vec();
            Ok(machine.add(Container::Tuple(items)))
        }
        (Global::Encode, [Item::Str(text), Item::Str(encoding)]) if &**encoding == "latin1" => {
            let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
            Ok(Item::Bytes(bytes.ok_or_else(|| bad(machine, "the string is not Latin-1"))?.into()))
        }
        (Global::Device, [Item::Str(kind)]) => Ok(Item::Device(Arc::clone(kind))),
        (Global::Device, [Item::Str(kind), Item::Int(index)]) => {
            Ok(Item::Device(format!("{kind}:{index}").into()))
        }
        (Global::RebuildTensor, [storage, offset, shape, strides]) => {
            tensor(machine, function, [storage, offset, shape, strides], None, false)
        }
        (Global::RebuildTensorV2, [storage, offset, shape, strides, Item::Bool(grad), _hooks]) => {
            tensor(machine, function, [storage, offset, shape, strides], None, *grad)
        }
        (Global::RebuildTensorV2, [storage, offset, shape, strides, Item::Bool(grad), _hooks, metadata]) => {
            check_metadata(machine, metadata)?;
            tensor(machine, function, [storage, offset, shape, strides], None, *grad)
        }
        (
            Global::RebuildTensorV3,
            [
                storage,
                offset,
                shape,
                strides,
                Item::Bool(grad),
                _hooks,
                Item::Global(Global::DType(dtype)),
                rest @ ..,
            ],
        ) if rest.len() <= 1 => {
            if let [metadata] = rest {
                check_metadata(machine, metadata)?;
            }
            tensor(machine, function, [storage, offset, shape, strides], Some(*dtype), *grad)
        }
        (Global::RebuildParameter, [Item::Tensor(data), Item::Bool(grad), _hooks])
        | (Global::RebuildParameterWithState, [Item::Tensor(data), Item::Bool(grad), _hooks, _]) => {
            let tensor = TensorView::clone(data).with_requires_grad(*grad).with_parameter(true);
            Ok(Item::Tensor(Arc::new(tensor)))
        }
        // A tensor with attributes, which are left out.
        (
            Global::RebuildFromType,
            [Item::Global(inner), Item::Global(Global::TensorType), arguments, _state],
        ) if *inner != Global::RebuildFromType => {
            let (inner, arguments) = (*inner, arguments.clone());
            call(machine, inner, &arguments)
        }
        _ => Err(bad(machine, "their number or types")),
    }
}

/// A view of a storage.
fn tensor(
    machine: &Machine<'_>,
    function: Global,
    [storage, offset, shape, strides]: [&Item; 4],
    dtype: Option<DType>,
    requires_grad: bool,
) -> Result<Item, ErrorKind> {
    let bad = |message| machine.bad_arguments(function, message);
    let Item::Storage(storage, typed) = storage else { return Err(bad("the first is no storage")) };
    let dtype = dtype.or(*typed).ok_or_else(|| bad("the storage has no type"))?;
    let size = |item: &Item| match item {
        Item::Int(value) => usize::try_from(*value).map_err(|_| bad("a size is negative")),
        _ => Err(bad("a size is no integer")),
    };
    let sizes = |item| match machine.items(item) {
        Some(items) => items.iter().map(size).collect::<Result<Vec<_>, _>>(),
        None => Err(bad("sizes are no tuple")),
    };
    let view =
        TensorView::checked(Arc::clone(storage), dtype, sizes(shape)?, sizes(strides)?, size(offset)?)?;
    Ok(Item::Tensor(Arc::new(view.with_requires_grad(requires_grad))))
}

/// Refuses tensors that are conjugated or negated when they are read.
fn check_metadata(machine: &Machine<'_>, metadata: &Item) -> Result<(), ErrorKind> {
    let entries = machine.entries(metadata).unwrap_or_default();
    for (key, value) in entries {
        match (key, value) {
            (Item::Str(key), Item::Bool(true)) if &**key == "conj" => {
                return Err(ErrorKind::LazyBit { what: "conjugate", function: "resolve_conj" });
            }
            (Item::Str(key), Item::Bool(true)) if &**key == "neg" => {
                return Err(ErrorKind::LazyBit { what: "negative", function: "resolve_neg" });
            }
            _ => {}
        }
    }
    Ok(())
}
