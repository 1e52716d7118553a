//! All of this on SwiftShader, too.

use crate::common::swiftshader;

#[test]
fn all_of_this_on_swiftshader() {
    swiftshader::run(&["driver::", "--skip", "swiftshader"]);
}
