//! Pages that follow what happens.

use tokio::sync::mpsc::Receiver;

use super::*;

/// What a page is sent, up to these words.
async fn hear(pieces: &mut Receiver<Bytes>, words: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(words) {
        let piece = tokio::time::timeout(Duration::from_secs(60), pieces.recv()).await;
        heard += std::str::from_utf8(&piece.unwrap().expect("it goes on")).unwrap();
    }
    heard
}

#[tokio::test]
async fn a_page_that_follows_hears_of_what_changes_and_of_an_end() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    let answer = browser.get(&format!("/events?view=task&id={id}")).await;
    assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
    let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
    hear(&mut pieces, "\"id\":\"questions\"").await;
    assert_eq!(browser.submit(&format!("{place}/cancel"), "").await.status(), StatusCode::SEE_OTHER);
    hear(&mut pieces, "event: end\ndata: {\"status\":\"cancelled\"}").await;
    scene.dispatcher.engine().drain(Duration::ZERO).await;
    let rest =
        tokio::time::timeout(Duration::from_secs(60), async { while pieces.recv().await.is_some() {} });
    rest.await.expect("a server that stops lets its pages go");
}

#[tokio::test]
async fn a_page_that_has_no_stream_is_told_all_there_is_and_when_it_was_all() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    let task = format!("/events?view=task&id={id}");
    let mut streams = Vec::new();
    while let PageBody::Pieces(pieces) = browser.get(&task).await.into_body() {
        streams.push(pieces);
    }
    assert_eq!(browser.get(&task).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    for (path, shown) in
        [(task, "\"id\":\"questions\""), ("/events?view=tasks".to_owned(), "\"id\":\"counts\"")]
    {
        let answer = browser.get(&format!("{path}&once=")).await;
        let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
        let mut heard = String::new();
        let whole = async {
            while let Some(piece) = pieces.recv().await {
                heard += std::str::from_utf8(&piece).unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), whole).await.expect("it ends");
        assert!(heard.contains(shown), "{heard}");
        assert!(heard.ends_with("event: later\ndata: {\"more\":false}\n\n"), "{heard}");
    }
    drop(streams);
}

#[tokio::test]
async fn a_row_that_is_in_no_list_any_more_is_told_of_to_whoever_has_it() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    // It asks, so it is none of those that work; the other has been forgotten.
    let events = format!("/events?view=tasks&status=working&row=t-{id}&row=t-forgotten-1&row=odd");
    let answer = browser.get(&events).await;
    let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
    let first = hear(&mut pieces, "event: listed").await;
    assert!(first.contains("event: left\ndata: {\"id\":\"t-forgotten-1\"}"), "{first}");
    let row = format!("\"id\":\"t-{id}\"");
    let told = first.lines().find(|line| line.contains(&row)).unwrap();
    assert!(told.contains("needs input") && told.contains("\"asks\":true"), "{told}");
    assert_eq!(browser.submit(&format!("{place}/cancel"), "").await.status(), StatusCode::SEE_OTHER);
    let then = hear(&mut pieces, &row).await;
    assert!(!then.contains("event: left"), "{then}");
}
