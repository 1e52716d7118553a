//! All of this on SwiftShader, too.

#[path = "../common/swiftshader.rs"]
mod again;

#[test]
fn all_of_this_on_swiftshader() {
    again::run(&["--skip", "swiftshader"]);
}
