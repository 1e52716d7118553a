//! Lists and maps of modules and parameters, and a layer with hooks.

mod hooked;
mod module_dict;
mod module_list;
mod parameter_list;

pub use hooked::Hooked;
pub use module_dict::ModuleDict;
pub use module_list::ModuleList;
pub use parameter_list::ParameterList;

/// What containers hold if nothing else is said: layers of any type.
pub(crate) type AnyLayer = Box<dyn crate::Layer + Send + Sync>;
