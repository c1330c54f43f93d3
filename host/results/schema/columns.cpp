// Owns the way between a column and a row.
#include "columns.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <type_traits>

namespace vindex::results {

namespace {

template <typename Member>
h5::Type stored_type(Member StoredRow::* /*member*/) {
  if constexpr (std::is_same_v<Member, std::string> || std::is_same_v<Member, model::Block>) {
    return h5::Type::kString;
  } else if constexpr (std::is_same_v<Member, bool> || std::is_same_v<Member, MatrixStatus>) {
    return h5::Type::kInt8;
  } else {
    return h5::type_of<Member>();
  }
}
h5::Type stored_type(std::size_t /*cell*/) { return h5::Type::kFloat64; }

MatrixStatus status_of(double value) {
  if (value < 0 || value > static_cast<double>(MatrixStatus::kSkipped)) {
    throw FormatError("E-RESULTS-SCHEMA", "/matrix/status",
                      fmt::format("{} is not a status", value));
  }
  return static_cast<MatrixStatus>(value);
}

}  // namespace

Column MemberColumn::column() const {
  return {.name = name,
          .long_name = long_name,
          .place = place,
          .type = std::visit([](auto where) { return stored_type(where); }, place)};
}

std::string Column::text(const StoredRow& row) const {
  if (const auto* const member = std::get_if<std::string StoredRow::*>(&place)) {
    return row.**member;
  }
  return std::string(model::block_name(row.*std::get<model::Block StoredRow::*>(place)));
}

void Column::set_text(StoredRow& row, const std::string& value) const {
  if (const auto* const member = std::get_if<std::string StoredRow::*>(&place)) {
    row.** member = value;
  } else {
    // One of a later minor version is `other` here.
    row.*std::get<model::Block StoredRow::*>(place) =
        model::block_of_name(value).value_or(model::Block::kOther);
  }
}

double Column::number(const StoredRow& row, std::size_t i) const {
  if (const auto* const cell = std::get_if<std::size_t>(&place)) {
    return row.cell(*cell + i * stride);
  }
  return std::visit(
      [&](auto where) -> double {
        if constexpr (std::is_same_v<decltype(where), std::size_t> ||
                      std::is_same_v<decltype(where), std::string StoredRow::*>) {
          return 0.0;  // not reached
        } else {
          return static_cast<double>(row.*where);
        }
      },
      place);
}

void Column::set_number(StoredRow& row, std::size_t i, double value) const {
  if (const auto* const cell = std::get_if<std::size_t>(&place)) {
    row.cells[*cell + i * stride] = value;
    return;
  }
  std::visit(
      [&](auto where) {
        if constexpr (std::is_same_v<decltype(where), MatrixStatus StoredRow::*>) {
          row.*where = status_of(value);
        } else if constexpr (std::is_same_v<decltype(where), bool StoredRow::*>) {
          row.*where = value != 0.0;
        } else if constexpr (std::is_same_v<decltype(where), std::int32_t StoredRow::*>) {
          row.*where = static_cast<std::int32_t>(value);
        } else if constexpr (std::is_same_v<decltype(where), std::int64_t StoredRow::*>) {
          row.*where = static_cast<std::int64_t>(value);
        }
      },
      place);
}

}  // namespace vindex::results
