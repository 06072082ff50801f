//! Constrained output by llguidance: a vocabulary's trie, compiled grammars, and the matcher that
//! follows one answer. Vocabulary and compiled grammar are immutable and may be shared by threads;
//! a matcher belongs to one at a time. A grammar that can't be enforced in full is refused.

mod ebnf;
mod ebnf_parser;
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

use std::sync::Arc;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{
    ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN,
};
use llguidance::{Matcher, ParserFactory};

pub use matcher::GrammarMatcher;
use crate::guard::guard_on_large_stack;
pub use source::{Options, Source};

/// One state takes one to two kilobytes, and each matcher has its own.
const MAX_LEXER_STATES: usize = 50_000;

/// What all grammars of a model share: the trie of its tokens' bytes.
pub struct GrammarVocab {
    factory: ParserFactory,
    marks: marks::Marks,
    special: Arc<Vec<bool>>,
    end_ids: Arc<Vec<u32>>,
}

/// A grammar ready to be followed, in its first state.
pub struct CompiledGrammar {
    start: Matcher,
    special: Arc<Vec<bool>>,
    end_ids: Arc<Vec<u32>>,
}

impl GrammarVocab {
    /// `words`: the bytes of each id in running text, empty for ids that stand for nothing. A
    /// special token is never part of a text. `end_ids` end an answer; there may be none.
    pub fn new(words: &[&[u8]], special: Vec<bool>, end_ids: &[u32]) -> Result<Self, String> {
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
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|e| e.to_string())?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: MAX_LEXER_STATES,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        let (special, end_ids) = (Arc::new(special), Arc::new(end_ids.to_vec()));
        Ok(Self { factory, marks, special, end_ids })
    }

    pub fn compile(&self, source: &Source) -> Result<CompiledGrammar, String> {
        guard_on_large_stack(|| {
            let start = self.compile_source(source)?;
            Ok(CompiledGrammar {
                start,
                special: self.special.clone(),
                end_ids: self.end_ids.clone(),
            })
        })
    }

    fn compile_source(&self, source: &Source) -> Result<Matcher, String> {
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

    /// The matcher of a grammar in its first state, from which something can follow.
    fn try_grammar(&self, grammar: TopLevelGrammar) -> Result<Matcher, String> {
        let parser = self.factory.create_parser(grammar).map_err(|e| plain(&e.to_string()))?;
        let mut matcher = Matcher::new(Ok(parser));
        let mask = matcher.compute_mask_or_eos().map_err(|e| plain(&e.to_string()))?;
        let accepts = matcher.is_accepting().map_err(|e| plain(&e.to_string()))?;
        match mask.is_zero() && !accepts {
            true => Err("no text of this vocabulary fits it".to_string()),
            false => Ok(matcher),
        }
    }
}

impl CompiledGrammar {
    /// A matcher at the start. `more_ends` are the request's own end tokens; without
    /// `end_allowed` the answer ends only when nothing more can follow.
    pub fn matcher(&self, more_ends: &[u32], end_allowed: bool) -> GrammarMatcher {
        GrammarMatcher::new(
            self.start.deep_clone(),
            self.end_ids.clone(),
            matcher::special_ends(more_ends, &self.special, &self.end_ids),
            end_allowed,
        )
    }
}

/// The message without the compiler's notes on its own state.
fn plain(message: &str) -> String {
    let end = message.find("\n<").unwrap_or(message.len());
    message[..end].trim().replace("NoExtensionBias", "nothing fits it, or what does never ends")
}
