//! Keeps Rust panics from crossing into C++, where they would end the process.

use std::fmt::Display;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Messages of our own faults start with this; the C++ side gives them their own error code.
const INTERNAL: &str = "internal error: ";

pub fn guard<T, E: Display>(body: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(format!("{INTERNAL}{text}"))
        }
    }
}
