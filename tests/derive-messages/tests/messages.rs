//! Programs that do not compile, with what the compiler says beside them. `TRYBUILD=overwrite` writes the texts anew.

#[test]
fn the_compiler_says_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/cases/*.rs");
}
