//! Signing in, as a client: what it asks whom, what it refuses to do, and how often it tries.

mod discovery;
mod grantor;
mod keeping;
mod person;
mod registering;
mod scopes;
mod strangers;
mod trust;

use grantor::{Grantor, Odd};
use longhaul::client::auth::{AuthError, OAuth};
use longhaul::client::{Client, Error, Options};
use person::Person;

/// A client of this server, with this user before it.
async fn connect(grantor: &Grantor, person: &Person) -> Result<Client, Error> {
    connect_with(grantor, OAuth::new().browser(person.clone())).await
}

async fn connect_with(grantor: &Grantor, oauth: OAuth) -> Result<Client, Error> {
    Client::connect_with(grantor.server().as_str(), Options::default().oauth(oauth)).await
}

/// Why no token was to be had.
fn why(error: Error) -> AuthError {
    match error {
        Error::NoAccess { cause, .. } => {
            cause.downcast_ref::<AuthError>().expect("an error of signing in").clone()
        }
        other => panic!("{other:?}"),
    }
}
