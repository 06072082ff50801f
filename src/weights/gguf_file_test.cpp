#include "weights/gguf_file.h"

#include <functional>

#include "weights/test_files.h"

namespace quire {
namespace {

using testing::Bytes;
using testing::ByteWriter;
using testing::expect_error;
using testing::GgufBuilder;
using testing::TempFolder;

Result<GgufFile> parse_file(const GgufBuilder& builder) {
  const Bytes bytes = builder.build();
  return GgufFile::parse(bytes, "f.gguf");
}

// One value of every type, two tensors.
GgufBuilder every_type() {
  GgufBuilder gguf;
  gguf.value("u8", 0, std::uint8_t{200}).value("i8", 1, std::int8_t{-3});
  gguf.value("u16", 2, std::uint16_t{60000}).value("i16", 3, std::int16_t{-300});
  gguf.u32("u32", 4000000000u).value("i32", 5, std::int32_t{-70000}).f32("f32", 1.5f);
  gguf.value("bool", 7, std::uint8_t{1}).str("string", "text");
  gguf.value("u64", 10, ~std::uint64_t{0}).value("i64", 11, std::int64_t{-1});
  gguf.value("f64", 12, 0.25).strs("strings", {"a", "", "ccc"});
  gguf.raw("ints", 9,
           ByteWriter().put(std::uint32_t{5}).put(std::uint64_t{2}).put(-7).put(8).bytes());
  gguf.raw("floats", 9, ByteWriter().put(std::uint32_t{6}).put(std::uint64_t{1}).put(2.5f).bytes());
  return gguf.f32_tensor("matrix", {4, 3}).f32_tensor("vector", {5});
}

TEST(GgufFile, ReadsEveryMetadataType) {
  for (std::uint32_t version : {2u, 3u}) {
    GgufBuilder builder = every_type();
    builder.version = version;
    const auto file = parse_file(builder);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->get_int("u8"), 200);
    EXPECT_EQ(file->get_int("i8"), -3);
    EXPECT_EQ(file->get_int("u16"), 60000);
    EXPECT_EQ(file->get_int("i16"), -300);
    EXPECT_EQ(file->get_int("u32"), 4000000000);
    EXPECT_EQ(file->get_int("i32"), -70000);
    EXPECT_EQ(file->get_int("i64"), -1);
    EXPECT_EQ(file->get_int("u64"), std::nullopt) << "does not fit";
    EXPECT_EQ(file->get_float("f32"), 1.5);
    EXPECT_EQ(file->get_float("f64"), 0.25);
    EXPECT_EQ(file->get_float("u8"), 200.0);
    EXPECT_EQ(file->get_bool("bool"), true);
    EXPECT_EQ(file->get_string("string"), "text");
    EXPECT_EQ(file->get_int("string"), std::nullopt);
    EXPECT_EQ(file->get_string("absent"), std::nullopt);
    EXPECT_THAT(file->get_array("strings")->strings, ::testing::ElementsAre("a", "", "ccc"));
    EXPECT_THAT(file->get_array("ints")->ints, ::testing::ElementsAre(-7, 8));
    EXPECT_THAT(file->get_array("floats")->floats, ::testing::ElementsAre(2.5));
    EXPECT_EQ(file->metadata().size(), 15u);
    EXPECT_EQ(file->metadata()[0].first, "u8");
  }
}

TEST(GgufFile, TensorsHaveRowMajorShapesAndAlignedData) {
  const Bytes bytes = every_type().build();
  const auto file = GgufFile::parse(bytes, "f.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->tensor_names(), ::testing::ElementsAre("matrix", "vector"));
  const TensorView& matrix = file->tensors().at("matrix");
  EXPECT_EQ(matrix.shape, (Shape{3, 4}));
  EXPECT_EQ((matrix.data - bytes.data()) % 32, 0);
  float first_of_vector = 0;
  std::memcpy(&first_of_vector, file->tensors().at("vector").data, sizeof(float));
  EXPECT_EQ(first_of_vector, 16.0f) << "48 bytes of matrix, padded to 64";
}

TEST(GgufFile, OpensFromDiskAndReleasesPages) {
  const TempFolder folder;
  const std::string path = folder.write("m.gguf", every_type().build());
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  file->release_pages(file->tensors().at("matrix"));
  file->release_pages(TensorView{});
  EXPECT_EQ(file->file_bytes(), every_type().build().size());
  expect_error(GgufFile::open(folder.path() + "/absent.gguf"), "cannot open");
  expect_error(GgufFile::open(folder.path()), "not a regular file");
  expect_error(GgufFile::open(folder.write("empty.gguf", "")), "empty");
}

struct BadCase {
  const char* what;
  std::function<void(GgufBuilder&)> spoil;
  const char* message;
};

const BadCase kBadCases[] = {
    {"magic", [](auto& g) { g.magic = "GGML"; }, "not a GGUF file"},
    {"unprintable magic", [](auto& g) { g.magic = "\n\x01zz"; }, "\\x0a\\x01zz"},
    {"version 1", [](auto& g) { g.version = 1; }, "GGUF version 1"},
    {"version 4", [](auto& g) { g.version = 4; }, "GGUF version 4"},
    {"big-endian", [](auto& g) { g.version = 0x03000000; }, "big-endian"},
    {"too many tensors", [](auto& g) { g.extra_tensors = std::int64_t{1} << 60; }, "tensors, "},
    {"negative tensors", [](auto& g) { g.extra_tensors = -3; }, "claims 18446744073709551615"},
    {"too much metadata", [](auto& g) { g.extra_metadata = 1 << 20; }, "metadata entries"},
    {"one tensor too many",
     [](auto& g) {
       g.extra_tensors = 1;
       g.data_bytes = 0;
     },
     "truncated"},
    {"duplicate key", [](auto& g) { g.u32("k", 1).u32("k", 2); }, "\"k\" appears twice"},
    {"empty key", [](auto& g) { g.u32("", 1); }, "is empty"},
    {"long key", [](auto& g) { g.u32(std::string(70000, 'k'), 1); }, "the limit is 65535"},
    {"unknown type", [](auto& g) { g.value("k", 13, 0); }, "unknown type 13"},
    {"bool of 2", [](auto& g) { g.value("k", 7, std::uint8_t{2}); }, "bool of value 2"},
    {"long string", [](auto& g) { g.raw("k", 8, ByteWriter().put(~std::uint64_t{0}).bytes()); },
     "claims"},
    {"nested array",
     [](auto& g) { g.raw("k", 9, ByteWriter().put(9u).put(std::uint64_t{1}).bytes()); },
     "array of arrays"},
    {"array of unknown type",
     [](auto& g) { g.raw("k", 9, ByteWriter().put(99u).put(std::uint64_t{1}).bytes()); },
     "unknown type 99"},
    {"long array",
     [](auto& g) { g.raw("k", 9, ByteWriter().put(12u).put(std::uint64_t{1} << 61).bytes()); },
     "2305843009213693952 elements"},
    {"large array element",
     [](auto& g) {
       g.raw("k", 9, ByteWriter().put(10u).put(std::uint64_t{1}).put(~std::uint64_t{0}).bytes());
     },
     "the limit is 9223372036854775807"},
    {"alignment 0", [](auto& g) { g.u32("general.alignment", 0); }, "power of two"},
    {"alignment 24", [](auto& g) { g.u32("general.alignment", 24); }, "general.alignment is 24"},
    {"alignment 4", [](auto& g) { g.u32("general.alignment", 4); }, "from 8"},
    {"alignment 2 GiB", [](auto& g) { g.u32("general.alignment", 1u << 31); }, "power of two"},
    {"alignment text", [](auto& g) { g.str("general.alignment", "32"); }, "not a positive integer"},
    {"no name",
     [](auto& g) {
       g.tensor({"", {1}});
     },
     "has no name"},
    {"long name",
     [](auto& g) {
       g.tensor({std::string(256, 'n'), {1}});
     },
     "the limit is 255"},
    {"no dimensions",
     [](auto& g) {
       g.tensor({"t", {}});
     },
     "0 dimensions"},
    {"five dimensions",
     [](auto& g) {
       g.tensor({"t", {1, 1, 1, 1, 1}});
     },
     "5 dimensions"},
    {"zero dimension",
     [](auto& g) {
       g.tensor({"t", {4, 0}});
     },
     "dimension 1 of size 0"},
    {"dimension overflow",
     [](auto& g) {
       g.tensor({"t", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}});
     },
     "overflows"},
    {"dimension over int64",
     [](auto& g) {
       g.tensor({"t", {~std::uint64_t{0}}});
     },
     "overflows"},
    {"type 999",
     [](auto& g) {
       g.tensor({"t", {32}, 999});
     },
     "unknown type number 999"},
    {"type Q4_2",
     [](auto& g) {
       g.tensor({"t", {256}, 4});
     },
     "Q4_2 (number 4)"},
    {"partial block",
     [](auto& g) {
       g.tensor({"t", {33}, 2});
     },
     "needs a multiple of 32"},
    {"misaligned",
     [](auto& g) {
       g.tensor({"t", {1}, 0, 12});
     },
     "misaligned: offset 12"},
    {"behind the end",
     [](auto& g) {
       g.tensor({"t", {1}, 0, 96});
     },
     "truncated"},
    {"offset overflow",
     [](auto& g) {
       g.tensor({"t", {1}, 0, 0xffffffffffffffe0});
     },
     "truncated"},
    {"overlap",
     [](auto& g) {
       g.tensor({"t", {9}, 0, 32});
     },
     "overlap"},
    {"same place",
     [](auto& g) {
       g.tensor({"t", {1}, 0, 0});
     },
     "overlap"},
    {"duplicate tensor",
     [](auto& g) {
       g.tensor({"matrix", {1}, 0, 0});
     },
     "\"matrix\" appears twice"},
    {"name of control characters",
     [](auto& g) {
       g.tensor({"a\nb", {0}});
     },
     "a\\x0ab"},
};

TEST(GgufFile, RefusesMalformedFiles) {
  for (const BadCase& bad : kBadCases) {
    SCOPED_TRACE(bad.what);
    GgufBuilder builder = every_type();
    bad.spoil(builder);
    expect_error(parse_file(builder), bad.message);
  }
}

TEST(GgufFile, AcceptsAnotherAlignment) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.u32("general.alignment", 64).f32_tensor("a", {1}).f32_tensor("b", {1});
  const auto file = parse_file(builder);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().at("b").data - file->tensors().at("a").data, 64);
}

TEST(GgufFile, TruncatedAnywhereIsAnError) {
  const Bytes whole = every_type().build();
  const std::size_t last_tensor_end = whole.size() - 12;  // behind it: padding
  for (std::size_t size = 0; size < last_tensor_end; ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(GgufFile::parse(part, "f.gguf")) << size;
  }
  EXPECT_TRUE(GgufFile::parse(whole, "f.gguf"));
}

// Any answer is fine; a crash, a sanitizer's report or a huge allocation is not.
TEST(GgufFile, SurvivesEveryChangedByte) {
  Bytes bytes = testing::tiny_llama_gguf().build();
  for (std::size_t i = 0; i < 2500 && i < bytes.size(); ++i) {
    for (const unsigned change : {0x01u, 0x80u, 0xffu}) {
      const std::byte before = bytes[i];
      bytes[i] ^= static_cast<std::byte>(change);
      const auto file = GgufFile::parse(bytes, "f.gguf");
      EXPECT_LE(file ? file->tensors().size() : 0, 20u);
      bytes[i] = before;
    }
  }
}

}  // namespace
}  // namespace quire
