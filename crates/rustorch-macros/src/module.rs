//! The derive macro of modules.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Index, LitStr, Result, Token};

pub(crate) fn derive(input: DeriveInput) -> Result<TokenStream> {
    let nn = path()?;
    let name = &input.ident;
    let TypeAttributes { type_name, extra_repr } = TypeAttributes::of(&input)?;
    let arms = match &input.data {
        Data::Struct(data) => vec![Arm::of(quote!(Self), &data.fields, &nn)?],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let ident = &variant.ident;
                Arm::of(quote!(Self::#ident), &variant.fields, &nn)
            })
            .collect::<Result<Vec<_>>>()?,
        Data::Union(_) => {
            return Err(Error::new_spanned(name, "a union is no module: its fields share their memory"));
        }
    };
    let visits = arms.iter().map(|Arm { visited, visits, .. }| quote!(#visited => { #visits }));
    let reprs = arms.iter().map(|Arm { printed, reprs, .. }| quote!(#printed => { #reprs }));
    let extra_repr = extra_repr.map(|function| quote!((#function)(self, extra);));
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
                match self { #(#visits)* }
            }

            fn extra_repr(&self, extra: &mut #nn::ExtraRepr) {
                let _ = &extra;
                match self { #(#reprs)* }
                #extra_repr
            }
        }

        #[automatically_derived]
        impl #generics ::core::fmt::Display for #name #arguments #bounds {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self as &dyn #nn::Module, f)
            }
        }
    })
}

/// `#[module(type_name = ..)]` and `#[module(extra_repr = ..)]` before the type.
struct TypeAttributes {
    /// What `type_name` returns: the type's own name, unless there is another.
    type_name: TokenStream,
    /// A function that says more of the module when it is printed.
    extra_repr: Option<TokenStream>,
}

impl TypeAttributes {
    fn of(input: &DeriveInput) -> Result<TypeAttributes> {
        let own = input.ident.to_string();
        let mut attributes = TypeAttributes { type_name: quote!(#own), extra_repr: None };
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                // All to the end: the compiler parses the expression.
                if meta.path.is_ident("type_name") {
                    attributes.type_name = meta.value()?.parse()?;
                } else if meta.path.is_ident("extra_repr") {
                    attributes.extra_repr = Some(meta.value()?.parse()?);
                } else {
                    let message =
                        "unknown attribute of a type: there are `type_name = ..` and `extra_repr = ..`";
                    return Err(meta.error(message));
                }
                Ok(())
            })?;
        }
        Ok(attributes)
    }
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

/// What is done with the fields of a struct or of one variant.
struct Arm {
    /// A pattern that binds the fields that are members.
    visited: TokenStream,
    /// The visits to them.
    visits: TokenStream,
    /// A pattern that binds the fields that are printed.
    printed: TokenStream,
    /// What is said of them.
    reprs: TokenStream,
}

impl Arm {
    fn of(path: TokenStream, fields: &Fields, nn: &TokenStream) -> Result<Arm> {
        let (mut visited, mut visits, mut printed, mut reprs) = (vec![], vec![], vec![], vec![]);
        for (i, field) in fields.iter().enumerate() {
            let attributes = Attributes::of(field)?;
            let (place, default) = match &field.ident {
                Some(ident) => (quote!(#ident), unraw(ident)),
                None => {
                    let index = Index::from(i);
                    (quote!(#index), i.to_string())
                }
            };
            let name = attributes.rename.map_or(default, |rename| rename.value());
            // What is wrong with a type, such as that it is no part of a module, is told at the field.
            let binding = format_ident!("member_{i}", span = field.ty.span());
            match attributes.skip {
                true => visited.push(quote!(#place: _)),
                false => {
                    visited.push(quote!(#place: #binding));
                    let visit =
                        quote_spanned! { field.ty.span() => #nn::Part::visit(#binding, #name, visit); };
                    visits.push(visit);
                }
            }
            let repr = match attributes.repr {
                None => continue,
                Some(Text::Named) => quote_spanned! { field.ty.span() => extra.named(#name, #binding); },
                Some(Text::Value) => quote_spanned! { field.ty.span() => extra.value(#binding); },
            };
            printed.push(quote!(#place: #binding));
            reprs.push(repr);
        }
        // Tuple structs, too, can be taken apart by position.
        Ok(Arm {
            visited: quote!(#path { #(#visited),* }),
            visits: quote!(#(#visits)*),
            printed: quote!(#path { #(#printed,)* .. }),
            reprs: quote!(#(#reprs)*),
        })
    }
}

fn unraw(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// How a field is printed.
enum Text {
    /// `#[module(repr)]`
    Named,
    /// `#[module(repr = value)]`
    Value,
}

impl Text {
    fn parse(meta: &ParseNestedMeta<'_>) -> Result<Text> {
        if !meta.input.peek(Token![=]) {
            return Ok(Text::Named);
        }
        let what: Ident = meta.value()?.parse()?;
        if what != "value" {
            return Err(Error::new(what.span(), "there are `repr` and `repr = value`"));
        }
        Ok(Text::Value)
    }
}

/// `#[module(skip)]`, `#[module(rename = "..")]`, `#[module(repr)]`.
#[derive(Default)]
struct Attributes {
    skip: bool,
    rename: Option<LitStr>,
    repr: Option<Text>,
}

impl Attributes {
    fn of(field: &Field) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    attributes.skip = true;
                } else if meta.path.is_ident("repr") {
                    attributes.repr = Some(Text::parse(&meta)?);
                } else if meta.path.is_ident("rename") {
                    let name: LitStr = meta.value()?.parse()?;
                    if name.value().is_empty() || name.value().contains('.') {
                        let message =
                            "a member's name is not empty and has no dot, which separates names in a path";
                        return Err(Error::new(name.span(), message));
                    }
                    attributes.rename = Some(name);
                } else {
                    let message = "unknown attribute: there are `skip`, `rename = \"..\"` and `repr`";
                    return Err(meta.error(message));
                }
                Ok(())
            })?;
        }
        Ok(attributes)
    }
}
