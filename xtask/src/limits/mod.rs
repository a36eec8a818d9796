//! The page of limits: what the code says of each, and what `xtask/limits.toml` says becomes of what goes beyond it.

mod value;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use syn::{Attribute, Fields, Item, ItemConst, Type};

use crate::tally::Tally;

/// What the code does not say.
pub(crate) const TABLE: &str = "xtask/limits.toml";

/// Where the page is.
pub(crate) const PAGE: &str = "LIMITS.md";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// What stands before the tables.
    head: String,
    part: Vec<Part>,
}

/// Limits that stand together in the code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    title: String,
    /// How they are set.
    how: String,
    file: String,
    /// The type whose fields they are: every number and every duration of it. Without one they are constants.
    of: Option<String>,
    rows: BTreeMap<String, Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What it is called, where the code's name says little.
    name: Option<String>,
    /// What it bounds, where the code says it to its writers alone.
    says: Option<String>,
    /// Where a configuration says it.
    toml: Option<String>,
    /// What becomes of what goes beyond it.
    beyond: String,
}

/// A limit as the code has it.
struct Found {
    name: String,
    says: String,
    value: String,
}

/// Writes the page.
///
/// # Errors
///
/// As [`page`], and when it cannot be written.
pub(crate) fn write(root: &Path) -> Result<Tally> {
    let page = page(|path| fs::read_to_string(root.join(path)).ok())?;
    fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(Tally::one(true))
}

/// The page, from files that `read` reads.
///
/// # Errors
///
/// When the table cannot be read, a limit of it is not in the code, or one of the code is not in it.
pub(crate) fn page(read: impl Fn(&str) -> Option<String>) -> Result<String> {
    let file = |path: &str| read(path).with_context(|| format!("there is no {path}"));
    let table: Table = toml::from_str(&file(TABLE)?).with_context(|| format!("cannot read {TABLE}"))?;
    let mut page = format!(
        "<!-- Written by `cargo xtask limits` from the code and {TABLE}: change those. -->\n\n{}",
        table.head
    );
    for part in &table.part {
        let code =
            syn::parse_file(&file(&part.file)?).with_context(|| format!("cannot read {}", part.file))?;
        let found = match &part.of {
            Some(of) => fields(&code.items, of).with_context(|| format!("no {of} in {}", part.file))?,
            None => constants(&code.items, &part.rows)?,
        };
        part.write(&found, &mut page)?;
    }
    Ok(page)
}

impl Part {
    fn write(&self, found: &[Found], page: &mut String) -> Result<()> {
        let lacks = |name: &String| !found.iter().any(|limit| limit.name == *name);
        if let Some(gone) = self.rows.keys().find(|name| lacks(name)) {
            bail!("{gone} of {TABLE} is not in {}", self.file);
        }
        let _ = write!(page, "\n## {}\n\n{}\n\n", self.title, self.how);
        page.push_str("| name | what | default | in a configuration | beyond it |\n|---|---|---|---|---|\n");
        for Found { name, says, value } in found {
            let Some(row) = self.rows.get(name) else {
                bail!("{name} of {} is not in {TABLE}: say what becomes of what goes beyond it", self.file);
            };
            let name = row.name.as_ref().map_or_else(|| format!("`{name}`"), Clone::clone);
            let says = row.says.as_deref().unwrap_or(says);
            let toml = row.toml.as_ref().map_or_else(String::new, |key| format!("`{key}`"));
            let _ = writeln!(page, "| {name} | {says} | {value} | {toml} | {} |", row.beyond);
        }
        Ok(())
    }
}

/// The fields of a type that bound something.
fn fields(items: &[Item], of: &str) -> Option<Vec<Found>> {
    let Fields::Named(fields) = items.iter().find_map(|item| match item {
        Item::Struct(item) if item.ident == of => Some(&item.fields),
        _ => None,
    })?
    else {
        return None;
    };
    let bounds = fields.named.iter().filter(|field| is_bound(&field.ty));
    let found = bounds.filter_map(|field| {
        let (says, value) = documented(&doc(&field.attrs));
        Some(Found { name: field.ident.as_ref()?.to_string(), says, value })
    });
    Some(found.collect())
}

/// Whether a field of this type is a number or a duration, or one that can be left open.
fn is_bound(ty: &Type) -> bool {
    const NUMBERS: [&str; 6] = ["usize", "u64", "u32", "u16", "NonZeroU32", "Duration"];
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match &last.arguments {
        syn::PathArguments::AngleBracketed(inside) if last.ident == "Option" => {
            inside.args.iter().any(|one| matches!(one, syn::GenericArgument::Type(ty) if is_bound(ty)))
        }
        _ => NUMBERS.iter().any(|number| last.ident == number),
    }
}

/// The constants that the table names.
fn constants(items: &[Item], rows: &BTreeMap<String, Row>) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for item in all_constants(items) {
        let name = item.ident.to_string();
        if rows.contains_key(&name) {
            let value = value::written(&item.expr).with_context(|| format!("cannot read {name}"))?;
            found.push(Found { name, says: doc(&item.attrs), value });
        }
    }
    Ok(found)
}

/// Those of modules and of types too.
fn all_constants(items: &[Item]) -> Vec<ItemConst> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Const(item) => all.push(item.clone()),
            Item::Mod(module) => {
                all.extend(module.content.iter().flat_map(|(_, items)| all_constants(items)))
            }
            Item::Impl(block) => {
                all.extend(block.items.iter().filter_map(|item| match item {
                    syn::ImplItem::Const(item) => {
                        let (attrs, ident) = (item.attrs.clone(), item.ident.clone());
                        let (ty, expr) = (Box::new(item.ty.clone()), Box::new(item.expr.clone()));
                        Some(ItemConst {
                            attrs,
                            vis: item.vis.clone(),
                            modifiers: item.modifiers.clone(),
                            const_token: item.const_token,
                            ident,
                            generics: item.generics.clone(),
                            colon_token: item.colon_token,
                            ty,
                            eq_token: item.eq_token,
                            expr,
                            semi_token: item.semi_token,
                        })
                    }
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    all
}

/// The lines of a documentation comment as one.
fn doc(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
                Some(text.value().trim().to_owned())
            }
            _ => None,
        },
        _ => None,
    };
    let text = attributes.iter().filter_map(line).collect::<Vec<_>>().join(" ");
    plain(&text)
}

/// Links as the words they stand on: where they lead is for readers of the code.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, after)) = link.split_once(']') else { break };
        out.push_str(before);
        out.push_str(words);
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    out + rest
}

/// What a comment says, and what it says is the default.
fn documented(text: &str) -> (String, String) {
    let Some((before, after)) = text.split_once("Default ") else { return (text.to_owned(), String::new()) };
    let (value, rest) = after.split_once(". ").unwrap_or_else(|| (after.trim_end_matches('.'), ""));
    (format!("{before}{rest}").trim().to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Limits {\n/// The most of [all](Self). Default 4 MiB, or so. It is much.\npub max: usize,\n\
        /// A name.\npub name: String,\n/// How long.\npub wait: Option<Duration>,\n}\n\
        impl Limits { /// The longest.\nconst LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60); }";

    fn page_of(rows: &str) -> Result<String> {
        let table = format!("head = \"Head.\\n\"\n{rows}");
        page(|path| Some(if path == TABLE { table.clone() } else { CODE.to_owned() }))
    }

    const PART: &str = "[[part]]\ntitle = \"T\"\nhow = \"so\"\nfile = \"a.rs\"\n";

    #[test]
    fn fields_and_constants_become_rows() {
        let page = page_of(&format!(
            "{PART}of = \"Limits\"\nrows.max = {{ beyond = \"413\", toml = \"[http] max\" }}\nrows.wait = {{ beyond = \"x\" }}\n\
             {PART}rows.LONGEST = {{ name = \"the longest\", beyond = \"cut\" }}\n"
        ))
        .unwrap();
        let row = "| `max` | The most of all. It is much. | 4 MiB, or so | `[http] max` | 413 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("| the longest | The longest. | 7 d |  | cut |"), "{page}");
    }

    #[test]
    fn every_number_has_its_row_and_every_row_its_number() {
        let one = page_of(&format!("{PART}of = \"Limits\"\nrows.max = {{ beyond = \"413\" }}\n"));
        assert!(one.unwrap_err().to_string().contains("wait of a.rs is not in"));
        let gone = page_of(&format!("{PART}rows.GONE = {{ beyond = \"x\" }}\n"));
        assert!(gone.unwrap_err().to_string().contains("GONE of xtask/limits.toml is not in a.rs"));
    }
}
