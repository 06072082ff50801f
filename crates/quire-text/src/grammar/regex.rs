//! Regular expressions as users of Python and JavaScript write them, in the syntax of the Rust
//! crates.

/// Characters that the Rust syntax refuses behind a backslash though they need none.
const NEEDS_NO_ESCAPE: &str = "<>";

/// `\d`, `\w`, `\s` become their ASCII sets, which every dialect agrees on; their complements stay
/// Unicode ones for the same reason. In a class, what Rust takes as set operations is plain text.
pub fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut class: Option<Class> = None;
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        let next = chars.get(i + 1).copied();
        if c == '\\' {
            let Some(next) = next else {
                out.push('\\'); // an error, which the parser reports
                break;
            };
            let negated = class.as_ref().is_some_and(|class| class.negated);
            push_escape(&mut out, next, negated);
            i += 2;
            if let Some(class) = class.as_mut() {
                class.is_empty = false;
            }
            continue;
        }
        match class.as_mut() {
            None if c == '[' => {
                let negated = next == Some('^');
                class = Some(Class { negated, is_empty: true });
                out.push_str(if negated { "[^" } else { "[" });
                i += usize::from(negated);
            }
            None => out.push(c),
            Some(open) if c == ']' && !open.is_empty => {
                out.push(']');
                class = None;
            }
            Some(open) => {
                open.is_empty = false;
                let doubled = matches!(c, '&' | '~') && next == Some(c);
                if c == '[' && next == Some(':') {
                    out.push('['); // a POSIX class
                    while i + 1 < chars.len() && chars[i] != ']' {
                        i += 1;
                        out.push(chars[i]);
                    }
                } else {
                    if c == '[' || c == ']' || doubled {
                        out.push('\\');
                    }
                    out.push(c);
                }
            }
        }
        i += 1;
    }
    out
}

struct Class {
    negated: bool,
    is_empty: bool,
}

fn push_escape(out: &mut String, c: char, in_negated_class: bool) {
    match c {
        'd' if !in_negated_class => out.push_str("[0-9]"),
        'w' if !in_negated_class => out.push_str("[0-9A-Za-z_]"),
        's' if !in_negated_class => out.push_str("[ \\t\\n\\r\\f\\x0B]"),
        'Z' => out.push_str("\\z"),
        '/' => out.push('/'),
        _ if NEEDS_NO_ESCAPE.contains(c) || !c.is_ascii_graphic() => out.push(c),
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
}

/// The error of a pattern that is none, or that looks around.
pub fn check(pattern: &str) -> Result<(), String> {
    match regex_syntax::parse(pattern) {
        Ok(_) => Ok(()),
        Err(error) => Err(reason(&error)),
    }
}

/// The last line of the parser's message: what is wrong, without the drawing.
fn reason(error: &regex_syntax::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or("not a regular expression");
    last.trim_start_matches("error: ").to_string()
}

/// As a regular expression between slashes in a Lark grammar.
pub fn lark_literal(pattern: &str) -> String {
    match pattern.is_empty() {
        true => "\"\"".to_string(),
        false => format!("/{}/", llguidance::regex_to_lark(pattern, "")),
    }
}
