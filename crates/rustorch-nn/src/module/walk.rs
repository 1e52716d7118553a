//! The walk over the members of modules in modules.

use super::{Member, Module};
use rustorch_tensor::{DType, Error, Result, Tensor};

/// Calls a function with every parameter, buffer and training flag, by path, in the order of fields.
pub(super) fn members<M: Module + ?Sized>(module: &M, visit: &mut dyn FnMut(&str, Member<'_>)) {
    module.visit_members(&mut |name, member| match member {
        Member::Module(module) => {
            members(module, &mut |path, member| visit(&format!("{name}.{path}"), member));
        }
        member => visit(name, member),
    });
}

/// The path of what a module at a path holds.
fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Adds a module at a path, and those in it after it.
pub(super) fn modules<'a>(path: String, module: &'a dyn Module, all: &mut Vec<(String, &'a dyn Module)>) {
    let children = module.named_children().into_iter().map(|(name, child)| (joined(&path, &name), child));
    let children: Vec<_> = children.collect();
    all.push((path, module));
    children.into_iter().for_each(|(path, child)| modules(path, child, all));
}

/// Calls a function with a module at a path, after those in it.
pub(super) fn apply(
    path: &str,
    module: &dyn Module,
    f: &mut dyn FnMut(&str, &dyn Module) -> Result<()>,
) -> Result<()> {
    for (name, child) in module.named_children() {
        apply(&joined(path, &name), child, f)?;
    }
    f(path, module)
}

pub(super) fn set_training<M: Module + ?Sized>(module: &M, training: bool) {
    members(module, &mut |_, member| {
        if let Member::Training(flag) = member {
            flag.set(training);
        }
    });
}

/// Gives every parameter and buffer what a function makes of its tensor.
pub(super) fn convert<M: Module + ?Sized>(module: &M, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    for (_, parameter) in module.named_parameters() {
        parameter.replace(&f(&parameter.tensor().detach())?, f)?;
    }
    for (_, buffer) in module.named_buffers() {
        buffer.set(&f(&buffer.tensor())?);
    }
    Ok(())
}

pub(super) fn to_dtype<M: Module + ?Sized>(module: &M, dtype: DType) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::dtype("Module::to_dtype", "parameters are converted to floats", [dtype]));
    }
    convert(module, &|x| if x.dtype().is_float() { x.to_dtype(dtype) } else { Ok(x.clone()) })
}
