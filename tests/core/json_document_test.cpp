// JSON that is written, compared with what the library behind it writes by itself.
#include "core/json/json_document.hpp"

#include "core/json/json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace vindex::json_document_test {
namespace {

using Reference = nlohmann::ordered_json;

std::string reference(const Reference& value, int indent = -1) {
  return value.dump(indent, ' ', false, Reference::error_handler_t::replace);
}

TEST(JsonDocument, EveryKindIsWrittenAsTheLibraryWritesIt) {
  const auto same = [](const Json& ours, const Reference& theirs) {
    EXPECT_EQ(ours.dump(), reference(theirs));
    EXPECT_EQ(ours.dump(2), reference(theirs, 2));
  };
  same(nullptr, nullptr);
  same(Json(), nullptr);
  same(true, true);
  same(std::int32_t{-7}, -7);
  same(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::min());
  same(std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max());
  for (const double value : {0.0, -0.0, 1.0, 0.1, 1e-300, 1e22, 123456789.125, 2.0 / 3.0, 5e-324,
                             std::numeric_limits<double>::max()}) {
    same(value, value);
  }
  same(0.1F, 0.1F);
  same(std::nan(""), std::nan(""));
  same(std::numeric_limits<double>::infinity(), nullptr);
  same("plain", "plain");
  same(std::string_view("quote \" backslash \\ tab \t bell \x07 é 漢 \xF0\x9F\x98\x80"),
       "quote \" backslash \\ tab \t bell \x07 é 漢 \xF0\x9F\x98\x80");
  same("broken \xC3 text \xFF", "broken \xC3 text \xFF");
  same(std::vector<double>{1.0, 0.5}, std::vector<double>{1.0, 0.5});
  same(std::vector<std::string>{}, std::vector<std::string>{});
  same(std::map<std::string, int>{{"b", 1}, {"a", 2}}, Reference({{"a", 2}, {"b", 1}}));
}

TEST(JsonDocument, LiteralsAreObjectsWhereTheyReadAsMembers) {
  const Json ours = {{"schema", "x/1"},
                     {"list", {1, 2, 3}},
                     {"pair", {"a", 1}},
                     {"inner", {{"n", nullptr}, {"deep", {{"deeper", {{"deepest", 1.5}}}}}}},
                     {"mixed", {{"a", 1}, 2}}};
  const Reference theirs = {{"schema", "x/1"},
                            {"list", {1, 2, 3}},
                            {"pair", {"a", 1}},
                            {"inner", {{"n", nullptr}, {"deep", {{"deeper", {{"deepest", 1.5}}}}}}},
                            {"mixed", {{"a", 1}, 2}}};
  EXPECT_EQ(ours.dump(1), reference(theirs, 1));
  EXPECT_EQ(Json::array({Json::array({"a", 1})}).dump(), R"([["a",1]])");
}

TEST(JsonDocument, MembersKeepTheirOrderAndTheirPlace) {
  Json out;
  out["z"] = 1;
  out["a"]["b"] = "grown";
  out["z"] = {{"new", true}};
  out.update({{"a", 2}, {"last", 3}});
  EXPECT_EQ(out.dump(), R"({"z":{"new":true},"a":2,"last":3})");
  EXPECT_EQ(out.size(), 3U);
  out["rows"].push_back({{"n", 1}});
  out["rows"].push_back(nullptr);
  out["rows"].back() = 5;
  out["rows"].elements().front()["m"] = 2;
  EXPECT_EQ(out["rows"].dump(), R"([{"n":1,"m":2},5])");
  EXPECT_TRUE(Json(std::nan("")).is_null() && !Json(0.0).is_null());
  EXPECT_TRUE(Json::object().empty() && Json::array().empty() && Json().is_null());
}

TEST(JsonDocument, ACopyDoesNotFollowWhatItWasMadeOf) {
  Json first = {{"list", {1}}};
  Json second = first;
  first["list"].push_back(2);
  second["other"] = 1;
  EXPECT_EQ(first.dump(), R"({"list":[1,2]})");
  EXPECT_EQ(second.dump(), R"({"list":[1],"other":1})");
}

TEST(JsonDocument, WhatWasReadIsWrittenAgain) {
  const std::string text =
      R"({"b":[1,-2,0.5,"é",null,true,{"a":{}}],"a":[],"n":18446744073709551615})";
  EXPECT_EQ(Json::of(parse_json(text, "here", {})).dump(), text);
}

}  // namespace
}  // namespace vindex::json_document_test
