//! `#[derive(Module)]` of `rustorch-nn`.

mod module;
mod observed;

/// Implements `Module` and `Display` for a struct or an enum: every field is a member by its name, or by its position in a tuple struct.
///
/// Fields are parameters, buffers, modules, and `Option`, `Vec`, `Box`, arrays, tuples and maps of them; numbers, strings and the like are
/// no part of a module. `#[module(skip)]` leaves a field out, `#[module(rename = "..")]` gives it another name.
/// `#[module(type_name = ..)]` before the type is an expression for its name, where that is not the identifier's: `Conv<2>` is a `Conv2d`.
///
/// `Display` prints what PyTorch's `repr` of a module does: the children, and of fields that have `#[module(repr)]` their names and values,
/// or with `#[module(repr = value)]` their values. `#[module(extra_repr = ..)]` before the type is a function that says more, of the module
/// and of an `ExtraRepr`.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::derive(input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Of a module's method in `rustorch-nn`: its calls are rows of summaries.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn observed(_: proc_macro::TokenStream, method: proc_macro::TokenStream) -> proc_macro::TokenStream {
    observed::wrap(method.into()).into()
}
