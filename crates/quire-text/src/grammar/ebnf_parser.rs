//! Reads EBNF as llama.cpp and vLLM write it (GBNF): `name ::= "text" [a-z]* (other | "x")?`.

/// Groups nested deeper are refused: reading recurses.
const MAX_DEPTH: usize = 128;
const MAX_REPEAT: u32 = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Choice(Vec<Expr>),
    Sequence(Vec<Expr>),
    Text(String),
    Class(String), // a regular expression's class, or "."
    Rule(String),
    Repeat(Box<Expr>, u32, Option<u32>),
}

pub struct Rule {
    pub name: String,
    pub body: Expr,
    pub line: usize,
}

pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let mut parser = Parser { chars: text.chars().collect(), at: 0, line: 1, depth: 0 };
    let mut rules = Vec::new();
    loop {
        parser.skip_blank(true);
        if parser.peek().is_none() {
            return Ok(rules);
        }
        let line = parser.line;
        let name = parser.name()?;
        parser.skip_blank(true);
        parser.expect("::=")?;
        parser.skip_blank(true);
        rules.push(Rule { name, body: parser.choice(false)?, line });
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    line: usize,
    depth: usize,
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn error<T>(&self, what: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("line {} of the grammar: {what}", self.line))
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        for want in text.chars() {
            if self.peek() != Some(want) {
                return self.error(format!("\"{text}\" is missing"));
            }
            self.next();
        }
        Ok(())
    }

    /// Blanks and comments; new lines too where a rule can't end.
    fn skip_blank(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                '\n' | '\r' if !lines => return,
                _ if c.is_whitespace() => {
                    self.next();
                }
                _ => return,
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let begin = self.at;
        while self.peek().is_some_and(is_name) {
            self.next();
        }
        match self.at > begin {
            true => Ok(self.chars[begin..self.at].iter().collect()),
            false => self.error(format!("a rule's name was expected, not {}", self.shown())),
        }
    }

    fn shown(&self) -> String {
        self.peek().map_or("the end".to_string(), |c| format!("{c:?}"))
    }

    /// Whether a new rule begins here: a name, then "::=".
    fn at_rule(&self) -> bool {
        let rest = &self.chars[self.at..];
        let name = rest.iter().take_while(|c| is_name(**c)).count();
        let mut after = rest[name..].iter().skip_while(|c| c.is_whitespace());
        name > 0 && [':', ':', '='].iter().all(|want| after.next() == Some(want))
    }

    fn choice(&mut self, in_group: bool) -> Result<Expr, String> {
        let mut branches = vec![self.sequence(in_group)?];
        loop {
            // A branch may stand on a line of its own, before or after its bar.
            let (at, line) = (self.at, self.line);
            self.skip_blank(true);
            if self.peek() != Some('|') {
                (self.at, self.line) = (at, line);
                break;
            }
            self.next();
            self.skip_blank(true);
            branches.push(self.sequence(in_group)?);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Expr::Choice(branches) })
    }

    fn sequence(&mut self, in_group: bool) -> Result<Expr, String> {
        let mut items = Vec::new();
        loop {
            self.skip_blank(true);
            match self.peek() {
                None | Some('|') => break,
                Some(')') if in_group => break,
                Some(_) if !in_group && self.at_rule() => break,
                Some(_) => {
                    let item = self.item()?;
                    items.push(self.repeated(item)?);
                }
            }
        }
        Ok(if items.len() == 1 { items.remove(0) } else { Expr::Sequence(items) })
    }

    fn item(&mut self) -> Result<Expr, String> {
        match self.peek() {
            Some('"' | '\'') => self.text(),
            Some('[') => self.class(),
            Some('.') => {
                self.next();
                Ok(Expr::Class("(?s:.)".to_string()))
            }
            Some('(') => {
                self.next();
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return self.error(format!("more than {MAX_DEPTH} groups inside each other"));
                }
                let inner = self.choice(true)?;
                self.skip_blank(true);
                self.expect(")")?;
                self.depth -= 1;
                Ok(inner)
            }
            Some(c) if is_name(c) => self.name().map(Expr::Rule),
            _ => self.error(format!("{} was not expected", self.shown())),
        }
    }

    fn repeated(&mut self, mut item: Expr) -> Result<Expr, String> {
        loop {
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    self.next();
                    let range = self.range()?;
                    item = Expr::Repeat(Box::new(item), range.0, range.1);
                    continue;
                }
                _ => return Ok(item),
            };
            self.next();
            item = Expr::Repeat(Box::new(item), min, max);
        }
    }

    fn range(&mut self) -> Result<(u32, Option<u32>), String> {
        let begin = self.at;
        while self.peek().is_some_and(|c| c != '}') {
            self.next();
        }
        let text: String = self.chars[begin..self.at].iter().collect();
        self.expect("}")?;
        let number = |part: &str| part.trim().parse::<u32>().ok().filter(|n| *n <= MAX_REPEAT);
        let range = match text.split_once(',') {
            None => number(&text).map(|n| (n, Some(n))),
            Some((min, max)) if max.trim().is_empty() => number(min).map(|n| (n, None)),
            Some((min, max)) if min.trim().is_empty() => number(max).map(|n| (0, Some(n))),
            Some((min, max)) => number(min).zip(number(max).map(Some)),
        };
        match range {
            Some((min, max)) if max.is_none_or(|max| min <= max) => Ok((min, max)),
            _ => self.error(format!("{{{text}}} is no repetition of at most {MAX_REPEAT}")),
        }
    }

    fn text(&mut self) -> Result<Expr, String> {
        let quote = self.next();
        let mut out = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return self.error("a text's closing quote is missing"),
                c if c == quote => return Ok(Expr::Text(out)),
                Some('\\') => out.push(self.escape()?),
                Some(c) => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) if c.is_ascii_punctuation() || c == ' ' => return Ok(c),
            _ => return self.error("an escape that is not known"),
        };
        let end = (self.at + digits).min(self.chars.len());
        let hex: String = self.chars[self.at..end].iter().collect();
        self.at = end;
        match u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32) {
            Some(c) if hex.len() == digits => Ok(c),
            _ => self.error(format!("\"{hex}\" is not the code of a character")),
        }
    }

    /// As a class of a regular expression, where every character is written by its code.
    fn class(&mut self) -> Result<Expr, String> {
        self.next();
        let mut out = String::from("[");
        if self.peek() == Some('^') {
            self.next();
            out.push('^');
        }
        let mut empty = true;
        loop {
            let Some(first) = self.next() else {
                return self.error("a class's closing bracket is missing");
            };
            if first == ']' {
                out.push(']');
                return match empty {
                    true => self.error("a class without characters"),
                    false => Ok(Expr::Class(out)),
                };
            }
            let low = if first == '\\' { self.escape()? } else { first };
            out.push_str(&format!("\\u{{{:x}}}", u32::from(low)));
            empty = false;
            let is_range =
                self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']');
            if is_range {
                self.next();
                let last = self.next().unwrap_or(']');
                let high = if last == '\\' { self.escape()? } else { last };
                if high < low {
                    return self.error(format!("the range {low:?}-{high:?} is empty"));
                }
                out.push_str(&format!("-\\u{{{:x}}}", u32::from(high)));
            }
        }
    }
}
