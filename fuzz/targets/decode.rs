//! What a peer sends: never a panic, nothing is accepted that is no JSON, and what is accepted is the same once it has been
//! written again.
#![no_main]

use longhaul_proto::jsonrpc::{Limits, Message, ObjectWriter, RequestId, is_batch, split_batch};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    if is_batch(bytes)
        && let Ok(messages) = split_batch(bytes, &limits)
    {
        messages.into_iter().for_each(|message| read(message, &limits));
    }
    read(bytes, &limits);
});

fn read(bytes: &[u8], limits: &Limits) {
    let message = match Message::decode(bytes, limits) {
        Ok(message) => message,
        Err(error) => {
            // What the peer is told of it.
            let _text = serde_json::to_string(&error.to_error_object()).unwrap();
            return;
        }
    };
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).expect("what is accepted is JSON");
    let written = write(&message);
    let again = Message::decode(&written, limits).expect("what was accepted is accepted again");
    assert_eq!(parts(&message), parts(&again));
}

fn write(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ObjectWriter::new(&mut bytes);
    writer.raw("jsonrpc", "\"2.0\"");
    let params = match message {
        Message::Request(request) => {
            writer.field("id", &request.id).field("method", &request.method);
            request.params.as_str()
        }
        Message::Notification(notification) => {
            writer.field("method", &notification.method);
            notification.params.as_str()
        }
        Message::Response(response) => {
            writer.field("id", &response.id);
            match &response.outcome {
                Ok(result) => writer.raw("result", result),
                Err(error) => writer.field("error", error),
            };
            None
        }
    };
    if let Some(params) = params {
        writer.raw("params", params);
    }
    writer.end();
    bytes
}

/// What there is to a message: its id, its method, and its parameters or what it answers.
fn parts(message: &Message<'_>) -> (Option<RequestId>, String, Option<String>) {
    match message {
        Message::Request(request) => {
            (Some(request.id.clone()), request.method.to_string(), request.params.as_str().map(str::to_owned))
        }
        Message::Notification(notification) => {
            (None, notification.method.to_string(), notification.params.as_str().map(str::to_owned))
        }
        Message::Response(response) => {
            let outcome = match &response.outcome {
                Ok(result) => (*result).to_owned(),
                Err(error) => serde_json::to_string(error).unwrap(),
            };
            (response.id.clone(), String::new(), Some(outcome))
        }
    }
}
