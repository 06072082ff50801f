//! Follows one answer through a compiled grammar.
//!
//! Answers of one grammar share what its lexer learns, as long as that is little. Beyond, and when a
//! limit stops a shared lexer, an answer goes on with one of its own, from the grammar's first state
//! through its tokens so far, as if it had always been alone. While a lexer is shared, all that it
//! ever learned costs less than one mask may, so that no answer gets further than alone, either.
//!
//! All that share a lexer would find in the same step that it has learned enough, and each would make
//! its masks again, while all other answers wait. So each leaves before, from a limit that its turn
//! gives, a few masks a step; by then what it leaves learns slowly, as it gets no new answers. Long
//! answers leave too, so that what a sudden end of the sharing may cost is bounded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::follower::{Follower, Learned, PARTS};

/// Of 64 parts of what a shared lexer may learn: up to here it is given to new answers, and so many
/// parts more, by their turns, until they leave.
const GIVEN_PARTS: usize = 32;
const TURNS: usize = 16;

/// Tokens of an answer that still shares, at most; by turns down to half of it. It bounds the masks
/// made again at once when a single mask teaches a lexer half of what it may. Leaving doubles what an
/// answer's masks cost, so it is beyond the length of most answers.
const LONG_ANSWER: usize = 2048;

/// Masks made again beside each new one, by an answer that leaves a shared lexer.
const MASKS_A_STEP: usize = 4;

/// The first state of a grammar, and what answers may share.
pub struct Start {
    cold: Mutex<Follower>, // never advanced
    known: Learned,        // of its lexer
    most: Learned,         // beyond that, in a shared one
    shared: Mutex<Option<Follower>>,
    turns: AtomicUsize, // answers so far
}

impl Start {
    pub fn new(cold: Follower, most: Learned) -> Self {
        let known = cold.learned();
        Self {
            cold: Mutex::new(cold),
            known,
            most,
            shared: Mutex::new(None),
            turns: AtomicUsize::new(0),
        }
    }

    /// No more than `parts` of 64 of what a shared lexer may have learned.
    fn within(&self, learned: Learned, parts: usize) -> bool {
        learned.since(self.known).within(self.most.parts(parts))
    }

    fn cold(&self) -> Result<Follower, String> {
        Ok(self.cold.lock().map_err(|e| e.to_string())?.own())
    }

    /// With the lexer of answers before, or a new one when that has learned enough.
    fn follower(&self) -> Result<Follower, String> {
        let mut shared = self.shared.lock().map_err(|e| e.to_string())?;
        if let Some(follower) =
            shared.as_ref().filter(|follower| self.within(follower.learned(), GIVEN_PARTS))
        {
            return Ok(follower.share());
        }
        let fresh = self.cold()?;
        let out = fresh.share();
        *shared = Some(fresh);
        Ok(out)
    }
}

/// A follower with a lexer of its own, on its way through an answer's tokens so far.
struct Behind {
    follower: Follower,
    done: usize, // tokens
}

impl Behind {
    /// The masks are made, too: they are what teaches a lexer, and what its limits count.
    fn step(&mut self, token: u32) -> Result<(), String> {
        self.follower.mask()?;
        match self.follower.accept(token)? {
            true => self.done += 1,
            false => {
                self.follower.fail(format!("internal error: token {token} was accepted before"))?
            }
        }
        Ok(())
    }
}

pub struct GrammarMatcher {
    start: Arc<Start>,
    turn: usize,
    follower: Follower,
    tokens: Option<Vec<u32>>, // so far, while the lexer is shared
    behind: Option<Behind>,   // from when it leaves it until it is there
    end_ids: Arc<Vec<u32>>,
    more_ends: Vec<u32>,
    end_allowed: bool,
    ended: bool,
}

/// How many tokens a mask allows, and which one when there is but one.
pub struct MaskCount {
    pub allowed: u32,
    pub only: i64,
    pub again: u32, // how many earlier masks were made again, for a lexer of its own
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
        let turn = start.turns.fetch_add(1, Ordering::Relaxed) % TURNS;
        let (behind, ended) = (None, false);
        Ok(Self { start, turn, follower, tokens, behind, end_ids, more_ends, end_allowed, ended })
    }

    pub fn fork(&self) -> Self {
        Self {
            start: self.start.clone(),
            turn: self.turn,
            follower: match self.tokens {
                Some(_) => self.follower.share(),
                None => self.follower.own(),
            },
            tokens: self.tokens.clone(),
            behind: self
                .behind
                .as_ref()
                .map(|behind| Behind { follower: behind.follower.own(), done: behind.done }),
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
        self.catch_up(usize::MAX)?;
        step(&mut self.follower)
    }

    /// Comes nearer to where it is with a lexer of its own, by `most` tokens, and goes on with that
    /// one when it is there. Returns how many tokens it came nearer.
    fn catch_up(&mut self, most: usize) -> Result<usize, String> {
        let Some(tokens) = &self.tokens else { return Ok(0) };
        let mut behind = match self.behind.take() {
            Some(behind) => behind,
            None => Behind { follower: self.start.cold()?, done: 0 },
        };
        let from = behind.done;
        let to = tokens.len().min(from.saturating_add(most));
        let stepped = tokens[from..to].iter().try_for_each(|&token| behind.step(token));
        if stepped.is_ok() && to < tokens.len() {
            self.behind = Some(behind);
        } else {
            // There, or where it would have failed alone: that error stays.
            self.follower = behind.follower;
            self.tokens = None;
        }
        stepped.map(|()| to - from)
    }

    /// How many masks are to be made again now: none while the lexer may be shared.
    fn haste(&self) -> usize {
        let Some(tokens) = &self.tokens else { return 0 };
        let learned = self.follower.learned();
        let long = LONG_ANSWER - LONG_ANSWER / 2 * self.turn / TURNS;
        if !self.start.within(learned, PARTS) {
            usize::MAX
        } else if self.behind.is_some()
            || tokens.len() >= long
            || !self.start.within(learned, GIVEN_PARTS + self.turn)
        {
            MASKS_A_STEP
        } else {
            0
        }
    }

    /// Sets the bits of the tokens that may follow, in 32-bit words by id; `words` holds at least
    /// the vocabulary. None after the end.
    pub fn fill_mask(&mut self, words: &mut [u32]) -> Result<MaskCount, String> {
        words.fill(0);
        if self.ended {
            return Ok(MaskCount { allowed: 0, only: -1, again: 0 });
        }
        let complete = self.is_complete();
        let mut mask = self.follow(Follower::mask)?;
        let mut again = 0;
        if self.tokens.is_some() {
            again = match self.haste() {
                0 => 0,
                most => self.catch_up(most)?,
            };
            if self.tokens.is_none() {
                mask = self.follower.mask()?;
            }
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
        Ok(MaskCount { again: again as u32, ..count(words) })
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
    MaskCount { allowed, only, again: 0 }
}
