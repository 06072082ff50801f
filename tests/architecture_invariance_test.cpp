// Every architecture gives a sequence the same bits however its prompt is cut into steps and
// whoever shares them: alone in one step, in chunks beside another sequence, with one kernel thread
// or two.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/source_path.h"
#include "model_harness.h"

namespace quire {
namespace {

std::vector<std::string> model_folders() {
  std::vector<std::string> folders;
  for (const char* set : {"tests/golden", "tests/golden-quant"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_path(set))) {
      if (std::filesystem::exists(entry.path() / "golden.safetensors"))
        folders.push_back(entry.path().string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

class ArchitectureInvariance : public ::testing::TestWithParam<std::string> {};

TEST_P(ArchitectureInvariance, BitsDependOnTheSequenceAlone) {
  for (const ComputeDType dtype : {ComputeDType::kFloat32, ComputeDType::kBFloat16}) {
    const ModelFiles files = std::move(*open_model(GetParam()));
    HarnessOptions options;
    options.dtype = dtype;
    expect_bits_of_the_sequence_alone(files.config, *files.weights, options);
  }
}

std::string folder_name(const ::testing::TestParamInfo<std::string>& tested) {
  return std::filesystem::path(tested.param).filename().string();
}
INSTANTIATE_TEST_SUITE_P(Golden, ArchitectureInvariance, ::testing::ValuesIn(model_folders()),
                         folder_name);

}  // namespace
}  // namespace quire
