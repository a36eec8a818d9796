//! `#[prompt]`: a function becomes a value that turns into a prompt.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use crate::function::Function;
use crate::options::Options;

const OPTIONS: [&str; 4] = ["name", "title", "description", "inline"];

pub(crate) fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options = Options::read(options, &OPTIONS)?;
    let function = Function::read(function)?;
    let ident = &function.item.sig.ident;
    let name = function.name(&options)?;
    let Some(description) = function.description(&options)? else {
        return Err(Error::new(
            ident.span(),
            "people choose prompts by their descriptions: write a doc comment, or `description = \"…\"`",
        ));
    };
    let title = options.text("title")?.map(|title| quote!(.title(#title)));
    let (value, arguments, taken) = (function.value(), function.arguments_type(), function.taken());
    let (running, needs) = (function.running(&options)?, function.needs());
    let typed = function.builder(&quote!(::longhaul::server::Prompt::typed), &quote!(Arguments, _));

    Ok(quote! {
        #value

        impl ::core::convert::From<#ident> for ::longhaul::server::Prompt {
            fn from(_: #ident) -> Self {
                #arguments
                #typed(#name, #description, |cx: ::longhaul::Cx, #taken| { #running }) #title #needs
            }
        }
    })
}
