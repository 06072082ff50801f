//! Tokenizers, chat templates and grammars for Quire's text layer (src/text). Everything here but a
//! grammar's matcher is immutable once built and may be called from several threads. Errors are
//! messages for the user; those of our own faults begin with "internal error: ".

mod grammar;
mod guard;
mod jinja;
mod pre_tokenizers;
mod python_format;
mod template;
mod tokenizer;
mod vocab;

use cxx::{CxxString, CxxVector};

use grammar::{CompiledGrammar, GrammarMatcher, GrammarVocab};
use guard::{guard, guard_on_large_stack};
use template::Template;
use tokenizer::TextTokenizer;

#[cxx::bridge(namespace = "quire::rs")]
mod ffi {
    /// Texts of the special tokens, empty when absent. add_*: 1 yes, 0 no, -1 not stated.
    #[derive(Clone)]
    struct SpecialNames {
        bos: String,
        eos: String,
        unk: String,
        pad: String,
        add_bos: i8,
        add_eos: i8,
    }

    /// All tokens by id: token i's bytes end at byte_ends[i] and start where those of i-1 end.
    struct TokenTable {
        bytes: Vec<u8>,
        byte_ends: Vec<u64>,
        texts: Vec<u8>,
        text_ends: Vec<u64>,
        kinds: Vec<u8>, // 0 ordinary, 1 added, 2 special
    }

    struct ChatInput<'a> {
        messages: &'a [u8], // JSON; the others may be empty
        tools: &'a [u8],
        documents: &'a [u8],
        kwargs: &'a [u8],
        add_generation_prompt: bool,
        continue_final_message: bool,
    }

    /// What a grammar is made from; see grammar/source.rs.
    #[derive(Clone, Copy)]
    enum GrammarKind {
        JsonSchema,
        Regex,
        Choice,
        Grammar,
        StructuralTag,
    }

    struct GrammarInput<'a> {
        kind: GrammarKind,
        text: &'a [u8],
        has_whitespace_pattern: bool,
        whitespace_pattern: &'a [u8],
        no_whitespace: bool,
        closed_objects: bool,
    }

    /// What one answer may cost; see grammar/mod.rs.
    #[derive(Clone, Copy)]
    struct GrammarLimits {
        lexer_states: u64,
        mask_fuel: u64,
    }

    /// only: the allowed token when there is but one, else -1; again: earlier masks that were made
    /// again.
    struct MaskCount {
        allowed: u32,
        only: i64,
        again: u32,
    }

    extern "Rust" {
        type TextTokenizer;
        fn tokenizer_from_json(json: &[u8], config: &[u8]) -> Result<Box<TextTokenizer>>;
        fn tokenizer_from_bpe(
            tokens: &CxxVector<CxxString>,
            types: &[i32],
            pre: &CxxString,
            merges: &CxxVector<CxxString>,
        ) -> Result<Box<TextTokenizer>>;
        /// unk: -1 when there is none.
        fn tokenizer_from_sentencepiece(
            tokens: &CxxVector<CxxString>,
            scores: &[f32],
            types: &[i32],
            unk: i64,
            add_space_prefix: bool,
        ) -> Result<Box<TextTokenizer>>;
        /// Appends to `ids`.
        fn encode(
            tokenizer: &TextTokenizer,
            text: &[u8],
            post_process: bool,
            ids: &mut Vec<u32>,
        ) -> Result<()>;
        /// Also two numbers a token: the characters of the text where it begins and ends.
        fn encode_with_offsets(
            tokenizer: &TextTokenizer,
            text: &[u8],
            post_process: bool,
            ids: &mut Vec<u32>,
            offsets: &mut Vec<u32>,
        ) -> Result<()>;
        /// -1 when `text` is no token.
        fn token_id(tokenizer: &TextTokenizer, text: &[u8]) -> Result<i64>;
        fn token_table(tokenizer: &TextTokenizer) -> Result<TokenTable>;
        fn special_names(tokenizer: &TextTokenizer) -> Result<SpecialNames>;

        type Template;
        fn template_new(source: &[u8], names: SpecialNames) -> Result<Box<Template>>;
        fn template_render(chat: &Template, input: &ChatInput) -> Result<String>;

        type GrammarVocab;
        /// Token i's bytes end at byte_ends[i] and start where those of i-1 end.
        fn grammar_vocab(
            bytes: &[u8],
            byte_ends: &[u64],
            special: &[u8],
            end_ids: &[u32],
            limits: GrammarLimits,
        ) -> Result<Box<GrammarVocab>>;
        type CompiledGrammar;
        fn grammar_compile(
            vocab: &GrammarVocab,
            input: &GrammarInput,
        ) -> Result<Box<CompiledGrammar>>;
        type GrammarMatcher;
        fn grammar_matcher(
            grammar: &CompiledGrammar,
            more_ends: &[u32],
            end_allowed: bool,
        ) -> Result<Box<GrammarMatcher>>;
        fn matcher_fork(matcher: &GrammarMatcher) -> Result<Box<GrammarMatcher>>;
        /// False when the token may not follow.
        fn matcher_accept(matcher: &mut GrammarMatcher, token: u32) -> Result<bool>;
        fn matcher_fill(matcher: &mut GrammarMatcher, words: &mut [u32]) -> Result<MaskCount>;
        fn matcher_accepting(matcher: &mut GrammarMatcher) -> Result<bool>;
        fn is_complete(self: &GrammarMatcher) -> bool;
        fn is_ended(self: &GrammarMatcher) -> bool;
    }
}

fn tokenizer_from_json(json: &[u8], config: &[u8]) -> Result<Box<TextTokenizer>, String> {
    guard(|| TextTokenizer::from_json(json, config).map(Box::new))
}

fn tokenizer_from_bpe(
    tokens: &CxxVector<CxxString>,
    types: &[i32],
    pre: &CxxString,
    merges: &CxxVector<CxxString>,
) -> Result<Box<TextTokenizer>, String> {
    guard(|| {
        let input = vocab_input(tokens, &[], types, -1)?;
        let merges = strings("merge", merges)?;
        TextTokenizer::from_bpe(&input, &pre.to_string_lossy(), &merges).map(Box::new)
    })
}

fn tokenizer_from_sentencepiece(
    tokens: &CxxVector<CxxString>,
    scores: &[f32],
    types: &[i32],
    unk: i64,
    add_space_prefix: bool,
) -> Result<Box<TextTokenizer>, String> {
    guard(|| {
        let input = vocab_input(tokens, scores, types, unk)?;
        TextTokenizer::from_sentencepiece(&input, add_space_prefix).map(Box::new)
    })
}

fn encode(
    tokenizer: &TextTokenizer,
    text: &[u8],
    post_process: bool,
    ids: &mut Vec<u32>,
) -> Result<(), String> {
    guard(|| tokenizer.encode(text, post_process, ids))
}

fn encode_with_offsets(
    tokenizer: &TextTokenizer,
    text: &[u8],
    post_process: bool,
    ids: &mut Vec<u32>,
    offsets: &mut Vec<u32>,
) -> Result<(), String> {
    guard(|| tokenizer.encode_with_offsets(text, post_process, ids, offsets))
}

fn token_id(tokenizer: &TextTokenizer, text: &[u8]) -> Result<i64, String> {
    guard(|| Ok::<_, String>(std::str::from_utf8(text).map_or(-1, |text| tokenizer.token_id(text))))
}

fn token_table(tokenizer: &TextTokenizer) -> Result<ffi::TokenTable, String> {
    guard(|| Ok::<_, String>(tokenizer.table()))
}

fn special_names(tokenizer: &TextTokenizer) -> Result<ffi::SpecialNames, String> {
    guard(|| Ok::<_, String>(tokenizer.names()))
}

fn template_new(source: &[u8], names: ffi::SpecialNames) -> Result<Box<Template>, String> {
    guard_on_large_stack(|| Template::new(source, names).map(Box::new))
}

fn template_render(chat: &Template, input: &ffi::ChatInput) -> Result<String, String> {
    guard(|| chat.render(input))
}

fn grammar_vocab(
    bytes: &[u8],
    byte_ends: &[u64],
    special: &[u8],
    end_ids: &[u32],
    limits: ffi::GrammarLimits,
) -> Result<Box<GrammarVocab>, String> {
    guard(|| {
        let limits = grammar::Limits {
            lexer_states: usize::try_from(limits.lexer_states).map_err(|e| e.to_string())?,
            mask_fuel: limits.mask_fuel,
        };
        let mut begin = 0;
        let mut words = Vec::with_capacity(byte_ends.len());
        for &end in byte_ends {
            let end = usize::try_from(end).map_err(|e| e.to_string())?;
            words.push(bytes.get(begin..end).ok_or("internal error: token bytes out of range")?);
            begin = end;
        }
        let special = special.iter().map(|&mark| mark != 0).collect();
        GrammarVocab::new(&words, special, end_ids, limits).map(Box::new)
    })
}

fn grammar_compile(
    vocab: &GrammarVocab,
    input: &ffi::GrammarInput,
) -> Result<Box<CompiledGrammar>, String> {
    guard(|| vocab.compile(&grammar_source(input)?).map(Box::new))
}

fn grammar_source(input: &ffi::GrammarInput) -> Result<grammar::Source, String> {
    let utf8 = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).map_err(|_| "the grammar is not valid UTF-8")?;
        Ok::<_, String>(text.to_string())
    };
    let text = utf8(input.text)?;
    let whitespace_pattern = match input.has_whitespace_pattern {
        true => Some(utf8(input.whitespace_pattern)?),
        false => None,
    };
    let options = grammar::Options {
        whitespace_pattern,
        no_whitespace: input.no_whitespace,
        closed_objects: input.closed_objects,
    };
    Ok(match input.kind {
        ffi::GrammarKind::JsonSchema => grammar::Source::JsonSchema(text, options),
        ffi::GrammarKind::Regex => grammar::Source::Regex(text),
        ffi::GrammarKind::Choice => grammar::Source::Choice(text),
        ffi::GrammarKind::Grammar => grammar::Source::Grammar(text),
        ffi::GrammarKind::StructuralTag => grammar::Source::StructuralTag(text, options),
        _ => return Err("internal error: kind of grammar".to_string()),
    })
}

fn grammar_matcher(
    grammar: &CompiledGrammar,
    more_ends: &[u32],
    end_allowed: bool,
) -> Result<Box<GrammarMatcher>, String> {
    guard(|| grammar.matcher(more_ends, end_allowed).map(Box::new))
}

fn matcher_fork(matcher: &GrammarMatcher) -> Result<Box<GrammarMatcher>, String> {
    guard(|| Ok::<_, String>(Box::new(matcher.fork())))
}

fn matcher_accept(matcher: &mut GrammarMatcher, token: u32) -> Result<bool, String> {
    guard(|| matcher.accept(token))
}

fn matcher_fill(matcher: &mut GrammarMatcher, words: &mut [u32]) -> Result<ffi::MaskCount, String> {
    guard(|| {
        let count = matcher.fill_mask(words)?;
        let (allowed, only, again) = (count.allowed, count.only, count.again);
        Ok::<_, String>(ffi::MaskCount { allowed, only, again })
    })
}

fn matcher_accepting(matcher: &mut GrammarMatcher) -> Result<bool, String> {
    guard(|| matcher.is_accepting())
}

fn strings(what: &str, list: &CxxVector<CxxString>) -> Result<Vec<String>, String> {
    list.iter()
        .enumerate()
        .map(|(i, text)| match text.to_str() {
            Ok(text) => Ok(text.to_string()),
            Err(_) => Err(format!("{what} {i} of the vocabulary is not valid UTF-8")),
        })
        .collect()
}

fn vocab_input(
    tokens: &CxxVector<CxxString>,
    scores: &[f32],
    types: &[i32],
    unk: i64,
) -> Result<vocab::VocabInput, String> {
    Ok(vocab::VocabInput {
        tokens: strings("token", tokens)?,
        scores: scores.to_vec(),
        types: types.to_vec(),
        unk: u32::try_from(unk).ok(),
    })
}
