// How numbers and texts stand in a page: every value reads back as it was, within the bits given.
#include "report/page/page_values.hpp"

#include "page_reader.hpp"

#include "tests/support/expect_error.hpp"

#include <cmath>
#include <random>

namespace vindex::report::testing::page_values_test {
namespace {

Document document(const Json& json) { return Document::parse(json.dump()); }

// RFC 4648, section 10.
TEST(PageValues, Base64OfTheStandard) {
  const auto of = [](const std::string& text) { return base64(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("foob"), "Zm9vYg==");
  EXPECT_EQ(of("fooba"), "Zm9vYmE=");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
}

TEST(PageValues, RealsKeepTheirBitsWhateverTheirSize) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-30.0, 30.0);
  for (const std::size_t count : {5UL, 256UL, 257UL, 3000UL}) {
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back((i % 2 == 0 ? 1.0 : -1.0) * std::exp(exponent(random)));
    }
    values[0] = std::nan("");
    values[1] = 0.0;
    for (const int bits : {24, 14, 8}) {
      const Json packed = packed_reals(values, bits);
      const std::vector<double> read = numbers_of(document(packed));
      ASSERT_EQ(read.size(), count);
      EXPECT_TRUE(std::isnan(read[0]));
      EXPECT_EQ(read[1], 0.0);
      double largest = 0.0;
      for (std::size_t i = 2; i < count; ++i) {
        largest = std::max(largest, std::abs(read[i] / values[i] - 1.0));
      }
      EXPECT_LE(largest, std::exp2(-bits));
      EXPECT_GT(count < 100 ? 1.0 : largest, std::exp2(-bits - 2))
          << "more bits than were asked for";
    }
  }
}

TEST(PageValues, IntegersAreExactAndWhatIsMissingStaysSo) {
  std::vector<double> values = {-1.0, 0.0, 2147483647.0, std::nan(""), 1e12};
  const std::vector<double> few = numbers_of(document(packed_integers(values)));
  values.resize(1000, 77.0);
  const std::vector<double> many = numbers_of(document(packed_integers(values)));
  for (const std::vector<double>& read : {few, many}) {
    EXPECT_EQ(read[0], -1.0);
    EXPECT_EQ(read[2], 2147483647.0);
    EXPECT_TRUE(std::isnan(read[3]));
    EXPECT_TRUE(std::isnan(read[4]));
  }
  EXPECT_EQ(many[999], 77.0);
}

TEST(PageValues, NamesComeBackWhateverNumbersAreInThem) {
  const std::vector<std::string> names = {
      "model.layers.3.mlp.experts.3.down_proj.weight",
      "blk.12.ffn_gate_exps.weight",
      "model.layers.1.mlp.experts.11.down_proj.weight",
      "layers.13.experts.1.w1",
      "no numbers",
      "7",
      "experts.5.layers.2",
      "",
  };
  const std::vector<std::pair<int, int>> places = {{3, 3},   {12, -1}, {1, 11}, {13, 1},
                                                   {-1, -1}, {7, 7},   {2, 5},  {0, 0}};
  std::vector<NamedRow> rows;
  Document read;
  std::vector<double> layers, experts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    rows.push_back({names[i], places[i].first, places[i].second});
    layers.push_back(places[i].first);
    experts.push_back(places[i].second);
  }
  read["tensor"] = document(packed_names(rows));
  read["layer"] = layers;
  read["expert"] = experts;
  EXPECT_EQ(names_of(read), names);
}

TEST(PageValues, NamesOfOneKindShareOneTemplate) {
  std::vector<std::string> names;
  std::vector<NamedRow> rows;
  for (int expert = 0; expert < 400; ++expert) {
    names.push_back("model.layers.8.mlp.experts." + std::to_string(expert) + ".up_proj.weight");
  }
  for (int expert = 0; expert < 400; ++expert) {
    rows.push_back({names[static_cast<std::size_t>(expert)], 8, expert});
  }
  EXPECT_EQ(document(packed_names(rows)).at("texts").size(), 1U);
}

TEST(PageValues, MarksInANameAreNoMarks) {
  const std::vector<NamedRow> rows = {
      {"a\x01"
       "b\x02",
       4, 5}};
  const Document read = {{"tensor", document(packed_names(rows))},
                         {"layer", std::vector<double>{4}},
                         {"expert", std::vector<double>{5}}};
  EXPECT_EQ(names_of(read).front(), "a\\x01b\\x02");
}

TEST(PageValues, TextOfAScriptCannotEndIt) {
  const Json json = {{"</script><!--", "<script>\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xA6"}};
  const std::string text = script_text(json);
  EXPECT_EQ(text.find('<'), std::string::npos);
  EXPECT_EQ(text.find("\xE2\x80\xA8"), std::string::npos);
  EXPECT_EQ(text.find("\xE2\x80\xA9"), std::string::npos);
  EXPECT_EQ(Document::parse(text), document(json));
}

}  // namespace
}  // namespace vindex::report::testing::page_values_test
