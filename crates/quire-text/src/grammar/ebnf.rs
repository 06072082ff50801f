//! Grammars in text: Lark as the compiler reads it, or EBNF (`::=`), which is turned into Lark.
//!
//! Lark's terminals are matched greedily, one after the other, while EBNF has no terminals. So what
//! does not recurse becomes one terminal, a regular expression, which is exact; in rules that
//! recurse, neighbours that do not recurse become one terminal.

use std::collections::HashMap;
use std::fmt::Write;

use super::ebnf_parser::{self as parser, Expr, Rule};
use super::source::lark_string;

/// The Lark compiler recurses through brackets.
const MAX_NESTING: usize = 256;

pub fn to_lark(text: &str) -> Result<String, String> {
    if !text.contains("::=") {
        check_nesting(text)?;
        return Ok(text.to_string());
    }
    let rules = parser::parse(text)?;
    Converter::new(&rules)?.convert()
}

fn check_nesting(text: &str) -> Result<(), String> {
    let (mut depth, mut deepest) = (0usize, 0usize);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    match deepest > MAX_NESTING {
        true => Err(format!(
            "the grammar has {deepest} brackets inside each other, the limit is {MAX_NESTING}"
        )),
        false => Ok(()),
    }
}

struct Converter<'a> {
    rules: &'a [Rule],
    index: HashMap<&'a str, usize>,
    regular: Vec<Option<bool>>,
    on_path: Vec<bool>,
    nullable: Vec<bool>,
    out: String,
    num_groups: usize,
}

impl<'a> Converter<'a> {
    fn new(rules: &'a [Rule]) -> Result<Self, String> {
        let mut index = HashMap::new();
        for (i, rule) in rules.iter().enumerate() {
            if index.insert(rule.name.as_str(), i).is_some() {
                return Err(format!(
                    "line {} of the grammar: the rule \"{}\" is there twice",
                    rule.line, rule.name
                ));
            }
        }
        let count = rules.len();
        let mut out = Self {
            rules,
            index,
            regular: vec![None; count],
            on_path: vec![false; count],
            nullable: vec![false; count],
            out: String::new(),
            num_groups: 0,
        };
        for rule in rules {
            out.check_names(rule, &rule.body)?;
        }
        out.find_nullable();
        Ok(out)
    }

    fn convert(mut self) -> Result<String, String> {
        let Some(&root) = self.index.get("root") else {
            return Err("the grammar has no rule \"root\"".to_string());
        };
        let start = self.rule_reference(root);
        let mut text = format!("start: {start}\n");
        for i in 0..self.rules.len() {
            let body = &self.rules[i].body;
            if self.is_regular(i) {
                let body = self.terminal(body);
                let _ = writeln!(text, "T{i}: {body}");
            } else {
                let body = self.rule_body(body);
                let _ = writeln!(text, "r{i}: {body}");
            }
        }
        text.push_str(&self.out);
        Ok(text)
    }

    fn check_names(&self, rule: &Rule, expr: &Expr) -> Result<(), String> {
        match expr {
            Expr::Rule(name) if !self.index.contains_key(name.as_str()) => Err(format!(
                "line {} of the grammar: the rule \"{name}\", which \"{}\" uses, is not there",
                rule.line, rule.name
            )),
            Expr::Choice(list) | Expr::Sequence(list) => {
                list.iter().try_for_each(|inner| self.check_names(rule, inner))
            }
            Expr::Repeat(inner, _, _) => self.check_names(rule, inner),
            _ => Ok(()),
        }
    }

    fn find_nullable(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for i in 0..self.rules.len() {
                if !self.nullable[i] && self.is_nullable(&self.rules[i].body) {
                    self.nullable[i] = true;
                    changed = true;
                }
            }
        }
    }

    fn is_nullable(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Choice(list) => list.iter().any(|inner| self.is_nullable(inner)),
            Expr::Sequence(list) => list.iter().all(|inner| self.is_nullable(inner)),
            Expr::Text(text) => text.is_empty(),
            Expr::Class(_) => false,
            Expr::Rule(name) => self.nullable[self.index[name.as_str()]],
            Expr::Repeat(inner, min, max) => {
                *min == 0 || *max == Some(0) || self.is_nullable(inner)
            }
        }
    }

    /// Whether rule i never comes back to a rule that it is part of.
    fn is_regular(&mut self, i: usize) -> bool {
        if self.on_path[i] {
            return false;
        }
        if let Some(known) = self.regular[i] {
            return known;
        }
        self.on_path[i] = true;
        let rules = self.rules;
        let regular = self.is_regular_expr(&rules[i].body);
        self.on_path[i] = false;
        self.regular[i] = Some(regular);
        regular
    }

    fn is_regular_expr(&mut self, expr: &Expr) -> bool {
        match expr {
            Expr::Choice(list) | Expr::Sequence(list) => {
                list.iter().all(|inner| self.is_regular_expr(inner))
            }
            Expr::Rule(name) => {
                let i = self.index[name.as_str()];
                self.is_regular(i)
            }
            Expr::Repeat(inner, _, _) => self.is_regular_expr(inner),
            Expr::Text(_) | Expr::Class(_) => true,
        }
    }

    fn rule_reference(&mut self, i: usize) -> String {
        match self.is_regular(i) {
            true => self.use_terminal(&Expr::Rule(self.rules[i].name.clone())),
            false => format!("r{i}"),
        }
    }

    /// What stands in a rule for an expression that does not recurse. A terminal never matches
    /// nothing: that is left to the rule.
    fn use_terminal(&mut self, expr: &Expr) -> String {
        let body = self.terminal(expr);
        let name = format!("G{}", self.num_groups);
        self.num_groups += 1;
        let nullable = self.is_nullable(expr);
        let _ = match nullable {
            true => writeln!(self.out, "{name}: ({body}) & /(?s:.)+/"),
            false => writeln!(self.out, "{name}: {body}"),
        };
        if nullable {
            format!("{name}?")
        } else {
            name
        }
    }

    fn terminal(&self, expr: &Expr) -> String {
        match expr {
            Expr::Choice(list) => self.joined(list, " | "),
            Expr::Sequence(list) if list.is_empty() => "\"\"".to_string(),
            Expr::Sequence(list) => self.joined(list, " "),
            Expr::Text(text) => lark_string(text),
            Expr::Class(class) => format!("/{class}/"),
            Expr::Rule(name) => format!("T{}", self.index[name.as_str()]),
            Expr::Repeat(_, _, Some(0)) => "\"\"".to_string(),
            Expr::Repeat(inner, min, max) => {
                format!("({}){}", self.terminal(inner), repeat(*min, *max))
            }
        }
    }

    fn joined(&self, list: &[Expr], by: &str) -> String {
        let parts: Vec<String> = list.iter().map(|inner| self.terminal(inner)).collect();
        format!("({})", parts.join(by))
    }

    fn rule_body(&mut self, expr: &Expr) -> String {
        if self.is_regular_expr(expr) {
            return self.use_terminal(expr);
        }
        match expr {
            Expr::Choice(list) => {
                let parts: Vec<String> = list.iter().map(|inner| self.rule_body(inner)).collect();
                format!("({})", parts.join(" | "))
            }
            Expr::Sequence(list) => self.rule_sequence(list),
            Expr::Rule(name) => format!("r{}", self.index[name.as_str()]),
            Expr::Repeat(_, _, Some(0)) => "\"\"".to_string(),
            Expr::Repeat(inner, min, max) => {
                format!("({}){}", self.rule_body(inner), repeat(*min, *max))
            }
            Expr::Text(_) | Expr::Class(_) => self.use_terminal(expr),
        }
    }

    fn rule_sequence(&mut self, list: &[Expr]) -> String {
        let mut parts = Vec::new();
        let mut run: Vec<Expr> = Vec::new();
        for item in list {
            if self.is_regular_expr(item) {
                run.push(item.clone());
                continue;
            }
            if !run.is_empty() {
                parts.push(self.use_terminal(&Expr::Sequence(std::mem::take(&mut run))));
            }
            parts.push(self.rule_body(item));
        }
        if !run.is_empty() {
            parts.push(self.use_terminal(&Expr::Sequence(run)));
        }
        format!("({})", parts.join(" "))
    }
}

fn repeat(min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (0, None) => "*".to_string(),
        (1, None) => "+".to_string(),
        (0, Some(1)) => "?".to_string(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    }
}
