//! Finds the part of a schema that the compiler refuses. Its errors do not tell the place, so parts
//! are compiled alone: the smallest that gives the same error is the one.

use serde_json::{Map, Value};

use super::schema::refusal;
use super::schema_keywords::{self as keywords, Value as Kind};

/// Each trial is one compilation of a part.
const MAX_TRIALS: usize = 200;

/// The error of compiling a schema, if any.
pub type Fails<'a> = &'a dyn Fn(&Value) -> Option<String>;

pub fn explain(schema: &Value, error: &str, fails: Fails) -> String {
    let definitions: Map<String, Value> = ["$defs", "definitions"]
        .iter()
        .filter_map(|name| schema.get(name).map(|defs| (name.to_string(), defs.clone())))
        .collect();
    let error = error.to_string();
    let mut search = Search { error, fails, definitions, trials: 0, seen: Vec::new(), schema };
    let (path, part) = search.smallest(String::new(), schema);
    let keyword = search.keyword(part);
    let why = format!("can't be enforced: {}", search.error);
    match keyword {
        Some(keyword) => refusal(&keyword, &path, &why),
        None => format!("the schema at \"#{path}\" {why}"),
    }
}

struct Search<'a> {
    schema: &'a Value,
    error: String,
    fails: Fails<'a>,
    definitions: Map<String, Value>,
    trials: usize,
    seen: Vec<String>,
}

impl<'a> Search<'a> {
    /// The part's own error, if it is of the kind that is looked for: a whole is unsatisfiable
    /// because of a part, in other words.
    fn fails_alone(&mut self, part: &Value) -> Option<String> {
        let map = part.as_object().filter(|_| self.trials < MAX_TRIALS)?;
        self.trials += 1;
        let mut alone = map.clone();
        for (name, definitions) in &self.definitions {
            alone.entry(name.clone()).or_insert_with(|| definitions.clone());
        }
        let unsatisfiable = |error: &str| error.starts_with("Unsatisfiable");
        (self.fails)(&Value::Object(alone)).filter(|error| {
            *error == self.error || (unsatisfiable(error) && unsatisfiable(&self.error))
        })
    }

    fn smallest(&mut self, path: String, part: &'a Value) -> (String, &'a Value) {
        for (place, child) in self.children(&path, part) {
            if let Some(error) = self.fails_alone(child) {
                self.error = error;
                return self.smallest(place, child);
            }
        }
        (path, part)
    }

    /// The schemas directly inside, and the one that it refers to.
    fn children(&mut self, path: &str, part: &'a Value) -> Vec<(String, &'a Value)> {
        let Value::Object(map) = part else { return Vec::new() };
        let mut out = Vec::new();
        for (name, value) in map {
            match (keywords::lookup(name), value) {
                (Some(Kind::Ref), Value::String(target)) => {
                    let pointer = target.trim_start_matches('#').to_string();
                    let found = self.schema.pointer(&pointer);
                    if let (Some(found), false) = (found, self.seen.contains(&pointer)) {
                        self.seen.push(pointer.clone());
                        out.push((pointer, found));
                    }
                }
                (Some(_), _) if matches!(name.as_str(), "$defs" | "definitions") => {}
                (Some(Kind::Schema | Kind::SchemaOrList), Value::Object(_)) => {
                    out.push((format!("{path}/{name}"), value));
                }
                (Some(Kind::SchemaList | Kind::SchemaOrList), Value::Array(list)) => {
                    let items = list.iter().enumerate();
                    out.extend(items.map(|(i, item)| (format!("{path}/{name}/{i}"), item)));
                }
                (Some(Kind::SchemaMap | Kind::PatternMap), Value::Object(inner)) => {
                    out.extend(inner.iter().map(|(k, v)| (format!("{path}/{name}/{k}"), v)));
                }
                _ => {}
            }
        }
        out
    }

    /// The keyword without which the part compiles.
    fn keyword(&mut self, part: &Value) -> Option<String> {
        let Value::Object(map) = part else { return None };
        let names: Vec<&String> = map.keys().collect();
        names.into_iter().find_map(|name| {
            let mut without = map.clone();
            without.remove(name);
            let blamed = !name.starts_with('$') || name == "$ref";
            (blamed && self.fails_alone(&Value::Object(without)).is_none()).then(|| name.clone())
        })
    }
}
