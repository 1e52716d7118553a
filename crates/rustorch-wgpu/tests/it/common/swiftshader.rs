//! Tests once more on a second, weaker device, where a browser has brought one along: no `f16`, `f64` or `i64`, subgroups of 4,
//! and no fused products. It is what browsers without a GPU compute on.

use rustorch_testkit::{Requirement, skip};
use std::path::Path;
use std::process::Command;

/// Where Debian's Chromium has its driver.
pub(crate) const DRIVER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

/// Runs tests of this program there, chosen by arguments to it; says what they said, or that they are skipped.
pub(crate) fn run(choice: &[&str]) {
    if !Path::new(DRIVER).exists() {
        return skip(Requirement::SwiftShader, format!("{DRIVER} does not exist"));
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(choice)
        .arg("--nocapture")
        .env_remove("VK_DRIVER_FILES")
        .env("VK_ICD_FILENAMES", DRIVER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{said}");
    assert!(!said.contains(" 0 passed"), "{said}");
    eprintln!("{told}");
}
