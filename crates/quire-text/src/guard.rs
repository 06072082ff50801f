//! Keeps Rust panics from crossing into C++, where they would end the process.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::Once;

/// Messages of our own faults start with this; the C++ side gives them their own error code.
const INTERNAL: &str = "internal error: ";

/// Regular expressions, schemas and templates nest; their compilers recurse. Taken as it is used.
const COMPILE_STACK_BYTES: usize = 256 << 20;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic inside of guard is told by the error alone: nothing is printed.
fn keep_quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = take_hook();
        set_hook(Box::new(move |info| {
            if DEPTH.get() == 0 {
                return default(info);
            }
            PLACE.set(info.location().map_or(String::new(), |place| {
                let file = place.file().rsplit("/src/").next().unwrap_or_default();
                format!(" ({file}:{})", place.line())
            }));
        }));
    });
}

pub fn guard<T, E: Display>(body: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    keep_quiet();
    DEPTH.set(DEPTH.get() + 1);
    let caught = catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    match caught {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(format!("{INTERNAL}{text}{}", PLACE.take()))
        }
    }
}

/// For a library that panics at what it can't read: its fault is the input's.
pub fn guard_input<T, E: Display>(body: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    guard(body).map_err(|e| e.strip_prefix(INTERNAL).map_or(e.clone(), str::to_string))
}

/// guard on a thread whose stack is large enough for whatever the limits of its callers let through.
pub fn guard_on_large_stack<T: Send>(
    body: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("compiler".to_string())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn_scoped(scope, || guard(body));
        match thread {
            Ok(handle) => handle.join().unwrap_or_else(|_| Err(format!("{INTERNAL}panic"))),
            Err(e) => Err(format!("{INTERNAL}no thread to compile with: {e}")),
        }
    })
}
