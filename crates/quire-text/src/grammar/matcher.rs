//! Follows one answer through a compiled grammar.
//!
//! Answers of one grammar share what its lexer learns, as long as that is little. Beyond, and when a
//! limit stops a shared lexer, an answer goes on with one of its own, from the grammar's first state
//! through its tokens so far, as if it had always been alone. While a lexer is shared, all that it
//! ever learned costs less than one mask may, so that no answer gets further than alone, either.

use std::sync::{Arc, Mutex};

use super::follower::{Follower, Learned};

/// The first state of a grammar, and what answers may share.
pub struct Start {
    cold: Mutex<Follower>, // never advanced
    known: Learned,        // of its lexer
    most: Learned,         // beyond that, in a shared one
    shared: Mutex<Option<Follower>>,
}

impl Start {
    pub fn new(cold: Follower, most: Learned) -> Self {
        let known = cold.learned();
        Self { cold: Mutex::new(cold), known, most, shared: Mutex::new(None) }
    }

    fn may_share(&self, follower: &Follower) -> bool {
        follower.learned().since(self.known).within(self.most)
    }

    fn cold(&self) -> Result<Follower, String> {
        Ok(self.cold.lock().map_err(|e| e.to_string())?.own())
    }

    /// With the lexer of answers before, or a new one when that has learned enough.
    fn follower(&self) -> Result<Follower, String> {
        let mut shared = self.shared.lock().map_err(|e| e.to_string())?;
        if let Some(follower) = shared.as_ref().filter(|follower| self.may_share(follower)) {
            return Ok(follower.share());
        }
        let fresh = self.cold()?;
        let out = fresh.share();
        *shared = Some(fresh);
        Ok(out)
    }
}

pub struct GrammarMatcher {
    start: Arc<Start>,
    follower: Follower,
    tokens: Option<Vec<u32>>, // so far, while the lexer is shared
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
        start: Arc<Start>,
        end_ids: Arc<Vec<u32>>,
        more_ends: Vec<u32>,
        end_allowed: bool,
    ) -> Result<Self, String> {
        let follower = start.follower()?;
        let tokens = Some(Vec::new());
        Ok(Self { start, follower, tokens, end_ids, more_ends, end_allowed, ended: false })
    }

    pub fn fork(&self) -> Self {
        Self {
            start: self.start.clone(),
            follower: match self.tokens {
                Some(_) => self.follower.share(),
                None => self.follower.own(),
            },
            tokens: self.tokens.clone(),
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
            self.ended = self.is_accepting()?;
            return Ok(self.ended);
        }
        if self.is_complete() {
            return Ok(false);
        }
        let accepted = self.follow(|follower| follower.accept(token))?;
        if let (true, Some(tokens)) = (accepted, &mut self.tokens) {
            tokens.push(token);
        }
        Ok(accepted)
    }

    /// A step of the parser, done again with a lexer of its own when it fails with a shared one.
    fn follow<T>(
        &mut self,
        step: impl Fn(&mut Follower) -> Result<T, String>,
    ) -> Result<T, String> {
        let out = step(&mut self.follower);
        if out.is_ok() || self.tokens.is_none() {
            return out;
        }
        self.be_alone()?;
        step(&mut self.follower)
    }

    /// Comes to where it is with a lexer of its own. The masks are made, too: they are what teaches
    /// a lexer, and what its limits count.
    fn be_alone(&mut self) -> Result<(), String> {
        let Some(tokens) = self.tokens.take() else { return Ok(()) };
        self.follower = self.start.cold()?;
        for token in tokens {
            self.follower.mask()?;
            if !self.follower.accept(token)? {
                return Err(format!("internal error: token {token} was accepted before"));
            }
        }
        Ok(())
    }

    /// Sets the bits of the tokens that may follow, in 32-bit words by id; `words` holds at least
    /// the vocabulary. None after the end.
    pub fn fill_mask(&mut self, words: &mut [u32]) -> Result<MaskCount, String> {
        words.fill(0);
        if self.ended {
            return Ok(MaskCount { allowed: 0, only: -1 });
        }
        let complete = self.is_complete();
        let mut mask = self.follow(Follower::mask)?;
        if self.tokens.is_some() && !self.start.may_share(&self.follower) {
            self.be_alone()?;
            mask = self.follower.mask()?;
        }
        for (word, bits) in words.iter_mut().zip(mask.as_slice()) {
            *word = *bits;
        }
        if !complete && !self.end_allowed {
            self.clear_ends(words);
        } else if self.is_accepting()? {
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
        self.ended || self.follower.is_complete()
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
        self.follow(Follower::is_accepting)
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
