//! Values written as Python writes them: chat templates are made for Jinja2, where `tojson` is
//! `json.dumps` and printing a value gives its `str`.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

fn float(value: f64, json: bool) -> String {
    if value.is_nan() {
        return if json { "NaN" } else { "nan" }.to_string();
    }
    if value.is_infinite() {
        let name = if json { "Infinity" } else { "inf" };
        return if value < 0.0 { format!("-{name}") } else { name.to_string() };
    }
    let text = format!("{value:?}"); // the shortest that reads back, as in Python: "1.0", "1e16", "1e-5"
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let (sign, number) = match exponent.strip_prefix('-') {
                Some(number) => ('-', number),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{number:0>2}")
        }
    }
}

/// The number's text; None when `value` isn't one.
fn number(value: &Value, json: bool) -> Option<String> {
    if value.kind() != ValueKind::Number {
        return None;
    }
    if value.is_integer() {
        return Some(value.to_string());
    }
    f64::try_from(value.clone()).ok().map(|v| float(v, json))
}

fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `json.dumps` with `ensure_ascii=False`.
pub struct JsonStyle {
    pub indent: Option<String>, // one level's
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
    pub ensure_ascii: bool,
}

impl JsonStyle {
    pub fn dumps(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        if self.ensure_ascii {
            out = escape_non_ascii(&out);
        }
        Ok(out)
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value, true).unwrap_or_default()),
            ValueKind::String => json_string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_list(&items, depth, out)?
            }
            ValueKind::Map => self.write_map(value, depth, out)?,
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: a value of type {kind} has no JSON form"),
                ))
            }
        }
        Ok(())
    }

    fn write_list(&self, items: &[Value], depth: usize, out: &mut String) -> Result<(), Error> {
        out.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.new_line(depth + 1, out);
            self.write(item, depth + 1, out)?;
        }
        if !items.is_empty() {
            self.new_line(depth, out);
        }
        out.push(']');
        Ok(())
    }

    fn write_map(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        out.push('{');
        for (i, key) in keys.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.new_line(depth + 1, out);
            match key.as_str() {
                Some(text) => json_string(text, out),
                None => {
                    let mut text = String::new();
                    self.write(key, 0, &mut text)?;
                    json_string(&text, out);
                }
            }
            out.push_str(&self.key_separator);
            self.write(&value.get_item(key)?, depth + 1, out)?;
        }
        if !keys.is_empty() {
            self.new_line(depth, out);
        }
        out.push('}');
        Ok(())
    }
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Python's `str(value)`; nothing for what is undefined.
pub fn str_of(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_string(),
        None if value.is_undefined() => String::new(),
        None => repr(value),
    }
}

fn repr(value: &Value) -> String {
    let mut out = String::new();
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value, false).unwrap_or_default()),
        ValueKind::String => repr_string(value.as_str().unwrap_or_default(), &mut out),
        ValueKind::Seq => {
            let items: Vec<String> =
                value.try_iter().into_iter().flatten().map(|v| repr(&v)).collect();
            out = format!("[{}]", items.join(", "));
        }
        ValueKind::Map => {
            let items: Vec<String> = value
                .try_iter()
                .into_iter()
                .flatten()
                .map(|key| {
                    let item = value.get_item(&key).unwrap_or_default();
                    format!("{}: {}", repr(&key), repr(&item))
                })
                .collect();
            out = format!("{{{}}}", items.join(", "));
        }
        _ => out = value.to_string(),
    }
    out
}

fn repr_string(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || (0x7f..0xa1).contains(&(c as u32)) => {
                out.push_str(&format!("\\x{:02x}", c as u32))
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}
