// For tests only: builds small model files in memory, right or wrong on purpose, and temporary
// folders.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::testing {

using Bytes = std::vector<std::byte>;

// Little-endian values one after another.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
    return *this;
  }
  ByteWriter& text(std::string_view text) {
    for (char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  // As GGUF has strings: length u64, then the bytes.
  ByteWriter& string(std::string_view text_bytes) {
    return put(std::uint64_t{text_bytes.size()}).text(text_bytes);
  }
  ByteWriter& append(const Bytes& more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  ByteWriter& pad(std::size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  Bytes bytes_;
};

struct TensorSpec {
  std::string name;
  std::vector<std::uint64_t> dims;  // fastest first, as GGUF stores them
  std::uint32_t type = 0;           // GGML's number; 0: F32
  std::uint64_t offset = 0;
};

// A GGUF file; every header field can be made wrong.
class GgufBuilder {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::int64_t extra_tensors = 0, extra_metadata = 0;  // added to the counts: lies
  std::size_t alignment = 32;
  std::size_t data_bytes = 0;

  template <class T>
  GgufBuilder& value(std::string_view key, std::uint32_t type, T v) {
    return raw(key, type, ByteWriter().put(v).bytes());
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t v) { return value(key, 4, v); }
  GgufBuilder& f32(std::string_view key, float v) { return value(key, 6, v); }
  GgufBuilder& str(std::string_view key, std::string_view v) {
    return raw(key, 8, ByteWriter().string(v).bytes());
  }
  GgufBuilder& strs(std::string_view key, const std::vector<std::string>& all) {
    ByteWriter body;
    body.put(std::uint32_t{8}).put(std::uint64_t{all.size()});
    for (const std::string& each : all) body.string(each);
    return raw(key, 9, body.bytes());
  }
  GgufBuilder& raw(std::string_view key, std::uint32_t type, const Bytes& body) {
    metadata_.string(key).put(type).append(body);
    ++num_metadata_;
    return *this;
  }
  GgufBuilder& tensor(const TensorSpec& spec) {
    tensors_.push_back(spec);
    return *this;
  }
  // An F32 tensor behind those before; fills the data section.
  GgufBuilder& f32_tensor(const std::string& name, const std::vector<std::uint64_t>& dims) {
    std::uint64_t elements = 1;
    for (std::uint64_t dim : dims) elements *= dim;
    tensors_.push_back({name, dims, 0, data_bytes});
    data_bytes = (data_bytes + elements * 4 + alignment - 1) / alignment * alignment;
    return *this;
  }
  Bytes build() const {
    ByteWriter out;
    out.text(magic).put(version);
    out.put(tensors_.size() + static_cast<std::uint64_t>(extra_tensors));
    out.put(num_metadata_ + static_cast<std::uint64_t>(extra_metadata)).append(metadata_.bytes());
    for (const TensorSpec& spec : tensors_) {
      out.string(spec.name).put(static_cast<std::uint32_t>(spec.dims.size()));
      for (std::uint64_t dim : spec.dims) out.put(dim);
      out.put(spec.type).put(spec.offset);
    }
    if (data_bytes > 0) out.pad(alignment);
    for (std::size_t i = 0; i < data_bytes / 4; ++i) out.put(static_cast<float>(i));
    return out.bytes();
  }

 private:
  ByteWriter metadata_;
  std::uint64_t num_metadata_ = 0;
  std::vector<TensorSpec> tensors_;
};

// A llama model of two layers (hidden 8, heads 2 of 4, one key-value head, 6 tokens).
inline GgufBuilder tiny_llama_gguf() {
  GgufBuilder gguf;
  gguf.str("general.architecture", "llama").u32("llama.block_count", 2);
  gguf.u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 16);
  gguf.u32("llama.attention.head_count", 2).u32("llama.attention.head_count_kv", 1);
  gguf.u32("llama.context_length", 64).f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  gguf.strs("tokenizer.ggml.tokens", {"<s>", "</s>", "a", "b", "c", "d"});
  gguf.u32("tokenizer.ggml.eos_token_id", 1).u32("tokenizer.ggml.bos_token_id", 0);
  gguf.f32_tensor("token_embd.weight", {8, 6}).f32_tensor("output_norm.weight", {8});
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string base = layer;
    gguf.f32_tensor(base + "attn_norm.weight", {8}).f32_tensor(base + "ffn_norm.weight", {8});
    gguf.f32_tensor(base + "attn_q.weight", {8, 8}).f32_tensor(base + "attn_k.weight", {8, 4});
    gguf.f32_tensor(base + "attn_v.weight", {8, 4}).f32_tensor(base + "attn_output.weight", {8, 8});
    gguf.f32_tensor(base + "ffn_gate.weight", {8, 16}).f32_tensor(base + "ffn_up.weight", {8, 16});
    gguf.f32_tensor(base + "ffn_down.weight", {16, 8});
  }
  return gguf;
}

// A safetensors file: the header's length, the header padded to 8, data_bytes of zeros.
inline Bytes safetensors_bytes(std::string header, std::size_t data_bytes) {
  while (header.size() % 8 != 0) header += ' ';
  ByteWriter out;
  out.put(std::uint64_t{header.size()}).text(header);
  for (std::size_t i = 0; i < data_bytes; ++i) out.put(std::uint8_t{0});
  return out.bytes();
}

// The smallest config.json that is right; `more` are further "key": value pairs after a comma.
inline std::string tiny_config_json(std::string_view more = "",
                                    std::string_view architecture = "LlamaForCausalLM") {
  return std::string(R"({"architectures": [")") + std::string(architecture) +
         R"("], "vocab_size": 6, "hidden_size": 8, "intermediate_size": 16,)" +
         R"("num_hidden_layers": 2, "num_attention_heads": 2)" + std::string(more) + "}";
}

// A folder that goes with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string write(const std::string& name, std::string_view text) const {
    const std::string file = path_ / name;
    std::ofstream(file, std::ios::binary)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
    return file;
  }
  std::string write(const std::string& name, const Bytes& bytes) const {
    return write(name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The result is an error of one line that contains `part`.
template <class T>
void expect_error(const Result<T>& result, std::string_view part) {
  ASSERT_FALSE(result.has_value()) << "no error; expected: " << part;
  EXPECT_THAT(result.error().message, ::testing::HasSubstr(std::string(part)));
  EXPECT_THAT(result.error().message, ::testing::Not(::testing::HasSubstr("\n")));
}

}  // namespace quire::testing
