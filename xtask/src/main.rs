//! Every check this repository runs, as `cargo xtask NAME`.

fn main() -> anyhow::Result<()> {
    anyhow::bail!("no checks yet")
}
