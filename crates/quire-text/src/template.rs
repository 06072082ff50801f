//! Chat templates: Hugging Face's Jinja dialect on minijinja.

use std::borrow::Cow;
use std::ffi::CString;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};
use serde_json::Value as Json;

use crate::ffi::{ChatInput, SpecialNames};
use crate::python_format::{str_of, JsonStyle};

const NAME: &str = "chat_template";

/// What raise_exception() was called with; found again in the error's chain of sources.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Raised {}

pub struct Template {
    env: Environment<'static>,
    names: SpecialNames,
}

impl Template {
    pub fn new(source: &[u8], names: SpecialNames) -> Result<Self, String> {
        let source = std::str::from_utf8(source)
            .map_err(|e| format!("chat template is not valid UTF-8 at offset {}", e.valid_up_to()))?;
        let mut env = Environment::new();
        env.set_trim_blocks(true);
        env.set_lstrip_blocks(true);
        env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        env.set_unknown_method_callback(call_method);
        env.set_formatter(print);
        minijinja_contrib::add_to_environment(&mut env);
        env.add_filter("tojson", tojson);
        env.add_filter("string", |value: &Value| str_of(value));
        env.add_function("raise_exception", |text: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, text.clone()).with_source(Raised(text)))
        });
        env.add_function("strftime_now", |format: String| strftime_now(&format));
        env.add_template_owned(NAME, without_generation_tags(source).into_owned())
            .map_err(|e| format!("chat template doesn't compile: {}", describe(&e)))?;
        Ok(Template { env, names })
    }

    pub fn render(&self, input: &ChatInput) -> Result<String, String> {
        let messages = parse("messages", input.messages)?;
        let mut variables: Vec<(String, Value)> = Vec::new();
        for (name, text) in [
            ("bos_token", &self.names.bos),
            ("eos_token", &self.names.eos),
            ("unk_token", &self.names.unk),
            ("pad_token", &self.names.pad),
        ] {
            variables.push((name.to_string(), Value::from(text.as_str())));
        }
        match parse("chat_template_kwargs", input.kwargs)? {
            Json::Object(more) => {
                variables.extend(more.into_iter().map(|(k, v)| (k, Value::from_serialize(v))))
            }
            Json::Null => {}
            _ => return Err("chat_template_kwargs must be a JSON object".to_string()),
        }
        let json = |value: &Json| Value::from_serialize(value);
        variables.push(("messages".into(), json(&messages)));
        variables.push(("tools".into(), json(&parse("tools", input.tools)?)));
        variables.push(("documents".into(), json(&parse("documents", input.documents)?)));
        variables.push(("add_generation_prompt".into(), input.add_generation_prompt.into()));
        let template = self.env.get_template(NAME).map_err(|e| describe(&e))?;
        let mut text =
            template.render(Value::from_iter(variables)).map_err(|e| match raised(&e) {
                Some(text) => text,
                None => format!("chat template failed: {}", describe(&e)),
            })?;
        if input.continue_final_message {
            text.truncate(end_of_final_message(&text, &messages)?);
        }
        Ok(text)
    }
}

/// Empty text is null.
fn parse(what: &str, text: &[u8]) -> Result<Json, String> {
    if text.is_empty() {
        return Ok(Json::Null);
    }
    serde_json::from_slice(text).map_err(|e| format!("{what} is not valid JSON: {e}"))
}

fn raised(error: &Error) -> Option<String> {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(e) = source {
        if let Some(raised) = e.downcast_ref::<Raised>() {
            return Some(raised.0.clone());
        }
        source = e.source();
    }
    None
}

fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(e) = source {
        text.push_str(": ");
        text.push_str(&e.to_string());
        source = e.source();
    }
    text
}

/// `{% generation %}...{% endgeneration %}` marks what the assistant says, for training: here it is
/// a block that is always taken.
fn without_generation_tags(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        out.push_str(&rest[..start]);
        let tag = &rest[start..];
        let Some(len) = tag.find("%}").map(|at| at + 2) else {
            rest = tag;
            break;
        };
        let inner = &tag[2..len - 2];
        let word = inner.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        match word {
            "generation" => out.push_str(&tag[..len].replacen(word, "if true", 1)),
            "endgeneration" => out.push_str(&tag[..len].replacen(word, "endif", 1)),
            _ => out.push_str(&tag[..len]),
        }
        rest = &tag[len..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Where the text of the last message ends in the rendered chat: what comes after closes its turn.
fn end_of_final_message(text: &str, messages: &Json) -> Result<usize, String> {
    let content = messages.as_array().and_then(|list| list.last()).map(|m| &m["content"]);
    let content = match content {
        Some(Json::String(content)) => Some(content.as_str()),
        Some(Json::Array(parts)) => parts.iter().rev().find_map(|part| part["text"].as_str()),
        _ => None,
    };
    let content = content.ok_or("continue_final_message: the last message has no text to continue")?;
    let start = text.rfind(content.trim()).ok_or(
        "continue_final_message: the last message's text doesn't appear in the rendered chat; \
         this model's chat template changes or drops it",
    )?;
    // Trailing space of the message is kept if the template kept it.
    let whole = content.trim_start();
    let kept = if text[start..].starts_with(whole) { whole } else { content.trim() };
    Ok(start + kept.len())
}

fn print(out: &mut Output, _state: &State, value: &Value) -> Result<(), Error> {
    let write = |out: &mut Output, text: &str| out.write_str(text).map_err(Error::from);
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

/// transformers' filter: tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False).
fn tojson(value: &Value, ascii: Option<bool>, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let indent = match indent {
        Some(value) if value.is_none() => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(value)?.min(64)),
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
    let fail = |text: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {text}"));
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
