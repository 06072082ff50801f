#include "weights/safetensors_file.h"

#include "weights/test_files.h"

namespace quire {
namespace {

using testing::Bytes;
using testing::ByteWriter;
using testing::expect_error;
using testing::safetensors_bytes;
using testing::TempFolder;

constexpr const char* kTwoTensors =
    R"({"__metadata__": {"format": "pt"},)"
    R"("a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},)"
    R"("b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]}})";

Result<SafetensorsFile> parse_bytes(const std::string& header, std::size_t data_bytes) {
  return SafetensorsFile::parse(safetensors_bytes(header, data_bytes), "f.safetensors");
}

TEST(SafetensorsFile, ReadsTensors) {
  const Bytes bytes = safetensors_bytes(kTwoTensors, 32);
  const auto file = SafetensorsFile::parse(bytes, "f.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2u);
  const TensorView& a = file->tensors().at("a");
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  EXPECT_EQ(a.dtype, DType::kF32);
  const TensorView& b = file->tensors().at("b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_EQ(b.data - a.data, 24);
  EXPECT_EQ(b.data + 8, bytes.data() + bytes.size());
}

TEST(SafetensorsFile, KnowsEveryDType) {
  for (const auto& [name, size] : std::vector<std::pair<std::string, int>>{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I8", 1},
                                                                           {"I16", 2},
                                                                           {"I32", 4},
                                                                           {"I64", 8},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1},
                                                                           {"F8_E4M3", 1},
                                                                           {"F8_E5M2", 1}}) {
    const auto file =
        parse_bytes(R"({"t": {"dtype": ")" + name + R"(", "shape": [], "data_offsets": [0, )" +
                        std::to_string(size) + "]}}",
                    static_cast<std::size_t>(size));
    ASSERT_TRUE(file) << name << ": " << file.error().message;
    EXPECT_EQ(file->tensors().at("t").shape, (Shape{1})) << "a scalar";
  }
}

std::string one_tensor(const std::string& fields) { return R"({"t": {)" + fields + "}}"; }

struct BadHeader {
  std::string header;
  std::size_t data_bytes;
  const char* message;
};

TEST(SafetensorsFile, RefusesMalformedFiles) {
  const std::string huge = "4611686018427387904";  // 2^62
  const BadHeader cases[] = {
      {"[1, 2]", 0, "not an object"},
      {"{\"t\": ", 0, "not valid JSON"},
      {"{\"t\": \"\xff\"}", 0, "not valid JSON"},
      {std::string(40, '[') + std::string(40, ']'), 0, "not valid JSON"},
      {R"({"t": 3})", 0, "not an object"},
      {one_tensor(R"("shape": [1], "data_offsets": [0, 4])"), 4, "no dtype"},
      {one_tensor(R"("dtype": "F7", "shape": [1], "data_offsets": [0, 4])"), 4, "\"F7\""},
      {one_tensor(R"("dtype": "F32", "data_offsets": [0, 4])"), 4, "no shape"},
      {one_tensor(R"("dtype": "F32", "shape": [1])"), 4, "no data_offsets"},
      {one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0])"), 4, "no data_offsets"},
      {one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4.5])"), 4, "non-negative"},
      {one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [-4, 0])"), 4, "non-negative"},
      {one_tensor(R"("dtype": "F32", "shape": [0], "data_offsets": [0, 0])"), 0,
       "positive integer"},
      {one_tensor(R"("dtype": "F32", "shape": [-1], "data_offsets": [0, 4])"), 4,
       "positive integer"},
      {one_tensor(R"("dtype": "F32", "shape": [1,1,1,1,1,1], "data_offsets": [0, 4])"), 4,
       "6 dimensions"},
      {one_tensor(R"("dtype": "F32", "shape": [)" + huge + R"(, 8], "data_offsets": [0, 4])"), 4,
       "overflows"},
      {one_tensor(R"("dtype": "U8", "shape": [18446744073709551615], "data_offsets": [0, 4])"), 4,
       "positive integer"},
      {one_tensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8])"), 4, "truncated"},
      {one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 0])"), 4, "lie outside"},
      {one_tensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 4])"), 4, "needs 8"},
      {one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4])"), 6, "cover 4 bytes"},
      {one_tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 8])"), 8, "gap"},
      {R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},)"
       R"("b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})",
       6, "overlap"},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},)"
       R"("b": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]}})",
       5, "misaligned"},
      {R"({"a\nb": 1})", 0, "a\\x0ab"},
      {R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},)"
       R"("a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
       4, "\"a\" appears twice"},
      {R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},)"
       R"("\u0061": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
       4, "\"a\" appears twice"},
      {R"({"a\"": {"dtype": "U8", "dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})", 4,
       "\"dtype\" appears twice"},
  };
  for (const BadHeader& bad : cases) {
    SCOPED_TRACE(bad.header);
    expect_error(parse_bytes(bad.header, bad.data_bytes), bad.message);
  }
}

TEST(SafetensorsFile, RefusesWrongHeaderLengths) {
  const auto parse_bytes = [](const Bytes& bytes) { return SafetensorsFile::parse(bytes, "f"); };
  expect_error(parse_bytes({}), "too few");
  expect_error(parse_bytes(ByteWriter().put(~std::uint64_t{0}).text("{}").bytes()), "the limit is");
  expect_error(parse_bytes(ByteWriter().put(std::uint64_t{100}).text("{}").bytes()), "truncated");
  expect_error(parse_bytes(ByteWriter().put(std::uint64_t{0}).text("{}").bytes()),
               "not valid JSON");
}

TEST(SafetensorsFile, TruncatedAnywhereIsAnError) {
  const Bytes whole = safetensors_bytes(kTwoTensors, 32);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(SafetensorsFile::parse(part, "f")) << size;
  }
}

TEST(SafetensorsFile, SurvivesEveryChangedByte) {
  Bytes bytes = safetensors_bytes(kTwoTensors, 32);
  for (std::byte& each : bytes) {
    for (const unsigned change : {0x01u, 0x10u, 0x80u, 0xffu}) {
      const std::byte before = each;
      each ^= static_cast<std::byte>(change);
      const auto file = SafetensorsFile::parse(bytes, "f");
      EXPECT_LE(file ? file->tensors().size() : 0, 3u);
      each = before;
    }
  }
}

// ---- folders ----

constexpr const char* kOne = R"({"one": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})";
constexpr const char* kTwo = R"({"two": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})";
constexpr const char* kIndex = "model.safetensors.index.json";

TEST(SafetensorsFolder, ReadsTheShardsOfAnIndex) {
  const TempFolder folder;
  folder.write("s1.safetensors", safetensors_bytes(kOne, 4));
  folder.write("s2.safetensors", safetensors_bytes(kTwo, 2));
  folder.write("stray.safetensors", "not a model at all");
  folder.write(kIndex, R"({"metadata": {"total_size": 6}, "weight_map":)"
                       R"({"one": "s1.safetensors", "two": "s2.safetensors"}})");
  const auto file = SafetensorsFile::open_folder(folder.path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2u);
  file->release_pages(file->tensors().at("two"));
  EXPECT_EQ(file->file_bytes(),
            safetensors_bytes(kOne, 4).size() + safetensors_bytes(kTwo, 2).size());
}

TEST(SafetensorsFolder, RefusesBadIndexes) {
  const TempFolder folder;
  folder.write("s1.safetensors", safetensors_bytes(kOne, 4));
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weight_map": {"one": "s2.safetensors"}})", "shard \"s2.safetensors\" is missing"},
      {R"({"weight_map": {"two": "s1.safetensors"}})", "tensor \"two\" is not in shard"},
      {R"({"weight_map": {"one": "../s1.safetensors"}})", "same folder"},
      {R"({"weight_map": {"one": "/etc/passwd"}})", "same folder"},
      {R"({"weight_map": {"one": ".."}})", "same folder"},
      {R"({"weight_map": {"one": ""}})", "same folder"},
      {R"({"weight_map": {"one": 3}})", "not mapped to a file name"},
      {R"({"weight_map": {}})", "has no \"weight_map\""},
      {R"({"weight_map": []})", "an object is expected"},
      {R"({})", "has no \"weight_map\""},
      {R"({"weight_map")", "not valid JSON"},
  };
  const std::string long_name(300, 'x');
  folder.write(kIndex, R"({"weight_map": {"one": ")" + long_name + R"("}})");
  expect_error(SafetensorsFile::open_folder(folder.path()), "is missing");
  for (const auto& [index, message] : cases) {
    SCOPED_TRACE(index);
    folder.write(kIndex, index);
    expect_error(SafetensorsFile::open_folder(folder.path()), message);
  }
}

TEST(SafetensorsFolder, SingleFileOrNothing) {
  const TempFolder folder;
  expect_error(SafetensorsFile::open_folder(folder.path()), "has neither model.safetensors");
  folder.write("model.safetensors", safetensors_bytes(kOne, 4));
  const auto file = SafetensorsFile::open_folder(folder.path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tensors().contains("one"));
}

TEST(SafetensorsFolder, AnotherNameOrWhatIsThereInstead) {
  const auto opened = [](std::initializer_list<const char*> names) {
    const TempFolder folder;
    for (const char* name : names) folder.write(name, safetensors_bytes(kOne, 4));
    return SafetensorsFile::open_folder(folder.path());
  };
  const auto file = opened({"smol.safetensors", "adapter_model.safetensors", "old.bin"});
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tensors().contains("one"));
  expect_error(opened({"a.safetensors", "b.safetensors"}), "2 .safetensors files (a.safetensors");
  expect_error(opened({"a.safetensors", "b.safetensors"}), "keep one model in the folder");
  expect_error(opened({"m-00001-of-00002.safetensors"}), "download it");
  expect_error(opened({"adapter_model.safetensors", "x.bin"}), "an adapter only");
  expect_error(opened({"pytorch_model.bin"}), "pickle files only (pytorch_model.bin)");
  expect_error(opened({"model.pth"}), "can run code");
}

}  // namespace
}  // namespace quire
