//! Formats whose grammar in the compiler takes what the format forbids: a 29th of February of any
//! year, a 60th second of any minute, the year 0. A pattern beside them forbids that.

use serde_json::{json, Map, Value};

const YEAR: &str = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
/// Divisible by 4, but not by 100 unless by 400; not 0.
const LEAP_YEAR: &str = concat!(
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|",
    "(?:0[48]|[2468][048]|[13579][26])00)"
);
const MONTH_AND_DAY: &str = concat!(
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|",
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
);
/// RFC 3339's, without leap seconds: which minutes have one is no matter of a grammar.
const TIME: &str = concat!(
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?",
    "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
);

/// What a text of the format must match in addition.
fn pattern(format: &str) -> Option<String> {
    let date = format!("(?:{YEAR}-{MONTH_AND_DAY}|{LEAP_YEAR}-02-29)");
    match format {
        "date" => Some(format!("^{date}$")),
        "time" => Some(format!("^{TIME}$")),
        "date-time" => Some(format!("^{date}[tT]{TIME}$")),
        _ => None,
    }
}

/// Adds the pattern to a schema with such a format.
pub fn complete(schema: &mut Map<String, Value>) {
    let Some(pattern) = schema.get("format").and_then(Value::as_str).and_then(pattern) else {
        return;
    };
    if !schema.contains_key("pattern") {
        schema.insert("pattern".to_string(), pattern.into());
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(list) = all {
        list.push(json!({"pattern": pattern}));
    }
}
