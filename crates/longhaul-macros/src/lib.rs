//! Attributes that are sugar over longhaul's builder, and nothing else: what they write, one could write by hand.
//!
//! Use them through `longhaul`, whose feature `macros` exports them.

mod function;
mod options;
mod prompt;
mod resource;
mod tool;

use proc_macro::TokenStream;

/// Makes a function a tool: see `longhaul::tool`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    tool::expand(options.into(), function.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a function a prompt: see `longhaul::prompt`.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, function: TokenStream) -> TokenStream {
    prompt::expand(options.into(), function.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}

/// Makes a function a resource, or a family of them: see `longhaul::resource`.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, function: TokenStream) -> TokenStream {
    resource::expand(options.into(), function.into())
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
