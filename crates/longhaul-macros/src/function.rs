//! What a function says of itself: its doc comment, its context and its arguments.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, ItemFn, Lit, LitStr, Meta, Pat,
    PathArguments, PathSegment, Result, ReturnType, Type,
};

use crate::options::Options;

/// A function to be offered.
pub(crate) struct Function {
    /// As it was written, without what only the attribute reads.
    pub(crate) item: ItemFn,
    /// Its doc comment, one paragraph a line.
    pub(crate) doc: String,
    /// Its parameters, in order.
    pub(crate) parameters: Vec<Parameter>,
}

/// One parameter.
pub(crate) enum Parameter {
    /// The context of the call.
    Context,
    /// What the server's handlers share of this type.
    State(Box<Type>),
    /// An argument of the caller's.
    Argument(Box<Argument>),
}

/// One argument.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) of: Type,
    /// Its doc comment and what serde and schemars are to know.
    pub(crate) attributes: Vec<Attribute>,
}

impl Function {
    /// Reads a function.
    ///
    /// # Errors
    ///
    /// When it has what cannot be offered: a receiver, generics, a pattern as a parameter, or two contexts.
    pub(crate) fn read(tokens: TokenStream) -> Result<Self> {
        let mut item: ItemFn = syn::parse2(tokens)?;
        if let Some(generic) = item.sig.generics.params.first() {
            return Err(Error::new(
                generic.span(),
                "what is offered has one type of each argument: no generics",
            ));
        }
        let doc = doc(&item.attrs);
        let mut parameters = Vec::new();
        for input in &mut item.sig.inputs {
            parameters.push(parameter(input)?);
        }
        let contexts = parameters.iter().filter(|parameter| matches!(parameter, Parameter::Context)).count();
        if contexts > 1 {
            return Err(Error::new(item.sig.inputs.span(), "a call has one context: keep one `Cx`"));
        }
        Ok(Self { item, doc, parameters })
    }

    /// The arguments alone.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(argument) => Some(&**argument),
            Parameter::Context | Parameter::State(_) => None,
        })
    }

    /// Its name, as it is listed.
    pub(crate) fn name(&self, options: &Options) -> Result<LitStr> {
        let ident = &self.item.sig.ident;
        let unraw = ident.to_string().trim_start_matches("r#").to_owned();
        if !unraw.starts_with(|first: char| first.is_ascii_lowercase() || first == '_') {
            return Err(Error::new(
                ident.span(),
                "name the function in snake_case; `name = \"…\"` names what is offered",
            ));
        }
        Ok(options.text("name")?.unwrap_or_else(|| LitStr::new(&unraw, ident.span())))
    }

    /// What it says it is for, if it does.
    pub(crate) fn description(&self, options: &Options) -> Result<Option<String>> {
        let written = options.text("description")?.map(|text| text.value());
        Ok(Some(written.unwrap_or_else(|| self.doc.clone())).filter(|text| !text.is_empty()))
    }

    /// A builder's `new`, told what is returned where that can be said: so that an error about it stands where it is
    /// written, and not at the attribute. `inferred` are the builder's type parameters before it.
    pub(crate) fn builder(&self, new: &TokenStream, inferred: &TokenStream) -> TokenStream {
        let said = match &self.item.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, of) => Some(of).filter(|of| !is_hidden(of.to_token_stream())),
        };
        match said {
            Some(of) => quote_spanned!(of.span()=> #new::<#inferred, #of>),
            None => new.clone(),
        }
    }

    /// The value that takes the place of the function, which is then its `call`.
    pub(crate) fn value(&self) -> TokenStream {
        let (ident, visibility) = (&self.item.sig.ident, &self.item.vis);
        let mut call = self.item.clone();
        call.sig.ident = Ident::new("call", ident.span());
        let (documented, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut call.attrs)
            .into_iter()
            .partition(|attribute| attribute.path().is_ident("doc"));
        call.attrs = kept;
        quote! {
            #(#documented)*
            #[expect(non_camel_case_types, reason = "it keeps its function's name")]
            #[derive(Clone, Copy, Debug)]
            #visibility struct #ident;

            impl #ident {
                /// What is run.
                #call
            }
        }
    }

    /// The type that the arguments are read as, called `Arguments`.
    pub(crate) fn arguments_type(&self) -> TokenStream {
        let fields =
            self.arguments().map(|Argument { name, of, attributes }| quote!(#(#attributes)* #name: #of));
        quote! {
            #[derive(::longhaul::__private::serde::Deserialize, ::longhaul::__private::schemars::JsonSchema)]
            #[serde(crate = "::longhaul::__private::serde")]
            #[schemars(crate = "::longhaul::__private::schemars")]
            struct Arguments { #(#fields),* }
        }
    }

    /// The arguments, taken apart.
    pub(crate) fn taken(&self) -> TokenStream {
        let names = self.arguments().map(|argument| &argument.name);
        quote!(Arguments { #(#names),* })
    }

    /// The future of a call, where there is a `cx` and the arguments are taken apart. A plain function runs on the
    /// blocking pool, unless it is to run in place.
    pub(crate) fn running(&self, options: &Options) -> Result<TokenStream> {
        let ident = &self.item.sig.ident;
        let inline = options.flag("inline")?.unwrap_or(false);
        let mut shared = Vec::new();
        let mut passed = Vec::new();
        for parameter in &self.parameters {
            passed.push(match parameter {
                Parameter::Context => quote!(cx),
                Parameter::Argument(argument) => {
                    let name = &argument.name;
                    quote!(#name)
                }
                Parameter::State(of) => {
                    let name = format_ident!("__state_{}", shared.len());
                    shared.push(quote!(let #name = ::longhaul::__private::needed::<#of>(&cx);));
                    quote!(#name)
                }
            });
        }
        let call = match (self.item.sig.asyncness, inline) {
            (Some(asynchronous), true) => {
                return Err(Error::new(
                    asynchronous.span,
                    "an `async fn` is polled in place already: `inline` is for a plain `fn`",
                ));
            }
            (Some(_), false) => quote!(#ident::call(#(#passed),*)),
            (None, true) => quote!(::core::future::ready(#ident::call(#(#passed),*))),
            (None, false) => quote!(::longhaul::__private::blocking(move || #ident::call(#(#passed),*))),
        };
        Ok(quote! {
            // What takes no context has no use for it.
            let _ = &cx;
            #(#shared)*
            #call
        })
    }

    /// What it needs of the server, as its builder is told.
    pub(crate) fn needs(&self) -> TokenStream {
        let types = self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::State(of) => Some(of),
            Parameter::Context | Parameter::Argument(_) => None,
        });
        quote!(#(.needs::<#types>())*)
    }
}

fn parameter(input: &mut FnArg) -> Result<Parameter> {
    let FnArg::Typed(typed) = input else {
        return Err(Error::new(input.span(), "a function of its own can be offered, a method cannot"));
    };
    if is_context(&typed.ty) {
        return Ok(Parameter::Context);
    }
    if let Some(state) = last(&typed.ty).filter(|last| last.ident == "State") {
        return Ok(Parameter::State(Box::new(held(state)?)));
    }
    let Pat::Ident(name) = &*typed.pat else {
        return Err(Error::new(typed.pat.span(), "an argument needs a name: write `name: Type`"));
    };
    let (ours, theirs) = std::mem::take(&mut typed.attrs).into_iter().partition(is_ours);
    typed.attrs = theirs;
    let argument = Argument { name: name.ident.clone(), of: (*typed.ty).clone(), attributes: ours };
    Ok(Parameter::Argument(Box::new(argument)))
}

fn is_ours(attribute: &Attribute) -> bool {
    ["doc", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}

fn is_context(of: &Type) -> bool {
    last(of).is_some_and(|last| last.ident == "Cx")
}

fn last(of: &Type) -> Option<&PathSegment> {
    match of {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// Whether a type says `impl` somewhere, and so has no name.
fn is_hidden(of: TokenStream) -> bool {
    of.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "impl",
        TokenTree::Group(group) => is_hidden(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// What `State<…>` is the state of.
fn held(state: &PathSegment) -> Result<Type> {
    match &state.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(of)) if arguments.args.len() == 1 => Ok(of.clone()),
            _ => {
                Err(Error::new(state.span(), "write `State<T>`, where `T` is what `Server::state` was given"))
            }
        },
        _ => Err(Error::new(state.span(), "write `State<T>`, where `T` is what `Server::state` was given")),
    }
}

/// The words of a doc comment: lines of a paragraph are joined, as they would be shown.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let text: Vec<String> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    let paragraphs = text.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    paragraphs.filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join("\n\n")
}
