//! A browser: it keeps cookies, and sends forms from the page they stand on.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;

use super::{Answer, Host};

/// One person's browser.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    pub(crate) async fn get(&mut self, host: &Host, url: &str) -> Answer {
        self.send(host, Method::GET, url, String::new(), None).await
    }

    pub(crate) async fn post(&mut self, host: &Host, url: &str, form: &[(&str, &str)]) -> Answer {
        self.send(host, Method::POST, url, encoded(form), Some("same-origin")).await
    }

    /// A form that another site sent.
    pub(crate) async fn post_from(
        &mut self,
        host: &Host,
        site: &str,
        url: &str,
        form: &[(&str, &str)],
    ) -> Answer {
        self.send(host, Method::POST, url, encoded(form), Some(site)).await
    }

    /// Presses a button of the page that asks for approval.
    pub(crate) async fn decide(&mut self, host: &Host, page: &Answer, decision: &str) -> Answer {
        let transaction = field(&page.body, "transaction");
        self.post(host, "/authorize/consent", &[("transaction", &transaction), ("decision", decision)]).await
    }

    async fn send(
        &mut self,
        host: &Host,
        method: Method,
        url: &str,
        body: String,
        site: Option<&str>,
    ) -> Answer {
        let path = url.strip_prefix("https://mcp.example").unwrap_or(url);
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        if let Some(site) = site {
            request = request.header("sec-fetch-site", site);
        }
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = host.send(request.body(Full::<Bytes>::from(body)).unwrap()).await;
        for (_, cookie) in answer.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if cookie.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }

    /// The names of the cookies it has that begin so.
    pub(crate) fn cookies(&self, start: &str) -> Vec<String> {
        self.cookies.keys().filter(|name| name.starts_with(start)).cloned().collect()
    }

    pub(crate) fn cookie(&self, name: &str) -> String {
        self.cookies[name].clone()
    }

    /// Changes a cookie as somebody would who has the machine.
    pub(crate) fn change(&mut self, start: &str, change: impl Fn(&str) -> String) {
        for (_, value) in self.cookies.iter_mut().filter(|(name, _)| name.starts_with(start)) {
            *value = change(value);
        }
    }
}

/// The value of a hidden field of a page.
pub(crate) fn field(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.split_once(&start).unwrap_or_else(|| panic!("no {name}: {page}")).1;
    rest.split('"').next().unwrap().to_owned()
}

pub(crate) fn encoded(form: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish()
}

/// A text of which one character is another.
pub(crate) fn damaged(text: &str) -> String {
    let middle = text.len() / 2;
    let other = if &text[middle..=middle] == "A" { "B" } else { "A" };
    format!("{}{other}{}", &text[..middle], &text[middle + 1..])
}
