//! Who a client is, as the endpoints of an authorization server are told it in a header.

use reqwest::header::HeaderValue;

/// `Basic`, each part encoded as in a form (RFC 6749, 2.3.1).
pub(crate) fn basic(client_id: &str, secret: &str) -> HeaderValue {
    use base64::Engine as _;
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    // Base64 has no character that a header has not.
    let mut value = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}

/// A text as forms write it: what is neither a letter, a digit nor one of `*-._` is encoded.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*-._".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
