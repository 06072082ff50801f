//! The tokenizer behind the bridge: encoding, and one table of all tokens with the bytes they stand for.

use std::collections::HashSet;

use serde_json::Value;
use tokenizers::{AddedToken, DecoderWrapper, Tokenizer};

use crate::ffi::{SpecialNames, TokenTable};
use crate::guard::guard_input;
use crate::vocab::{self, VocabInput, METASPACE};

/// How a token's spelling becomes bytes.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    ByteLevel, // each character of GPT-2's alphabet is one byte
    Metaspace, // U+2581 is a space, <0xNN> is a byte
    WordPiece, // "##" goes on with the word, anything else starts one
    Verbatim,
}

pub struct TextTokenizer {
    tokenizer: Tokenizer,
    names: SpecialNames,
    spelling: Spelling,
    size: u32,
}

const NO_CHOICE: i8 = -1;

fn choice(value: Option<bool>) -> i8 {
    value.map_or(NO_CHOICE, i8::from)
}

impl TextTokenizer {
    pub fn from_json(json: &[u8], config: &[u8]) -> Result<Self, String> {
        let mut tokenizer = guard_input(|| Tokenizer::from_bytes(json)).map_err(|e| {
            let bad = serde_json::from_slice::<Value>(json).err();
            format!("tokenizer.json: {}", bad.map_or(e, |bad| bad.to_string()))
        })?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| format!("tokenizer.json: {e}"))?;
        let config: Value = if config.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(config).map_err(|e| format!("tokenizer_config.json: {e}"))?
        };
        let names = names_of(&config);
        mark_special(&mut tokenizer, &config, &names);
        let spelling = spelling_of(tokenizer.get_decoder());
        let size = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id + 1);
        Ok(TextTokenizer { tokenizer, names, spelling, size })
    }

    pub fn from_bpe(input: &VocabInput, pre: &str, merges: &[String]) -> Result<Self, String> {
        let built = vocab::build_bpe(input, pre, merges)?;
        let names = SpecialNames {
            add_bos: choice(Some(built.default_add_bos)),
            add_eos: choice(Some(false)),
            ..no_names()
        };
        Ok(TextTokenizer {
            tokenizer: built.tokenizer,
            names,
            spelling: Spelling::ByteLevel,
            size: input.tokens.len() as u32,
        })
    }

    pub fn from_sentencepiece(input: &VocabInput, add_space_prefix: bool) -> Result<Self, String> {
        let built = vocab::build_sentencepiece(input, add_space_prefix)?;
        let names = SpecialNames {
            add_bos: choice(Some(built.default_add_bos)),
            add_eos: choice(Some(false)),
            ..no_names()
        };
        Ok(TextTokenizer {
            tokenizer: built.tokenizer,
            names,
            spelling: Spelling::Metaspace,
            size: input.tokens.len() as u32,
        })
    }

    /// `post_process`: let tokenizer.json's own post-processor add bos and eos.
    pub fn encode(
        &self,
        text: &[u8],
        post_process: bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), String> {
        let text = utf8(text)?;
        let encoding = self
            .tokenizer
            .encode_fast(text, post_process)
            .map_err(|e| format!("encoding failed: {e}"))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// Appends to `offsets` where each token stands in the text: its first character and the one
    /// behind its last. What a post-processor has added stands nowhere: 0, 0.
    pub fn encode_with_offsets(
        &self,
        text: &[u8],
        post_process: bool,
        ids: &mut Vec<u32>,
        offsets: &mut Vec<u32>,
    ) -> Result<(), String> {
        let text = utf8(text)?;
        let encoding = self
            .tokenizer
            .encode_char_offsets(text, post_process)
            .map_err(|e| format!("encoding failed: {e}"))?;
        ids.extend_from_slice(encoding.get_ids());
        for &(begin, end) in encoding.get_offsets() {
            offsets.push(u32::try_from(begin).map_err(|e| e.to_string())?);
            offsets.push(u32::try_from(end).map_err(|e| e.to_string())?);
        }
        Ok(())
    }

    pub fn token_id(&self, text: &str) -> i64 {
        self.tokenizer.token_to_id(text).map_or(-1, i64::from)
    }

    pub fn names(&self) -> SpecialNames {
        self.names.clone()
    }

    pub fn table(&self) -> TokenTable {
        let added = self.tokenizer.get_added_tokens_decoder();
        let mut table = TokenTable {
            bytes: Vec::new(),
            byte_ends: Vec::with_capacity(self.size as usize),
            texts: Vec::new(),
            text_ends: Vec::with_capacity(self.size as usize),
            kinds: Vec::with_capacity(self.size as usize),
        };
        let alphabet = byte_alphabet();
        for id in 0..self.size {
            let mut kind = 0; // ordinary
            if let Some(token) = added.get(&id) {
                kind = if token.special { 2 } else { 1 };
                table.texts.extend_from_slice(token.content.as_bytes());
                if kind == 1 && self.spelling == Spelling::Metaspace {
                    // Gemma's runs of spaces are added tokens.
                    self.append_bytes(&token.content, &alphabet, &mut table.bytes);
                } else {
                    table.bytes.extend_from_slice(token.content.as_bytes());
                }
            } else if let Some(text) = self.tokenizer.id_to_token(id) {
                table.texts.extend_from_slice(text.as_bytes());
                self.append_bytes(&text, &alphabet, &mut table.bytes);
            }
            table.kinds.push(kind);
            table.byte_ends.push(table.bytes.len() as u64);
            table.text_ends.push(table.texts.len() as u64);
        }
        table
    }

    fn append_bytes(&self, text: &str, alphabet: &[Option<u8>; 512], out: &mut Vec<u8>) {
        match self.spelling {
            Spelling::ByteLevel => {
                let start = out.len();
                for c in text.chars() {
                    match alphabet.get(c as usize).copied().flatten() {
                        Some(byte) => out.push(byte),
                        None => {
                            // Not in the alphabet: the token stands for itself, as a whole.
                            out.truncate(start);
                            out.extend_from_slice(text.as_bytes());
                            return;
                        }
                    }
                }
            }
            Spelling::Metaspace => match byte_token(text) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(text.replace(METASPACE, " ").as_bytes()),
            },
            Spelling::WordPiece => match text.strip_prefix("##") {
                Some(rest) => out.extend_from_slice(rest.as_bytes()),
                None => {
                    out.push(b' ');
                    out.extend_from_slice(text.as_bytes());
                }
            },
            Spelling::Verbatim => out.extend_from_slice(text.as_bytes()),
        }
    }
}

fn utf8(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text)
        .map_err(|e| format!("text is not valid UTF-8: bad byte at offset {}", e.valid_up_to()))
}

/// "<0x0A>" is the byte 10.
fn byte_token(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2).then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

/// GPT-2's alphabet, from character to byte: printable Latin-1 stands for itself, the other bytes
/// follow in order from U+0100.
fn byte_alphabet() -> [Option<u8>; 512] {
    let mut table = [None; 512];
    let mut next = 256;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let at = if printable {
            byte as usize
        } else {
            next += 1;
            next - 1
        };
        table[at] = Some(byte);
    }
    table
}

fn spelling_of(decoder: Option<&DecoderWrapper>) -> Spelling {
    match decoder {
        Some(DecoderWrapper::ByteLevel(_)) => Spelling::ByteLevel,
        Some(DecoderWrapper::Metaspace(_) | DecoderWrapper::ByteFallback(_)) => Spelling::Metaspace,
        Some(DecoderWrapper::WordPiece(_)) => Spelling::WordPiece,
        Some(DecoderWrapper::Replace(_)) => Spelling::Metaspace,
        Some(DecoderWrapper::Sequence(steps)) => steps
            .get_decoders()
            .iter()
            .map(|step| spelling_of(Some(step)))
            .find(|&spelling| spelling != Spelling::Verbatim)
            .unwrap_or(Spelling::Verbatim),
        _ => Spelling::Verbatim,
    }
}

fn no_names() -> SpecialNames {
    SpecialNames {
        bos: String::new(),
        eos: String::new(),
        unk: String::new(),
        pad: String::new(),
        add_bos: NO_CHOICE,
        add_eos: NO_CHOICE,
    }
}

/// A special token is written as its text or as an object that has it in `content`.
fn token_name(value: &Value) -> String {
    let text = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
    text.unwrap_or_default().to_string()
}

fn names_of(config: &Value) -> SpecialNames {
    // These classes build their own post-processor; without a word on it they add bos.
    let class = config.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
    let adds_bos = ["LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"]
        .iter()
        .any(|name| class.strip_suffix("Fast").unwrap_or(class) == *name);
    let stated = |key: &str| config.get(key).and_then(Value::as_bool);
    SpecialNames {
        bos: token_name(&config["bos_token"]),
        eos: token_name(&config["eos_token"]),
        unk: token_name(&config["unk_token"]),
        pad: token_name(&config["pad_token"]),
        add_bos: choice(stated("add_bos_token").or(adds_bos.then_some(true))),
        add_eos: choice(stated("add_eos_token").or(adds_bos.then_some(false))),
    }
}

/// Tokens that only tokenizer_config.json calls special are made so; none gets a new id.
fn mark_special(tokenizer: &mut Tokenizer, config: &Value, names: &SpecialNames) {
    let known: HashSet<u32> = tokenizer
        .get_added_tokens_decoder()
        .into_iter()
        .filter(|(_, token)| token.special)
        .map(|(id, _)| id)
        .collect();
    let mut wanted: Vec<AddedToken> = Vec::new();
    if let Some(listed) = config.get("added_tokens_decoder").and_then(Value::as_object) {
        for token in listed.values() {
            let flag = |key: &str| token.get(key).and_then(Value::as_bool).unwrap_or(false);
            if flag("special") {
                wanted.push(
                    AddedToken::from(token_name(token), true)
                        .lstrip(flag("lstrip"))
                        .rstrip(flag("rstrip"))
                        .single_word(flag("single_word"))
                        .normalized(flag("normalized")),
                );
            }
        }
    }
    let named = [&names.bos, &names.eos, &names.unk, &names.pad].map(String::as_str);
    let extra: Vec<String> = config
        .get("additional_special_tokens")
        .and_then(Value::as_array)
        .map(|list| list.iter().map(token_name).collect())
        .unwrap_or_default();
    for name in named.into_iter().chain(extra.iter().map(String::as_str)) {
        if !wanted.iter().any(|token| token.content == name) {
            wanted.push(AddedToken::from(name, true));
        }
    }
    wanted.retain(|token| {
        tokenizer.token_to_id(&token.content).is_some_and(|id| !known.contains(&id))
    });
    if !wanted.is_empty() {
        tokenizer.add_special_tokens(&wanted);
    }
}
