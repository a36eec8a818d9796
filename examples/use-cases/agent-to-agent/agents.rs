//! Two servers: a traveller's, whose tool calls that of a hotel's as a client, and the hotel's.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::client::{CallOptions, Client, FileJournal, Options};
use longhaul::server::{State, ToolError};
use longhaul::{Cx, Server, tool};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Go somewhere for some nights: the hotel's own server is asked for a room.
#[tool(task = "always", rerun = "resumable")]
async fn travel(cx: Cx, hotel: State<Hotel>, city: String, nights: u32) -> Result<String, ToolError> {
    let name = cx.effect_key("book");
    let room = json!({ "city": city, "nights": nights });
    let booked = cx.step("book", || hotel.call("book_room", &room, &name)).await?;
    // What it came to is recorded here: the journal need not keep it any longer. If it does, the room is booked all the same.
    if let Err(error) = hotel.forget(&name).await {
        tracing::warn!(?error, "the journal keeps a call that is over");
    }
    Ok(format!("to {city}: {booked}"))
}

/// The other agent, and the journal of what it was asked.
struct Hotel {
    folder: PathBuf,
    client: OnceCell<Client>,
}

impl Hotel {
    /// Calls a tool of the hotel's, and waits for what comes of it, however long that takes. Called again under a name,
    /// by whichever process has the journal then, it goes on with the same call: that is the same task over there.
    async fn call(&self, tool: &str, arguments: &Value, name: &str) -> Result<String, ToolError> {
        let named = CallOptions::default().name(name);
        let result = self.client().await?.call_with(tool, arguments, named).await?;
        if result.is_error {
            return Err(ToolError::with_content(result.content));
        }
        Ok(result.content.iter().filter_map(|content| content.as_text()).collect())
    }

    /// Lets go of what is kept of a call.
    async fn forget(&self, name: &str) -> Result<(), ToolError> {
        Ok(self.client().await?.forget(name).await?)
    }

    async fn client(&self) -> Result<&Client, ToolError> {
        let connect = || async {
            let options = Options::default().journal(FileJournal::open(self.folder.join("calls"))?);
            let address = format!("unix:{}", self.folder.join("hotel/mcp").display());
            Ok(Client::connect_with(address.as_str(), options).await?)
        };
        self.client.get_or_try_init(connect).await
    }
}

/// The traveller's server; the hotel's is in its folder `hotel`.
pub(crate) fn traveller(folder: &Path) -> Server {
    let hotel = Hotel { folder: folder.to_owned(), client: OnceCell::new() };
    Server::new("traveller", "1.0.0").state(hotel).tool(travel)
}

/// Book a room. The reception confirms it, once somebody is there.
#[tool(task = "always", rerun = "resumable")]
async fn book_room(
    cx: Cx,
    reception: State<Reception>,
    city: String,
    nights: u32,
) -> Result<String, ToolError> {
    cx.status("waits for the reception to open");
    cx.step("confirm", || reception.confirm(&city, nights)).await
}

/// The book of the reception, which is open once there is a file `open` beside it.
struct Reception(PathBuf);

impl Reception {
    async fn confirm(&self, city: &str, nights: u32) -> Result<String, ToolError> {
        while !self.0.join("open").exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut book = OpenOptions::new().create(true).append(true).open(self.0.join("bookings"))?;
        writeln!(book, "{city}, {nights} nights")?;
        Ok(format!("a room for {nights} nights"))
    }
}

/// The hotel's server.
pub(crate) fn hotel(folder: &Path) -> Server {
    Server::new("hotel", "1.0.0").state(Reception(folder.to_owned())).tool(book_room)
}
