//! `#[resource]`: a function becomes a value that turns into a resource, or into a family of them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

use crate::function::Function;
use crate::options::Options;

const OPTIONS: [&str; 6] = ["uri", "name", "title", "description", "mime_type", "inline"];

pub(crate) fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options = Options::read(options, &OPTIONS)?;
    let function = Function::read(function)?;
    let ident = &function.item.sig.ident;
    let name = function.name(&options)?;
    let Some(uri) = options.text("uri")? else {
        return Err(Error::new(
            ident.span(),
            "say where it is found: `uri = \"app://status\"`, or a template of a family, `uri = \"db://{table}\"`",
        ));
    };
    let variables = variables(&uri);
    check(&function, &uri, &variables)?;
    let description = function.description(&options)?.map(|text| quote!(.description(#text)));
    let title = options.text("title")?.map(|title| quote!(.title(#title)));
    let mime_type = options.text("mime_type")?.map(|of| quote!(.mime_type(#of)));
    let value = function.value();
    let (running, needs) = (function.running(&options)?, function.needs());

    let (kind, made) = if variables.is_empty() {
        let new = function.builder(&quote!(::longhaul::server::Resource::new), &quote!(_));
        (quote!(Resource), quote!(#new(#uri, #name, |cx: ::longhaul::Cx| { #running })))
    } else {
        let (arguments, taken) = (function.arguments_type(), function.taken());
        let typed =
            function.builder(&quote!(::longhaul::server::ResourceTemplate::typed), &quote!(Arguments, _));
        let made = quote! {
            #arguments
            #typed(#uri, #name, |cx: ::longhaul::Cx, #taken| { #running })
        };
        (quote!(ResourceTemplate), made)
    };
    Ok(quote! {
        #value

        impl ::core::convert::From<#ident> for ::longhaul::server::#kind {
            fn from(_: #ident) -> Self {
                #made #title #description #mime_type #needs
            }
        }
    })
}

/// The names of the variables of a URI template (RFC 6570, 2.3).
fn variables(uri: &LitStr) -> Vec<String> {
    let text = uri.value();
    let expressions = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    expressions
        .flat_map(|(expression, _)| {
            let names = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
            names
                .split(',')
                .map(|name| name.split([':', '*']).next().unwrap_or(name).to_owned())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether the template's variables are the function's arguments.
fn check(function: &Function, uri: &LitStr, variables: &[String]) -> Result<()> {
    for argument in function.arguments() {
        if !variables.iter().any(|variable| argument.name == variable) {
            let name = &argument.name;
            return Err(Error::new(name.span(), format!("`{name}` is not among the variables of the URI")));
        }
    }
    for variable in variables {
        if !function.arguments().any(|argument| argument.name == variable) {
            return Err(Error::new(uri.span(), format!("no argument is named as the variable `{variable}`")));
        }
    }
    Ok(())
}
