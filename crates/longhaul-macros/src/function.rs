//! What a function says of itself: its doc comment, its context and its arguments.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, Meta, Pat, Result, Type};

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
            Parameter::Context => None,
        })
    }

    /// What the function is called with: the context as `cx`, each argument by its name.
    pub(crate) fn passed(&self) -> impl Iterator<Item = TokenStream> {
        self.parameters.iter().map(|parameter| match parameter {
            Parameter::Context => quote!(cx),
            Parameter::Argument(argument) => {
                let name = &argument.name;
                quote!(#name)
            }
        })
    }
}

fn parameter(input: &mut FnArg) -> Result<Parameter> {
    let FnArg::Typed(typed) = input else {
        return Err(Error::new(input.span(), "a function of its own can be offered, a method cannot"));
    };
    if is_context(&typed.ty) {
        return Ok(Parameter::Context);
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
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Cx"))
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
