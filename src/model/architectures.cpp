#include "model/architectures.h"

#include <array>

namespace quire {
namespace {

// A new architecture is a function in an arch_<family>.cpp and one line here. Names are Hugging
// Face's model_type.
constexpr auto kArchitectures = std::to_array<Architecture>({
    {"apertus", apertus_spec, "Apertus"},
    {"arcee", arcee_spec, "Arcee AFM"},
    {"bloom", bloom_spec, "BLOOM"},
    {"cohere", cohere_spec, "Command R, Aya 23"},
    {"cohere2", cohere2_spec, "Command R7B, Command A"},
    {"dbrx", dbrx_spec, "DBRX"},
    {"deepseek_v2", deepseek_v2_spec, "DeepSeek V2, V2 Lite, Coder V2"},
    {"deepseek_v3", deepseek_v3_spec, "DeepSeek V3 and R1"},
    {"dots1", dots1_spec, "dots.llm1"},
    {"ernie4_5", ernie4_5_spec, "ERNIE 4.5 dense"},
    {"ernie4_5_moe", ernie4_5_moe_spec, "ERNIE 4.5 MoE"},
    {"exaone4", exaone4_spec, "EXAONE 4"},
    {"falcon", falcon_spec, "Falcon 1 and 2"},
    {"gemma", gemma_spec, "Gemma 1"},
    {"gemma2", gemma2_spec, "Gemma 2"},
    {"gemma3_text", gemma3_spec, "Gemma 3"},
    {"glm", glm_spec, "GLM 4 (9B)"},
    {"glm4", glm4_spec, "GLM 4 0414"},
    {"glm4_moe", glm4_moe_spec, "GLM 4.5, 4.6"},
    {"gpt2", gpt2_spec, "GPT-2"},
    {"gpt_bigcode", gpt_bigcode_spec, "StarCoder"},
    {"gpt_neox", gpt_neox_spec, "GPT-NeoX, Pythia"},
    {"gpt_oss", gpt_oss_spec, "gpt-oss"},
    {"gptj", gptj_spec, "GPT-J"},
    {"granite", granite_spec, "Granite 3 dense"},
    {"granitemoe", granitemoe_spec, "Granite 3 MoE"},
    {"granitemoehybrid", granitemoehybrid_spec, "Granite 4"},
    {"granitemoeshared", granitemoe_spec, "Granite MoE with a shared expert"},
    {"hunyuan_v1_dense", hunyuan_dense_spec, "Hunyuan dense"},
    {"hunyuan_v1_moe", hunyuan_moe_spec, "Hunyuan A13B"},
    {"jamba", jamba_spec, "Jamba"},
    {"lfm2", lfm2_spec, "LFM2"},
    {"lfm2_moe", lfm2_moe_spec, "LFM2 MoE"},
    {"llama", llama_spec, "Llama 2 and 3, SmolLM2, TinyLlama"},
    {"llama4_text", llama4_spec, "Llama 4 (text)"},
    {"mamba", mamba_spec, "Mamba"},
    {"mamba2", mamba2_spec, "Mamba 2"},
    {"minicpm3", minicpm3_spec, "MiniCPM3"},
    {"minimax_m2", minimax_m2_spec, "MiniMax M2"},
    {"ministral3", ministral3_spec, "Ministral 3"},
    {"mistral", llama_spec, "Mistral 7B, Nemo, Small"},
    {"mixtral", mixtral_spec, "Mixtral"},
    {"mpt", mpt_spec, "MPT"},
    {"nemotron", nemotron_spec, "Nemotron 4, Minitron"},
    {"olmo", olmo_spec, "OLMo 1"},
    {"olmo2", olmo2_spec, "OLMo 2"},
    {"olmo3", olmo2_spec, "OLMo 3"},
    {"olmoe", olmoe_spec, "OLMoE"},
    {"opt", opt_spec, "OPT"},
    {"phi", phi_spec, "Phi 1, 1.5 and 2"},
    {"phi3", phi3_spec, "Phi 3, 3.5 and 4"},
    {"phimoe", phimoe_spec, "Phi 3.5 MoE"},
    {"qwen2", qwen2_spec, "Qwen 2 and 2.5, QwQ"},
    {"qwen2_moe", qwen2_moe_spec, "Qwen 1.5 and 2 MoE"},
    {"qwen3", qwen3_spec, "Qwen 3"},
    {"qwen3_moe", qwen3_moe_spec, "Qwen 3 MoE"},
    {"qwen3_next", qwen3_next_spec, "Qwen 3 Next"},
    {"seed_oss", seed_oss_spec, "Seed-OSS"},
    {"smollm3", smollm3_spec, "SmolLM3"},
    {"stablelm", stablelm_spec, "StableLM 2"},
    {"starcoder2", starcoder2_spec, "StarCoder 2"},
});

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

}  // namespace quire
