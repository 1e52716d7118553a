//! Whether there is enough memory for what is asked.

use crate::failure::Failure;
use crate::output;
use rustorch::llm::LanguageModel;

/// Refuses a context that could not be held: the system would end the program while it fills the memory.
pub(crate) fn check_context(model: &LanguageModel, size: usize, option: &str) -> Result<(), Failure> {
    let needed = model.model().cache_bytes(size) as u64;
    match available() {
        Some(available) if needed > available => Err(Failure::Usage(format!(
            "a context of {size} tokens takes {}, and {} of memory are free; make {option} smaller",
            output::bytes(needed),
            output::bytes(available),
        ))),
        _ => Ok(()),
    }
}

/// Bytes of memory that can still be used, where the system tells.
pub(crate) fn available() -> Option<u64> {
    free_memory(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// What Linux estimates can be used without swapping, from the text of `/proc/meminfo`.
fn free_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_bytes() {
        let text = "MemTotal:       16384 kB\nMemFree:  10 kB\nMemAvailable:    8192 kB\nBuffers: 1 kB\n";
        assert_eq!(free_memory(text), Some(8192 * 1024));
        assert_eq!(free_memory("MemTotal: 5 kB\n"), None);
        assert_eq!(free_memory("MemAvailable: much\n"), None);
    }
}
