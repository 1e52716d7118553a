//! All of this on a second, weaker device, where a browser has brought one along: no `f16`, `f64` or `i64`, subgroups of 4.

use std::path::Path;
use std::process::Command;

/// Where Debian's Chromium has its driver.
const DRIVER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

#[test]
fn all_of_this_on_swiftshader() {
    if !Path::new(DRIVER).exists() {
        eprintln!("skipped: {DRIVER} does not exist");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "swiftshader"])
        .env_remove("VK_DRIVER_FILES")
        .env("VK_ICD_FILENAMES", DRIVER)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains(" 0 passed"), "{said}");
}
