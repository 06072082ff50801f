//! The functions, filters and methods that chat templates expect of Jinja2 and transformers.

use std::cell::Cell;
use std::ffi::CString;
use std::io;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

use crate::python_format::{str_of, JsonStyle};

const MAX_INDENT: usize = 64;

/// Of one rendering, also into variables: four times the largest body of a request.
pub const MAX_PRINTED_BYTES: usize = 128 << 20;

thread_local! {
    static PRINTABLE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Within `body`, templates print no more values than MAX_PRINTED_BYTES.
pub fn limit_printing<T>(body: impl FnOnce() -> T) -> T {
    struct Unlimited;
    impl Drop for Unlimited {
        fn drop(&mut self) {
            PRINTABLE.set(usize::MAX);
        }
    }
    let _after = Unlimited; // also after a panic
    PRINTABLE.set(MAX_PRINTED_BYTES);
    body()
}

fn printed_too_much() -> String {
    format!("it prints more than {} MB", MAX_PRINTED_BYTES >> 20)
}

/// What a template prints in the end: its own text, too, which it may repeat.
#[derive(Default)]
pub struct Printed(pub Vec<u8>);

impl io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > MAX_PRINTED_BYTES - self.0.len() {
            return Err(io::Error::other(printed_too_much()));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything but raise_exception, which belongs to how errors are told.
pub fn install(env: &mut Environment<'static>) {
    minijinja_contrib::add_to_environment(env);
    env.set_formatter(print);
    env.set_unknown_method_callback(call_method);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: &Value| str_of(value));
    env.add_filter("trim", trim);
    env.add_filter("upper", |value: &Value| str_of(value).to_uppercase());
    env.add_filter("lower", |value: &Value| str_of(value).to_lowercase());
    // Python's None is no sequence, minijinja's is an empty one.
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    env.add_filter("indent", indent);
    env.add_filter("join", join);
    env.add_function("strftime_now", |format: String| strftime_now(&format));
}

/// `{{ value }}` as Python prints it.
fn print(out: &mut Output, _state: &State, value: &Value) -> Result<(), Error> {
    let write = |out: &mut Output, text: &str| {
        let left = PRINTABLE
            .get()
            .checked_sub(text.len())
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, printed_too_much()))?;
        PRINTABLE.set(left);
        out.write_str(text).map_err(Error::from)
    };
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        _ => match value.as_str() {
            Some(text) => write(out, text),
            None => write(out, &str_of(value)),
        },
    }
}

/// Python's methods of str, dict and list.
fn call_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), []) = (value.as_str(), args) {
        match method {
            "strip" => return Ok(text.trim_matches(is_python_space).into()),
            "lstrip" => return Ok(text.trim_start_matches(is_python_space).into()),
            "rstrip" => return Ok(text.trim_end_matches(is_python_space).into()),
            _ => {}
        }
    }
    if let (Some(text), [affix]) = (value.as_str(), args) {
        let affix = affix.as_str().unwrap_or_default();
        match method {
            "removeprefix" => return Ok(text.strip_prefix(affix).unwrap_or(text).into()),
            "removesuffix" => return Ok(text.strip_suffix(affix).unwrap_or(text).into()),
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// Python's str.isspace: Unicode's White_Space and the four separators of ASCII.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Jinja2's trim: what is no text is printed first.
fn trim(value: &Value, chars: Option<String>) -> String {
    let text = str_of(value);
    match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_string(),
        None => text.trim_matches(is_python_space).to_string(),
    }
}

/// Jinja2's indent(width=4, first=False, blank=False); a line break at the end stays.
fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = width.or(options.get("width")?).unwrap_or(Value::from(4));
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = options.get::<Option<bool>>("blank")?.unwrap_or(false);
    options.assert_all_used()?;
    let margin = match width.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(usize::try_from(width)?.min(MAX_INDENT)),
    };
    let mut out = String::new();
    for (i, line) in str_of(value).split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&margin);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Jinja2's join: the items are printed as Python prints them.
fn join(value: &Value, separator: Option<String>, options: Kwargs) -> Result<String, Error> {
    let attribute: Option<String> = options.get("attribute")?;
    let separator = separator.or(options.get("d")?).unwrap_or_default();
    options.assert_all_used()?;
    let mut parts: Vec<String> = Vec::new();
    for item in value.try_iter()? {
        parts.push(match &attribute {
            Some(name) => str_of(&item.get_attr(name)?),
            None => str_of(&item),
        });
    }
    Ok(parts.join(&separator))
}

/// transformers' filter: tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False).
fn tojson(value: &Value, ascii: Option<bool>, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let indent = match indent {
        Some(value) if value.is_none() => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(value)?.min(MAX_INDENT)),
        }),
        None => None,
    };
    let separators: Option<Vec<String>> = options.get("separators")?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ => ((if indent.is_some() { "," } else { ", " }).to_string(), ": ".to_string()),
    };
    let style = JsonStyle {
        indent,
        item_separator: item,
        key_separator: key,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ensure_ascii: ascii.or(options.get("ensure_ascii")?).unwrap_or(false),
    };
    options.assert_all_used()?;
    style.dumps(value).map(Value::from)
}

/// Local time, as Python's datetime.now().strftime(format).
fn strftime_now(format: &str) -> Result<String, Error> {
    const MAX_BYTES: usize = 4096;
    let fail =
        |text: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {text}"));
    if format.is_empty() {
        return Ok(String::new());
    }
    let c_format = CString::new(format).map_err(|_| fail("the format holds a zero byte"))?;
    let mut buffer = vec![0u8; MAX_BYTES];
    // SAFETY: all pointers are valid for the calls; strftime writes at most MAX_BYTES.
    let len = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut parts).is_null() {
            return Err(fail("the local time is not known"));
        }
        libc::strftime(buffer.as_mut_ptr().cast(), MAX_BYTES, c_format.as_ptr(), &parts)
    };
    buffer.truncate(len);
    String::from_utf8(buffer).map_err(|_| fail("the result is not UTF-8"))
}
