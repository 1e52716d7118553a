//! Methods whose calls are observed.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

/// The method with its body, the last group of braces, as a closure that the observer calls.
pub(crate) fn wrap(method: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = method.into_iter().collect();
    match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
            quote! { #(#tokens)* { crate::module::observe(self, || #body) } }
        }
        _ => quote!(compile_error!("`observed` is for methods with a body");),
    }
}
