//! Chat templates: Hugging Face's Jinja dialect on minijinja.

use std::borrow::Cow;

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use serde_json::Value as Json;

use crate::ffi::{ChatInput, SpecialNames};
use crate::jinja;

const NAME: &str = "chat_template";

/// What raise_exception() was called with; found again in the error's chain of sources.
#[derive(Debug)]
struct Raised(String);

/// Instructions that one rendering may take (about a second): a template that loops without end is
/// refused. A chat of ten thousand messages takes a fraction of it.
const MAX_INSTRUCTIONS: u64 = 30_000_000;

/// The compiler recurses through chains of operators and of elif, a frame each few bytes: this bounds
/// the stack that it takes. The longest templates of known models have 50 kB.
const MAX_SOURCE_BYTES: usize = 256 << 10;

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
        let source = std::str::from_utf8(source).map_err(|e| {
            format!("chat template is not valid UTF-8 at offset {}", e.valid_up_to())
        })?;
        if source.len() > MAX_SOURCE_BYTES {
            return Err(format!(
                "chat template has {} bytes; the limit is {MAX_SOURCE_BYTES}",
                source.len()
            ));
        }
        let mut env = Environment::new();
        env.set_trim_blocks(true);
        env.set_lstrip_blocks(true);
        env.set_fuel(Some(MAX_INSTRUCTIONS));
        env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        jinja::install(&mut env);
        env.add_function("raise_exception", |text: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, text.clone()).with_source(Raised(text)))
        });
        env.add_template_owned(NAME, without_generation_tags(source).into_owned())
            .map_err(|e| format!("chat template doesn't compile: {}", describe(&e)))?;
        Ok(Template { env, names })
    }

    pub fn render(&self, input: &ChatInput) -> Result<String, String> {
        let mut messages = parse("messages", input.messages)?;
        alias_reasoning(&mut messages);
        let mut variables: Vec<(String, Value)> = Vec::new();
        for (name, text) in [
            ("bos_token", &self.names.bos),
            ("eos_token", &self.names.eos),
            ("unk_token", &self.names.unk),
            ("pad_token", &self.names.pad),
        ] {
            // As with transformers, a token that the model lacks is not defined.
            if !text.is_empty() {
                variables.push((name.to_string(), Value::from(text.as_str())));
            }
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
        let mut printed = jinja::Printed::default();
        jinja::limit_printing(|| {
            template.render_captured_to(Value::from_iter(variables), &mut printed).map(drop)
        })
        .map_err(|e| match raised(&e) {
            Some(text) => text,
            None => format!("chat template failed: {}", describe(&e)),
        })?;
        let mut text = String::from_utf8(printed.0).map_err(|e| e.to_string())?;
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

/// As transformers does it: a message's reasoning, under whichever name it came, is found by
/// templates that read `reasoning_content` and by gpt-oss's, which reads `thinking`.
fn alias_reasoning(messages: &mut Json) {
    const THINKING: &str = "thinking";
    const STANDARD: &str = "reasoning_content";
    for message in messages.as_array_mut().into_iter().flatten().filter_map(Json::as_object_mut) {
        let names = [STANDARD, THINKING, "reasoning"];
        let found = names.iter().find_map(|&name| message.get(name).filter(|v| !v.is_null()));
        let Some(reasoning) = found.cloned() else { continue };
        let mut renamed = serde_json::Map::new();
        renamed.insert(THINKING.into(), reasoning.clone());
        renamed.extend(std::mem::take(message));
        renamed.insert(STANDARD.into(), reasoning);
        *message = renamed;
    }
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
        // Behind the opening: in "{%}" nothing is closed.
        let Some(len) = tag[2..].find("%}").map(|at| at + 4) else {
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
    let content =
        content.ok_or("continue_final_message: the last message has no text to continue")?;
    let start = text.rfind(content.trim()).ok_or(
        "continue_final_message: the last message's text doesn't appear in the rendered chat; \
         this model's chat template changes or drops it",
    )?;
    // Trailing space of the message is kept if the template kept it.
    let whole = content.trim_start();
    let kept = if text[start..].starts_with(whole) { whole } else { content.trim() };
    Ok(start + kept.len())
}
