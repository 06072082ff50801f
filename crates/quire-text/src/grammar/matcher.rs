//! Follows one answer through a compiled grammar.

use std::sync::Arc;

use llguidance::Matcher;

use super::plain;

pub struct GrammarMatcher {
    matcher: Matcher,
    end_ids: Arc<Vec<u32>>,
    more_ends: Vec<u32>,
    end_allowed: bool,
    ended: bool,
}

/// How many tokens a mask allows, and which one when there is but one.
pub struct MaskCount {
    pub allowed: u32,
    pub only: i64,
}

/// Those of a request's stop tokens that no grammar takes as text: they end an answer like the
/// model's own end tokens. The others are text, which the grammar must allow.
pub fn special_ends(more: &[u32], special: &[bool], end_ids: &[u32]) -> Vec<u32> {
    let is_new = |id: &u32| special.get(*id as usize) == Some(&true) && !end_ids.contains(id);
    more.iter().copied().filter(is_new).collect()
}

impl GrammarMatcher {
    pub fn new(
        matcher: Matcher,
        end_ids: Arc<Vec<u32>>,
        more_ends: Vec<u32>,
        end_allowed: bool,
    ) -> Self {
        Self { matcher, end_ids, more_ends, end_allowed, ended: false }
    }

    pub fn fork(&self) -> Self {
        Self {
            matcher: self.matcher.deep_clone(),
            end_ids: self.end_ids.clone(),
            more_ends: self.more_ends.clone(),
            end_allowed: self.end_allowed,
            ended: self.ended,
        }
    }

    fn is_end(&self, token: u32) -> bool {
        self.end_ids.contains(&token) || self.more_ends.contains(&token)
    }

    /// False when the token may not follow; the matcher stays as it was.
    pub fn accept(&mut self, token: u32) -> Result<bool, String> {
        if self.ended {
            return Ok(false);
        }
        if self.is_end(token) {
            let complete = self.is_complete();
            self.ended = complete || self.matcher.is_accepting().map_err(|e| e.to_string())?;
            return Ok(self.ended);
        }
        if self.is_complete() {
            return Ok(false);
        }
        match self.matcher.try_consume_tokens(&[token]) {
            Ok(count) => Ok(count == 1),
            Err(e) => Err(plain(&e.to_string())),
        }
    }

    /// Sets the bits of the tokens that may follow, in 32-bit words by id; `words` holds at least
    /// the vocabulary. None after the end.
    pub fn fill_mask(&mut self, words: &mut [u32]) -> Result<MaskCount, String> {
        words.fill(0);
        if self.ended {
            return Ok(MaskCount { allowed: 0, only: -1 });
        }
        let complete = self.is_complete();
        let mask = self.matcher.compute_mask_or_eos().map_err(|e| plain(&e.to_string()))?;
        for (word, bits) in words.iter_mut().zip(mask.as_slice()) {
            *word = *bits;
        }
        if !complete && !self.end_allowed {
            self.clear_ends(words);
        } else if complete || self.matcher.is_accepting().map_err(|e| plain(&e.to_string()))? {
            for &id in &self.more_ends {
                set(words, id, true);
            }
        }
        Ok(count(words))
    }

    /// An end is not wanted while anything else may follow.
    fn clear_ends(&self, words: &mut [u32]) {
        for &id in self.end_ids.iter() {
            set(words, id, false);
        }
        if words.iter().all(|&word| word == 0) {
            for &id in self.end_ids.iter() {
                set(words, id, true);
            }
        }
    }

    /// Nothing but an end can follow.
    pub fn is_complete(&self) -> bool {
        self.ended || (self.matcher.is_stopped() && !self.matcher.is_error())
    }

    /// An end token has been accepted.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// An end token may follow.
    pub fn is_accepting(&mut self) -> Result<bool, String> {
        if self.is_complete() {
            return Ok(true);
        }
        self.matcher.is_accepting().map_err(|e| plain(&e.to_string()))
    }
}

fn set(words: &mut [u32], id: u32, allowed: bool) {
    if let Some(word) = words.get_mut(id as usize / 32) {
        let bit = 1u32 << (id % 32);
        *word = if allowed { *word | bit } else { *word & !bit };
    }
}

fn count(words: &[u32]) -> MaskCount {
    let allowed: u32 = words.iter().map(|word| word.count_ones()).sum();
    let first = words.iter().enumerate().find(|(_, &word)| word != 0);
    let only = match (allowed, first) {
        (1, Some((i, word))) => i as i64 * 32 + i64::from(word.trailing_zeros()),
        _ => -1,
    };
    MaskCount { allowed, only }
}
