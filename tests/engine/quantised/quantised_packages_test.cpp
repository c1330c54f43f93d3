// Every checkpoint of tests/data/st_quant, made by a scheme's own package, decoded as `vindex
// decode` does, against what that package decoded: bit for bit, case by case. Packages that compute
// in a narrow type are compared twice: their arithmetic in float32 by its digest, and their own
// narrow result, which is ours rounded once, or rounded between its steps and then within a bound.
#include "core/digest.hpp"
#include "core/json/json.hpp"
#include "decode/formats/float_formats.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/engine/model_folder.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace vindex::commands::testing::quantised_packages_test {
namespace {

const std::string kFolder = std::string(VINDEX_SOURCE_DIR) + "/tests/data/st_quant/";

const JsonValue& index() {
  static const JsonValue value = [] {
    std::ifstream file(kFolder + "index.json");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return parse_json(text, "index.json", JsonLimits{});
  }();
  return value;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : *index().as_object()) {
    names.push_back(name);
  }
  return names;
}

const std::string& text_of(const JsonValue& object, std::string_view key) {
  return *object.find(key)->as_string();
}

std::string digest_of(const std::vector<float>& values) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(values)));
  return hex(digest.finish());
}

/// `value` rounded to `bits` of significand, to nearest even, at or above 2^least in steps of
/// 2^(least - bits + 1) where it is subnormal there.
float rounded(float value, int bits, int least) {
  if (value == 0.0F || !std::isfinite(value)) {
    return value;
  }
  const int exponent = std::max(std::ilogb(value), least);
  const double step = std::ldexp(1.0, exponent - bits + 1);
  return static_cast<float>(std::copysign(std::nearbyint(std::abs(value) / step) * step, value));
}

struct Narrow {
  int bits;   ///< of the significand
  int least;  ///< exponent of the smallest normal number
};

Narrow narrow_type(const std::string& name) {
  return name == "float16" ? Narrow{11, -14} : Narrow{8, -126};
}

class QuantisedPackages : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<float> decoded(const std::string& tensor) const {
    const std::string out = folder_ / "out.f32";
    decode_tensor(kFolder + GetParam() + ".safetensors", "", tensor, std::nullopt, out, true);
    return read_floats(out);
  }
  const JsonValue& tensors() const { return *index().find(GetParam())->find("tensors"); }

 private:
  vindex::testing::TemporaryFolder folder_;
};

TEST_P(QuantisedPackages, WeightsAreThePackages) {
  ASSERT_FALSE(tensors().as_object()->empty());
  for (const auto& [name, row] : *tensors().as_object()) {
    std::vector<float> values = decoded(name);
    std::uint64_t count = 1;
    for (const JsonValue& side : *row.find("shape")->as_array()) {
      count *= *side.as_unsigned();
    }
    ASSERT_EQ(values.size(), count) << name;
    EXPECT_EQ(digest_of(values), text_of(row, "sha256"))
        << name << ", decoded by " << text_of(row, "peer");
    if (const JsonValue* narrow = row.find("rounded")) {
      const auto [bits, least] = narrow_type(text_of(*narrow, "to"));
      std::transform(values.begin(), values.end(), values.begin(),
                     [bits = bits, least = least](float x) { return rounded(x, bits, least); });
      EXPECT_EQ(digest_of(values), text_of(*narrow, "sha256"))
          << name << ", rounded to " << text_of(*narrow, "to");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, QuantisedPackages, ::testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

class QuantisedNarrow : public QuantisedPackages {};

// hqq and MLX round between their two operations (a difference and a product; a product and a sum).
// With a unit roundoff u each rounding moves by at most u of what it rounds; what MLX rounds before
// its bias is at most |w| + |bias|, and its biases are edges of their groups, so weights
// themselves.
TEST_P(QuantisedNarrow, PackagesRoundingIsWithinItsBound) {
  const input::ModelFiles files =
      input::open_model(kFolder + GetParam() + ".narrow.safetensors", {});
  ASSERT_FALSE(files.tensors.empty());
  for (const input::StoredTensor& tensor : files.tensors) {
    const std::vector<float> exact = decoded(tensor.name);
    const JsonValue* row = tensors().find(tensor.name);
    ASSERT_NE(row, nullptr);
    const auto [bits, least] = narrow_type(text_of(*row, "narrow"));
    ASSERT_EQ(tensor.bytes, exact.size() * 2);
    std::vector<std::uint16_t> codes(exact.size());
    files.shards[0].source->read(tensor.offset, std::as_writable_bytes(std::span(codes)));
    double largest = 0.0;
    for (const float x : exact) {
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    const double unit = std::ldexp(1.0, -bits);
    const double smallest = std::ldexp(1.0, least - bits + 1);
    std::size_t moved = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const bool half = bits == 11;
      const float got =
          half ? decode::half_to_float(codes[i]) : decode::bfloat16_to_float(codes[i]);
      const double size = std::abs(static_cast<double>(exact[i]));
      const bool mlx = GetParam().starts_with("mlx");
      const double bound = (mlx ? 2.0 * size + largest : 2.0 * size) * unit * (1.0 + unit);
      ASSERT_NEAR(got, exact[i], bound + smallest) << "weight " << i;
      moved += got != rounded(exact[i], bits, least) ? 1U : 0U;
    }
    EXPECT_GT(moved, 0U) << "rounded once after all: belongs to the test above";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, QuantisedNarrow,
                         ::testing::Values("hqq_int4_axis0", "hqq_int4_rows", "mlx_int4_g32",
                                           "mlx_int4_f16"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace vindex::commands::testing::quantised_packages_test
