//! Special tokens inside literal text of a structural tag: no text spells them, so that each is
//! asked for by its id.

use std::fmt::Write;

use super::source::lark_string;

/// The texts of a vocabulary's special tokens, longest first, but for those that end an answer.
#[derive(Default)]
pub struct Marks(Vec<(String, u32)>);

struct Found {
    start: usize,
    end: usize,
    id: u32,
}

impl Marks {
    pub fn new(words: &[&[u8]], special: &[bool], end_ids: &[u32]) -> Self {
        let mut out = Vec::new();
        for ((word, &special), id) in words.iter().zip(special).zip(0u32..) {
            if !special || word.len() < 2 || end_ids.contains(&id) {
                continue;
            }
            if let Ok(text) = std::str::from_utf8(word) {
                out.push((text.to_string(), id));
            }
        }
        out.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self(out)
    }

    /// The first one in `text`; where two begin at the same byte, the longer.
    fn find(&self, text: &str) -> Option<Found> {
        let mut best: Option<Found> = None;
        for (mark, id) in &self.0 {
            let Some(start) = text.find(mark.as_str()) else { continue };
            if best.as_ref().is_none_or(|found| start < found.start) {
                best = Some(Found { start, end: start + mark.len(), id: *id });
            }
        }
        best
    }

    pub fn begins(&self, text: &str) -> bool {
        self.find(text).is_some_and(|found| found.start == 0)
    }
    pub fn occur_in(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// `text` in Lark.
    pub fn literal(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(found) = self.find(rest) {
            if found.start > 0 {
                let _ = write!(out, "{} ", lark_string(&rest[..found.start]));
            }
            let _ = write!(out, "<[{}]> ", found.id);
            rest = &rest[found.end..];
        }
        if out.is_empty() || !rest.is_empty() {
            out.push_str(&lark_string(rest));
        }
        out.trim_end().to_string()
    }
}
