// Owns which rows are the first ones by a number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vindex::results {

/// Leaves of `rows` the `count` with the largest number(row), the smallest where `is_ascending`,
/// sorted; equal ones in the order in which they were. What has none (NaN) is left out.
template <typename Row, typename Number>
void keep_first(std::vector<Row>& rows, std::size_t count, bool is_ascending,
                const Number& number) {
  std::erase_if(rows, [&](const Row& row) { return std::isnan(number(row)); });
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return is_ascending ? number(a) < number(b) : number(a) > number(b);
  });
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), count)), rows.end());
}

}  // namespace vindex::results
