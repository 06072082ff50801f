//! Structural tags: free text in which given beginnings start a constrained part. Both forms are
//! read: `structures` with `triggers`, and `format` with its nested kinds.

use std::fmt::Write;

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;

use super::source::{self, lark_string, Options};
use super::{ebnf, regex};

const MAX_DEPTH: usize = 64;

pub fn grammar(tag: &Value, options: &Options) -> Result<TopLevelGrammar, String> {
    let mut builder = Builder { options, rules: String::new(), count: 0, parts: Vec::new() };
    let start = match (tag.get("format"), tag.get("structures")) {
        (Some(format), _) => builder.format(format, "format", 0)?,
        (None, Some(structures)) => builder.structures(structures, tag.get("triggers"))?,
        (None, None) => {
            return Err(
                "a structural tag needs \"format\", or \"structures\" and \"triggers\"".to_string()
            )
        }
    };
    let text = format!("start: {start}\n{}", builder.rules);
    let mut grammars = vec![GrammarWithLexer::from_lark(text)];
    grammars.append(&mut builder.parts);
    Ok(TopLevelGrammar { grammars, max_tokens: None })
}

struct Builder<'a> {
    options: &'a Options,
    rules: String,
    count: usize,
    parts: Vec<GrammarWithLexer>, // named p0, p1, ...
}

/// A beginning, what follows it, and how that ends.
struct Tag {
    begin: String,
    content: String, // a rule or a group of Lark
    ends: Vec<String>,
    any_text: bool, // free text up to the end
}

fn string(value: Option<&Value>, what: &str) -> Result<String, String> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(format!("{what} must be a string")),
    }
}

fn list<'v>(value: Option<&'v Value>, what: &str) -> Result<&'v Vec<Value>, String> {
    match value {
        Some(Value::Array(list)) if !list.is_empty() => Ok(list),
        _ => Err(format!("{what} must be a list that is not empty")),
    }
}

fn strings(value: Option<&Value>, what: &str) -> Result<Vec<String>, String> {
    list(value, what)?.iter().map(|item| string(Some(item), what)).collect()
}

fn flag(value: Option<&Value>, what: &str) -> Result<bool, String> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(format!("{what} must be a boolean")),
    }
}

impl Builder<'_> {
    fn name(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count)
    }

    fn part(&mut self, mut grammar: GrammarWithLexer) -> String {
        let name = format!("p{}", self.parts.len());
        grammar.name = Some(name.clone());
        self.parts.push(grammar);
        format!("@{name}")
    }

    fn schema(&mut self, schema: Option<&Value>, place: &str) -> Result<String, String> {
        let schema = schema.ok_or_else(|| format!("{place} is missing"))?;
        let schema = source::json_schema(schema, self.options)
            .map_err(|error| format!("{place}: {error}"))?;
        Ok(self.part(GrammarWithLexer::from_json_schema(schema)))
    }

    /// {"structures": [{"begin", "schema", "end"}], "triggers": [..]}
    fn structures(&mut self, value: &Value, triggers: Option<&Value>) -> Result<String, String> {
        let mut tags = Vec::new();
        for (i, item) in list(Some(value), "structures")?.iter().enumerate() {
            let place = format!("structures[{i}]");
            tags.push(Tag {
                begin: string(item.get("begin"), &format!("{place}.begin"))?,
                content: self.schema(item.get("schema"), &format!("{place}.schema"))?,
                ends: vec![string(item.get("end"), &format!("{place}.end"))?],
                any_text: false,
            });
        }
        let triggers = strings(triggers, "triggers")?;
        self.triggered(&tags, &triggers, "structures", false, false)
    }

    fn format(&mut self, value: &Value, place: &str, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err(format!("{place} is nested more than {MAX_DEPTH} levels deep"));
        }
        let kind = string(value.get("type"), &format!("{place}.type"))?;
        match kind.as_str() {
            "const_string" => {
                Ok(lark_string(&string(value.get("value"), &format!("{place}.value"))?))
            }
            "json_schema" => self.schema(value.get("json_schema"), &format!("{place}.json_schema")),
            "any_text" => Ok(self.free_text(&[])),
            "regex" => {
                let pattern = string(value.get("pattern"), &format!("{place}.pattern"))?;
                let lark =
                    source::regex_grammar(&pattern).map_err(|e| format!("{place}.pattern: {e}"))?;
                Ok(self.part(GrammarWithLexer::from_lark(lark)))
            }
            "grammar" => {
                let text = string(value.get("grammar"), &format!("{place}.grammar"))?;
                let lark = ebnf::to_lark(&text).map_err(|e| format!("{place}.grammar: {e}"))?;
                Ok(self.part(GrammarWithLexer::from_lark(lark)))
            }
            "sequence" | "or" => {
                let by = if kind == "or" { " | " } else { " " };
                self.elements(value, place, depth, by)
            }
            "tag" => {
                let tag = self.tag(value, place, depth)?;
                Ok(self.whole_tag(&tag, ""))
            }
            "triggered_tags" => {
                let tags = self.tags(value, place, depth)?;
                let triggers = strings(value.get("triggers"), &format!("{place}.triggers"))?;
                let at_least_one = flag(value.get("at_least_one"), place)?;
                let stop_after_first = flag(value.get("stop_after_first"), place)?;
                self.triggered(&tags, &triggers, place, at_least_one, stop_after_first)
            }
            "tags_with_separator" => self.separated(value, place, depth),
            other => Err(format!(
                "{place}.type is \"{other}\": use const_string, json_schema, any_text, regex, \
                 grammar, sequence, or, tag, triggered_tags or tags_with_separator"
            )),
        }
    }

    fn elements(
        &mut self,
        value: &Value,
        place: &str,
        depth: usize,
        by: &str,
    ) -> Result<String, String> {
        let mut parts = Vec::new();
        for (i, item) in
            list(value.get("elements"), &format!("{place}.elements"))?.iter().enumerate()
        {
            parts.push(self.format(item, &format!("{place}.elements[{i}]"), depth + 1)?);
        }
        Ok(format!("({})", parts.join(by)))
    }

    fn tags(&mut self, value: &Value, place: &str, depth: usize) -> Result<Vec<Tag>, String> {
        let items = list(value.get("tags"), &format!("{place}.tags"))?.iter().enumerate();
        items.map(|(i, item)| self.tag(item, &format!("{place}.tags[{i}]"), depth + 1)).collect()
    }

    fn tag(&mut self, value: &Value, place: &str, depth: usize) -> Result<Tag, String> {
        let begin = string(value.get("begin"), &format!("{place}.begin"))?;
        let ends = match value.get("end") {
            Some(Value::Array(_)) => strings(value.get("end"), &format!("{place}.end"))?,
            end => vec![string(end, &format!("{place}.end"))?],
        };
        let inner = value.get("content").ok_or_else(|| format!("{place}.content is missing"))?;
        let any_text = inner.get("type") == Some(&Value::from("any_text"))
            && ends.iter().all(|end| !end.is_empty());
        let content = match any_text {
            true => String::new(),
            false => self.format(inner, &format!("{place}.content"), depth + 1)?,
        };
        Ok(Tag { begin, content, ends, any_text })
    }

    /// The tag without the first bytes of its beginning, which came already.
    fn whole_tag(&mut self, tag: &Tag, came: &str) -> String {
        let begin = &tag.begin[came.len()..];
        let begin = if begin.is_empty() { String::new() } else { lark_string(begin) + " " };
        if tag.any_text {
            let text = self.text_up_to(&tag.ends);
            return format!("({begin}{text})");
        }
        let ends: Vec<String> = tag.ends.iter().map(|end| lark_string(end)).collect();
        format!("({begin}{} ({}))", tag.content, ends.join(" | "))
    }

    /// Free text without any of these in it.
    fn free_text(&mut self, without: &[String]) -> String {
        let name = self.name("TEXT");
        let mut body = "/(?s:.)+/".to_string();
        for text in without {
            let _ = write!(body, " & ~(/(?s:.)*/ {} /(?s:.)*/)", lark_string(text));
        }
        let _ = writeln!(self.rules, "{name}: {body}");
        format!("{name}?")
    }

    /// Free text up to and with the first of these.
    fn text_up_to(&mut self, ends: &[String]) -> String {
        let name = self.name("upto");
        let ends: Vec<String> = ends.iter().map(|end| regex_syntax::escape(end)).collect();
        let end = regex::lark_literal(&format!("(?s:.)*(?:{})", ends.join("|")));
        let _ = writeln!(self.rules, "{name}[lazy]: {end}");
        name
    }

    fn triggered(
        &mut self,
        tags: &[Tag],
        triggers: &[String],
        place: &str,
        at_least_one: bool,
        stop_after_first: bool,
    ) -> Result<String, String> {
        if triggers.iter().any(String::is_empty) {
            return Err(format!("{place}: a trigger is empty"));
        }
        let mut used = vec![false; tags.len()];
        let mut branches = Vec::new();
        for trigger in triggers {
            let mut follow = Vec::new();
            for (tag, used) in tags.iter().zip(&mut used) {
                if tag.begin.starts_with(trigger.as_str()) {
                    *used = true;
                    follow.push(self.whole_tag(tag, trigger));
                }
            }
            if follow.is_empty() {
                return Err(format!("{place}: no tag begins with the trigger \"{trigger}\""));
            }
            let text = self.text_up_to(std::slice::from_ref(trigger));
            branches.push(format!("{text} ({})", follow.join(" | ")));
        }
        if let Some(i) = used.iter().position(|used| !used) {
            return Err(format!(
                "{place}: the tag that begins with \"{}\" has no trigger",
                tags[i].begin
            ));
        }
        let item = self.name("item");
        let _ = writeln!(self.rules, "{item}: {}", branches.join(" | "));
        let tail = self.free_text(triggers);
        Ok(match (at_least_one, stop_after_first) {
            (false, false) => format!("({item}* {tail})"),
            (true, false) => format!("({item}+ {tail})"),
            (false, true) => format!("({item} | {tail})"),
            (true, true) => item,
        })
    }

    fn separated(&mut self, value: &Value, place: &str, depth: usize) -> Result<String, String> {
        let tags = self.tags(value, place, depth)?;
        let separator = string(value.get("separator"), &format!("{place}.separator"))?;
        let at_least_one = flag(value.get("at_least_one"), place)?;
        let stop_after_first = flag(value.get("stop_after_first"), place)?;
        let wholes: Vec<String> = tags.iter().map(|tag| self.whole_tag(tag, "")).collect();
        let item = self.name("item");
        let _ = writeln!(self.rules, "{item}: {}", wholes.join(" | "));
        let more = match (stop_after_first, separator.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!(" {item}*"),
            (false, false) => format!(" ({} {item})*", lark_string(&separator)),
        };
        Ok(if at_least_one { format!("({item}{more})") } else { format!("({item}{more})?") })
    }
}
