//! What values a schema's keywords may have.

use serde_json::{Map, Value};

use super::schema::refusal;
use super::schema_keywords as keywords;

pub fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Values that leave every document valid.
pub fn is_neutral(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("uniqueItems" | "nullable", Value::Bool(allowed)) => !allowed,
        ("unevaluatedItems" | "unevaluatedProperties" | "propertyNames", Value::Bool(allowed)) => {
            *allowed
        }
        ("dependencies" | "dependentRequired" | "dependentSchemas", Value::Object(map)) => {
            map.is_empty()
        }
        ("not", Value::Bool(forbidden)) => !forbidden,
        _ => false,
    }
}

/// The compiler reckons in doubles and in 64-bit integers made from them: beyond this, a number would
/// be another one in the answer.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// Whether all numbers within a value reach the answer as they are.
pub fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|n| n.abs() <= EXACT),
        Value::Array(list) => list.iter().all(is_exact),
        Value::Object(map) => map.values().all(is_exact),
        _ => true,
    }
}

/// A list of "items" is what older drafts call "prefixItems".
pub fn check_items(map: &Map<String, Value>, path: &str) -> Result<(), String> {
    match map.get("items") {
        Some(Value::Array(_)) if map.contains_key("prefixItems") => {
            Err(refusal("items", path, "is a list, which can't stand beside \"prefixItems\""))
        }
        _ => Ok(()),
    }
}

pub fn check_type(value: &Value) -> Result<(), String> {
    let check_name = |name: &Value| match name.as_str() {
        Some(name) if keywords::TYPES.contains(&name) => Ok(()),
        _ => Err(format!("is {name}, but must be one of {}", keywords::TYPES.join(", "))),
    };
    match value {
        Value::Array(list) if list.is_empty() => Err("is an empty list".to_string()),
        Value::Array(list) => list.iter().try_for_each(check_name),
        other => check_name(other),
    }
}

pub fn check_format(value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some(name) if keywords::FORMATS.contains(&name) => Ok(()),
        _ => {
            let known = keywords::FORMATS.join(", ");
            Err(format!("is {value}, which can't be enforced; these can: {known}"))
        }
    }
}

pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) if bytes[i] == b'%' => {
                out.push(byte);
                i += 3;
            }
            _ => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
