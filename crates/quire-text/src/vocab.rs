//! Builds a tokenizer from the vocabulary a GGUF file carries.

use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::utils::Sequence as NormalizerSequence;
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer};

use crate::pre_tokenizers;

/// GGUF's token types.
pub mod token_type {
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
}

/// SentencePiece writes a space as this.
pub const METASPACE: &str = "\u{2581}";

pub struct VocabInput {
    pub tokens: Vec<String>,
    pub scores: Vec<f32>,
    pub types: Vec<i32>, // one for each token
    pub unk: Option<u32>,
}

pub struct Built {
    pub tokenizer: Tokenizer,
    pub default_add_bos: bool,
}

/// Byte-level BPE ("gpt2" in GGUF). `merges` are "left right", the first merged first.
pub fn build_bpe(input: &VocabInput, pre: &str, merges: &[String]) -> Result<Built, String> {
    let pre_tokenizer = pre_tokenizers::find(pre).ok_or_else(|| {
        format!(
            "unknown pre-tokenizer \"{pre}\" (tokenizer.ggml.pre): text would be cut in other places \
             than the model was trained with; use a model file with a tokenizer.json"
        )
    })?;
    let pairs = merges
        .iter()
        .enumerate()
        .map(|(rank, merge)| {
            split_merge(merge).ok_or_else(|| {
                format!("merge {rank} of the vocabulary, {merge:?}, is not two tokens with a space between")
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let model = BPE::builder()
        .vocab_and_merges(vocab_of(&input.tokens), pairs)
        .ignore_merges(pre_tokenizer.ignore_merges)
        .build()
        .map_err(|e| format!("the vocabulary's merges don't fit its tokens: {e}"))?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(pre_tokenizer.normalizer());
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer.build()?));
    add_marked_tokens(&mut tokenizer, input);
    Ok(Built { tokenizer, default_add_bos: pre_tokenizer.add_bos })
}

/// SentencePiece ("llama" in GGUF): the pair whose union has the best score is merged first, which
/// is BPE with merges ordered by the score of their result; what is no token falls back to bytes.
pub fn build_sentencepiece(input: &VocabInput, add_space_prefix: bool) -> Result<Built, String> {
    let vocab = vocab_of(&input.tokens);
    let merges = merges_from_scores(&input.tokens, &input.scores, &vocab);
    let mut builder = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .byte_fallback(true)
        .fuse_unk(true);
    if let Some(unk) = input.unk {
        builder = builder.unk_token(input.tokens[unk as usize].clone());
    }
    let model =
        builder.build().map_err(|e| format!("the vocabulary's scores give no merges: {e}"))?;
    let mut tokenizer = Tokenizer::new(model);
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if add_space_prefix {
        steps.push(Prepend::new(METASPACE.to_string()).into());
    }
    steps.push(Replace::new(" ", METASPACE).map_err(|e| e.to_string())?.into());
    tokenizer.with_normalizer(Some(NormalizerSequence::new(steps)));
    add_marked_tokens(&mut tokenizer, input);
    Ok(Built { tokenizer, default_add_bos: true })
}

fn vocab_of(tokens: &[String]) -> Vocab {
    let mut vocab = Vocab::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        vocab.entry(token.clone()).or_insert(id as u32);
    }
    vocab
}

/// "a b" at the first space that is not the first character: a token may begin with one.
fn split_merge(merge: &str) -> Option<(String, String)> {
    let first_len = merge.chars().next()?.len_utf8();
    let at = first_len + merge[first_len..].find(' ')?;
    let (left, right) = (&merge[..at], &merge[at + 1..]);
    (!right.is_empty()).then(|| (left.to_string(), right.to_string()))
}

/// A cut of a token into two tokens, with what orders it among the merges.
struct Cut {
    score: f32,
    token: u32,
    at: u32, // byte where the right part starts
    left_chars: u32,
    right_chars: u32,
}

/// Every way to cut a token into two tokens; best score first, then the longer left part.
fn merges_from_scores(tokens: &[String], scores: &[f32], vocab: &Vocab) -> Vec<(String, String)> {
    let mut cuts: Vec<Cut> = Vec::with_capacity(2 * tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if vocab[token.as_str()] as usize != id {
            continue;
        }
        let first = cuts.len();
        let score = scores.get(id).copied().unwrap_or(0.0);
        let mut chars = 1;
        for (at, _) in token.char_indices().skip(1) {
            if vocab.contains_key(&token[..at]) && vocab.contains_key(&token[at..]) {
                let (token, at) = (id as u32, at as u32);
                cuts.push(Cut { score, token, at, left_chars: chars, right_chars: 0 });
            }
            chars += 1;
        }
        for cut in &mut cuts[first..] {
            cut.right_chars = chars - cut.left_chars;
        }
    }
    // No two are equal: of one token, the left parts differ in length.
    cuts.sort_unstable_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| b.left_chars.cmp(&a.left_chars))
            .then_with(|| b.right_chars.cmp(&a.right_chars))
            .then_with(|| a.token.cmp(&b.token))
    });
    let pair = |cut: &Cut| {
        let (left, right) = tokens[cut.token as usize].split_at(cut.at as usize);
        (left.to_string(), right.to_string())
    };
    cuts.iter().map(pair).collect()
}

/// Control and unknown tokens are special; user-defined ones are matched in running text as well.
fn add_marked_tokens(tokenizer: &mut Tokenizer, input: &VocabInput) {
    let marked = |(token, kind): (&String, &i32)| {
        let special = match *kind {
            token_type::CONTROL | token_type::UNKNOWN => true,
            token_type::USER_DEFINED => false,
            _ => return None,
        };
        Some(AddedToken::from(token.clone(), special).normalized(false))
    };
    let marked: Vec<_> = input.tokens.iter().zip(&input.types).filter_map(marked).collect();
    tokenizer.add_tokens(&marked); // all at once: each call rebuilds the automaton that finds them
}
