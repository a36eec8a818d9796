//! A server that is spoken to over TLS.

use std::time::Duration;

use longhaul_store::{Batch, Scope, Settings, StoreError};
use tokio::time::timeout;

use super::{Rig, task};

pub(crate) async fn over_tls_a_server_is_who_its_certificate_says<R: Rig>() {
    let (server, other) = (R::over_tls(), R::over_tls());
    let of = |host, certified: &R| server.store_over_tls(host, &certified.authority());
    let url = of("localhost", &server);
    let (store, again) = (R::join(&url, Settings::default()).await, R::join(&url, Settings::default()).await);
    let made = store.create(task("t")).await.unwrap().into_record();
    assert_eq!(again.get(Scope::Operator, &made.id).await.unwrap().as_ref(), Some(&made));
    // Changes are heard of by another connection.
    let mut watch = again.watch(&made.id);
    store.write(&made.id, made.epoch, Batch::new().with_status_message("on")).await.unwrap();
    timeout(Duration::from_secs(60), watch.changed()).await.expect("it is told of");
    for (host, certified) in [("127.0.0.1", &server), ("localhost", &other)] {
        let refused = R::open(&of(host, certified), Settings::default()).await.map(drop);
        assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "{host}: {refused:?}");
    }
}
