//! Addresses: what redirects mean, and what a path looks like in one.

/// The scheme and the host of an address: what it goes to. All of it if it has no path.
pub(crate) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Where a redirect from `base` leads.
pub(crate) fn resolve(base: &str, location: &str) -> String {
    let origin = origin(base);
    if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        let scheme = origin.split("//").next().unwrap_or_default();
        format!("{scheme}{location}")
    } else if location.starts_with('/') {
        format!("{origin}{location}")
    } else {
        let path = base.split(['?', '#']).next().unwrap_or(base);
        let folder = path.rfind('/').filter(|&at| at >= origin.len()).map_or(origin, |at| &path[..at]);
        format!("{folder}/{location}")
    }
}

/// A path with all characters but those that stand for themselves escaped.
pub(crate) fn escaped(path: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    path.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved() {
        let base = "http://a:80/x/y?z=/";
        for (location, expected) in [
            ("https://b/c", "https://b/c"),
            ("//b/c", "http://b/c"),
            ("/c?d", "http://a:80/c?d"),
            ("c", "http://a:80/x/c"),
        ] {
            assert_eq!(resolve(base, location), expected);
        }
        assert_eq!(resolve("http://a", "c"), "http://a/c");
        assert_eq!((origin(base), origin("http://a?b")), ("http://a:80", "http://a"));
        assert_eq!(escaped("a b/ü#.gguf"), "a%20b/%C3%BC%23.gguf");
    }
}
