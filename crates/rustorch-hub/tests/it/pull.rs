//! Downloads from a local server that breaks connections, ignores ranges and sends what it should not.

use rustorch_hub::{Error, Hub, HubOptions, ModelName, Progress, Pulled, Result};
use rustorch_testkit::hub_server::{COMMIT, HubFault, HubFile, HubServer};
use std::path::{Path, PathBuf};
use std::time::Duration;

const REPOSITORY: &str = "owner/model-GGUF";
/// By `sha256sum`, of what [`content`] gives.
const HASH: &str = "4d5a0d3e7a075d6ff5eee690274c9c2555c2060430c1c3fdfeb66eb33d269845";

/// Three million bytes: `python3 -c 'import sys; sys.stdout.buffer.write(bytes(i * i % 251 for i in range(3000000)))'`.
fn content() -> Vec<u8> {
    (0..3_000_000u64).map(|i| (i * i % 251) as u8).collect()
}

struct Place {
    server: HubServer,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(paths: &[&str]) -> Place {
        let file = |path: &&str| HubFile { path: (*path).to_owned(), bytes: content(), etag: HASH.into() };
        Place::with(paths.iter().map(file).collect())
    }

    fn with(files: Vec<HubFile>) -> Place {
        let server = HubServer::start(REPOSITORY, files).unwrap();
        Place { server, folder: tempfile::tempdir().unwrap() }
    }

    fn options(&self) -> HubOptions {
        HubOptions {
            endpoint: self.server.endpoint(),
            cache: self.folder.path().to_owned(),
            token: None,
            offline: false,
            pause: Duration::from_millis(1),
        }
    }

    fn pull(&self, quant: &str) -> Result<Pulled> {
        pull_with(self.options(), quant)
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("models--owner--model-GGUF")
    }

    fn incomplete(&self) -> PathBuf {
        self.repository().join(format!("blobs/{HASH}.incomplete"))
    }

    /// The parts of the content that were asked for.
    fn ranges(&self) -> Vec<Option<String>> {
        let requests = self.server.take_requests();
        requests.into_iter().filter(|request| request.is_content).map(|request| request.range).collect()
    }
}

fn pull_with(options: HubOptions, quant: &str) -> Result<Pulled> {
    let name: ModelName = format!("{REPOSITORY}{quant}").parse().unwrap();
    Hub::new(options).pull(&name, &mut |_| {})
}

fn bytes_of(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn range(first: usize) -> Option<String> {
    Some(format!("bytes={first}-"))
}

#[test]
fn files_are_where_other_programs_look_for_them() {
    let place = Place::new(&["README.md", "m-Q8_0.gguf", "sub/m-Q4_K_M.gguf"]);
    let mut reports = Vec::new();
    let name: ModelName = REPOSITORY.parse().unwrap();
    let hub = Hub::new(place.options());
    let pulled = hub
        .pull(&name, &mut |Progress { file, done, total }| reports.push((file.to_owned(), done, total)))
        .unwrap();
    let expected = place.repository().join(format!("snapshots/{COMMIT}/sub/m-Q4_K_M.gguf"));
    assert_eq!(pulled.files, std::slice::from_ref(&expected));
    assert!(pulled.unreachable.is_none());
    assert!(bytes_of(&expected) == content());
    assert_eq!(bytes_of(&place.repository().join("refs/main")), COMMIT.as_bytes());
    assert!(bytes_of(&place.repository().join("blobs").join(HASH)) == content());
    #[cfg(unix)]
    assert_eq!(std::fs::read_link(&expected).unwrap(), PathBuf::from(format!("../../../blobs/{HASH}")));
    assert!(!place.incomplete().exists());
    assert_eq!(reports.first(), Some(&("sub/m-Q4_K_M.gguf".into(), 0, 3_000_000)));
    assert_eq!(reports.last(), Some(&("sub/m-Q4_K_M.gguf".into(), 3_000_000, 3_000_000)));
    assert!(reports.is_sorted_by_key(|report| report.1));
    // The second time only the list is read; another file of the same content is linked.
    place.server.take_requests();
    place.pull("").unwrap();
    assert_eq!(place.server.take_requests().len(), 1);
    place.pull(":q8_0").unwrap();
    assert!(place.ranges().is_empty());
}

#[test]
fn broken_connections_are_resumed_where_they_broke() {
    let place = Place::new(&["m-Q4_K_M.gguf"]);
    place.server.fail(&[HubFault::Break(1_000_000), HubFault::Status(503), HubFault::Break(500_001)]);
    let pulled = place.pull("").unwrap();
    assert!(bytes_of(&pulled.files[0]) == content());
    assert_eq!(place.ranges(), [None, range(1_000_000), range(1_000_000), range(1_500_001)]);
}

#[test]
fn what_is_given_up_is_resumed_by_the_next_pull() {
    let place = Place::new(&["m-Q4_K_M.gguf"]);
    place.server.fail(&[HubFault::Break(1_234_567)]);
    place.server.fail(&[HubFault::Status(502); 5]);
    let error = place.pull("").unwrap_err();
    assert!(matches!(error, Error::Status { status: 502, .. }), "{error}");
    assert!(bytes_of(&place.incomplete()) == content()[..1_234_567]);
    assert!(
        !place.repository().join("snapshots").exists()
            && !place.repository().join("blobs").join(HASH).exists()
    );
    place.ranges();
    // A server that starts from the beginning whatever it is asked for.
    place.server.fail(&[HubFault::NoRange]);
    assert!(bytes_of(&place.pull("").unwrap().files[0]) == content());
    assert_eq!(place.ranges(), [range(1_234_567)]);
}

#[test]
fn a_wrong_hash_is_an_error_and_leaves_nothing() {
    let place = Place::new(&["m-Q4_K_M.gguf"]);
    place.server.fail(&[HubFault::WrongByte]);
    let error = place.pull("").unwrap_err();
    assert!(matches!(&error, Error::Hash { expected, .. } if expected == HASH), "{error}");
    let blobs = std::fs::read_dir(place.repository().join("blobs")).unwrap();
    assert_eq!(blobs.count(), 0);
    assert!(!place.repository().join("snapshots").exists() && !place.repository().join("refs").exists());
    assert!(bytes_of(&place.pull("").unwrap().files[0]) == content());
}

#[test]
fn damage_of_an_earlier_attempt_is_repaired() {
    for damaged in [vec![0; 2_000_000], vec![0; 4_000_000]] {
        let place = Place::new(&["m-Q4_K_M.gguf"]);
        std::fs::create_dir_all(place.repository().join("blobs")).unwrap();
        std::fs::write(place.incomplete(), &damaged).unwrap();
        assert!(bytes_of(&place.pull("").unwrap().files[0]) == content());
    }
}

#[test]
fn all_parts_of_a_split_file_are_pulled() {
    let parts = ["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"];
    let file = |(index, path): (usize, &&str)| HubFile {
        path: (*path).to_owned(),
        bytes: vec![index as u8; 10],
        etag: format!("part-{index}"),
    };
    let place = Place::with(parts.iter().enumerate().map(file).collect());
    let pulled = place.pull("").unwrap();
    let contents: Vec<Vec<u8>> = pulled.files.iter().map(|path| bytes_of(path)).collect();
    assert_eq!(contents, [vec![1; 10], vec![0; 10]]);
}

#[test]
fn a_token_goes_to_the_hub_alone() {
    let place = Place::new(&["m-Q4_K_M.gguf"]);
    place.server.require_token("hf_secret");
    let error = place.pull("").unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("HF_TOKEN"), "{error}");
    let options = |token: &str| HubOptions { token: Some(token.into()), ..place.options() };
    let error = pull_with(options("hf_other"), "").unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("may not read"), "{error}");
    place.server.take_requests();
    pull_with(options("hf_secret"), "").unwrap();
    for request in place.server.take_requests() {
        assert_eq!(request.authorization.is_none(), request.is_content, "{request:?}");
    }
}

#[test]
fn without_the_hub_the_cache_answers() {
    let place = Place::new(&["m-Q4_K_M.gguf", "m-Q8_0.gguf"]);
    let offline = HubOptions { offline: true, ..place.options() };
    let error = pull_with(offline.clone(), "").unwrap_err().to_string();
    assert!(error.contains("HF_HUB_OFFLINE") && place.server.take_requests().is_empty(), "{error}");
    let pulled = place.pull("").unwrap();
    place.server.take_requests();
    assert_eq!(pull_with(offline.clone(), "").unwrap().files, pulled.files);
    assert!(place.server.take_requests().is_empty());
    assert!(matches!(pull_with(offline, ":Q8_0").unwrap_err(), Error::Offline { .. }));
    // Nobody listens there.
    let nowhere = HubOptions { endpoint: "http://127.0.0.1:1".into(), ..place.options() };
    let found = pull_with(nowhere.clone(), "").unwrap();
    assert_eq!(found.files, pulled.files);
    assert!(matches!(found.unreachable, Some(Error::Connection { .. })));
    assert!(matches!(pull_with(nowhere, ":Q8_0").unwrap_err(), Error::Connection { .. }));
}

#[test]
fn what_the_repository_lacks_is_named() {
    let place = Place::new(&["m-Q4_K_M.gguf"]);
    let error = place.pull(":Q6_K").unwrap_err().to_string();
    assert_eq!(error, "owner/model-GGUF:Q6_K has no such GGUF file; there are m-Q4_K_M.gguf");
    let name: ModelName = "owner/other".parse().unwrap();
    let error = Hub::new(place.options()).pull(&name, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn names_that_lead_out_of_the_cache_are_refused() {
    let file = |path: &str, etag: &str| HubFile { path: path.into(), bytes: vec![1], etag: etag.into() };
    for file in [file("../../x.gguf", "a"), file("/x.gguf", "a"), file("x.gguf", "../../a")] {
        let place = Place::with(vec![file]);
        let error = place.pull("").unwrap_err();
        assert!(matches!(error, Error::Answer { .. }), "{error}");
        assert!(!place.repository().join("snapshots").exists());
    }
}

#[cfg(not(feature = "https"))]
#[test]
fn https_takes_its_feature() {
    let place = Place::new(&[]);
    let options = HubOptions { endpoint: "https://huggingface.co".into(), ..place.options() };
    let error = pull_with(options, "").unwrap_err().to_string();
    assert!(error.contains("--features https"), "{error}");
}
