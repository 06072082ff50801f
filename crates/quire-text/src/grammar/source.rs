//! What a request asks for, as a grammar of the compiler's.

use llguidance::api::TopLevelGrammar;
use serde_json::{json, Map, Value};

use super::marks::Marks;
use super::{ebnf, regex, schema, schema_culprit, structural_tag};

/// Between two tokens of JSON: a few blanks, or a new line with its indent. Bounded, so that a weak
/// model can't fill its answer with white space.
const WHITE_SPACE: &str = r"[ \t]{1,4}|(\r?\n){1,2}[ \t]{0,60}";

/// How JSON is written.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub whitespace_pattern: Option<String>,
    pub no_whitespace: bool,
    pub closed_objects: bool,
}

#[derive(Clone, Debug)]
pub enum Source {
    JsonSchema(String, Options),
    Regex(String),
    Choice(String),  // JSON list of strings
    Grammar(String), // Lark, or EBNF as llama.cpp and vLLM write it
    StructuralTag(String, Options),
}

impl Source {
    pub fn grammar(&self, marks: &Marks) -> Result<TopLevelGrammar, String> {
        match self {
            Source::JsonSchema(text, options) => {
                let schema = parse_json(text, "the schema")?;
                Ok(TopLevelGrammar::from_json_schema(json_schema(&schema, options)?))
            }
            Source::Regex(pattern) => Ok(TopLevelGrammar::from_lark(regex_grammar(pattern)?)),
            Source::Choice(text) => Ok(TopLevelGrammar::from_lark(choice_grammar(text)?)),
            Source::Grammar(text) => Ok(TopLevelGrammar::from_lark(ebnf::to_lark(text)?)),
            Source::StructuralTag(text, options) => {
                let tag = parse_json(text, "the structural tag")?;
                structural_tag::grammar(&tag, options, marks)
            }
        }
    }

    /// The error of compiling this, with the place where it is known.
    pub fn explain(&self, error: &str, fails: schema_culprit::Fails) -> String {
        if let Source::JsonSchema(text, options) = self {
            let prepared = parse_json(text, "the schema").and_then(|s| json_schema(&s, options));
            if let Ok(prepared) = prepared {
                return schema_culprit::explain(&prepared, error, fails);
            }
        }
        error.to_string()
    }
}

pub fn parse_json(text: &str, what: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("{what} is not JSON: {e}"))
}

/// The checked schema with the options in the compiler's own keyword.
pub fn json_schema(schema: &Value, options: &Options) -> Result<Value, String> {
    let mut out = match schema::prepare(schema, options.closed_objects)? {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let white_space = options.whitespace_pattern.as_deref().unwrap_or(WHITE_SPACE);
    if let Some(pattern) = &options.whitespace_pattern {
        regex::check(pattern).map_err(|why| format!("the white space pattern: {why}"))?;
    }
    let style = match options.no_whitespace || white_space.is_empty() {
        true => json!({"whitespace_flexible": false}),
        false => json!({"whitespace_pattern": white_space}),
    };
    out.insert("x-guidance".to_string(), style);
    Ok(Value::Object(out))
}

pub fn regex_grammar(pattern: &str) -> Result<String, String> {
    let pattern = regex::translate(pattern);
    regex::check(&pattern).map_err(|why| format!("the regular expression: {why}"))?;
    Ok(format!("start: {}", regex::lark_literal(&pattern)))
}

fn choice_grammar(text: &str) -> Result<String, String> {
    let choices: Vec<String> =
        serde_json::from_str(text).map_err(|e| format!("internal error: choices: {e}"))?;
    if choices.is_empty() {
        return Err("there must be at least one choice".to_string());
    }
    let literals: Vec<String> = choices.iter().map(|choice| lark_string(choice)).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}", literals.join(" | ")))
}

/// A string literal of Lark: JSON's, which escapes what must not stand there.
pub fn lark_string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
