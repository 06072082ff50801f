// Damaged and mixed-up model files that have crashed other engines, or were loaded by them as if
// nothing were wrong: here each is one clear error. A test per fault.
#include "weights/gguf_file.h"
#include "weights/safetensors_file.h"
#include "weights/test_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

using testing::ByteWriter;
using testing::expect_error;
using testing::GgufBuilder;
using testing::safetensors_bytes;
using testing::TempFolder;
using testing::tiny_config_json;
using testing::tiny_llama_gguf;

Result<ModelFiles> open_gguf(const GgufBuilder& gguf) {
  const TempFolder folder;
  return open_model(folder.write("m.gguf", gguf.build()));
}

// A dimension of 0 was a divisor.
TEST(ModelFileFaults, TinyFileWithAZeroDimension) {
  for (const std::vector<std::uint64_t>& dims :
       {std::vector<std::uint64_t>{0}, {0, 4}, {4, 0}, {1, 1, 0}}) {
    GgufBuilder gguf;
    gguf.tensor({"t", dims});
    EXPECT_LE(gguf.build().size(), 88u);
    expect_error(open_gguf(gguf), "of size 0");
  }
}

// The element type of an array indexed a table.
TEST(ModelFileFaults, ArrayOfATypeThatDoesNotExist) {
  for (const std::uint32_t type : {13u, 14u, 99u, 0x7fffffffu, 0xffffffffu}) {
    GgufBuilder gguf = tiny_llama_gguf();
    gguf.raw("k", 9, ByteWriter().put(type).put(std::uint64_t{1}).put(std::uint64_t{0}).bytes());
    expect_error(open_gguf(gguf), "unknown type");
  }
}

// Products of dimensions wrapped around to a small size.
TEST(ModelFileFaults, ProductOfDimensionsOverflows) {
  for (const std::vector<std::uint64_t>& dims :
       {std::vector<std::uint64_t>{std::uint64_t{1} << 32, std::uint64_t{1} << 32},
        {std::uint64_t{1} << 62, 4},
        {3, std::uint64_t{0x5555555555555556}},
        {std::uint64_t{1} << 63}}) {
    GgufBuilder gguf = tiny_llama_gguf();
    gguf.tensor({"t", dims});
    expect_error(open_gguf(gguf), "overflows");
  }
}

// Parts joined into one file, or one of them under a name that hides the others.
TEST(ModelFileFaults, JoinedOrRenamedParts) {
  const TempFolder folder;
  GgufBuilder first = tiny_llama_gguf();
  first.value("split.no", 2, std::uint16_t{0}).value("split.count", 2, std::uint16_t{2});
  testing::Bytes joined = first.build();
  const testing::Bytes second = GgufBuilder().f32_tensor("output.weight", {8, 6}).build();
  joined.insert(joined.end(), second.begin(), second.end());
  expect_error(open_model(folder.write("joined.gguf", joined)), "-00001-of-00002.gguf");
  expect_error(open_model(folder.write("m-00002-of-00002.gguf", first.build())),
               "m-00001-of-00002.gguf: part 1 of 2 of the split model is missing");
}

// More, or fewer, tensors than the model has.
TEST(ModelFileFaults, TensorCountThatIsNotTheModels) {
  GgufBuilder more = tiny_llama_gguf();
  more.f32_tensor("blk.0.attn_q.scale", {8}).f32_tensor("stray.weight", {8});
  const auto files = open_gguf(more);
  ASSERT_TRUE(files) << files.error().message;
  const ExpectedTensor expected[] = {{"model.layers.7.mlp.up_proj.weight", Shape{16, 8}},
                                     {"model.norm.weight", Shape{8}}};
  expect_error(Result<int>(tl::unexpected(files->weights->check_tensors(expected).error())),
               "1 tensors are missing: model.layers.7.mlp.up_proj.weight");
  for (const std::string& name : files->weights->names()) {
    const TensorView view = files->weights->find(name);
    if (name.starts_with("model.")) {
      ASSERT_TRUE(files->weights->require(name, view.shape)) << name;
    }
  }
  expect_error(Result<int>(tl::unexpected(files->weights->check_all_used().error())),
               "2 tensors of the file are not part of the model: blk.0.attn_q.scale, stray.weight");
}

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kNorm =
    R"({"model.norm.weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}})";

// A shard that the index names is not there.
TEST(ModelFileFaults, MissingShard) {
  const TempFolder folder;
  folder.write("config.json", tiny_config_json());
  folder.write("model-00001-of-00002.safetensors", safetensors_bytes(kNorm, 32));
  folder.write(kIndexName, R"({"weight_map": {
      "model.norm.weight": "model-00001-of-00002.safetensors",
      "lm_head.weight": "model-00002-of-00002.safetensors"}})");
  expect_error(open_model(folder.path()), "model-00002-of-00002.safetensors");
}

// An index of another conversion, and files that belong to nothing: the index decides, and is
// checked.
TEST(ModelFileFaults, StaleIndexAndStrayFiles) {
  const TempFolder folder;
  folder.write("config.json", tiny_config_json());
  folder.write("model-00001-of-00001.safetensors", safetensors_bytes(kNorm, 32));
  folder.write("model-00001-of-00002.safetensors", "left over from another download");
  folder.write(kIndexName, R"({"weight_map": {
      "model.norm.weight": "model-00001-of-00001.safetensors"}})");
  const auto files = open_model(folder.path());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->weights->names(), std::vector<std::string>{"model.norm.weight"});
  folder.write(kIndexName, R"({"weight_map": {
      "model.norm.weight": "model-00001-of-00001.safetensors",
      "lm_head.weight": "model-00001-of-00001.safetensors"}})");
  expect_error(open_model(folder.path()), "tensor \"lm_head.weight\" is not in shard");
}

}  // namespace
}  // namespace quire
