//! Keys for a store that was used without any.

use super::{Server, TOOLS, run};

#[test]
fn a_store_that_was_used_without_keys_is_sealed_if_its_operator_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (name, key) in [
        ("key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ("other", "//////////////////////////////////////////8="),
    ] {
        std::fs::write(at.join(name), key).unwrap();
    }
    let configure = |store: &str| {
        let always =
            "[tools.echo]\ndescription = \"Echo\"\ncommand = [\"printf\", \"heard\"]\ntask = \"always\"\n";
        let config = format!("{store}\n[http]\nlisten = \"127.0.0.1:0\"\n{TOOLS}\n{always}");
        std::fs::write(at.join("longhaul.toml"), config).unwrap();
    };
    let called = || {
        let server = Server::start(at, &[]);
        let (code, said, err) = run(at, &["call", server.url(), "echo"]);
        assert!(code == 0 && said == "heard\n", "{said} {err}");
    };
    let listed = || -> (serde_json::Value, String) {
        let (code, said, err) = run(at, &["tasks", "list", "--json"]);
        assert_eq!(code, 0, "{err}");
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        (said["tasks"].as_array().unwrap().len().into(), said["unopened"].to_string())
    };
    configure("");
    called();
    for key in ["key", "other"] {
        configure(&format!("[store]\nkeys = [\"file:{key}\"]"));
        for verb in [&["serve"][..], &["tasks", "list"]] {
            let (code, _, err) = run(at, verb);
            let told = err.contains("is not sealed, and holds what was written without a key");
            assert!(code == 2 && told && err.contains("`read_plain = true` in `[store]`"), "{code} {err}");
        }
        let (code, said, _) = run(at, &["doctor"]);
        assert!(code == 1 && said.contains("FAIL  store") && said.contains("is not sealed"), "{said}");
    }
    configure("");
    assert_eq!(listed(), (1.into(), "null".to_owned()), "nothing was changed");
    called();

    let sealed = "[store]\nkeys = [\"file:key\"]";
    let reading = format!("{sealed}\nread_plain = true");
    configure(&reading);
    assert_eq!(listed().0, 2, "a verb reads them, too, and changes nothing");
    configure("");
    assert_eq!(listed().0, 2);
    configure(&reading);
    called();
    assert_eq!(listed(), (3.into(), "null".to_owned()));
    let (_, said, _) = run(at, &["doctor"]);
    assert!(said.contains("ok    sealing") && said.contains("is still needed"), "{said}");

    // What the servers themselves have there is sealed by now.
    configure(sealed);
    called();
    assert_eq!(listed(), (2.into(), "2".to_owned()));
    let (code, said, err) = run(at, &["tasks", "list"]);
    assert!(code == 0 && said.lines().count() == 3, "{said}");
    assert!(err.contains("2 tasks are not shown") && err.contains("read_plain = true"), "{err}");
}

/// A server without keys would run tools with what is sealed.
#[test]
fn a_store_is_not_sealed_while_a_server_without_keys_is_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("key"), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let configure = |store: &str| {
        let config = format!("{store}\n[http]\nlisten = \"127.0.0.1:0\"\n{TOOLS}");
        std::fs::write(at.join("longhaul.toml"), config).unwrap();
    };
    configure("");
    let server = Server::start(at, &[]);
    configure("[store]\nkeys = [\"file:key\"]\nread_plain = true");
    let (code, _, err) = run(at, &["serve"]);
    assert!(
        code == 2 && err.contains("is not sealed yet, and 1 other process(es) use it without keys"),
        "{err}"
    );
    assert!(err.contains("stop every server on it that was started without `keys`"), "{err}");
    drop(server);
    drop(Server::start(at, &[]));
    configure("");
    let (code, _, err) = run(at, &["serve"]);
    assert!(code == 2 && err.contains("is sealed, and no keys are given"), "{err}");
}
