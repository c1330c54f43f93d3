// Owns merging rows by their keys, and where the bulk of each lies.
#include "gathered_rows.hpp"

#include "results/schema/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace vindex::results {

std::string table_key(const RowIdentity& row) {
  // No name holds a line feed: they are stored printable.
  return fmt::format("{}\n{}", model::table_name(row.table), row_key(row));
}

std::size_t GatheredRows::add(StoredRow row) { return place(row).first; }

std::pair<std::size_t, bool> GatheredRows::place(StoredRow& row) {
  const auto [known, is_new] = by_key_.emplace(table_key(row), rows_.size());
  if (is_new) {
    rows_.push_back(std::move(row));
  }
  return {known->second, is_new};
}

namespace {

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool same_vectors(const SingularVectors& a, const SingularVectors& b) {
  return a.count == b.count && same_bits(a.right, b.right) && same_bits(a.left, b.left) &&
         same_bits(a.sigma, b.sigma) && same_bits(a.residual, b.residual) &&
         same_bits(a.gap, b.gap);
}

}  // namespace

/// Both are in files.
bool GatheredRows::has_same_result(const StoredRow& a, const StoredRow& b) {
  if (a.status != b.status || a.reason != b.reason || a.method != b.method ||
      a.escalated != b.escalated || !same_bits(a.cells, b.cells) ||
      a.sigma_count != b.sigma_count || a.vector_count != b.vector_count) {
    return false;
  }
  if (a.sigma_count > 0) {
    std::vector<double> sigma_a(static_cast<std::size_t>(a.sigma_count));
    std::vector<double> sigma_b(sigma_a.size());
    pool_.sigma(a, sigma_a);
    pool_.sigma(b, sigma_b);
    if (!same_bits(sigma_a, sigma_b)) {
      return false;
    }
  }
  if (a.vector_count > 0 && !same_vectors(pool_.vectors(a), pool_.vectors(b))) {
    return false;
  }
  const std::size_t arrays =
      schema_of(pool_.reader(a.bulk.source).header().schema).cells->arrays.size();
  for (std::size_t i = 0; i < arrays; ++i) {
    const ArrayCell array_a = pool_.array(a, i);
    const ArrayCell array_b = pool_.array(b, i);
    if (!same_bits(array_a.floats, array_b.floats) ||
        !same_bits(array_a.doubles, array_b.doubles)) {
      return false;
    }
  }
  return true;
}

/// Whether `row` takes the place of `present`, which is of the same matrix.
bool GatheredRows::is_better(const StoredRow& row, const StoredRow& present, Doubles doubles) {
  const int rank = outcome_rank(row.status);
  const int before = outcome_rank(present.status);
  if (rank == 0 || rank != before) {
    return rank > before;
  }
  if (doubles == Doubles::kLater || !is_settled(row.status)) {
    return true;
  }
  if (doubles == Doubles::kEarlier) {
    ++doubles_.passed_over;
    return false;
  }
  if (!has_same_result(row, present)) {
    throw ConfigurationError(
        "E-PART-DOUBLED",
        fmt::format("{} and {} have different results of {}; both may be right to their accuracy, "
                    "but only one can be merged: remove one part, or let the workers finish, whose "
                    "records say which counts",
                    printable(pool_.path(present.bulk.source)),
                    printable(pool_.path(row.bulk.source)), row_name(row)));
  }
  ++doubles_.same;
  return false;
}

void GatheredRows::add_file(const std::string& path, Doubles doubles) {
  const std::int32_t source = pool_.add(path);
  for (StoredRow& row : pool_.reader(source).all_rows(source)) {
    const auto [number, is_new] = place(row);
    if (is_new) {
      continue;
    }
    StoredRow& present = rows_[number];
    if (present.rows != row.rows || present.cols != row.cols) {
      throw ConfigurationError("E-MERGE-SHAPE",
                               printable(path) + ": matrix " + row_name(row) +
                                   " has another shape than elsewhere; these are different models");
    }
    // A draw says nothing of an outcome: whichever of the two knows it.
    const std::int32_t draw = std::max(present.draw, row.draw);
    const std::int32_t draw_of = std::max(present.draw_of, row.draw_of);
    if (is_better(row, present, doubles)) {
      present = std::move(row);
    }
    present.draw = draw;
    present.draw_of = draw_of;
  }
}

std::vector<const StoredRow*> GatheredRows::sorted() const {
  std::vector<const StoredRow*> rows;
  rows.reserve(rows_.size());
  for (const StoredRow& row : rows_) {
    rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const StoredRow* a, const StoredRow* b) { return row_before(*a, *b); });
  return rows;
}

void GatheredRows::relocate(const std::string& path) {
  pool_.close_all();
  const std::int32_t source = pool_.add(path);
  std::vector<StoredRow*> rows;
  for (StoredRow& row : rows_) {
    rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(),
            [](const StoredRow* a, const StoredRow* b) { return row_before(*a, *b); });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i]->bulk = {.memory = nullptr, .source = source, .row = static_cast<std::int64_t>(i)};
  }
}

}  // namespace vindex::results
