// Split models: parts found by name, checked by what they say of themselves.
#include "weights/gguf_split.h"

#include "weights/test_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

using testing::Bytes;
using testing::expect_error;
using testing::GgufBuilder;
using testing::TempFolder;
using testing::tiny_llama_gguf;

std::string part_name(int number, int count) {
  return fmt::format("m-{:05}-of-{:05}.gguf", number, count);
}

Bytes part(GgufBuilder gguf, std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
  gguf.value("split.no", 2, number).value("split.count", 2, count);
  return gguf.value("split.tensors.count", 5, tensors).build();
}

// Three parts: the tiny llama, and two of one tensor each.
void write_parts(const TempFolder& folder) {
  folder.write(part_name(1, 3), part(tiny_llama_gguf(), 0, 3, 22));
  folder.write(part_name(2, 3), part(GgufBuilder().f32_tensor("output.weight", {8, 6}), 1, 3, 22));
  folder.write(part_name(3, 3), part(GgufBuilder().f32_tensor("blk.0.attn_q.bias", {8}), 2, 3, 22));
}

TEST(GgufSplit, NamesOfParts) {
  const auto parsed = parse_gguf_part("/a/b-x-00002-of-00011.gguf");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->stem, "/a/b-x");
  EXPECT_EQ(parsed->number, 2);
  EXPECT_EQ(parsed->count, 11);
  for (const char* name :
       {"m.gguf", "m-00001-of-00003.ggu", "m-0001-of-00003.gguf", "m-00004-of-00003.gguf",
        "m-00000-of-00003.gguf", "m-0000x-of-00003.gguf", "-00001-of-00003.gguf", ""}) {
    EXPECT_FALSE(parse_gguf_part(name)) << name;
  }
}

TEST(GgufSplit, AnyPartNamesTheModel) {
  const TempFolder folder;
  write_parts(folder);
  for (const std::string& path : {folder.path() + "/" + part_name(1, 3),
                                  folder.path() + "/" + part_name(3, 3), folder.path()}) {
    const auto files = open_model(path);
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->weights->names().size(), 22u);
    EXPECT_FALSE(files->config.tied_embeddings) << "the head is in another part";
    EXPECT_TRUE(files->config.attention_bias);
    const auto head = files->weights->require("lm_head.weight", {6, 8});
    ASSERT_TRUE(head) << head.error().message;
    files->weights->release_pages(*head);
    EXPECT_GT(files->file_bytes, std::filesystem::file_size(folder.path() + "/" + part_name(1, 3)));
  }
}

TEST(GgufSplit, SaysWhatIsWrong) {
  const TempFolder folder;
  write_parts(folder);
  const std::string first = folder.path() + "/" + part_name(1, 3);
  std::filesystem::remove(folder.path() + "/" + part_name(2, 3));
  expect_error(open_model(first),
               "m-00002-of-00003.gguf: part 2 of 3 of the split model is missing");
  folder.write(part_name(2, 3), part(GgufBuilder().f32_tensor("output.weight", {8, 6}), 2, 3, 22));
  expect_error(open_model(first), "its metadata says part 3 of 3, its name part 2 of 3");
  folder.write(part_name(2, 3), part(GgufBuilder().f32_tensor("output.weight", {8, 6}), 1, 4, 22));
  expect_error(open_model(first), "its metadata says part 2 of 4");
  folder.write(part_name(2, 3),
               part(GgufBuilder().f32_tensor("token_embd.weight", {8, 6}), 1, 3, 22));
  expect_error(open_model(first), "tensor \"token_embd.weight\" is in ");
  folder.write(part_name(2, 3), part(GgufBuilder().u32("x", 1), 1, 3, 22));
  expect_error(open_model(first), "hold 21 tensors, split.tensors.count is 22");
  folder.write(part_name(2, 3), "GGUF");
  expect_error(open_model(first), "truncated");
  expect_error(open_model(folder.write("n.gguf", part(tiny_llama_gguf(), 0, 3, 22))),
               "must be named NAME-00001-of-00003.gguf");
  expect_error(open_model(folder.write("big.gguf", part(tiny_llama_gguf(), 0, 60000, 22))),
               "split into 60000 parts");
}

}  // namespace
}  // namespace quire
