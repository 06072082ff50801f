//! Constrained output by llguidance: a vocabulary's trie, compiled grammars, and the matcher that
//! follows one answer. A vocabulary is immutable; a compiled grammar holds, behind locks, the lexer
//! that its matchers share. Both may be used by several threads, a matcher by one at a time. A grammar
//! that can't be enforced in full is refused.

mod ebnf;
mod ebnf_parser;
mod follower;
mod marks;
mod matcher;
mod regex;
mod schema;
mod schema_culprit;
mod schema_draft;
mod schema_formats;
mod schema_keywords;
mod schema_values;
mod source;
mod structural_tag;
mod tag_members;

use std::sync::Arc;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{
    ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN,
};
use llguidance::ParserFactory;

use crate::guard::guard_on_large_stack;
use follower::{Follower, Learned};
pub use matcher::GrammarMatcher;
use matcher::Start;
pub use source::{Options, Source};

/// What one answer may cost. A state takes one to two kilobytes.
#[derive(Clone, Copy)]
pub struct Limits {
    pub lexer_states: usize,
    pub mask_fuel: u64, // of one mask; some 14,000 take a millisecond
}

/// Sets of tokens that a mask takes as a whole where the grammar takes all of them: most of a
/// vocabulary are words, which would be walked one by one under "[a-z ]+" and its like.
const WORD_SLICES: [&str; 5] =
    ["[A-Za-z ]{1,24}", "[a-z ]{1,24}", "[A-Za-z ]{1,10}", "[a-z ]{1,10}", "[a-z]{1,10}"];

/// A shared lexer of each grammar that is kept has at most so much beyond its first state.
const MAX_SHARED_BYTES: usize = 4 << 20;
const SHARED_STATES: usize = 8; // an eighth of what one answer may have

/// What all grammars of a model share: the trie of its tokens' bytes.
pub struct GrammarVocab {
    factory: ParserFactory,
    marks: marks::Marks,
    special: Arc<Vec<bool>>,
    end_ids: Arc<Vec<u32>>,
    limits: Limits,
}

/// A grammar ready to be followed, in its first state.
pub struct CompiledGrammar {
    start: Arc<Start>,
    special: Arc<Vec<bool>>,
    end_ids: Arc<Vec<u32>>,
}

impl GrammarVocab {
    /// `words`: the bytes of each id in running text, empty for ids that stand for nothing. A
    /// special token is never part of a text. `end_ids` end an answer; there may be none.
    pub fn new(
        words: &[&[u8]],
        special: Vec<bool>,
        end_ids: &[u32],
        limits: Limits,
    ) -> Result<Self, String> {
        let count = u32::try_from(words.len()).map_err(|e| e.to_string())?;
        if count == 0 || special.len() != words.len() {
            return Err(format!("internal error: {} tokens, {} marks", count, special.len()));
        }
        let mut special = special;
        for &id in end_ids {
            *special.get_mut(id as usize).ok_or_else(|| {
                format!("the end token {id} is outside the vocabulary of {count} tokens")
            })? = true;
        }
        let marks = marks::Marks::new(words, &special, end_ids);
        let bytes: Vec<Vec<u8>> = words
            .iter()
            .zip(&special)
            .map(|(word, &special)| match special {
                // No UTF-8 text has this byte, so that no grammar takes the token as text.
                true => [&[TokTrie::SPECIAL_TOKEN_MARKER], *word].concat(),
                false => word.to_vec(),
            })
            .collect();
        let info = TokRxInfo::new(count, end_ids.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &bytes);
        if !end_ids.is_empty() {
            trie = trie.with_eos_tokens(end_ids);
        }
        // Tokens are never forced by text: whatever tokens the model would take are allowed.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut slices = llguidance::earley::SlicedBiasComputer::general_slices();
        slices.extend(WORD_SLICES.map(str::to_string));
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|e| e.to_string())?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: limits.lexer_states,
            step_lexer_fuel: limits.mask_fuel,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        let (special, end_ids) = (Arc::new(special), Arc::new(end_ids.to_vec()));
        Ok(Self { factory, marks, special, end_ids, limits })
    }

    pub fn compile(&self, source: &Source) -> Result<CompiledGrammar, String> {
        guard_on_large_stack(|| {
            let most = Learned {
                states: self.limits.lexer_states / SHARED_STATES,
                bytes: MAX_SHARED_BYTES,
                fuel: self.limits.mask_fuel.saturating_sub(1),
            };
            Ok(CompiledGrammar {
                start: Arc::new(Start::new(self.compile_source(source)?, most)),
                special: self.special.clone(),
                end_ids: self.end_ids.clone(),
            })
        })
    }

    fn compile_source(&self, source: &Source) -> Result<Follower, String> {
        let grammar = source.grammar(&self.marks)?;
        self.try_grammar(grammar).map_err(|error| {
            // The compiler does not say where: look for the smallest part that fails alone.
            let fails = |part: &serde_json::Value| {
                let grammar = TopLevelGrammar::from_json_schema(part.clone());
                self.try_grammar(grammar).err()
            };
            source.explain(&error, &fails)
        })
    }

    /// A grammar's first state, from which something can follow.
    fn try_grammar(&self, grammar: TopLevelGrammar) -> Result<Follower, String> {
        let parser = self.factory.create_parser(grammar).map_err(|e| plain(&e.to_string()))?;
        let mut start = Follower::new(parser);
        let mask = start.mask()?;
        match mask.is_zero() && !start.is_accepting()? {
            true => Err("no text of this vocabulary fits it".to_string()),
            false => Ok(start),
        }
    }
}

impl CompiledGrammar {
    /// A matcher at the start. `more_ends` are the request's own end tokens; without
    /// `end_allowed` the answer ends only when nothing more can follow.
    pub fn matcher(&self, more_ends: &[u32], end_allowed: bool) -> Result<GrammarMatcher, String> {
        GrammarMatcher::new(
            self.start.clone(),
            self.end_ids.clone(),
            matcher::special_ends(more_ends, &self.special, &self.end_ids),
            end_allowed,
        )
    }
}

/// The message without the compiler's notes on its own state and options.
fn plain(message: &str) -> String {
    let end = message.find("\n<").unwrap_or(message.len());
    message[..end]
        .trim()
        .replace("NoExtensionBias", "nothing fits it, or what does never ends")
        .replace(
            "oneOf constraints are not supported. Enable 'coerce_one_of' option to approximate \
             oneOf with anyOf",
            "a value could fit several of its branches; let them exclude each other (by \"type\", or \
             by \"const\" or \"enum\" of a required property), or use \"anyOf\"",
        )
}
