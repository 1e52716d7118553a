//! Running a test again in a child process, with another environment or fresh process state.

use std::process::Command;

/// Set in child processes, to the name of the test.
pub(crate) const CHILD: &str = "RUSTORCH_TEST_CHILD";

/// Whether this process is the child of a test.
pub(crate) fn in_any_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Whether this process is the child that is to run a test.
pub fn is_child(name: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|child| child == name)
}

/// The command that runs a test again in a child process, where [`is_child`] holds for it. The name is the one by which the
/// test program knows the test, with its modules.
///
/// # Panics
/// If the path of the test program is not known.
pub fn child(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args([name, "--exact", "--include-ignored", "--nocapture"]).env(CHILD, name);
    command
}

/// Runs the body of a test in a child process whose environment `prepare` has changed, and returns what the child has printed:
/// first to its output, then to its errors. In the child, where the same call is made again, it runs the body and returns `None`.
///
/// ```
/// use rustorch_testkit::in_child;
/// use std::process::Command;
///
/// // #[test]
/// fn another_language() {
///     let prepare = |command: &mut Command| {
///         command.env("LANG", "C");
///     };
///     in_child("another_language", prepare, || assert_eq!(std::env::var("LANG").as_deref(), Ok("C")));
/// }
/// ```
///
/// # Panics
/// If the child cannot be started, fails, or ends without having run the body to its end.
#[allow(clippy::print_stdout, reason = "the child tells its parent")]
pub fn in_child(name: &str, prepare: impl FnOnce(&mut Command), body: impl FnOnce()) -> Option<String> {
    let end = format!("{name} is through");
    if is_child(name) {
        body();
        println!("{end}");
        return None;
    }
    let mut command = child(name);
    prepare(&mut command);
    let output = command.output().expect("a test can run itself");
    let [said, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && said.contains(&end), "{}\n{said}\n{errors}", output.status);
    crate::skip::count_printed(&said);
    Some(format!("{said}{errors}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_an_environment_of_its_own() {
        const NAME: &str = "child::tests::a_child_has_an_environment_of_its_own";
        let set = |command: &mut Command| {
            command.env("RUSTORCH_TESTKIT", "set");
        };
        let said = in_child(NAME, set, || {
            assert_eq!(std::env::var("RUSTORCH_TESTKIT").as_deref(), Ok("set"));
            eprintln!("an error");
        });
        assert!(is_child(NAME) || said.is_some_and(|said| said.ends_with("an error\n")));
    }

    #[test]
    #[should_panic = "exit status: 101"]
    fn a_child_that_fails_is_a_failure() {
        let name = "child::tests::a_child_that_fails_is_a_failure";
        in_child(
            name,
            |_| {},
            || {
                // The attribute takes a panic for a success.
                std::process::exit(101);
            },
        );
    }

    #[test]
    #[should_panic = "exit status: 0"]
    fn a_child_that_ends_early_is_a_failure() {
        let name = "child::tests::a_child_that_ends_early_is_a_failure";
        in_child(name, |_| {}, || std::process::exit(0));
    }

    #[test]
    #[should_panic = "0 passed"]
    fn a_test_that_does_not_exist_is_a_failure() {
        in_child("child::tests::none", |_| {}, || {});
    }
}
