//! The tool: three people are asked, one after the other, and what all of them approve is ordered once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use longhaul::server::{Elicited, State, ToolError};
use longhaul::{Cx, Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Who has to approve, in this order.
const CHAIN: [&str; 3] = ["team_lead", "finance", "director"];

#[derive(Deserialize, JsonSchema)]
struct Decision {
    /// Whether it may be bought.
    approve: bool,
}

/// Buy something, once the team lead, finance and the director have approved it.
#[tool(task = "always", rerun = "resumable")]
async fn buy(cx: Cx, office: State<Office>, item: String, price: u64) -> Result<String, ToolError> {
    for person in CHAIN {
        let question = format!("To the {person}: may we buy {item} for {price}?");
        let key = cx.effect_key(("mail", person));
        cx.step(("mail", person), || office.put("mail", &question, &key)).await?;
        // Nothing of this task is in memory while somebody thinks about it, be it for a week.
        let decision = cx.elicit::<Decision>(question).key(person).await?;
        let Elicited::Accepted(Decision { approve: true }) = decision else {
            return Ok(format!("the {person} does not approve of {item}"));
        };
    }
    let key = cx.effect_key("order");
    cx.step("order", || office.put("orders", &item, &key)).await?;
    Ok(format!("{item} is ordered"))
}

/// The mail that goes out, and the orders: a file each, with a line for each.
struct Office(PathBuf);

impl Office {
    /// Does once what it is asked twice under a key, as a service does that takes such keys.
    async fn put(&self, file: &str, line: &str, key: &str) -> Result<(), ToolError> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(self.0.join(file))?;
        if !std::io::read_to_string(&file)?.contains(key) {
            writeln!(file, "{line} [{key}]")?;
        }
        Ok(())
    }
}

/// The server, whose mail and orders go here.
pub(crate) fn server(folder: &Path) -> Server {
    Server::new("purchasing", "1.0.0").state(Office(folder.to_owned())).tool(buy)
}
