// Parts of quantized tensors that are missing or do not fit each other, and zero points at the ends
// of their range.
#include "weights/quant_tensor.h"

#include <memory>

#include "weights/test_files.h"

namespace quire {
namespace {

using testing::expect_error;

// Tensors in memory, of bytes that count up.
class Table {
 public:
  Table& add(const std::string& name, DType dtype, const Shape& shape) {
    const auto bytes = static_cast<std::size_t>(row_bytes(dtype, shape.elements()));
    memory_.push_back(std::make_shared<std::vector<std::byte>>(bytes + 8));
    std::vector<std::byte>& data = *memory_.back();
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + 1);
    tensors_[name] = {data.data(), dtype, shape};
    return *this;
  }
  template <class T>
  Table& put(const std::string& name, std::int64_t index, T value) {
    auto* data = const_cast<std::byte*>(tensors_.at(name).data);
    std::memcpy(data + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
    return *this;
  }
  Table& remove(const std::string& name) {
    tensors_.erase(name);
    return *this;
  }
  Result<std::vector<QuantTensor>> take(const QuantConfig& config) {
    return take_quant_tensors(config, &tensors_);
  }
  const TensorTable& left() const { return tensors_; }

 private:
  std::vector<std::shared_ptr<std::vector<std::byte>>> memory_;  // shared by copies
  TensorTable tensors_;
};

// A layer of 64 inputs and 16 outputs, groups of 32.
QuantConfig config_of(QuantMethod method) {
  QuantConfig config;
  config.method = method;
  config.scheme.group_size = 32;
  return config;
}
Table awq() {
  return Table()
      .add("a.qweight", DType::kI32, {64, 2})
      .add("a.qzeros", DType::kI32, {2, 2})
      .add("a.scales", DType::kF16, {2, 16});
}
Table gptq() {
  Table table = Table()
                    .add("a.qweight", DType::kI32, {8, 16})
                    .add("a.qzeros", DType::kI32, {2, 2})
                    .add("a.scales", DType::kF16, {2, 16})
                    .add("a.g_idx", DType::kI32, {64});
  for (int i = 0; i < 64; ++i) table.put("a.g_idx", i, std::int32_t{(i % 2)});
  return table;
}
Table packed() {
  return Table()
      .add("a.weight_packed", DType::kI32, {16, 8})
      .add("a.weight_scale", DType::kBF16, {16, 2})
      .add("a.weight_shape", DType::kI64, {2})
      .put("a.weight_shape", 0, std::int64_t{16})
      .put("a.weight_shape", 1, std::int64_t{64});
}
Table float8() {
  return Table()
      .add("a.weight", DType::kF8E4M3, {16, 64})
      .add("a.weight_scale_inv", DType::kF32, {1, 2})
      .add("a.input_scale", DType::kF32, {1});
}
QuantConfig float8_config() {
  QuantConfig config = config_of(QuantMethod::kFp8);
  config.scheme = {8, 32, true, true, 128};
  return config;
}

TEST(QuantTensor, PartsBecomeOneTensor) {
  Table table = gptq();
  table.add("a.bias", DType::kF16, {16}).add("norm.weight", DType::kF16, {64});
  const auto tensors = table.take(config_of(QuantMethod::kGptq));
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 1u);
  EXPECT_EQ(tensors->front().name, "a.weight");
  EXPECT_EQ(tensors->front().shape, (Shape{16, 64}));
  EXPECT_FALSE(tensors->front().order.empty());
  EXPECT_EQ(tensors->front().parts.size(), 4u);
  EXPECT_EQ(table.left().size(), 2u) << "the bias and the norm";
  Table activations = float8();
  ASSERT_TRUE(activations.take(float8_config()));
  EXPECT_TRUE(activations.left().empty()) << "input_scale belongs to it";
}

// Static activations of W8A8: products take the activations themselves, so scales and zero points
// that a checkpoint found for them are taken along and change nothing; those of weights stay.
TEST(QuantTensor, ScalesAndZeroPointsOfActivationsChangeNoWeight) {
  QuantConfig config = config_of(QuantMethod::kCompressedTensors);
  config.scheme.bits = 8;
  config.scheme.group_size = -1;
  const auto plain = [] {
    return Table()
        .add("a.weight", DType::kI8, {16, 64})
        .add("a.weight_scale", DType::kF32, {16, 1});
  };
  for (const char* strategy : {"symmetric", "asymmetric"}) {
    Table table = plain();
    table.add("a.input_scale", DType::kBF16, {1});
    if (strategy == std::string_view("asymmetric"))
      table.add("a.input_zero_point", DType::kI8, {1})
          .put("a.input_zero_point", 0, std::int8_t{-7});
    const auto tensors = table.take(config);
    ASSERT_TRUE(tensors) << tensors.error().message;
    EXPECT_TRUE(table.left().empty()) << strategy;
    const QuantTensor& tensor = tensors->at(0);
    EXPECT_EQ(tensor.bits, 8);
    EXPECT_EQ(tensor.shape, (Shape{16, 64}));
    EXPECT_TRUE(tensor.zeros.empty()) << "the zero point belongs to activations";
    EXPECT_EQ(tensor.scales.shape, (Shape{16, 1}));
  }
}

TEST(QuantTensor, StoredZeroPointsOfBothVersions) {
  QuantConfig config = config_of(QuantMethod::kGptq);
  Table table = gptq();
  table.put("a.qzeros", 0, std::uint32_t{0xF0000000u});  // output 7 of group 0: 15
  const auto second = table.take(config);
  ASSERT_TRUE(second);
  EXPECT_EQ(read_zero(second->front(), 7, 0), 15);
  EXPECT_EQ(read_zero(second->front(), 6, 0), 0);
  Table again = gptq();
  again.put("a.qzeros", 0, std::uint32_t{0xF0000000u});
  config.zeros_less_one = true;
  const auto first = again.take(config);
  ASSERT_TRUE(first);
  EXPECT_EQ(read_zero(first->front(), 7, 0), 16) << "not wrapped to 0";
  EXPECT_EQ(read_zero(first->front(), 6, 0), 1);
}

struct Bad {
  const char* what;
  Table table;
  QuantConfig config;
  const char* message;
};

TEST(QuantTensor, MissingAndWrongPartsAreNamed) {
  const QuantConfig awq_config = config_of(QuantMethod::kAwq);
  const QuantConfig gptq_config = config_of(QuantMethod::kGptq);
  const QuantConfig ct_config = config_of(QuantMethod::kCompressedTensors);
  QuantConfig odd = awq_config, eight = gptq_config, ordered = gptq_config, asymmetric = ct_config;
  odd.scheme.group_size = 48;
  eight.scheme.bits = 8;
  ordered.act_order = true;
  asymmetric.scheme.symmetric = false;
  std::vector<Bad> cases;
  cases.push_back({"no scales", awq().remove("a.scales"), awq_config,
                   "there is no tensor \"a.scales\", which AWQ needs"});
  cases.push_back({"no zeros", awq().remove("a.qzeros"), awq_config, "\"a.qzeros\""});
  cases.push_back({"scales of another group size", awq().add("a.scales", DType::kF16, {1, 16}),
                   awq_config, "\"a.scales\" is F16 [1, 16]; AWQ needs F16, BF16 or F32 [2, 16]"});
  cases.push_back({"scales of integers", awq().add("a.scales", DType::kI32, {2, 16}), awq_config,
                   "\"a.scales\" is I32 [2, 16]"});
  cases.push_back({"weights of one dimension", awq().add("a.qweight", DType::kI32, {64}),
                   awq_config, "\"a.qweight\" is I32 [64]; AWQ needs I32 [in, out / 8]"});
  cases.push_back({"a group size that does not divide", awq(), odd,
                   "\"a\" has 64 inputs, which group_size 48 of AWQ does not divide"});
  cases.push_back({"bits that the tensors have not", gptq(), eight,
                   "\"a.scales\" is F16 [2, 16]; GPTQ needs F16, BF16 or F32 [1, 16]"});
  cases.push_back({"a group that is not there", gptq().put("a.g_idx", 5, std::int32_t{2}),
                   gptq_config, "\"a.g_idx\" puts input 5 into group 2; there are 2 groups"});
  cases.push_back({"a negative group", gptq().put("a.g_idx", 0, std::int32_t{-1}), gptq_config,
                   "puts input 0 into group -1"});
  cases.push_back({"an order of another length", gptq().add("a.g_idx", DType::kI32, {63}),
                   gptq_config, "\"a.g_idx\" is I32 [63]; GPTQ needs I32 [64]"});
  cases.push_back({"no order", gptq().remove("a.g_idx"), ordered, "no tensor \"a.g_idx\""});
  cases.push_back(
      {"no shape", packed().remove("a.weight_shape"), ct_config, "no tensor \"a.weight_shape\""});
  cases.push_back({"an absurd shape", packed().put("a.weight_shape", 1, std::int64_t{1} << 60),
                   ct_config,
                   "\"a.weight_shape\" says [16, 1152921504606846976], which is no shape"});
  cases.push_back({"a shape that is not the words'",
                   packed().put("a.weight_shape", 1, std::int64_t{128}), ct_config,
                   "\"a.weight_packed\" is I32 [16, 8]; compressed-tensors needs I32 [16, 16]"});
  cases.push_back({"no zero points", packed(), asymmetric, "no tensor \"a.weight_zero_point\""});
  cases.push_back({"no scale of FP8", float8().remove("a.weight_scale_inv"), float8_config(),
                   "no tensor \"a.weight_scale\""});
  cases.push_back({"a grid of another size",
                   float8().add("a.weight_scale_inv", DType::kF32, {1, 3}), float8_config(),
                   "\"a.weight_scale_inv\" is F32 [1, 3]; FP8 needs F16, BF16 or F32 [1, 2]"});
  cases.push_back({"a plain weight too", awq().add("a.weight", DType::kF16, {16, 64}), awq_config,
                   "there are \"a.weight\" and \"a.qweight\""});
  for (Bad& bad : cases) {
    SCOPED_TRACE(bad.what);
    expect_error(bad.table.take(bad.config), bad.message);
  }
}

}  // namespace
}  // namespace quire
