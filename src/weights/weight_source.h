// Named weights of one model, whatever the file format; any thread may look them up. Names are
// Hugging Face's ("model.layers.0.self_attn.q_proj.weight"); a GGUF's are mapped to them, see
// gguf_arch.h for what else its tensors have different.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/tensor_view.h"
#include "weights/model_config.h"

namespace quire {

struct ExpectedTensor {
  std::string name;
  Shape shape;
  bool optional = false;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The tensor of this name, or an empty view. Type and shape: the data may not be there until
  // require or optional has given the tensor out.
  virtual TensorView find(std::string_view name) const = 0;
  // The tensor, checked to exist and have this shape (dimensions of size 1 aside: the view has the
  // shape asked for); the error names both shapes. Marks it as used.
  Result<TensorView> require(std::string_view name, const Shape& shape) const;
  // Same, but absent is fine (empty view); a wrong shape is an error.
  Result<TensorView> optional(std::string_view name, const Shape& shape) const;
  // After packing: the source pages may go, and with them what was converted.
  virtual void release_pages(const TensorView& view) const = 0;
  virtual std::vector<std::string> names() const = 0;
  // True when Q and K rows are permuted for interleaved RoPE, as GGUF's llama files have them: the
  // model then rotates pairs (2i, 2i+1).
  virtual bool permuted_qk() const = 0;
  // Names that neither require nor optional has handed out: what the model did not look at, sorted.
  std::vector<std::string> unused_names() const;
  // After loading: an error that lists the first ten tensors that nothing asked for, with their
  // count. Buffers, vision towers and the like are not counted. The caller warns or refuses.
  Status check_all_used() const;
  // Before loading: an error that lists what is missing or of another shape, ten of each at most.
  Status check_tensors(std::span<const ExpectedTensor> expected) const;

 protected:
  // The name in names() of the tensor that find(name) looks at; the name itself when there is none.
  virtual std::string stored_name(std::string_view name) const { return std::string(name); }
  // What require gives in place of a tensor that is not there, or an empty view.
  virtual TensorView made_up(std::string_view /*name*/, const Shape& /*shape*/) const { return {}; }
  // The tensor of this stored name with its data; view: what find gives.
  virtual TensorView with_data(const std::string& /*stored*/, const TensorView& view) const {
    return view;
  }

 private:
  mutable std::mutex used_mutex_;
  mutable std::unordered_set<std::string> used_;  // guarded by used_mutex_
};

// Everything the engine needs of a model on disk.
struct ModelFiles {
  std::string path;  // as given, resolved
  bool is_gguf = false;
  ModelConfig config;
  std::unique_ptr<WeightSource> weights;
  std::uint64_t file_bytes = 0;
  std::string tokenizer_json;  // Hugging Face folder; empty for GGUF
  std::string tokenizer_config_json;
  std::string chat_template;             // the GGUF's, or as in TokenizerFiles; may be empty
  std::shared_ptr<const GgufFile> gguf;  // when is_gguf: for its vocabulary
};
struct OpenOptions {
  // A JSON object laid over config.json (nested objects merge). Not for a GGUF.
  std::string hf_overrides{};
  // Where sampling defaults come from. "auto": the model's own; "vllm": none; else a file, or a
  // folder with a generation_config.json, in place of the model's own.
  std::string generation_config = "auto";
  // A JSON object laid over the sampling defaults.
  std::string override_generation_config{};
};
// path: a .gguf file (any part of a split one), a Hugging Face folder, or a folder with exactly one
// .gguf model.
Result<ModelFiles> open_model(const std::string& path, const OpenOptions& options = {});

// The float32 value of every element of row `row` of a matrix (any supported dtype), in the order
// of the inputs. out: [columns] f32
void dequantize_row(const TensorView& matrix, std::int64_t row, float* out);
// True when dequantize_row knows this type.
bool can_dequantize(DType dtype);

}  // namespace quire
