#include "weights/gguf_arch.h"

#include <algorithm>
#include <iterator>

#include "base/edit_distance.h"

namespace quire {
namespace {

using R = GgufRope;

constexpr GgufArch kArchs[] = {
    {"apertus", "apertus"},
    {"arcee", "arcee", R::kPermuted},
    {"bloom", "bloom", R::kNone},
    {"chatglm", "glm", R::kPairs},
    {"cohere2", "cohere2", R::kPairs},
    {"command-r", "cohere", R::kPairs},
    {"dbrx", "dbrx"},
    {"deepseek2", "deepseek_v2", R::kPairs},
    {"dots1", "dots1"},
    {"ernie4_5", "ernie4_5", R::kPairs},
    {"ernie4_5-moe", "ernie4_5_moe", R::kPairs},
    {"exaone4", "exaone4"},
    {"falcon", "falcon"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gemma3", "gemma3_text"},
    {"glm4", "glm4", R::kPairs},
    {"glm4moe", "glm4_moe"},
    {"gpt-oss", "gpt_oss"},
    {"gpt2", "gpt2", R::kNone},
    {"gptneox", "gpt_neox"},
    {"granite", "granite", R::kPermuted},
    {"granitehybrid", "granitemoehybrid", R::kPermuted},
    {"granitemoe", "granitemoe", R::kPermuted},
    {"hunyuan-dense", "hunyuan_v1_dense"},
    {"hunyuan-moe", "hunyuan_v1_moe"},
    {"jamba", "jamba", R::kNone},
    {"lfm2", "lfm2"},
    {"lfm2moe", "lfm2_moe"},
    {"llama", "llama", R::kPermuted},
    {"llama4", "llama4_text", R::kPairs},
    {"mamba", "mamba", R::kNone},
    {"mamba2", "mamba2", R::kNone},
    {"minicpm3", "minicpm3"},
    {"minimax-m2", "minimax_m2"},
    {"mistral", "mistral", R::kPermuted},
    {"mistral3", "ministral3", R::kPermuted},
    {"mpt", "mpt", R::kNone},
    {"nemotron", "nemotron"},
    {"olmo", "olmo", R::kPermuted},
    {"olmo2", "olmo2"},
    {"olmoe", "olmoe"},
    {"phi2", "phi"},
    {"phi3", "phi3"},
    {"phimoe", "phimoe"},
    {"qwen2", "qwen2"},
    {"qwen2moe", "qwen2_moe"},
    {"qwen2vl", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen3moe", "qwen3_moe"},
    {"qwen3next", "qwen3_next"},
    {"qwen3vl", "qwen3"},
    {"qwen3vlmoe", "qwen3_moe"},
    {"seed_oss", "seed_oss"},
    {"smollm3", "smollm3", R::kPermuted},
    {"stablelm", "stablelm"},
    {"starcoder", "gpt_bigcode", R::kNone},
    {"starcoder2", "starcoder2"},
};

}  // namespace

const GgufArch* find_gguf_arch(std::string_view name) {
  const auto* found = std::find_if(std::begin(kArchs), std::end(kArchs),
                                   [&](const GgufArch& arch) { return arch.name == name; });
  return found == std::end(kArchs) ? nullptr : found;
}

std::string_view nearest_gguf_arch(std::string_view name) {
  return nearest_name(name, kArchs, &GgufArch::name);
}

}  // namespace quire
