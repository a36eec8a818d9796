//! Authorizing: what a client asks for is shown to its user, who then signs in upstream and is sent back with a code.
//!
//! Three requests, all from one browser: it is shown the page, it approves, it comes back. What each needs of the one
//! before travels with the browser, sealed, half in a cookie and half in the form or the `state`: whoever has but
//! one half is in another browser, and goes no further.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::answer::{self, Answer, escaped, refusal};
use super::client::{Client, Source};
use super::form::Form;
use super::token::Code;
use super::upstream::{Identity, Round, UpstreamError};
use super::vault::{Kind, Purpose, digest, secret};
use super::{Broker, cookie, redirect};
use crate::server::Scopes;

/// What a client asks for, once it is known to be its own to ask.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Request {
    pub(super) client: String,
    pub(super) redirect: String,
    pub(super) challenge: String,
    pub(super) state: Option<String>,
    pub(super) scopes: String,
}

/// A page that was shown.
#[derive(Debug, Deserialize, Serialize)]
struct Shown {
    page: String,
    request: Request,
}

/// The browser that it was shown to.
#[derive(Debug, Deserialize, Serialize)]
struct Browser {
    page: String,
    client: String,
}

/// Somebody on the way upstream.
#[derive(Debug, Deserialize, Serialize)]
struct SignIn {
    request: Request,
    state: String,
    nonce: String,
    verifier: String,
    /// Who approved the client before, if nobody was asked again.
    approved_by: Option<String>,
    /// The page that it was approved on: until the user comes back, it may be gone back to.
    #[serde(default)]
    page: Option<String>,
}

/// What a browser has approved: which client for what, and who did.
#[derive(Debug, Deserialize, Serialize)]
struct Approval {
    what: String,
    who: String,
}

/// How long a page, and a sign-in, may take.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How long an approval holds, and how many a browser keeps.
const APPROVED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const MAX_APPROVED: usize = 16;

/// The longest `state` of a client: it has to fit into a cookie with the rest.
const LONGEST_STATE: usize = 1024;

const APPROVED: &str = "approved";

/// What to tell a client (RFC 6749, 4.1.2.1).
type Failure = (&'static str, &'static str);

impl Request {
    /// What stands in a client's request.
    fn read(broker: &Broker, client: &Client, redirect: &str, form: &Form) -> Result<Self, Failure> {
        if form.get("response_type") != Some("code") {
            return Err(("unsupported_response_type", "It asks for another answer than a code."));
        }
        let challenge = form.get("code_challenge").unwrap_or_default();
        let is_digest = challenge.len() == 43
            && challenge.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if !is_digest || form.get("code_challenge_method") != Some("S256") {
            return Err(("invalid_request", "It does not protect its code: PKCE with S256 is needed."));
        }
        if form.get("resource").is_some_and(|resource| !broker.resource.is(resource)) {
            return Err(("invalid_target", "It wants access to another server than this one."));
        }
        let state = form.get("state").map(str::to_owned);
        if state.as_ref().is_some_and(|state| state.len() > LONGEST_STATE) {
            return Err(("invalid_request", "Its `state` is too long."));
        }
        let scopes = match form.get("scope") {
            None => broker.required.clone(),
            // Whether to come back without its user is not this server's to allow: every grant can be refreshed.
            Some(text) => text.split(' ').filter(|scope| *scope != "offline_access").collect::<Scopes>(),
        };
        if !broker.scopes.contains_all(&scopes) {
            return Err(("invalid_scope", "It asks for more than this server gives."));
        }
        let (client, redirect) = (client.handle.clone(), redirect.to_owned());
        Ok(Self { client, redirect, challenge: challenge.to_owned(), state, scopes: scopes.to_string() })
    }

    /// Sends the browser back to the client, which learns whom it is sent by (RFC 9207).
    fn answer(
        &self,
        broker: &Broker,
        says: &[(&str, &str)],
        cookies: Vec<Option<http::HeaderValue>>,
    ) -> Answer {
        answer::redirect(&self.address(broker, says), cookies)
    }

    fn address(&self, broker: &Broker, says: &[(&str, &str)]) -> String {
        let Ok(mut url) = reqwest::Url::parse(&self.redirect) else { return self.redirect.clone() };
        url.query_pairs_mut()
            .extend_pairs(says)
            .extend_pairs(self.state.as_ref().map(|state| ("state", state)))
            .append_pair("iss", &broker.issuer);
        url.into()
    }

    /// What an approval of it is for; `None` when none may be remembered: a program on the user's machine is
    /// whichever happens to listen there (RFC 8252, 8.6).
    fn approval(&self) -> Option<String> {
        let told = [&self.client, &self.redirect, &self.scopes];
        let text = serde_json::to_string(&told).ok()?;
        (!redirect::is_local(&self.redirect)).then(|| digest(&text))
    }
}

impl SignIn {
    /// What ends the cookies of it and of its page.
    fn over(&self, cookie_name: &str) -> Vec<Option<http::HeaderValue>> {
        let page = self.page.as_ref().and_then(|page| cookie::end(&format!("page-{page}")));
        vec![cookie::end(cookie_name), page]
    }
}

impl Broker {
    /// `GET /authorize`: from a client, by way of its user's browser.
    pub(super) async fn authorize(&self, query: &str, headers: &HeaderMap) -> Answer {
        let bad = |what: &str| refusal(StatusCode::BAD_REQUEST, what);
        let Some(form) = Form::parse(query.as_bytes()) else {
            return bad("The program that sent you here says one thing twice.");
        };
        let client = match self.client(form.get("client_id").unwrap_or_default()).await {
            Ok(client) => client,
            Err(what) => return bad(what),
        };
        // Until it is known to be the client's own, nobody is sent anywhere.
        let Some(redirect) = form.get("redirect_uri").filter(|asked| client.may_return_to(asked)) else {
            return bad(
                "The program that sent you here wants you sent on to an address that it did not register.",
            );
        };
        let request = match Request::read(self, &client, redirect, &form) {
            Ok(request) => request,
            Err(failure) => return self.explain(&client, redirect, &form, failure),
        };
        if let Some(approval) = self.approval(&request, headers) {
            return self.sign_in(request, Some(approval.who), None).await;
        }
        self.ask(&client, request)
    }

    /// Says what is wrong. Whoever wants to go back follows a link: nobody who has approved nothing is sent to an
    /// address that a stranger chose.
    fn explain(&self, client: &Client, redirect: &str, form: &Form, (code, what): Failure) -> Answer {
        let state = form.get("state").map(str::to_owned);
        let request = Request {
            client: client.handle.clone(),
            redirect: redirect.to_owned(),
            challenge: String::new(),
            state,
            scopes: String::new(),
        };
        let back = request.address(self, &[("error", code), ("error_description", what)]);
        let content = format!(
            "<p>{}</p><p><a rel=\"noreferrer\" href=\"{}\">Go back to {}</a></p>",
            escaped(what),
            escaped(&back),
            escaped(&redirect::host(redirect))
        );
        answer::page(StatusCode::BAD_REQUEST, "This sign-in cannot go on", &content)
    }

    /// The page on which the user decides. Each has a cookie of its own, so that any number may be open.
    fn ask(&self, client: &Client, request: Request) -> Answer {
        let page = secret()[..16].to_owned();
        let browser = Browser { page: page.clone(), client: request.client.clone() };
        let content = self.question(client, &request);
        let shown = Shown { page: page.clone(), request };
        let form = self.vault.seal(Purpose::Consent, &shown, PATIENCE);
        let cookie = self.vault.seal(Purpose::Browser, &browser, PATIENCE);
        let cookie = cookie.and_then(|value| cookie::set(&format!("page-{page}"), &value, PATIENCE));
        let (Some(form), Some(cookie)) = (form, cookie) else {
            return refusal(StatusCode::BAD_REQUEST, "What the program asks for is too long.");
        };
        let content = format!(
            "{content}<form method=\"post\" action=\"/authorize/consent\">\
             <input type=\"hidden\" name=\"transaction\" value=\"{form}\">\
             <button name=\"decision\" value=\"approve\">Allow</button>\
             <button name=\"decision\" value=\"deny\">Deny</button></form>"
        );
        let mut answer =
            answer::page(StatusCode::OK, &format!("Allow access to {}?", self.resource.as_str()), &content);
        answer.headers_mut().append(http::header::SET_COOKIE, cookie);
        answer
    }

    /// Who asks, for what, and where the answer goes.
    fn question(&self, client: &Client, request: &Request) -> String {
        let who = match client.source {
            Source::Operator => "The operator of this server knows it.".to_owned(),
            Source::Itself => "It chose this name itself; nobody has checked it.".to_owned(),
            Source::Document => format!("It says who it is at <code>{}</code>.", escaped(&client.handle)),
        };
        let host = escaped(&redirect::host(&request.redirect));
        let local = if redirect::is_local(&request.redirect) {
            "<p class=\"warning\">That is a program on your own machine. Any program there could ask like this: go on \
             only if you have just started to sign in with it yourself.</p>"
        } else {
            ""
        };
        let scopes = |text: &str| {
            let all: Vec<String> =
                text.split(' ').map(|scope| format!("<code>{}</code>", escaped(scope))).collect();
            if text.is_empty() { "nothing in particular".to_owned() } else { all.join(", ") }
        };
        format!(
            "<p><b>{name}</b> wants to act for you. {who}</p>\
             <p>If you allow it, you are sent to</p><p class=\"host\">{host}</p><p><code>{redirect}</code></p>{local}\
             <p>It may then use: {scopes}</p>\
             <p>You sign in at <code>{upstream}</code>, where this server asks for: {upstream_scopes}</p>",
            name = escaped(&client.name),
            redirect = escaped(&request.redirect),
            scopes = scopes(&request.scopes),
            upstream = escaped(&self.upstream.of.issuer),
            upstream_scopes = scopes(&self.upstream.of.scope),
        )
    }

    /// `POST /authorize/consent`: the user has decided.
    pub(super) async fn decide(&self, body: &[u8], headers: &HeaderMap) -> Answer {
        let foreign = || {
            refusal(
                StatusCode::FORBIDDEN,
                "This was not asked in this browser, or too long ago. Begin again in the program that sent you here.",
            )
        };
        // Browsers say where a form was sent from; only our own page has ours.
        if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin") {
            return foreign();
        }
        let Some(form) = Form::parse(body) else { return foreign() };
        let shown = form.get("transaction").unwrap_or_default();
        let Ok(Shown { page, request }) = self.vault.open::<Shown>(Purpose::Consent, shown) else {
            return foreign();
        };
        let cookie = cookie::find(headers, &format!("page-{page}")).unwrap_or_default();
        let browser = self.vault.open::<Browser>(Purpose::Browser, &cookie);
        if !browser.is_ok_and(|browser| browser.page == page && browser.client == request.client) {
            return foreign();
        }
        match form.get("decision") {
            Some("approve") => self.sign_in(request, None, Some(page)).await,
            Some("deny") => request.answer(
                self,
                &[("error", "access_denied")],
                vec![cookie::end(&format!("page-{page}"))],
            ),
            _ => foreign(),
        }
    }

    /// Sends the user upstream, and only now gives the browser the state to come back with.
    async fn sign_in(&self, request: Request, approved_by: Option<String>, page: Option<String>) -> Answer {
        let (name, state) = (secret()[..16].to_owned(), secret());
        let sign_in = SignIn {
            request,
            state: format!("{name}.{state}"),
            nonce: secret(),
            verifier: secret(),
            approved_by,
            page,
        };
        let address = match self.upstream.address(self.round(&sign_in)).await {
            Ok(address) => address,
            Err(error) => return unreachable(&error),
        };
        let cookie = self.vault.seal(Purpose::SignIn, &sign_in, PATIENCE);
        let cookie = cookie.and_then(|value| cookie::set(&format!("state-{name}"), &value, PATIENCE));
        match cookie {
            Some(cookie) => answer::redirect(&address, [Some(cookie)]),
            None => refusal(StatusCode::BAD_REQUEST, "What the program asks for is too long."),
        }
    }

    fn round<'r>(&'r self, sign_in: &'r SignIn) -> Round<'r> {
        Round {
            state: &sign_in.state,
            nonce: &sign_in.nonce,
            verifier: &sign_in.verifier,
            back: &self.callback,
        }
    }

    /// `GET /authorize/callback`: the user comes back from upstream.
    pub(super) async fn come_back(&self, query: &str, headers: &HeaderMap) -> Answer {
        let foreign = || {
            refusal(
                StatusCode::FORBIDDEN,
                "This sign-in was not begun in this browser, or too long ago. Begin again in the program that sent you here.",
            )
        };
        let Some(form) = Form::parse(query.as_bytes()) else { return foreign() };
        let state = form.get("state").unwrap_or_default();
        let cookie_name = format!("state-{}", state.split('.').next().unwrap_or_default());
        let cookie = cookie::find(headers, &cookie_name).unwrap_or_default();
        let Ok(sign_in) = self.vault.open::<SignIn>(Purpose::SignIn, &cookie) else { return foreign() };
        if !bool::from(sign_in.state.as_bytes().ct_eq(state.as_bytes())) {
            return foreign();
        }
        match self.upstream.is_of(form.get("iss")).await {
            Ok(true) => {}
            Ok(false) => {
                return refusal(StatusCode::FORBIDDEN, "This answer is of another authorization server.");
            }
            Err(error) => return unreachable(&error),
        }
        let over = || sign_in.over(&cookie_name);
        let request = &sign_in.request;
        let Some(code) = form.get("code") else {
            let denied = form.get("error") == Some("access_denied");
            let code = if denied { "access_denied" } else { "server_error" };
            return request.answer(self, &[("error", code)], over());
        };
        let identity = match self.upstream.identity(code, self.round(&sign_in)).await {
            Ok(identity) => identity,
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(error = cause, "a sign-in failed upstream");
                let code = if matches!(error, UpstreamError::Busy | UpstreamError::JustFailed) {
                    "temporarily_unavailable"
                } else {
                    "server_error"
                };
                return request.answer(self, &[("error", code)], over());
            }
        };
        match self.vault.put(Kind::Spent, state, None, &(), PATIENCE).await {
            Ok(true) => self.send_back(&sign_in, identity, headers, &cookie_name).await,
            Ok(false) => refusal(StatusCode::BAD_REQUEST, "This sign-in has come to its end already."),
            Err(error) => answer::unavailable(&error),
        }
    }

    /// Back to the client, with a code.
    async fn send_back(
        &self,
        sign_in: &SignIn,
        identity: Identity,
        headers: &HeaderMap,
        cookie_name: &str,
    ) -> Answer {
        let request = &sign_in.request;
        let who = digest(&identity.subject);
        if sign_in.approved_by.as_ref().is_some_and(|before| *before != who) {
            let mut answer = refusal(
                StatusCode::FORBIDDEN,
                "Somebody else has allowed this program in this browser before. That is forgotten now: begin again in the program that sent you here.",
            );
            for cookie in [cookie::end(APPROVED), cookie::end(cookie_name)].into_iter().flatten() {
                answer.headers_mut().append(http::header::SET_COOKIE, cookie);
            }
            return answer;
        }
        let code = Code::new(&self.resource, request, identity);
        let secret = secret();
        match self.vault.put(Kind::Code, &secret, None, &code, Code::LASTS).await {
            Ok(_) => {
                let mut cookies = sign_in.over(cookie_name);
                cookies.push(self.remembered(request, &who, headers));
                request.answer(self, &[("code", &secret)], cookies)
            }
            Err(error) => answer::unavailable(&error),
        }
    }

    /// The approval that this browser has given before for just this.
    fn approval(&self, request: &Request, headers: &HeaderMap) -> Option<Approval> {
        let what = request.approval()?;
        self.approvals(headers).into_iter().find(|approval| approval.what == what)
    }

    fn approvals(&self, headers: &HeaderMap) -> Vec<Approval> {
        let cookie = cookie::find(headers, APPROVED).unwrap_or_default();
        self.vault.open(Purpose::Approved, &cookie).unwrap_or_default()
    }

    /// The cookie that remembers the approval, the latest first.
    fn remembered(&self, request: &Request, who: &str, headers: &HeaderMap) -> Option<http::HeaderValue> {
        let what = request.approval()?;
        let mut approvals = self.approvals(headers);
        approvals.retain(|approval| approval.what != what);
        approvals.insert(0, Approval { what, who: who.to_owned() });
        approvals.truncate(MAX_APPROVED);
        let value = self.vault.seal(Purpose::Approved, &approvals, APPROVED_FOR)?;
        cookie::set(APPROVED, &value, APPROVED_FOR)
    }
}

fn unreachable(error: &UpstreamError) -> Answer {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "nobody can sign in upstream");
    refusal(StatusCode::SERVICE_UNAVAILABLE, "Nobody can sign in now: try again in a moment.")
}
