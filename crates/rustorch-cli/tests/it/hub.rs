//! `pull` and `-hf`, from a local server.

use crate::common::{MODEL, Run, fail, run_where, succeed};
use rustorch_testkit::hub_server::{COMMIT, HubFault, HubFile, HubServer};
use std::path::Path;

const REPOSITORY: &str = "owner/shakespeare-GGUF";

fn server() -> HubServer {
    let bytes = std::fs::read(MODEL).unwrap();
    let file =
        |path: &str, bytes: &[u8]| HubFile { path: path.into(), bytes: bytes.into(), etag: path[..1].into() };
    HubServer::start(REPOSITORY, vec![file("1-Q4_0.gguf", b"another"), file("2-Q8_0.gguf", &bytes)]).unwrap()
}

/// Runs the program with this hub, and with its cache in a folder.
fn run_at(server: &HubServer, folder: &Path, variables: &[(&str, &str)], args: &[&str]) -> Run {
    let endpoint = server.endpoint();
    let home = folder.to_str().unwrap();
    let own =
        [("HF_ENDPOINT", endpoint.as_str()), ("HF_HOME", home), ("NO_PROXY", "127.0.0.1"), ("HF_TOKEN", "")];
    let own = own.into_iter().chain([("HF_HUB_CACHE", ""), ("HF_TOKEN_PATH", ""), ("HF_HUB_OFFLINE", "")]);
    run_where(&own.chain(variables.iter().copied()).collect::<Vec<_>>(), args, b"")
}

#[test]
fn a_model_of_the_hub_is_pulled_and_runs() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let at = |variables: &[(&str, &str)], args: &[&str]| run_at(&server, dir.path(), variables, args);
    server.fail(&[HubFault::Break(100_000)]);
    let pulled = at(&[], &["pull", REPOSITORY]);
    let path = dir.path().join(format!("hub/models--owner--shakespeare-GGUF/snapshots/{COMMIT}/2-Q8_0.gguf"));
    assert_eq!((pulled.code, pulled.out.trim()), (0, path.to_str().unwrap()), "{}", pulled.err);
    assert!(pulled.err.starts_with("downloading 2-Q8_0.gguf (2."), "{}", pulled.err);
    assert!(std::fs::read(&path).unwrap() == std::fs::read(MODEL).unwrap());
    // Nothing is downloaded twice, and where the hub may not be asked, the cache answers.
    let question = ["-p", "What news, my lord?", "--temp", "0"];
    let expected = succeed(&[&["-m", MODEL][..], &question].concat());
    for (variables, named) in [(&[][..], "-hf"), (&[("HF_HUB_OFFLINE", "1")][..], "--hf-repo")] {
        let answer = at(variables, &[&[named, "owner/shakespeare-GGUF:q8_0"][..], &question].concat());
        assert_eq!((answer.code, &answer.out, answer.err.as_str()), (0, &expected, ""));
    }
    let inspected = at(&[], &["inspect", "-hf", REPOSITORY]);
    assert!(inspected.out.starts_with(path.to_str().unwrap()), "{inspected:?}");
    let away = at(&[("HF_ENDPOINT", "http://127.0.0.1:1")], &["tokenize", "-hf", REPOSITORY, "--ids", "a"]);
    assert_eq!((away.code, away.out), (0, succeed(&["tokenize", "--ids", "a"])));
    assert!(away.err.starts_with("warning: http://127.0.0.1:1/"), "{}", away.err);
}

#[test]
fn mistakes_are_named() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let says = |variables: &[(&str, &str)], args: &[&str], text: &str| {
        let run = run_at(&server, dir.path(), variables, args);
        assert!(run.code == 3 && run.out.is_empty() && run.err.contains(text), "{args:?}: {run:?}");
    };
    fail(&["pull", "shakespeare"], 2, &["OWNER/REPOSITORY:QUANT"]);
    fail(&["-hf", "a/b", "-m", MODEL], 2, &["--hf-repo"]);
    says(&[], &["pull", "owner/shakespeare-GGUF:Q6_K"], "1-Q4_0.gguf, 2-Q8_0.gguf");
    says(&[], &["pull", "owner/nothing"], "404");
    says(&[("HF_HUB_OFFLINE", "true")], &["-hf", REPOSITORY, "-p", "a"], "HF_HUB_OFFLINE");
    let wide = &[("HF_ENDPOINT", "https://127.0.0.1:1")];
    says(
        wide,
        &["-hf", REPOSITORY, "-p", "a"],
        if cfg!(feature = "https") { "cannot be read" } else { "--features https" },
    );
    server.require_token("hf_secret");
    says(&[], &["pull", REPOSITORY], "HF_TOKEN");
    let pulled =
        run_at(&server, dir.path(), &[("HF_TOKEN", "hf_secret")], &["pull", "owner/shakespeare-GGUF:Q4_0"]);
    assert_eq!(pulled.code, 0, "{}", pulled.err);
}
