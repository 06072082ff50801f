//! What each JSON Schema keyword holds, and which are enforced.

/// The kind of a keyword's value. `Schema...` hold schemas themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Annotation, // says nothing about validity
    Type,
    Any,
    NonEmptyList,
    Number,
    Limit, // a number, or draft 4's true or false
    Positive,
    Count,
    Pattern,
    Format,
    Names,
    Ref,
    Schema,
    SchemaOrList, // "items"
    SchemaList,
    SchemaMap,
    PatternMap, // schemas by regular expression
    Neutral,    // only a value that demands nothing
}

use Value::*;

const KEYWORDS: [(&str, Value); 62] = [
    ("$anchor", Annotation),
    ("$comment", Annotation),
    ("$defs", SchemaMap),
    ("$id", Annotation),
    ("$ref", Ref),
    ("$schema", Annotation),
    ("$vocabulary", Annotation),
    ("additionalItems", Schema),
    ("additionalProperties", Schema),
    ("allOf", SchemaList),
    ("anyOf", SchemaList),
    ("const", Any),
    ("contains", Neutral),
    ("contentEncoding", Annotation),
    ("contentMediaType", Annotation),
    ("contentSchema", Annotation),
    ("default", Annotation),
    ("definitions", SchemaMap),
    ("dependencies", Neutral),
    ("dependentRequired", Neutral),
    ("dependentSchemas", Neutral),
    ("deprecated", Annotation),
    ("description", Annotation),
    ("discriminator", Annotation), // OpenAPI: which branch to try first
    ("else", Neutral),
    ("enum", NonEmptyList),
    ("example", Annotation),
    ("examples", Annotation),
    ("exclusiveMaximum", Limit),
    ("exclusiveMinimum", Limit),
    ("externalDocs", Annotation),
    ("format", Format),
    ("id", Annotation),
    ("if", Neutral),
    ("items", SchemaOrList),
    ("maxContains", Neutral),
    ("maxItems", Count),
    ("maxLength", Count),
    ("maxProperties", Count),
    ("maximum", Number),
    ("minContains", Neutral),
    ("minItems", Count),
    ("minLength", Count),
    ("minProperties", Count),
    ("minimum", Number),
    ("multipleOf", Positive),
    ("not", Neutral),
    ("nullable", Neutral), // OpenAPI 3.0
    ("oneOf", SchemaList),
    ("pattern", Pattern),
    ("patternProperties", PatternMap),
    ("prefixItems", SchemaList),
    ("properties", SchemaMap),
    ("propertyNames", Neutral),
    ("readOnly", Annotation),
    ("required", Names),
    ("then", Neutral),
    ("title", Annotation),
    ("type", Type),
    ("unevaluatedItems", Neutral),
    ("unevaluatedProperties", Neutral),
    ("uniqueItems", Neutral),
    // writeOnly: see below
];

/// None for a keyword that nothing here knows.
pub fn lookup(keyword: &str) -> Option<Value> {
    if keyword.starts_with("x-") || keyword == "writeOnly" {
        return Some(Annotation);
    }
    KEYWORDS.iter().find(|(name, _)| *name == keyword).map(|(_, value)| *value)
}

pub const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

pub const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
