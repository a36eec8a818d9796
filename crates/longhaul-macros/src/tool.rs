//! `#[tool]`: a function becomes a value that turns into a tool.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Error, LitStr, Result, ReturnType};

use crate::function::{Argument, Function};
use crate::options::{Options, duration};

const OPTIONS: [&str; 12] = [
    "name",
    "title",
    "description",
    "task",
    "ttl",
    "hold",
    "limit",
    "join",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
];

pub(crate) fn expand(options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options = Options::read(options, &OPTIONS)?;
    let function = Function::read(function)?;
    if function.item.sig.asyncness.is_none() {
        return Err(Error::new(function.item.sig.fn_token.span, "a tool is an `async fn`"));
    }

    let ident = &function.item.sig.ident;
    if !unraw(ident).starts_with(|first: char| first.is_ascii_lowercase() || first == '_') {
        return Err(Error::new(
            ident.span(),
            "name the function in snake_case; `name = \"…\"` names the tool",
        ));
    }
    let visibility = &function.item.vis;
    let name = options.text("name")?.unwrap_or_else(|| LitStr::new(&unraw(ident), ident.span()));
    check_name(&name)?;
    let description = match options.text("description")? {
        Some(text) => text.value(),
        None => function.doc.clone(),
    };
    if description.is_empty() {
        return Err(Error::new(
            ident.span(),
            "a model chooses tools by their descriptions: write a doc comment, or `description = \"…\"`",
        ));
    }
    let title = options.text("title")?.map(|title| quote!(.title(#title)));
    let annotations = annotations(&options)?;
    let policy = policy(&options)?;

    let mut call = function.item.clone();
    call.sig.ident = syn::Ident::new("call", ident.span());
    call.vis = visibility.clone();
    let (kept, documented): (Vec<_>, Vec<_>) =
        std::mem::take(&mut call.attrs).into_iter().partition(|attribute| !attribute.path().is_ident("doc"));
    call.attrs = kept;

    let fields =
        function.arguments().map(|Argument { name, of, attributes }| quote!(#(#attributes)* #name: #of));
    let names = function.arguments().map(|Argument { name, .. }| name);
    let passed = function.passed();

    // An error about what is returned points to where it is written.
    let typed = {
        let span = match &function.item.sig.output {
            ReturnType::Default => ident.span(),
            ReturnType::Type(_, of) => of.span(),
        };
        quote_spanned!(span=> ::longhaul::Tool::typed)
    };

    Ok(quote! {
        #(#documented)*
        #[expect(non_camel_case_types, reason = "the tool keeps its function's name")]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #ident;

        impl #ident {
            /// What a call of the tool does.
            #call
        }

        impl ::core::convert::From<#ident> for ::longhaul::Tool {
            fn from(_: #ident) -> Self {
                #[derive(::longhaul::__private::serde::Deserialize, ::longhaul::__private::schemars::JsonSchema)]
                #[serde(crate = "::longhaul::__private::serde")]
                #[schemars(crate = "::longhaul::__private::schemars")]
                struct Arguments { #(#fields),* }
                #typed(#name, #description, |cx: ::longhaul::Cx, Arguments { #(#names),* }| {
                    // A tool that takes no context has no use for it.
                    let _ = &cx;
                    #ident::call(#(#passed),*)
                })
                #title #annotations #policy
            }
        }
    })
}

fn unraw(ident: &syn::Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
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
