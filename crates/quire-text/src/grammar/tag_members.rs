//! Members of a structural tag's objects, checked.

use serde_json::Value;

use super::regex;

pub fn string(value: Option<&Value>, what: &str) -> Result<String, String> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(format!("{what} must be a string")),
    }
}

pub fn list<'v>(value: Option<&'v Value>, what: &str) -> Result<&'v Vec<Value>, String> {
    match value {
        Some(Value::Array(list)) if !list.is_empty() => Ok(list),
        _ => Err(format!("{what} must be a list that is not empty")),
    }
}

pub fn strings(value: Option<&Value>, what: &str) -> Result<Vec<String>, String> {
    list(value, what)?.iter().map(|item| string(Some(item), what)).collect()
}

/// What is not read could not be enforced: an object has no members but these and its type.
pub fn known(value: &Value, place: &str, names: &[&str]) -> Result<(), String> {
    let map = value.as_object().ok_or_else(|| format!("{place} must be an object"))?;
    let unread = map.iter().find(|(name, value)| {
        *name != "type" && !value.is_null() && !names.contains(&name.as_str())
    });
    match unread {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "{place} has \"{name}\", which can't be enforced: it may have {}",
            names.join(", ")
        )),
    }
}

/// Those of each kind of format.
pub fn members(kind: &str) -> &'static [&'static str] {
    match kind {
        "const_string" => &["value"],
        "json_schema" => &["json_schema"],
        "any_text" => &["pattern", "without", "excludes", "max_tokens"],
        "text_up_to" | "regex" => &["pattern"],
        "optional" | "star" | "plus" => &["content"],
        "grammar" => &["grammar"],
        "sequence" | "or" => &["elements"],
        "tag" => &["begin", "content", "end"],
        "triggered_tags" => &["triggers", "tags", "at_least_one", "stop_after_first"],
        _ => &["tags", "separator", "at_least_one", "stop_after_first"],
    }
}

/// A regular expression in the compiler's syntax.
pub fn pattern(value: Option<&Value>, what: &str) -> Result<String, String> {
    let pattern = regex::translate(&string(value, what)?);
    regex::check(&pattern).map_err(|why| format!("{what}: {why}"))?;
    Ok(pattern)
}

pub fn flag(value: Option<&Value>, what: &str) -> Result<bool, String> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(format!("{what} must be a boolean")),
    }
}
