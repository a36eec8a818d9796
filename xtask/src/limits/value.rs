//! The value of a constant, as one writes it.

use anyhow::{Result, bail};
use syn::{BinOp, Expr, Lit};

/// Reads products, shifts and durations, which is all that limits are made of.
///
/// # Errors
///
/// When it is anything else.
pub(super) fn written(expr: &Expr) -> Result<String> {
    let call = match expr {
        Expr::Call(call) => call,
        // What is counted is written as a number; what has a size, as a product or a shift.
        Expr::Lit(_) => return Ok(number(expr)?.to_string()),
        _ => return Ok(amount(number(expr)?)),
    };
    let (Expr::Path(path), Some(argument)) = (&*call.func, call.args.first()) else { bail!("no value") };
    let unit = path.path.segments.last().map(|segment| segment.ident.to_string());
    match unit.as_deref() {
        Some("from_secs") => Ok(time(number(argument)? * 1000)),
        Some("from_millis") => Ok(time(number(argument)?)),
        _ => bail!("neither a number nor a duration"),
    }
}

fn number(expr: &Expr) -> Result<u64> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) => Ok(int.base10_parse()?),
            _ => bail!("no number"),
        },
        Expr::Paren(inside) => number(&inside.expr),
        Expr::Binary(both) => {
            let (left, right) = (number(&both.left)?, number(&both.right)?);
            let value = match both.op {
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Shl(_) => u32::try_from(right).ok().and_then(|by| left.checked_shl(by)),
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                _ => None,
            };
            value.map_or_else(|| bail!("a number that is not worked out here"), Ok)
        }
        _ => bail!("no number"),
    }
}

/// With the largest unit of powers of two that leaves a whole number, from kibibytes on.
fn amount(number: u64) -> String {
    for (bits, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if number >= 1 << bits && number.is_multiple_of(1 << bits) {
            return format!("{} {unit}", number >> bits);
        }
    }
    number.to_string()
}

/// With the largest unit that leaves a whole number.
fn time(millis: u64) -> String {
    for (long, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")] {
        if millis >= long && millis.is_multiple_of(long) {
            return format!("{} {unit}", millis / long);
        }
    }
    format!("{millis} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_their_largest_units() {
        for (code, text) in [
            ("64 << 20", "64 MiB"),
            ("128 * 1024 - 1024", "127 KiB"),
            ("500", "500"),
            ("1024", "1024"),
            ("Duration::from_secs(7 * 24 * 60 * 60)", "7 d"),
            ("Duration::from_secs(90)", "90 s"),
            ("Duration::from_millis(50)", "50 ms"),
        ] {
            assert_eq!(written(&syn::parse_str(code).unwrap()).unwrap(), text, "{code}");
        }
        assert!(written(&syn::parse_str("other()").unwrap()).is_err());
    }
}
