// Every GGUF twin of the golden set beside the Hugging Face folder it was made from: the two must
// say the same of the model. Runs on the files that the tree has.
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/source_path.h"
#include "weights/gguf_arch.h"
#include "weights/test_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

fs::path tests_folder() { return source_path("tests"); }

// Those whose names and fields are to be the folder's: a Granite 4 without Mamba layers becomes a
// model of the granite family, which has others.
std::vector<fs::path> gguf_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(tests_folder() / "golden-gguf")) {
    if (entry.path().stem() == "granitemoehybrid_dense") continue;
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "gemma2.Q4_0.gguf" -> tests/golden/gemma2
fs::path folder_of(const fs::path& gguf) {
  const std::string name = gguf.filename().string();
  return tests_folder() / "golden" / name.substr(0, name.find('.'));
}

// What the converter changed so that no tensor of this name is in the folder.
bool is_changed_tensor(const std::string& name) {
  for (const char* part : {".A", ".in_proj_qkv.", ".in_proj_z.", ".k_b_proj.", ".v_b_proj.",
                           ".experts.", ".shared_mlp.gate_proj.", ".shared_mlp.up_proj."}) {
    const std::size_t at = name.find(part);
    if (at != std::string::npos && (std::string(part) != ".A" || name.ends_with(".A"))) return true;
  }
  return false;
}

TEST(GgufGolden, EveryTensorHasAName) {
  for (const fs::path& path : gguf_files()) {
    SCOPED_TRACE(path.filename().string());
    const auto files = open_model(path.string());
    ASSERT_TRUE(files) << files.error().message;
    const auto folder = open_model(folder_of(path).string());
    ASSERT_TRUE(folder) << folder.error().message;
    for (const std::string& name : files->weights->names()) {
      EXPECT_EQ(name.find("blk."), std::string::npos) << name << " is not mapped";
      // Of the files made by hand, MiniCPM3's has a head of its own.
      const bool own_head = name == "lm_head.weight" && files->config.architecture == "minicpm3";
      const TensorView twin = folder->weights->find(name);
      if (!own_head && !is_changed_tensor(name)) {
        EXPECT_FALSE(twin.empty()) << name;
      }
      if (!twin.empty() && !files->config.fields.boolean("gguf.untransposed", false)) {
        EXPECT_EQ(files->weights->find(name).shape.elements(), twin.shape.elements()) << name;
      }
    }
  }
}

TEST(GgufGolden, ExpertsAreFoundOneByOne) {
  for (const fs::path& path : gguf_files()) {
    const auto files = open_model(path.string());
    ASSERT_TRUE(files) << files.error().message;
    const std::int64_t experts = files->config.fields.integer("num_experts", 0);
    if (experts == 0) continue;
    SCOPED_TRACE(path.filename().string());
    EXPECT_TRUE(files->config.fields.boolean("gguf.stacked_experts", false));
    EXPECT_FALSE(files->config.fields.integers("gguf.moe_layers").empty());
    const auto folder = open_model(folder_of(path).string());
    ASSERT_TRUE(folder) << folder.error().message;
    for (const std::string& name : folder->weights->names()) {
      const bool expert = name.find(".experts.") != std::string::npos &&
                          name.find(".experts.0.") != std::string::npos;
      if (!expert) continue;
      const TensorView one = files->weights->find(name);
      ASSERT_FALSE(one.empty()) << name;
      EXPECT_EQ(one.shape, folder->weights->find(name).shape) << name;
    }
  }
}

// What llama.cpp means otherwise, or the files' maker set by hand.
bool differs(const std::string& name, const std::string& what) {
  static const std::map<std::string, std::vector<std::string>> kDifferent = {
      {"bloom", {"max_position"}},             // the file has the hidden size there
      {"glm", {"max_position"}},               // likewise
      {"hunyuan_v1_dense", {"max_position"}},  // set by hand
      {"minicpm3", {"tied"}},                  // a head of its own
      {"jamba", {"max_position", "intermediate"}},
      {"mamba", {"max_position"}},
      {"exaone4", {"window"}},
      {"mistral", {"window", "architecture"}},
      {"mistral_full", {"architecture"}},
      {"starcoder2", {"window"}},
      {"phi3", {"window"}},
      {"dots1", {"window"}},
      {"llama_rope_llama3", {"rope kind"}},   // folded into factors
      {"llama_rope_dynamic", {"rope kind"}},  // there is no such kind
      {"apertus", {"rope kind"}},
      {"llama4_text", {"window"}},
      {"granitemoehybrid", {"max_position"}},  // the converter's, of layers without positions
  };
  const auto found = kDifferent.find(name);
  return found != kDifferent.end() &&
         std::find(found->second.begin(), found->second.end(), what) != found->second.end();
}

// "mamba" is what transformers 5 calls "linear_attention" in some families.
std::vector<std::string> mixer_kinds(std::vector<std::string> layer_types) {
  std::ranges::replace(layer_types, "linear_attention", "mamba");
  return layer_types;
}

TEST(GgufGolden, SaysTheSameAsTheFolder) {
  for (const fs::path& path : gguf_files()) {
    const auto files = open_model(path.string()), folder = open_model(folder_of(path).string());
    ASSERT_TRUE(files && folder) << path;
    const std::string name = folder_of(path).filename().string();
    SCOPED_TRACE(path.filename().string());
    const ModelConfig &a = files->config, &b = folder->config;
    EXPECT_TRUE(a.from_gguf);
    if (!differs(name, "architecture")) {
      EXPECT_EQ(a.architecture, b.architecture);
    }
    EXPECT_EQ(a.vocab_size, b.vocab_size);
    EXPECT_EQ(a.hidden_size, b.hidden_size);
    if (!differs(name, "intermediate")) {
      EXPECT_EQ(a.intermediate_size, b.intermediate_size);
    }
    EXPECT_EQ(a.num_layers, b.num_layers);
    EXPECT_EQ(a.num_heads, b.num_heads);
    EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
    EXPECT_EQ(a.head_dim, b.head_dim);
    if (!differs(name, "max_position")) {
      EXPECT_EQ(a.max_position, b.max_position);
    }
    EXPECT_FLOAT_EQ(static_cast<float>(a.norm_eps), static_cast<float>(b.norm_eps));
    EXPECT_EQ(a.activation, b.activation);
    if (!differs(name, "tied")) {
      EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
    }
    EXPECT_EQ(a.rope.rotary_dim, b.rope.rotary_dim);
    EXPECT_NEAR(a.rope.theta / b.rope.theta, 1.0, 1e-6);
    if (!differs(name, "rope kind")) {
      EXPECT_EQ(a.rope.kind, b.rope.kind);
    }
    EXPECT_EQ(a.rope.interleaved, b.rope.interleaved || files->weights->permuted_qk());
    EXPECT_EQ(a.sliding_rope.has_value(), b.sliding_rope.has_value());
    if (!differs(name, "window")) {
      EXPECT_EQ(a.sliding_window, b.sliding_window);
      EXPECT_EQ(mixer_kinds(a.layer_types), mixer_kinds(b.layer_types));
    }
  }
}

// Fields that GGUF's metadata has, in every family's spelling.
const std::vector<std::string> kChecked = {
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "ffn_config.moe_num_experts",
    "num_experts_per_tok",
    "moe_k",
    "moe_topk",
    "ffn_config.moe_top_k",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "n_group",
    "topk_group",
    "routed_scaling_factor",
    "norm_topk_prob",
    "first_k_dense_replace",
    "num_dense_layers",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "attention_multiplier",
    "embedding_multiplier",
    "residual_multiplier",
    "logits_scaling",
    "logit_scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "state_size",
    "conv_kernel",
    "n_groups",
    "time_step_rank",
    "num_heads",
    "mamba_d_state",
    "mamba_d_conv",
    "mamba_dt_rank",
    "mamba_expand",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "conv_L_cache",
    "use_parallel_residual",
    "new_decoder_architecture",
    "parallel_attn",
    "moe_layer_start_index",
    "moe_layer_interval",
    "interleave_moe_layer_step",
    "moe_layers",
    "intermediate_size_mlp",
    "attn_config.alibi",
    "use_conv_bias",
    "mamba_conv_bias",
    "topk_method",
    "n_shared_experts",
    "expert_layer_offset",
    "no_bias",
    "use_expert_bias",
};

// Of one field, the folder's value is the file's.
void expect_same_field(const ConfigFields& file, const ConfigFields& folder,
                       const std::string& field) {
  if (!folder.text(field, "").empty()) {
    EXPECT_EQ(file.text(field, ""), folder.text(field, "")) << field;
    return;
  }
  const std::vector<double> ours = file.numbers(field), theirs = folder.numbers(field);
  if (theirs == std::vector<double>{0} && ours.empty()) return;  // 0 and absent are alike
  ASSERT_EQ(ours.size(), theirs.size()) << field;
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5) << field;
}

TEST(GgufGolden, FieldsInEachFamilysSpelling) {
  const std::map<std::string, std::string> except = {
      {"lfm2_moe", "routed_scaling_factor"},  // folded into the weights
      {"mamba2", "time_step_rank"},           // unused there
  };
  for (const fs::path& path : gguf_files()) {
    const auto files = open_model(path.string()), folder = open_model(folder_of(path).string());
    ASSERT_TRUE(files && folder) << path;
    SCOPED_TRACE(path.filename().string());
    const auto skip = except.find(folder_of(path).filename().string());
    for (const std::string& field : kChecked) {
      if (!folder->config.fields.has(field)) continue;
      if (skip != except.end() && skip->second == field) continue;
      expect_same_field(files->config.fields, folder->config.fields, field);
    }
  }
}

}  // namespace
}  // namespace quire
