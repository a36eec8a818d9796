//! `#[tool]`: a function becomes a value that turns into a tool.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

use crate::function::Function;
use crate::options::{Options, duration};

const OPTIONS: [&str; 17] = [
    "name",
    "title",
    "description",
    "task",
    "rerun",
    "cancel",
    "version",
    "accepts",
    "ttl",
    "hold",
    "limit",
    "join",
    "inline",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
];

pub(crate) fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options = Options::read(options, &OPTIONS)?;
    let function = Function::read(function)?;
    let ident = &function.item.sig.ident;
    let name = function.name(&options)?;
    check_name(&name)?;
    let Some(description) = function.description(&options)? else {
        return Err(Error::new(
            ident.span(),
            "a model chooses tools by their descriptions: write a doc comment, or `description = \"…\"`",
        ));
    };
    let title = options.text("title")?.map(|title| quote!(.title(#title)));
    let version = options.text("version")?.map(|version| quote!(.version(#version)));
    let accepts = options.text("accepts")?.map(|accepts| quote!(.accepts(#accepts)));
    let (annotations, policy) = (annotations(&options)?, policy(&options)?);
    let (value, arguments, taken) = (function.value(), function.arguments_type(), function.taken());
    let (running, needs) = (function.running(&options)?, function.needs());
    let typed = function.builder(&quote!(::longhaul::Tool::typed), &quote!(Arguments, _));

    Ok(quote! {
        #value

        impl ::core::convert::From<#ident> for ::longhaul::Tool {
            fn from(_: #ident) -> Self {
                #arguments
                #typed(#name, #description, |cx: ::longhaul::Cx, #taken| { #running })
                    #title #annotations #policy #version #accepts #needs
            }
        }
    })
}

fn check_name(name: &LitStr) -> Result<()> {
    let value = name.value();
    let fits = (1..=128).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    if fits {
        return Ok(());
    }
    Err(Error::new(
        name.span(),
        "a tool's name is 1 to 128 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`",
    ))
}

fn annotations(options: &Options) -> Result<Option<TokenStream>> {
    let mut set = Vec::new();
    for (option, field) in [
        ("read_only", quote!(read_only_hint)),
        ("destructive", quote!(destructive_hint)),
        ("idempotent", quote!(idempotent_hint)),
        ("open_world", quote!(open_world_hint)),
    ] {
        if let Some(value) = options.flag(option)? {
            set.push(quote!(annotations.#field = ::core::option::Option::Some(#value);));
        }
    }
    Ok((!set.is_empty()).then(|| {
        quote! {
            .annotations({
                let mut annotations = ::longhaul::proto::model::ToolAnnotations::default();
                #(#set)*
                annotations
            })
        }
    }))
}

fn policy(options: &Options) -> Result<Option<TokenStream>> {
    let never = quote!(::longhaul::server::TaskPolicy::new(::longhaul::server::TaskMode::Never));
    let task = options.text("task")?;
    let mode = task.as_ref().map(mode).transpose()?;
    let mut set = Vec::new();
    if let Some(ttl) = options.duration("ttl")? {
        set.push(quote!(policy.ttl = #ttl;));
    }
    if let Some(hold) = options.duration("hold")? {
        set.push(quote!(policy.hold = ::core::option::Option::Some(#hold);));
    }
    if let Some(rerun) = options.text("rerun")? {
        let rerun = match rerun.value().trim() {
            "never" => quote!(Never),
            "resumable" => quote!(Resumable),
            "restart" => quote!(Restart),
            _ => {
                return Err(Error::new(
                    rerun.span(),
                    "write \"never\", \"resumable\" for work that does what it does in steps, or \"restart\"",
                ));
            }
        };
        set.push(quote!(policy.rerun = ::longhaul::store::Rerun::#rerun;));
    }
    if let Some(cancel) = options.text("cancel")? {
        let cancel = cancel_policy(&cancel)?;
        set.push(quote!(policy.cancel = ::longhaul::server::CancelPolicy::#cancel;));
    }
    if let Some(limit) = options.count("limit")? {
        set.push(quote!(policy.limit = ::core::option::Option::Some(#limit);));
    }
    if let Some(join) = options.flag("join")? {
        set.push(quote!(policy.join = #join;));
    }
    Ok(match (mode, set.as_slice()) {
        (None, []) => None,
        (Some(policy), []) => Some(quote!(.task(#policy))),
        (mode, set) => {
            let policy = mode.unwrap_or(never);
            Some(quote! {
                .task({
                    let mut policy = #policy;
                    #(#set)*
                    policy
                })
            })
        }
    })
}

fn cancel_policy(cancel: &LitStr) -> Result<TokenStream> {
    let value = cancel.value();
    match value.trim() {
        "immediate" => Ok(quote!(Immediate)),
        "cooperative" => Ok(quote!(cooperative())),
        other => match other.strip_prefix("cooperative ") {
            Some(grace) => {
                let grace = duration(cancel, grace)?;
                Ok(quote!(Cooperative { grace: #grace }))
            }
            None => Err(Error::new(
                cancel.span(),
                "write \"immediate\", or \"cooperative\" and perhaps a duration, as \"cooperative 30s\"",
            )),
        },
    }
}

fn mode(task: &LitStr) -> Result<TokenStream> {
    let policy = |mode| quote!(::longhaul::server::TaskPolicy::new(::longhaul::server::TaskMode::#mode));
    let value = task.value();
    match value.trim() {
        "never" => Ok(policy(quote!(Never))),
        "required" => Ok(policy(quote!(Required))),
        "always" => Ok(quote!(::longhaul::server::TaskPolicy::always())),
        other => match other.strip_prefix("after ") {
            Some(after) => {
                let after = duration(task, after)?;
                Ok(policy(quote!(After(#after))))
            }
            None => Err(Error::new(
                task.span(),
                "write \"never\", \"always\", \"required\" or \"after\" and a duration, as \"after 2s\"",
            )),
        },
    }
}
