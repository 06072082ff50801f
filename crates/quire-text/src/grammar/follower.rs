//! A grammar's parser at some place of one answer, and the lexer that it learns states of. Followers
//! made by `share` have one lexer, whose states all of them add to; one made by `own` has a lexer of
//! its own. A mask depends on the grammar and the tokens alone, never on what a lexer has learned.

use llguidance::api::StopReason;
use llguidance::toktrie::SimpleVob;
use llguidance::TokenParser;

use super::plain;
use crate::guard::guard_input;

pub struct Follower {
    parser: TokenParser,
    error: Option<String>,
}

/// What Learned::parts counts in.
pub const PARTS: usize = 64;

/// What a lexer has learned.
#[derive(Clone, Copy, Default)]
pub struct Learned {
    pub states: usize,
    pub bytes: usize,
    pub fuel: u64, // the compiler's measure of the work
}

impl Learned {
    pub fn since(self, before: Learned) -> Learned {
        Learned {
            states: self.states.saturating_sub(before.states),
            bytes: self.bytes.saturating_sub(before.bytes),
            fuel: self.fuel.saturating_sub(before.fuel),
        }
    }
    pub fn parts(self, parts: usize) -> Learned {
        Learned {
            states: self.states * parts / PARTS,
            bytes: self.bytes * parts / PARTS,
            fuel: (u128::from(self.fuel) * parts as u128 / PARTS as u128) as u64,
        }
    }
    /// In none of its measures more than `most`.
    pub fn within(self, most: Learned) -> bool {
        self.states <= most.states && self.bytes <= most.bytes && self.fuel <= most.fuel
    }
}

impl Follower {
    pub fn new(mut parser: TokenParser) -> Self {
        parser.start_without_prompt();
        Self { parser, error: None }
    }

    pub fn share(&self) -> Self {
        Self { parser: self.parser.clone(), error: self.error.clone() }
    }
    pub fn own(&self) -> Self {
        Self { parser: self.parser.deep_clone(), error: self.error.clone() }
    }

    /// An error stays: nothing can follow.
    fn run<T>(
        &mut self,
        body: impl FnOnce(&mut TokenParser) -> Result<T, String>,
    ) -> Result<T, String> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let parser = &mut self.parser;
        guard_input(|| body(parser)).map_err(|e| {
            let error = plain(&e);
            self.error = Some(error.clone());
            error
        })
    }

    /// An error of whoever follows: it stays, too.
    pub fn fail(&mut self, error: String) -> Result<(), String> {
        self.error = Some(error.clone());
        Err(error)
    }

    /// The tokens that may follow; those that end an answer where nothing else can.
    pub fn mask(&mut self) -> Result<SimpleVob, String> {
        self.run(|parser| match parser.stop_reason() {
            StopReason::NotStopped => parser.compute_mask().map_err(|e| e.to_string()),
            _ => Ok(parser.token_env.tok_trie().eos_token_set()),
        })
    }

    /// False when the token may not follow; nothing has changed then.
    pub fn accept(&mut self, token: u32) -> Result<bool, String> {
        self.run(|parser| {
            if !parser.validate_token(token).map_err(|e| e.to_string())? {
                return Ok(false);
            }
            let back = parser.consume_token(token).map_err(|e| e.to_string())?;
            parser.check_stop().map_err(|e| e.to_string())?;
            match back {
                0 => Ok(true),
                _ => Err("unexpected backtracking".to_string()),
            }
        })
    }

    pub fn is_accepting(&mut self) -> Result<bool, String> {
        self.run(|parser| Ok(parser.is_accepting()))
    }

    /// Nothing but an end can follow.
    pub fn is_complete(&self) -> bool {
        self.error.is_none() && self.parser.stop_reason() != StopReason::NotStopped
    }

    /// What this one's lexer knows; all there could be when it is broken.
    pub fn learned(&self) -> Learned {
        let stats = guard_input(|| Ok::<_, String>(self.parser.parser.lexer_stats()));
        stats.map_or(Learned { states: usize::MAX, bytes: usize::MAX, fuel: u64::MAX }, |stats| {
            Learned {
                states: stats.num_states,
                bytes: stats.num_bytes,
                fuel: stats.total_fuel_spent as u64,
            }
        })
    }
}
