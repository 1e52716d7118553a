//! The derive macro of modules.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Index, LitStr, Result};

pub(crate) fn derive(input: DeriveInput) -> Result<TokenStream> {
    let nn = path()?;
    let name = &input.ident;
    let type_name = type_name(&input)?;
    let members = match &input.data {
        Data::Struct(data) => {
            let (pattern, visits) = fields(&data.fields, &nn)?;
            quote! { let Self #pattern = self; #visits }
        }
        Data::Enum(data) => {
            let arms = data
                .variants
                .iter()
                .map(|variant| {
                    let (pattern, visits) = fields(&variant.fields, &nn)?;
                    let variant = &variant.ident;
                    Ok(quote! { Self::#variant #pattern => { #visits } })
                })
                .collect::<Result<Vec<_>>>()?;
            quote! { match self { #(#arms)* } }
        }
        Data::Union(_) => {
            return Err(Error::new_spanned(name, "a union is no module: its fields share their memory"));
        }
    };
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics #nn::Module for #name #arguments #bounds {
            fn type_name(&self) -> &'static str {
                #type_name
            }

            fn visit_members<'module>(
                &'module self,
                visit: &mut dyn ::core::ops::FnMut(&str, #nn::Member<'module>),
            ) {
                let _ = &visit;
                #members
            }
        }
    })
}

/// What `type_name` returns: the value of `#[module(type_name = ..)]` before the type, or the type's own name.
fn type_name(input: &DeriveInput) -> Result<TokenStream> {
    let own = input.ident.to_string();
    let mut type_name = quote!(#own);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("type_name") {
                return Err(meta.error("unknown attribute of a type: there is `type_name = ..`"));
            }
            // All to the end: the compiler parses the expression.
            type_name = meta.value()?.parse()?;
            Ok(())
        })?;
    }
    Ok(type_name)
}

/// The crate with the trait, as its user calls it: by itself, or as a module of the facade.
fn path() -> Result<TokenStream> {
    let ident = |found, itself| match found {
        FoundCrate::Itself => format_ident!("{itself}"),
        FoundCrate::Name(name) => format_ident!("{name}"),
    };
    if let Ok(found) = crate_name("rustorch-nn") {
        let nn = ident(found, "rustorch_nn");
        return Ok(quote!(::#nn));
    }
    let Ok(found) = crate_name("rustorch") else {
        let message = "derive(Module) needs `rustorch` or `rustorch-nn` among the dependencies in Cargo.toml";
        return Err(Error::new(Span::call_site(), message));
    };
    let facade = ident(found, "rustorch");
    Ok(quote!(::#facade::nn))
}

/// A pattern that binds the fields that are members, and the visits to them.
fn fields(fields: &Fields, nn: &TokenStream) -> Result<(TokenStream, TokenStream)> {
    let mut patterns = Vec::new();
    let mut visits = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let attributes = Attributes::of(field)?;
        let (place, default) = match &field.ident {
            Some(ident) => (quote!(#ident), unraw(ident)),
            None => {
                let index = Index::from(i);
                (quote!(#index), i.to_string())
            }
        };
        if attributes.skip {
            patterns.push(quote!(#place: _));
            continue;
        }
        // A type that is no part of a module is told of at the field.
        let binding = format_ident!("member_{i}", span = field.ty.span());
        patterns.push(quote!(#place: #binding));
        let name = attributes.rename.map_or(default, |rename| rename.value());
        visits.push(quote_spanned! { field.ty.span() => #nn::Part::visit(#binding, #name, visit); });
    }
    // Tuple structs, too, can be taken apart by position.
    Ok((quote!({ #(#patterns),* }), quote!(#(#visits)*)))
}

fn unraw(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// `#[module(skip)]`, `#[module(rename = "..")]`.
#[derive(Default)]
struct Attributes {
    skip: bool,
    rename: Option<LitStr>,
}

impl Attributes {
    fn of(field: &Field) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    attributes.skip = true;
                } else if meta.path.is_ident("rename") {
                    let name: LitStr = meta.value()?.parse()?;
                    if name.value().is_empty() || name.value().contains('.') {
                        let message =
                            "a member's name is not empty and has no dot, which separates names in a path";
                        return Err(Error::new(name.span(), message));
                    }
                    attributes.rename = Some(name);
                } else {
                    return Err(meta.error("unknown attribute: there are `skip` and `rename = \"..\"`"));
                }
                Ok(())
            })?;
        }
        Ok(attributes)
    }
}
