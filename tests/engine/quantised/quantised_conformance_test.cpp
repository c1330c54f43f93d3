// Every small checkpoint of shared/data/st_quant, decoded as `vindex decode` does, against the
// values that the scheme's own project decoded: bit for bit, scheme by scheme.
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/engine/model_folder.hpp"

#include <filesystem>

namespace vindex::commands::testing::quantised_conformance_test {
namespace {

class QuantisedConformance : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantisedConformance, WeightsAreThoseOfTheSchemesOwnProject) {
  const std::string base = std::string(VINDEX_SHARED_DATA) + "/st_quant/" + GetParam();
  if (!std::filesystem::exists(base + ".safetensors")) {
    GTEST_SKIP() << base << ".safetensors is not there";
  }
  const input::ModelFiles expected = input::open_model(base + ".expected.safetensors", {});
  ASSERT_FALSE(expected.tensors.empty());
  const vindex::testing::TemporaryFolder folder;
  for (const input::StoredTensor& tensor : expected.tensors) {
    std::vector<float> wanted(static_cast<std::size_t>(tensor.bytes / sizeof(float)));
    expected.shards[0].source->read(tensor.offset, std::as_writable_bytes(std::span(wanted)));
    const std::string out = folder / "out.f32";
    decode_tensor(base + ".safetensors", "", tensor.name, std::nullopt, out, true);
    EXPECT_TRUE(same_bits(read_floats(out), wanted)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, QuantisedConformance,
                         ::testing::Values("fp8_block128", "ct_pack_int4_g32",
                                           "ct_pack_int4_g32_asym", "ct_pack_int8_g128",
                                           "gptoss_mxfp4", "modelopt_nvfp4", "gptq_int4",
                                           "awq_int4_g64", "bnb_nf4", "bnb_fp4", "bnb_int8",
                                           "hqq_8bit", "hqq_4bit", "hqq_2bit", "hqq_1bit"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace vindex::commands::testing::quantised_conformance_test
