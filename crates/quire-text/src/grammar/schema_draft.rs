//! What depends on the draft of JSON Schema that a schema names in "$schema".

use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Draft {
    Unnamed, // or of no draft that is known here
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

use Draft::*;

const URIS: [(Draft, &str); 5] = [
    (Draft4, "http://json-schema.org/draft-04/schema"),
    (Draft6, "http://json-schema.org/draft-06/schema"),
    (Draft7, "http://json-schema.org/draft-07/schema"),
    (Draft201909, "https://json-schema.org/draft/2019-09/schema"),
    (Draft202012, "https://json-schema.org/draft/2020-12/schema"),
];

fn without_scheme(uri: &str) -> &str {
    let uri = uri.trim_end_matches('#');
    uri.strip_prefix("http").map_or(uri, |rest| rest.strip_prefix('s').unwrap_or(rest))
}

impl Draft {
    /// None where the schema says nothing of it: then it is that of the schema around.
    pub fn named_by(schema: &Map<String, Value>) -> Option<Draft> {
        let named = without_scheme(schema.get("$schema")?.as_str()?);
        let known = URIS.iter().find(|(_, uri)| without_scheme(uri) == named);
        Some(known.map_or(Unnamed, |(draft, _)| *draft))
    }

    pub fn uri(self) -> Option<&'static str> {
        URIS.iter().find(|(draft, _)| *draft == self).map(|(_, uri)| *uri)
    }

    /// Up to draft 7, what stands beside "$ref" says nothing.
    pub fn has_lone_refs(self) -> bool {
        (Draft4..=Draft7).contains(&self)
    }

    /// Whether the draft is older than an enforced keyword, which says nothing there.
    pub fn is_before(self, keyword: &str) -> bool {
        match keyword {
            "const" => self == Draft4,
            "prefixItems" => (Draft4..Draft202012).contains(&self),
            _ => false,
        }
    }
}

/// What is left of a schema with "$ref" where nothing beside it counts. References point into
/// definitions.
pub fn lone_ref(schema: &Map<String, Value>) -> Map<String, Value> {
    let kept = |name: &str| matches!(name, "$ref" | "$schema" | "$defs" | "definitions");
    let entries = schema.iter().filter(|(name, _)| kept(name));
    entries.map(|(name, value)| (name.clone(), value.clone())).collect()
}
