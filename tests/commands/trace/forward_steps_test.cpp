// Norms, rotations, gates and caps against their definitions in float64, in place, at both ends of
// float32.
#include "commands/trace/forward/forward_steps.hpp"

#include "core/lane_exp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace vindex::commands::forward_steps_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

std::vector<float> drawn(std::size_t count, std::mt19937& random, float size = 1.0F) {
  std::normal_distribution<float> normal(0.0F, size);
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

TEST(ForwardSteps, ExponentialsOfTheWholeRange) {
  for (double x = -86.9; x < 88.2; x += 0.00137) {
    const auto value = static_cast<float>(x);
    const double wanted = std::exp(static_cast<double>(value));
    ASSERT_NEAR(static_cast<double>(lane_exp(value)), wanted, 2e-7 * wanted) << value;
  }
  EXPECT_EQ(lane_exp(0.0F), 1.0F);
  EXPECT_EQ(lane_exp(-87.5F), 0.0F);
  EXPECT_EQ(lane_exp(-kInfinity), 0.0F);
  EXPECT_GT(lane_exp(kInfinity), 1e38F);
  EXPECT_GT(lane_exp(kLargest), 1e38F);
  EXPECT_TRUE(std::isnan(lane_exp(std::nanf(""))));
}

TEST(ForwardSteps, TangentsOfTheWholeRange) {
  for (double x = -12.0; x < 12.0; x += 0.00037) {
    const auto value = static_cast<float>(x);
    const double wanted = std::tanh(static_cast<double>(value));
    ASSERT_NEAR(static_cast<double>(lane_tanh(value)), wanted, 3e-7 * std::abs(wanted)) << value;
  }
  EXPECT_EQ(lane_tanh(0.0F), 0.0F);
  EXPECT_EQ(lane_tanh(1e-30F), 1e-30F);
  EXPECT_EQ(lane_tanh(kInfinity), 1.0F);
  EXPECT_EQ(lane_tanh(-kLargest), -1.0F);
  EXPECT_TRUE(std::isnan(lane_tanh(std::nanf(""))));
}

TEST(ForwardSteps, NormsOfAnySize) {
  std::mt19937 random(1);
  for (const std::size_t count : {1U, 7U, 8U, 100U, 2049U}) {
    // 1e25 squared is beyond float32, 1e-25 squared below it.
    for (const float size : {1.0F, 1e25F, 1e-25F}) {
      const std::vector<float> x = drawn(count, random, size);
      const std::vector<float> weight = drawn(count, random);
      const double eps = 1e-5;
      double mean = 0.0;
      for (const float value : x) {
        mean +=
            static_cast<double>(value) * static_cast<double>(value) / static_cast<double>(count);
      }
      for (const double offset : {0.0, 1.0}) {
        std::vector<float> apart(count);
        std::vector<float> in_place = x;
        rms_norm(x, weight, eps, offset, apart);
        rms_norm(in_place, weight, eps, offset, in_place);
        EXPECT_EQ(apart, in_place);
        for (std::size_t i = 0; i < count; ++i) {
          const double wanted = static_cast<double>(x[i]) / std::sqrt(mean + eps) *
                                (offset + static_cast<double>(weight[i]));
          ASSERT_NEAR(static_cast<double>(apart[i]), wanted, 1e-7 * std::abs(wanted));
        }
      }
    }
  }
}

TEST(ForwardSteps, RotationsAreThoseOfComplexNumbers) {
  std::mt19937 random(2);
  const std::vector<double> frequencies = {1.0, 0.3, 0.01, 1e-4};
  constexpr double kFactor = 1.25;
  const RotationTable table = rotation_table(frequencies, 5000, kFactor);
  EXPECT_EQ(table.pairs, 4);
  for (const std::int64_t position : {0, 1, 17, 4999}) {
    for (const bool interleaved : {false, true}) {
      const std::vector<float> head = drawn(10, random);
      std::vector<float> turned = head;
      rotate(table, position, interleaved, turned.data());
      for (std::size_t i = 0; i < 4; ++i) {
        const float angle = static_cast<float>(position) * static_cast<float>(frequencies[i]);
        const std::size_t a = interleaved ? 2 * i : i;
        const std::size_t b = interleaved ? 2 * i + 1 : i + 4;
        const std::complex<double> wanted =
            std::complex<double>(static_cast<double>(head[a]), static_cast<double>(head[b])) *
            std::polar(kFactor, static_cast<double>(angle));
        EXPECT_NEAR(static_cast<double>(turned[a]), wanted.real(), 1e-6);
        EXPECT_NEAR(static_cast<double>(turned[b]), wanted.imag(), 1e-6);
      }
      EXPECT_EQ(turned[8], head[8]);
      EXPECT_EQ(turned[9], head[9]);
    }
  }
}

TEST(ForwardSteps, WhereNothingTurnsNothingChanges) {
  const RotationTable table = rotation_table({}, 10, 1.0);
  float head = 3.0F;
  rotate(table, 9, false, &head);
  EXPECT_EQ(head, 3.0F);
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double exact_gate(Gating law, double limit, double gate, double up) {
  switch (law) {
    case Gating::kSilu:
      return gate * sigmoid(gate) * up;
    case Gating::kGeluTanh:
      // 1 + tanh(u) has no digits where u is far below 0; 2 sigmoid(2 u) is the same.
      return gate *
             sigmoid(2.0 * std::sqrt(2.0 / std::numbers::pi) *
                     (gate + 0.044715 * gate * gate * gate)) *
             up;
    case Gating::kGelu:
      return 0.5 * gate * std::erfc(-gate / std::numbers::sqrt2) * up;
    case Gating::kClamped: {
      const double low = std::min(gate, limit);
      return low * sigmoid(1.702 * low) * (std::clamp(up, -limit, limit) + 1.0);
    }
  }
  return 0.0;
}

constexpr Gating kLaws[] = {Gating::kSilu, Gating::kGeluTanh, Gating::kGelu, Gating::kClamped};

TEST(ForwardSteps, GatesOfAnySize) {
  std::mt19937 random(3);
  for (const Gating law : kLaws) {
    for (const float size : {1e-3F, 1.0F, 8.0F, 300.0F}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(law) << ", size " << size);
      const std::vector<float> gate = drawn(1003, random, size);
      const std::vector<float> up = drawn(1003, random, size);
      std::vector<float> out(1003);
      gate_neurons(law, 7.0, gate, up, out);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double wanted =
            exact_gate(law, 7.0, static_cast<double>(gate[i]), static_cast<double>(up[i]));
        // An error of eps x in an exponent is one of eps x in the factor.
        const double allowed = 1e-6 + 1e-6 * std::abs(static_cast<double>(gate[i]));
        ASSERT_NEAR(static_cast<double>(out[i]), wanted, allowed * std::abs(wanted) + 1e-30)
            << gate[i] << ", " << up[i];
      }
      std::vector<float> at_gate = gate;
      gate_neurons(law, 7.0, at_gate, up, at_gate);
      EXPECT_EQ(at_gate, out);
      std::vector<float> at_up = up;
      gate_neurons(law, 7.0, gate, at_up, at_up);
      EXPECT_EQ(at_up, out);
    }
  }
}

TEST(ForwardSteps, GatesAtTheEndsOfFloat32) {
  for (const Gating law : kLaws) {
    SCOPED_TRACE(static_cast<int>(law));
    const std::vector<float> gate = {1e30F, -1e30F, 1e20F, -1e20F, -100.0F, 100.0F, 0.0F, -0.0F};
    const std::vector<float> up(gate.size(), 0.5F);
    std::vector<float> out(gate.size());
    gate_neurons(law, 7.0, gate, up, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double wanted = exact_gate(law, 7.0, static_cast<double>(gate[i]), 0.5);
      EXPECT_NEAR(static_cast<double>(out[i]), wanted, 1e-5 * std::abs(wanted) + 1e-7) << gate[i];
    }
  }
}

TEST(ForwardSteps, WhatIsNotANumberStaysSo) {
  for (const Gating law : kLaws) {
    for (const bool in_gate : {false, true}) {
      std::vector<float> gate(40, 1.0F);
      std::vector<float> up(40, 1.0F);
      (in_gate ? gate : up)[13] = std::nanf("");
      std::vector<float> out(40);
      gate_neurons(law, 7.0, gate, up, out);
      for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(std::isnan(out[i]), i == 13) << static_cast<int>(law) << ", " << i;
      }
    }
  }
}

TEST(ForwardSteps, CapsKeepOrderAndSmallValues) {
  std::vector<float> x;
  for (double value = -200.0; value <= 200.0; value += 0.25) {
    x.push_back(static_cast<float>(value));
  }
  const std::vector<float> before = x;
  soft_cap(30.0, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = 30.0 * std::tanh(static_cast<double>(before[i]) / 30.0);
    ASSERT_NEAR(static_cast<double>(x[i]), wanted, 1e-6 * std::abs(wanted));
    ASSERT_LE(std::abs(x[i]), 30.0F);
  }
}

}  // namespace
}  // namespace vindex::commands::forward_steps_test
