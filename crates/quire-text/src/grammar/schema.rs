//! Checks a JSON Schema before it is compiled: every keyword must be one that is enforced, with a
//! value of its kind, so that nothing asked for is passed over. Errors name keyword and place.
//! What says nothing is taken out, and what has an enforced equivalent becomes that.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::regex;
use super::schema_draft::{self, Draft};
use super::schema_formats;
use super::schema_keywords::{self as keywords, Value as Kind};
use super::schema_values::{
    check_format, check_items, check_type, is_exact, is_neutral, kind_name, percent_decode,
};

/// The compiler recurses through nesting and references; see COMPILE_STACK_BYTES.
const MAX_DEPTH: usize = 192;
const MAX_SCHEMAS: usize = 16_384;

pub struct Checker<'a> {
    root: &'a Value,
    closed_objects: bool,
    visited: HashSet<String>,
    inlined: Vec<String>,
    depth: usize,
    num_schemas: usize,
    has_ids: bool,
    draft: Draft,
    inside_id: bool, // within an "id", which is a base of references in draft 4 alone
}

/// `keyword` at `path`, a JSON pointer, can't be enforced because of `why`.
pub fn refusal(keyword: &str, path: &str, why: &str) -> String {
    format!("the schema's \"{keyword}\" at \"#{path}\" {why}")
}

fn key(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The schema that is compiled instead of `schema`. With `closed_objects`, an object that says
/// nothing of more properties has none.
pub fn prepare(schema: &Value, closed_objects: bool) -> Result<Value, String> {
    let mut checker = Checker {
        root: schema,
        closed_objects,
        visited: HashSet::new(),
        inlined: Vec::new(),
        depth: 0,
        num_schemas: 0,
        has_ids: has_id(schema),
        draft: Draft::Unnamed,
        inside_id: false,
    };
    let out = checker.schema(schema, "")?;
    match out {
        Value::Bool(true) => Ok(Value::Object(Map::new())),
        Value::Bool(false) => Err("the schema is false: nothing fits it".to_string()),
        out => Ok(out),
    }
}

fn has_id(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.get("$id").is_some_and(Value::is_string)
                || map.get("$anchor").is_some_and(Value::is_string)
                || map.get("id").is_some_and(Value::is_string)
                || map.values().any(has_id)
        }
        Value::Array(list) => list.iter().any(has_id),
        _ => false,
    }
}

impl Checker<'_> {
    fn schema(&mut self, schema: &Value, path: &str) -> Result<Value, String> {
        let map = match schema {
            Value::Bool(value) => return Ok(Value::Bool(*value)),
            Value::Object(map) => map,
            other => {
                return Err(format!(
                    "the schema at \"#{path}\" must be an object or a boolean, but it is {}",
                    kind_name(other)
                ))
            }
        };
        if self.depth >= MAX_DEPTH {
            return Err(format!(
                "the schema at \"#{path}\" is nested more than {MAX_DEPTH} levels deep"
            ));
        }
        if self.num_schemas >= MAX_SCHEMAS {
            return Err(format!("the schema holds more than {MAX_SCHEMAS} schemas"));
        }
        self.num_schemas += 1;
        self.depth += 1;
        let outside = (self.draft, self.inside_id);
        self.draft = Draft::named_by(map).unwrap_or(self.draft);
        let out = match map.contains_key("$ref") && self.draft.has_lone_refs() {
            true => self.keywords(&schema_draft::lone_ref(map), path)?,
            false => self.keywords(map, path)?,
        };
        (self.draft, self.inside_id) = outside;
        self.depth -= 1;
        Ok(Value::Object(out))
    }

    fn keywords(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
    ) -> Result<Map<String, Value>, String> {
        self.check_base(map, path)?;
        check_items(map, path)?;
        let mut out = Map::new();
        for (name, value) in map {
            if let Some(value) = self.keyword(name, value, path)? {
                out.insert(name.clone(), value);
            }
        }
        if out.contains_key("prefixItems") {
            out.remove("additionalItems"); // says nothing where there are prefixItems
        }
        schema_formats::complete(&mut out);
        self.close(map, &mut out);
        Ok(out)
    }

    /// Where drafts disagree on what a reference is relative to, the schema must name its own.
    fn check_base(&mut self, map: &Map<String, Value>, path: &str) -> Result<(), String> {
        if self.draft != Draft::Unnamed || path.is_empty() {
            return Ok(());
        }
        let has = |name: &str| map.get(name).is_some_and(Value::is_string);
        self.inside_id |= has("id");
        if has("$ref") && (has("$id") || self.inside_id) {
            let beside = if has("$id") { "beside a \"$id\"" } else { "within an \"id\"" };
            let why = format!(
                "stands {beside}, and what it refers to depends on the draft of JSON Schema: \
                 name that in \"$schema\""
            );
            return Err(refusal("$ref", path, &why));
        }
        Ok(())
    }

    fn close(&self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        let is_object = map.contains_key("properties") || map.get("type") == Some(&"object".into());
        if self.closed_objects && is_object && !map.contains_key("additionalProperties") {
            out.insert("additionalProperties".to_string(), Value::Bool(false));
        }
    }

    /// The value to compile; none when the keyword says nothing.
    fn keyword(&mut self, name: &str, value: &Value, path: &str) -> Result<Option<Value>, String> {
        let Some(kind) = keywords::lookup(name) else {
            return Err(refusal(name, path, "is not a known keyword: it can't be enforced"));
        };
        if self.draft.is_before(name) {
            return Err(refusal(name, path, "is not in the draft that \"$schema\" names"));
        }
        let wrong = |want: &str| {
            let why = format!("must be {want}, but it is {}", kind_name(value));
            Err(refusal(name, path, &why))
        };
        let counts = matches!(kind, Kind::Any | Kind::NonEmptyList | Kind::Number | Kind::Limit);
        if (counts || kind == Kind::Positive) && !is_exact(value) {
            let why = "holds a number beyond 2^53 - 1, which can't be enforced exactly";
            return Err(refusal(name, path, why));
        }
        match kind {
            Kind::Annotation => return Ok(self.annotation(name, value)),
            Kind::Neutral if is_neutral(name, value) => return Ok(None),
            Kind::Neutral => return Err(refusal(name, path, "can't be enforced")),
            Kind::Any => {}
            Kind::Type => check_type(value).map_err(|why| refusal(name, path, &why))?,
            Kind::NonEmptyList => match value {
                Value::Array(list) if !list.is_empty() => {}
                Value::Array(_) => return Err(refusal(name, path, "is empty: nothing fits it")),
                _ => return wrong("a list"),
            },
            Kind::Number if value.is_number() => {}
            Kind::Number => return wrong("a number"),
            Kind::Limit if value.is_number() || value.is_boolean() => {}
            Kind::Limit => return wrong("a number"),
            Kind::Positive => match value.as_f64() {
                Some(number) if number > 0.0 => {}
                _ => return Err(refusal(name, path, "must be a number above 0")),
            },
            Kind::Count => return self.count(name, value, path).map(Some),
            Kind::Pattern => return self.pattern(name, value, path).map(Some),
            Kind::Format => check_format(value).map_err(|why| refusal(name, path, &why))?,
            Kind::Names => match value {
                Value::Array(list) if list.iter().all(Value::is_string) => {}
                _ => return Err(refusal(name, path, "must be a list of property names")),
            },
            Kind::Ref => self.reference(name, value, path)?,
            Kind::Schema => return self.schema(value, &key(path, name)).map(Some),
            Kind::SchemaOrList if !value.is_array() => {
                return self.schema(value, &key(path, name)).map(Some)
            }
            Kind::SchemaOrList | Kind::SchemaList => {
                return self.schema_list(name, value, path).map(Some)
            }
            Kind::SchemaMap | Kind::PatternMap => {
                return self.schema_map(name, value, path, kind == Kind::PatternMap).map(Some)
            }
        }
        Ok(Some(value.clone()))
    }

    /// Those that the compiler needs to find references are kept. Without them the draft must not be
    /// told: the compiler passes over what is newer.
    fn annotation(&self, name: &str, value: &Value) -> Option<Value> {
        match name {
            "$schema" if self.has_ids => self.draft.uri().map(Value::from),
            "$id" | "id" | "$anchor" if value.is_string() => Some(value.clone()),
            _ => None,
        }
    }

    /// Also 2.0, which JSON Schema takes for an integer.
    fn count(&self, name: &str, value: &Value, path: &str) -> Result<Value, String> {
        let whole = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=9e15).contains(n));
        match whole {
            Some(number) => Ok(Value::from(number as u64)),
            None => Err(refusal(name, path, "must be an integer of at least 0")),
        }
    }

    fn pattern(&self, name: &str, value: &Value, path: &str) -> Result<Value, String> {
        let Value::String(text) = value else {
            return Err(refusal(name, path, "must be a string"));
        };
        let pattern = regex::translate(text);
        regex::check(&pattern)
            .map_err(|why| refusal(name, path, &format!("can't be enforced: {why}")))?;
        Ok(Value::String(pattern))
    }

    fn schema_list(&mut self, name: &str, value: &Value, path: &str) -> Result<Value, String> {
        let Value::Array(list) = value else {
            return Err(refusal(name, path, "must be a list of schemas"));
        };
        if list.is_empty() && matches!(name, "allOf" | "anyOf" | "oneOf") {
            return Err(refusal(name, path, "is an empty list"));
        }
        let place = key(path, name);
        let mut out = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            out.push(match self.branch_target(name, item) {
                Some((pointer, target)) => {
                    self.inlined.push(pointer.clone());
                    let branch = self.schema(&target, &pointer)?;
                    self.inlined.pop();
                    branch
                }
                None => self.schema(item, &format!("{place}/{i}"))?,
            });
        }
        Ok(Value::Array(out))
    }

    /// What a branch of "oneOf" refers to, which stands in its place: the compiler must see that
    /// branches exclude each other, and does not look through references.
    fn branch_target(&self, name: &str, item: &Value) -> Option<(String, Value)> {
        let map = item.as_object().filter(|_| name == "oneOf" && !self.has_ids)?;
        let only = map.keys().all(|k| k == "$ref" || keywords::lookup(k) == Some(Kind::Annotation));
        let pointer = percent_decode(map.get("$ref")?.as_str()?.strip_prefix('#')?);
        let target = self.root.pointer(&pointer).filter(|_| only)?;
        (!self.inlined.contains(&pointer)).then(|| (pointer, target.clone()))
    }

    fn schema_map(
        &mut self,
        name: &str,
        value: &Value,
        path: &str,
        by_pattern: bool,
    ) -> Result<Value, String> {
        let Value::Object(map) = value else {
            return Err(refusal(name, path, "must be an object of schemas"));
        };
        let place = key(path, name);
        let mut out = Map::new();
        for (label, schema) in map {
            let label_out = match by_pattern {
                true => match self.pattern(name, &label.clone().into(), path)? {
                    Value::String(pattern) => pattern,
                    _ => label.clone(),
                },
                false => label.clone(),
            };
            out.insert(label_out, self.schema(schema, &key(&place, label))?);
        }
        Ok(Value::Object(out))
    }

    /// The target must be here, and be a schema that can be enforced itself.
    fn reference(&mut self, name: &str, value: &Value, path: &str) -> Result<(), String> {
        let Value::String(target) = value else {
            return Err(refusal(name, path, "must be a string"));
        };
        let Some(fragment) = target.strip_prefix('#') else {
            if self.has_ids {
                return Ok(()); // of an embedded resource, or the compiler does not find it
            }
            return Err(refusal(
                name,
                path,
                &format!("refers to \"{target}\", which is not in this schema"),
            ));
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return Ok(()); // an anchor
        }
        let pointer = percent_decode(fragment);
        let Some(found) = self.root.pointer(&pointer) else {
            if self.has_ids {
                return Ok(()); // relative to an embedded resource
            }
            return Err(refusal(
                name,
                path,
                &format!("refers to \"{target}\", which is not there"),
            ));
        };
        if self.visited.insert(pointer.clone()) {
            let found = found.clone();
            self.schema(&found, &pointer)?;
        }
        Ok(())
    }
}
