// One function per architecture: what a configuration means, as a ModelSpec. Each lives in
// arch_<family>.cpp and has a line in architectures.cpp.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "model/spec.h"

namespace quire {

struct Architecture {
  std::string_view name;  // ModelConfig::architecture
  Result<ModelSpec> (*spec)(const ModelConfig& config);
  std::string_view models;  // what people call them, for the list of what is supported
};
std::span<const Architecture> architectures();

Result<ModelSpec> llama_spec(const ModelConfig& config);
Result<ModelSpec> mixtral_spec(const ModelConfig& config);
Result<ModelSpec> arcee_spec(const ModelConfig& config);
Result<ModelSpec> smollm3_spec(const ModelConfig& config);
Result<ModelSpec> seed_oss_spec(const ModelConfig& config);
Result<ModelSpec> qwen2_spec(const ModelConfig& config);
Result<ModelSpec> qwen2_moe_spec(const ModelConfig& config);
Result<ModelSpec> qwen3_spec(const ModelConfig& config);
Result<ModelSpec> qwen3_moe_spec(const ModelConfig& config);
Result<ModelSpec> qwen3_next_spec(const ModelConfig& config);
Result<ModelSpec> gemma_spec(const ModelConfig& config);
Result<ModelSpec> gemma2_spec(const ModelConfig& config);
Result<ModelSpec> gemma3_spec(const ModelConfig& config);
Result<ModelSpec> phi_spec(const ModelConfig& config);
Result<ModelSpec> phi3_spec(const ModelConfig& config);
Result<ModelSpec> phimoe_spec(const ModelConfig& config);
Result<ModelSpec> gpt2_spec(const ModelConfig& config);
Result<ModelSpec> gpt_bigcode_spec(const ModelConfig& config);
Result<ModelSpec> gptj_spec(const ModelConfig& config);
Result<ModelSpec> gpt_neox_spec(const ModelConfig& config);
Result<ModelSpec> opt_spec(const ModelConfig& config);
Result<ModelSpec> bloom_spec(const ModelConfig& config);
Result<ModelSpec> mpt_spec(const ModelConfig& config);
Result<ModelSpec> falcon_spec(const ModelConfig& config);
Result<ModelSpec> starcoder2_spec(const ModelConfig& config);
Result<ModelSpec> stablelm_spec(const ModelConfig& config);
Result<ModelSpec> nemotron_spec(const ModelConfig& config);
Result<ModelSpec> olmo_spec(const ModelConfig& config);
Result<ModelSpec> olmo2_spec(const ModelConfig& config);
Result<ModelSpec> olmoe_spec(const ModelConfig& config);
Result<ModelSpec> granite_spec(const ModelConfig& config);
Result<ModelSpec> granitemoe_spec(const ModelConfig& config);
Result<ModelSpec> granitemoehybrid_spec(const ModelConfig& config);
Result<ModelSpec> cohere_spec(const ModelConfig& config);
Result<ModelSpec> cohere2_spec(const ModelConfig& config);
Result<ModelSpec> glm_spec(const ModelConfig& config);
Result<ModelSpec> glm4_spec(const ModelConfig& config);
Result<ModelSpec> glm4_moe_spec(const ModelConfig& config);
Result<ModelSpec> deepseek_v2_spec(const ModelConfig& config);
Result<ModelSpec> deepseek_v3_spec(const ModelConfig& config);
Result<ModelSpec> minicpm3_spec(const ModelConfig& config);
Result<ModelSpec> minimax_m2_spec(const ModelConfig& config);
Result<ModelSpec> ministral3_spec(const ModelConfig& config);
Result<ModelSpec> dots1_spec(const ModelConfig& config);
Result<ModelSpec> exaone4_spec(const ModelConfig& config);
Result<ModelSpec> ernie4_5_spec(const ModelConfig& config);
Result<ModelSpec> ernie4_5_moe_spec(const ModelConfig& config);
Result<ModelSpec> hunyuan_dense_spec(const ModelConfig& config);
Result<ModelSpec> hunyuan_moe_spec(const ModelConfig& config);
Result<ModelSpec> apertus_spec(const ModelConfig& config);
Result<ModelSpec> gpt_oss_spec(const ModelConfig& config);
Result<ModelSpec> llama4_spec(const ModelConfig& config);
Result<ModelSpec> dbrx_spec(const ModelConfig& config);
Result<ModelSpec> lfm2_spec(const ModelConfig& config);
Result<ModelSpec> lfm2_moe_spec(const ModelConfig& config);
Result<ModelSpec> mamba_spec(const ModelConfig& config);
Result<ModelSpec> mamba2_spec(const ModelConfig& config);
Result<ModelSpec> jamba_spec(const ModelConfig& config);

}  // namespace quire
