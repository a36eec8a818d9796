//! What stands in the brackets of an attribute.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser as _;
use syn::{
    Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, MetaNameValue, Path, Result, Token,
    punctuated::Punctuated,
};

/// `name = value` and `name`, in any order.
pub(crate) struct Options(Vec<(Ident, Option<Expr>)>);

impl Options {
    /// Reads what stands in the brackets, of which every name must be `known` and stand once.
    ///
    /// # Errors
    ///
    /// Naming what is unknown, doubled or no option at all.
    pub(crate) fn read(tokens: TokenStream, known: &[&str]) -> Result<Self> {
        let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(tokens)?;
        let mut options: Vec<(Ident, Option<Expr>)> = Vec::new();
        for meta in metas {
            let (path, value) = match meta {
                Meta::Path(path) => (path, None),
                Meta::NameValue(MetaNameValue { path, value, .. }) => (path, Some(value)),
                Meta::List(list) => return Err(Error::new_spanned(list, "write `name = value`")),
            };
            let name = named(&path)?;
            if !known.contains(&name.to_string().as_str()) {
                let all = known.join("`, `");
                return Err(Error::new(name.span(), format!("unknown option `{name}`: there are `{all}`")));
            }
            if options.iter().any(|(other, _)| *other == name) {
                return Err(Error::new(name.span(), format!("`{name}` stands here twice")));
            }
            options.push((name, value));
        }
        Ok(Self(options))
    }

    fn find(&self, name: &str) -> Option<&(Ident, Option<Expr>)> {
        self.0.iter().find(|(known, _)| known == name)
    }

    /// The text of `name = "…"`.
    pub(crate) fn text(&self, name: &str) -> Result<Option<LitStr>> {
        let Some((name, value)) = self.find(name) else { return Ok(None) };
        match value {
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Ok(Some(text.clone())),
            _ => Err(Error::new(name.span(), format!("write `{name} = \"…\"`"))),
        }
    }

    /// Whether `name` or `name = true` stands here, or `name = false`.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        let Some((name, value)) = self.find(name) else { return Ok(None) };
        match value {
            None => Ok(Some(true)),
            Some(Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. })) => Ok(Some(flag.value)),
            Some(_) => Err(Error::new(name.span(), format!("write `{name}`, or `{name} = false`"))),
        }
    }

    /// The number of `name = 1`, at least one.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>> {
        let Some((name, value)) = self.find(name) else { return Ok(None) };
        if let Some(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) = value
            && let Ok(count @ 1..) = number.base10_parse()
        {
            return Ok(Some(count));
        }
        Err(Error::new(name.span(), format!("write `{name} = 1` or more")))
    }

    /// The duration of `name = "2s"`, as an expression.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<TokenStream>> {
        self.text(name)?.map(|text| duration(&text, &text.value())).transpose()
    }
}

fn named(path: &Path) -> Result<Ident> {
    path.get_ident().cloned().ok_or_else(|| Error::new_spanned(path, "an option is one word"))
}

/// A whole number and one of `ms`, `s`, `m`, `h`, `d`, as an expression; `at` is what an error points to.
pub(crate) fn duration(at: &LitStr, text: &str) -> Result<TokenStream> {
    const UNITS: [(&str, u64); 5] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let milliseconds = UNITS
        .iter()
        .find(|(name, _)| *name == unit.trim())
        .and_then(|(_, each)| number.parse::<u64>().ok()?.checked_mul(*each));
    match milliseconds {
        Some(milliseconds) => Ok(quote!(::core::time::Duration::from_millis(#milliseconds))),
        None => Err(Error::new(
            at.span(),
            "write a duration such as \"500ms\", \"2s\", \"10m\", \"24h\" or \"7d\"",
        )),
    }
}
