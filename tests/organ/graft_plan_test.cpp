// Which tensors a graft takes: tables of names and shapes by hand, requests that cannot be had.
#include "organ/graft/graft_plan.hpp"

#include "tests/support/expect_error.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::organ::graft_plan_test {
namespace {

using decode::ElementType;
using testing::error_of;

/// A dense model of `blocks` blocks; with `bias` every q has one.
std::vector<gguf::TensorLayout> dense(int blocks, bool bias = false, std::uint64_t width = 64) {
  std::vector<gguf::TensorLayout> tensors = {
      {"token_embd.weight", ElementType::kF16, {width, 100}},
      {"output_norm.weight", ElementType::kF32, {width}},
      {"output.weight", ElementType::kQ6_K, {width, 100}},
      {"rope_freqs.weight", ElementType::kF32, {8}},
  };
  for (int block = 0; block < blocks; ++block) {
    const std::string prefix = "blk." + std::to_string(block) + ".";
    tensors.push_back({prefix + "attn_norm.weight", ElementType::kF32, {width}});
    tensors.push_back({prefix + "attn_q.weight", ElementType::kQ8_0, {width, width}});
    if (bias) {
      tensors.push_back({prefix + "attn_q.bias", ElementType::kF32, {width}});
    }
    tensors.push_back({prefix + "ffn_up.weight", ElementType::kQ8_0, {width, 2 * width}});
    tensors.push_back({prefix + "ffn_down.weight", ElementType::kQ8_0, {2 * width, width}});
  }
  return tensors;
}

/// "RESULT<-DONOR" of every graft; an added one "+RESULT<-DONOR".
std::vector<std::string> taken(const GraftPlan& plan,
                               const std::vector<gguf::TensorLayout>& donor) {
  std::vector<std::string> out;
  for (const Graft& graft : plan.grafts) {
    out.push_back((graft.host ? "" : "+") + graft.name + "<-" + donor[graft.donor].name);
  }
  return out;
}

std::vector<std::string> refused(const GraftPlan& plan) {
  std::vector<std::string> out;
  for (const Refusal& refusal : plan.refusals) {
    out.push_back(std::string(refusal_name(refusal.kind)) + (refusal.is_fatal ? "! " : " ") +
                  refusal.tensor);
  }
  return out;
}

GraftRequest request(const std::string& types, const std::string& layers = "",
                     const std::string& map = "", bool allow_missing = false) {
  return parse_graft_request(types, layers, map, allow_missing);
}

using Texts = std::vector<std::string>;

TEST(GraftPlan, TakesClassesInLayers) {
  const auto model = dense(4);
  const GraftPlan plan = plan_graft(model, model, request("organ", "1,3"));
  EXPECT_EQ(taken(plan, model), (Texts{"blk.1.ffn_up.weight<-blk.1.ffn_up.weight",
                                       "blk.1.ffn_down.weight<-blk.1.ffn_down.weight",
                                       "blk.3.ffn_up.weight<-blk.3.ffn_up.weight",
                                       "blk.3.ffn_down.weight<-blk.3.ffn_down.weight"}));
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_EQ(plan.blocks, (std::vector<std::pair<std::int32_t, std::int32_t>>{{1, 1}, {3, 3}}));
}

TEST(GraftPlan, WithoutLayersWhatIsInNoBlockIsTakenToo) {
  const auto model = dense(1);
  EXPECT_EQ(taken(plan_graft(model, model, request("norm")), model),
            (Texts{"output_norm.weight<-output_norm.weight",
                   "blk.0.attn_norm.weight<-blk.0.attn_norm.weight"}));
  EXPECT_EQ(taken(plan_graft(model, model, request("norm", "0")), model),
            (Texts{"blk.0.attn_norm.weight<-blk.0.attn_norm.weight"}));
  EXPECT_EQ(taken(plan_graft(model, model, request("norm", "-1")), model),
            (Texts{"output_norm.weight<-output_norm.weight"}));
}

TEST(GraftPlan, OrderAndTypesAreTheHostsAndTheDonors) {
  const auto host = dense(2);
  auto donor = host;
  std::reverse(donor.begin(), donor.end());
  for (gguf::TensorLayout& tensor : donor) {
    tensor.type = ElementType::kBF16;
  }
  const GraftPlan plan = plan_graft(host, donor, request("ffn"));
  ASSERT_EQ(plan.grafts.size(), 4U);
  for (std::size_t i = 1; i < plan.grafts.size(); ++i) {
    EXPECT_LT(plan.grafts[i - 1].host, plan.grafts[i].host);
  }
}

TEST(GraftPlan, AMapMovesBlocks) {
  const auto donor = dense(4);
  const auto host = dense(8);
  const Texts moved = {
      "blk.5.ffn_up.weight<-blk.1.ffn_up.weight", "blk.5.ffn_down.weight<-blk.1.ffn_down.weight",
      "blk.6.ffn_up.weight<-blk.2.ffn_up.weight", "blk.6.ffn_down.weight<-blk.2.ffn_down.weight"};
  EXPECT_EQ(taken(plan_graft(host, donor, request("organ", "", "1-2:5-6")), donor), moved);
  EXPECT_EQ(taken(plan_graft(host, donor, request("organ", "1-2", "1-2:5-6")), donor), moved);
  // A block that the map does not name keeps its number.
  EXPECT_EQ(taken(plan_graft(host, donor, request("organ", "1,3", "1:5")), donor),
            (Texts{"blk.3.ffn_up.weight<-blk.3.ffn_up.weight",
                   "blk.3.ffn_down.weight<-blk.3.ffn_down.weight",
                   "blk.5.ffn_up.weight<-blk.1.ffn_up.weight",
                   "blk.5.ffn_down.weight<-blk.1.ffn_down.weight"}));
  // Two blocks may change places.
  const auto swapped = plan_graft(donor, donor, request("organ", "", "0:1,1:0"));
  EXPECT_EQ(swapped.grafts.size(), 4U);
}

TEST(GraftPlan, BlocksThatAreNotThereAreRefused) {
  const auto four = dense(4);
  const auto eight = dense(8);
  const auto id = [&](const auto& host, const auto& donor, const std::string& layers,
                      const std::string& map) {
    return error_of([&] { plan_graft(host, donor, request("organ", layers, map)); });
  };
  EXPECT_EQ(id(four, eight, "3-4", ""), "E-GRAFT-LAYERS");  // the host ends at 3
  EXPECT_EQ(id(eight, four, "3-4", ""), "E-GRAFT-LAYERS");  // the donor does
  EXPECT_EQ(id(four, four, "0-99999", ""), "E-GRAFT-LAYERS");
  EXPECT_EQ(id(four, four, "", "2147483646-2147483647:0-1"), "E-GRAFT-LAYERS");
  EXPECT_EQ(id(four, four, "", "0-1:2147483646-2147483647"), "E-GRAFT-LAYERS");
  EXPECT_EQ(id(four, eight, "", "5:4"), "E-GRAFT-LAYERS");
  EXPECT_EQ(id(four, four, "99999999999", ""), "E-SELECTION");
  EXPECT_EQ(id(four, four, "0-2147483647", ""), "E-SELECTION");
  EXPECT_EQ(id(four, four, "2-1", ""), "E-SELECTION");
  EXPECT_EQ(id(four, four, "1,,2", ""), "E-SELECTION");
  EXPECT_EQ(id(four, four, "", "0-1:2-4"), "E-MAP");      // lengths differ
  EXPECT_EQ(id(four, four, "", "0-1:2-3,1:0"), "E-MAP");  // a donor's block twice
  EXPECT_EQ(id(four, four, "", "0-1:2-3,2:3"), "E-MAP");  // a host's block twice
  EXPECT_EQ(id(four, four, "0-1", "0:1"), "E-MAP");       // 0 and 1 both become 1
  const std::vector<gguf::TensorLayout> none;
  EXPECT_EQ(id(none, none, "0", ""), "E-GRAFT-LAYERS");
}

TEST(GraftPlan, ShapesAreNeverForgiven) {
  const auto host = dense(1);
  auto donor = host;
  donor[6].dimensions = {64, 256};  // blk.0.ffn_up
  for (const bool allow : {false, true}) {
    const GraftPlan plan = plan_graft(host, donor, request("organ", "", "", allow));
    EXPECT_EQ(refused(plan), (Texts{"shape! blk.0.ffn_up.weight"}));
    EXPECT_EQ(plan.refusals[0].reason, "64 x 128 in the host, 64 x 256 in the donor");
    EXPECT_EQ(plan.grafts.size(), 1U);
  }
  donor[6].dimensions = {64, 128, 1, 1};  // trailing ones say nothing
  EXPECT_TRUE(plan_graft(host, donor, request("organ")).refusals.empty());
  donor[6].dimensions = {128, 64};  // the same number of weights
  EXPECT_EQ(refused(plan_graft(host, donor, request("organ"))),
            (Texts{"shape! blk.0.ffn_up.weight"}));
  donor[6].dimensions = {};
  EXPECT_EQ(plan_graft(host, donor, request("organ")).refusals.size(), 1U);
}

TEST(GraftPlan, WhatOneSideLacksIsListed) {
  const auto plain = dense(1);
  const auto biased = dense(1, true);
  EXPECT_EQ(refused(plan_graft(plain, biased, request("skeleton"))),
            (Texts{"missing-in-host! blk.0.attn_q.bias"}));
  EXPECT_EQ(refused(plan_graft(biased, plain, request("skeleton"))),
            (Texts{"missing-in-donor! blk.0.attn_q.bias"}));
  const GraftPlan allowed = plan_graft(biased, plain, request("skeleton", "", "", true));
  EXPECT_EQ(refused(allowed), (Texts{"missing-in-donor blk.0.attn_q.bias"}));
  EXPECT_EQ(taken(allowed, plain), (Texts{"blk.0.attn_q.weight<-blk.0.attn_q.weight"}));
  // Without --layers a deeper host has blocks that the donor lacks.
  EXPECT_EQ(plan_graft(dense(3), dense(2), request("ffn")).refusals.size(), 2U);
}

TEST(GraftPlan, RopeTablesStayTheHosts) {
  const auto model = dense(1);
  EXPECT_EQ(refused(plan_graft(model, model, request("all"))),
            (Texts{"host-own rope_freqs.weight"}));
  EXPECT_EQ(plan_graft(model, model, request("all")).grafts.size(), model.size() - 1);
}

TEST(GraftPlan, AnUntiedHeadIsAddedToATiedHost) {
  const auto untied = dense(1);
  auto tied = untied;
  tied.erase(tied.begin() + 2);
  const GraftPlan plan = plan_graft(tied, untied, request("embed"));
  EXPECT_TRUE(plan.adds_output);
  EXPECT_EQ(taken(plan, untied),
            (Texts{"token_embd.weight<-token_embd.weight", "+output.weight<-output.weight"}));
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_EQ(refused(plan_graft(untied, tied, request("embed"))),
            (Texts{"missing-in-donor! output.weight"}));
}

TEST(GraftPlan, ScalesGoWithTheirWeights) {
  const auto plain = dense(1);
  auto scaled = plain;
  scaled.push_back({"blk.0.ffn_up.scale", ElementType::kF32, {1}});
  const GraftPlan gained = plan_graft(plain, scaled, request("ffn"));
  EXPECT_EQ(taken(gained, scaled).back(), "+blk.0.ffn_up.scale<-blk.0.ffn_up.scale");
  EXPECT_TRUE(gained.refusals.empty());
  const GraftPlan lost = plan_graft(scaled, plain, request("ffn"));
  EXPECT_EQ(lost.dropped, (std::vector<std::size_t>{scaled.size() - 1}));
  EXPECT_TRUE(lost.refusals.empty());
  // The scale of a weight that stays is nobody's business.
  EXPECT_TRUE(plan_graft(scaled, plain, request("skeleton")).dropped.empty());
}

TEST(GraftPlan, NothingAskedForNothingTaken) {
  const auto model = dense(1);
  const GraftPlan plan = plan_graft(model, model, request("adapter"));
  EXPECT_TRUE(plan.grafts.empty());
  EXPECT_TRUE(plan.refusals.empty());
  EXPECT_TRUE(plan_graft(model, model, request("embed", "0")).grafts.empty());
  const std::vector<gguf::TensorLayout> none;
  EXPECT_TRUE(plan_graft(none, none, request("all")).grafts.empty());
  EXPECT_EQ(error_of([&] { request("organs"); }), "E-ORGAN-TYPE");
}

}  // namespace
}  // namespace vindex::organ::graft_plan_test
