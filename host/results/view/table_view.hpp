// Owns how a table that is shown is described: once for people and for programs. A column has a
// heading and how its cells are printed, a name in the JSON document and what stands there, or
// both.
#pragma once

#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vindex::results {

/// A table of `Row`s; columns stand in the order in which they are added. Functions are called
/// while text() or json() runs, each only by the one that needs it.
template <typename Row>
class TableView {
 public:
  using Text = std::function<std::string(const Row&)>;
  using Value = std::function<Json(const Row&)>;
  using Members = std::function<void(const Row&, Json&)>;
  using Number = std::function<double(const Row&)>;

  /// For people alone.
  TableView& printed(std::string heading, TextColumn layout, Text text) {
    headings_.push_back(std::move(heading));
    layouts_.push_back(layout);
    texts_.push_back(std::move(text));
    return *this;
  }
  /// For programs alone.
  TableView& stored(std::string name, Value value) {
    return members([name = std::move(name), value = std::move(value)](const Row& row, Json& to) {
      to[name] = value(row);
    });
  }
  /// The same, several members or none.
  TableView& members(Members members) {
    members_.push_back(std::move(members));
    return *this;
  }
  /// For both: a number, which `print` gives as text.
  TableView& number(std::string heading, TextColumn layout, std::string name,
                    const std::function<std::string(double)>& print, const Number& value) {
    printed(std::move(heading), layout, [=](const Row& row) { return print(value(row)); });
    return stored(std::move(name), [value](const Row& row) { return Json(value(row)); });
  }

  /// At most `width` columns wide, as far as columns give way.
  template <typename Rows>
  std::string text(const Rows& rows, std::size_t width) const {
    std::vector<std::vector<std::string>> cells = {headings_};
    for (const Row& row : rows) {
      std::vector<std::string>& line = cells.emplace_back();
      line.reserve(texts_.size());
      for (const Text& text : texts_) {
        line.push_back(text(row));
      }
    }
    return table_text(cells, layouts_, width);
  }
  /// The object of one row, and a list of them.
  Json object(const Row& row) const {
    Json out = Json::object();
    for (const Members& members : members_) {
      members(row, out);
    }
    return out;
  }
  template <typename Rows>
  Json json(const Rows& rows) const {
    return Json::list(rows, [this](const Row& row) { return object(row); });
  }

 private:
  std::vector<std::string> headings_;
  std::vector<TextColumn> layouts_;
  std::vector<Text> texts_;
  std::vector<Members> members_;
};

}  // namespace vindex::results
