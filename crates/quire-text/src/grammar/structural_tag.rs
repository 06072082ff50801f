//! Structural tags: free text in which given beginnings start a constrained part. Both forms are
//! read: `structures` with `triggers`, and `format` with its nested kinds. Special tokens may stand
//! in literal text, and begin a trigger.

use std::fmt::Write;

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;

use super::marks::Marks;
use super::source::{self, lark_string, Options};
use super::tag_members::{flag, known, list, members, pattern, string, strings};
use super::{ebnf, regex};

const MAX_DEPTH: usize = 64;

pub fn grammar(tag: &Value, options: &Options, marks: &Marks) -> Result<TopLevelGrammar, String> {
    let mut builder = Builder { options, marks, rules: String::new(), count: 0, parts: Vec::new() };
    let start = match (tag.get("format"), tag.get("structures")) {
        (Some(_), _) => known(tag, "the structural tag", &["format"]),
        _ => known(tag, "the structural tag", &["structures", "triggers"]),
    };
    start?;
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
    marks: &'a Marks,
    rules: String,
    count: usize,
    parts: Vec<GrammarWithLexer>, // named p0, p1, ...
}

/// A beginning, what follows it, and how that ends.
struct Tag {
    begin: String,
    content: String, // a rule or a group of Lark
    ends: Vec<String>,
    up_to: Option<String>, // free text up to the end and with it, in place of content and end
}

fn anywhere(pattern: &str) -> String {
    format!("(?s:.)*(?:{pattern})(?s:.)*")
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
            known(item, &place, &["begin", "schema", "end"])?;
            tags.push(Tag {
                begin: string(item.get("begin"), &format!("{place}.begin"))?,
                content: self.schema(item.get("schema"), &format!("{place}.schema"))?,
                ends: vec![string(item.get("end"), &format!("{place}.end"))?],
                up_to: None,
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
            "const_string" | "json_schema" | "any_text" | "text_up_to" | "regex" | "optional"
            | "star" | "plus" | "grammar" | "sequence" | "or" | "tag" | "triggered_tags"
            | "tags_with_separator" => known(value, place, members(&kind))?,
            _ => {}
        }
        match kind.as_str() {
            "const_string" => {
                let text = string(value.get("value"), &format!("{place}.value"))?;
                Ok(self.marks.literal(&text))
            }
            "json_schema" => self.schema(value.get("json_schema"), &format!("{place}.json_schema")),
            "any_text" => self.any_text(value, place),
            "text_up_to" => {
                let pattern = pattern(value.get("pattern"), &format!("{place}.pattern"))?;
                Ok(self.up_to_pattern(&pattern))
            }
            "optional" | "star" | "plus" => {
                let inner = value.get("content").ok_or(format!("{place}.content is missing"))?;
                let inner = self.format(inner, &format!("{place}.content"), depth + 1)?;
                let how = match kind.as_str() {
                    "optional" => "?",
                    "star" => "*",
                    _ => "+",
                };
                Ok(format!("({inner}){how}"))
            }
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
                "{place}.type is \"{other}\": use const_string, json_schema, any_text, text_up_to, \
                 regex, grammar, sequence, or, optional, star, plus, tag, triggered_tags or \
                 tags_with_separator"
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
        known(value, place, members("tag"))?;
        let begin = string(value.get("begin"), &format!("{place}.begin"))?;
        let ends = match value.get("end") {
            Some(Value::Array(_)) => strings(value.get("end"), &format!("{place}.end"))?,
            end => vec![string(end, &format!("{place}.end"))?],
        };
        let inner = value.get("content").ok_or_else(|| format!("{place}.content is missing"))?;
        let plain = |name: &str| inner.get(name).is_none_or(Value::is_null);
        let any_text = inner.get("type") == Some(&Value::from("any_text"))
            && ["max_tokens", "without", "excludes"].into_iter().all(plain)
            && ends.iter().all(|end| !end.is_empty());
        if !any_text {
            let content = self.format(inner, &format!("{place}.content"), depth + 1)?;
            return Ok(Tag { begin, content, ends, up_to: None });
        }
        known(inner, &format!("{place}.content"), members("any_text"))?;
        let up_to = match inner.get("pattern").filter(|pattern| !pattern.is_null()) {
            None => self.text_up_to_any(&ends),
            whole => {
                let whole = pattern(whole, &format!("{place}.content.pattern"))?;
                self.match_up_to(&whole, &ends)
            }
        };
        Ok(Tag { begin, content: String::new(), ends, up_to: Some(up_to) })
    }

    /// The tag without the first bytes of its beginning, which came already.
    fn whole_tag(&self, tag: &Tag, came: &str) -> String {
        let begin = &tag.begin[came.len()..];
        let begin = if begin.is_empty() { String::new() } else { self.marks.literal(begin) + " " };
        if let Some(up_to) = &tag.up_to {
            return format!("({begin}{up_to})");
        }
        let ends: Vec<String> = tag.ends.iter().map(|end| self.marks.literal(end)).collect();
        format!("({begin}{} ({}))", tag.content, ends.join(" | "))
    }

    /// Free text; of `max_tokens` at most, without a match of `without` and none of `excludes` in it.
    fn any_text(&mut self, value: &Value, place: &str) -> Result<String, String> {
        let member = |name: &str| value.get(name).filter(|value| !value.is_null());
        if member("pattern").is_some() {
            return Err(format!(
                "{place} has \"pattern\", which can't be enforced here: it is for the content of a \
                 tag with an end, alone; use the type \"regex\""
            ));
        }
        let mut without = match member("without") {
            None => Vec::new(),
            without => vec![pattern(without, &format!("{place}.without"))?],
        };
        if let Some(texts) = member("excludes") {
            let texts = strings(Some(texts), &format!("{place}.excludes"))?;
            without.extend(texts.iter().map(|text| regex_syntax::escape(text)));
        }
        let most = match member("max_tokens") {
            None => None,
            Some(most) => Some(most.as_u64().ok_or(format!("{place}.max_tokens: a count"))?),
        };
        let mut body = "/(?s:.)+/".to_string();
        for pattern in without {
            let _ = write!(body, " & ~({})", regex::lark_literal(&anywhere(&pattern)));
        }
        let name = self.name("TEXT");
        let _ = writeln!(self.rules, "{name}: {body}");
        let Some(most) = most else { return Ok(format!("{name}?")) };
        if most == 0 {
            return Ok("\"\"".to_string());
        }
        let rule = self.name("text");
        let _ = writeln!(self.rules, "{rule}[max_tokens={most}]: {name}");
        Ok(format!("{rule}?"))
    }

    /// Free text up to and with the first match.
    fn up_to_pattern(&mut self, pattern: &str) -> String {
        let name = self.name("upto");
        let text = regex::lark_literal(&format!("(?s:.)*(?:{pattern})"));
        let _ = writeln!(self.rules, "{name}[lazy]: {text}");
        name
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
        let ends: Vec<String> = ends.iter().map(|end| regex_syntax::escape(end)).collect();
        self.up_to_pattern(&ends.join("|"))
    }

    /// Text that matches as a whole, up to and with the first of these.
    fn match_up_to(&mut self, pattern: &str, ends: &[String]) -> String {
        let name = self.name("UPTO");
        let ends: Vec<String> = ends.iter().map(|end| regex_syntax::escape(end)).collect();
        let ends = ends.join("|");
        let whole = regex::lark_literal(&format!("(?:{pattern})(?:{ends})"));
        let longer = regex::lark_literal(&format!("(?s:.)*(?:{ends})(?s:.)+"));
        let _ = writeln!(self.rules, "{name}: {whole} & ~({longer})");
        name
    }

    /// The same where some of them begin with special tokens, which no text has in it.
    fn text_up_to_any(&mut self, ends: &[String]) -> String {
        let (special, text): (Vec<String>, Vec<String>) =
            ends.iter().cloned().partition(|end| self.marks.begins(end));
        let mut branches = Vec::new();
        if !text.is_empty() {
            branches.push(self.text_up_to(&text));
        }
        if !special.is_empty() {
            let before = self.free_text(&text);
            let ends: Vec<String> = special.iter().map(|end| self.marks.literal(end)).collect();
            branches.push(format!("{before} ({})", ends.join(" | ")));
        }
        format!("({})", branches.join(" | "))
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
        let texts: Vec<String> =
            triggers.iter().filter(|trigger| !self.marks.begins(trigger)).cloned().collect();
        if let Some(odd) = texts.iter().find(|trigger| self.marks.occur_in(trigger)) {
            return Err(format!(
                "{place}: the trigger \"{odd}\" has a special token in it, which can only begin one"
            ));
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
            let text = match self.marks.begins(trigger) {
                true => format!("{} {}", self.free_text(&texts), self.marks.literal(trigger)),
                false => self.text_up_to(std::slice::from_ref(trigger)),
            };
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
        let tail = self.free_text(&texts);
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
            (false, false) => format!(" ({} {item})*", self.marks.literal(&separator)),
        };
        Ok(if at_least_one { format!("({item}{more})") } else { format!("({item}{more})?") })
    }
}
