//! A tool that asks its caller's user: to fill in a form, and to pay on a page. See README.md.

use longhaul::proto::model::ElicitUrl;
use longhaul::server::{Elicited, ToolError};
use longhaul::{Cx, Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Meal {
    Lunch,
    Dinner,
}

/// What the user is asked for: each field is one of the form's.
#[derive(Deserialize, JsonSchema)]
struct Table {
    /// For how many people.
    #[schemars(range(min = 1, max = 12))]
    people: u8,
    /// For which meal.
    meal: Meal,
    /// Where the sun is.
    #[serde(default)]
    outside: bool,
}

/// Book a table at a restaurant.
#[tool]
async fn book(cx: Cx, restaurant: String) -> Result<String, ToolError> {
    let table = cx.elicit::<Table>(format!("A table at {restaurant}, for whom and when?")).await?;
    let Elicited::Accepted(Table { people, meal, outside }) = table else {
        return Ok("no table was booked".to_owned());
    };
    let id = format!("deposit-{restaurant}");
    let page = format!("https://pay.example.com/{restaurant}");
    let deposit = ElicitUrl::new("The restaurant asks for a deposit.", page, &id);
    let Elicited::Accepted(()) = cx.elicit_url(deposit).await? else {
        return Ok("no table was booked: there was no deposit".to_owned());
    };
    // That they went there does not say that they paid: a restaurant would wait here until it is told so.
    cx.elicitation_complete(&id).await;
    let meal = match meal {
        Meal::Lunch => "lunch",
        Meal::Dinner => "dinner",
    };
    let place = if outside { "outside" } else { "inside" };
    Ok(format!("{restaurant}: a table for {people} {place}, for {meal}"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(Server::new("tables", "1.0.0").tool(book).serve_stdio().await?)
}
