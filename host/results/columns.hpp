// Owns the table of columns of /matrix/, the tables derived from it, and /resume/ (results
// contract, schema 1.0): name, type, width, meaning, and the way to and from a StoredRow. Writer,
// reader, validation and exports iterate over it, so a column is added here and nowhere else.
#pragma once

#include "description.hpp"
#include "hdf5.hpp"
#include "stored_row.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vindex::results {

inline constexpr const char* kStatusMeanings =
    "measured not_converged not_finite unsupported failed skipped";
inline constexpr std::size_t kMomentCount = 10;

struct Column {
  std::string name;
  h5::Type type = h5::Type::kFloat64;
  std::size_t width = 1;  ///< 9: [matrix, k]
  std::string long_name;
  std::string units;                  ///< "1" for pure numbers, empty for labels and indices
  bool missing_is_minus_one = false;  ///< integer metrics: NaN is -1, declared as `_FillValue`
  std::function<std::string(const StoredRow&)> text;  ///< strings
  std::function<void(StoredRow&, const std::string&)> set_text;
  std::function<double(const StoredRow&, std::size_t)> number;  ///< the rest; exact below 2^53
  std::function<void(StoredRow&, std::size_t, double)> set_number;
};

/// What decides which columns a file has.
struct ColumnOptions {
  bool fast = false;
  bool sign_flip = false;           ///< var_at_k_signflip
  bool sign_flip_spread = false;    ///< mean, standard deviation and z of two draws or more
  bool sign_flip_p = true;          ///< with them since schema 1.3: the probability of z
  bool sign_flip_distance = false;  ///< rand_distance_signflip
  bool derived = false;             ///< `of_matrix` too
  bool product = false;             ///< `rank` too
  bool sigma_error = true;          ///< since schema 1.1
  bool theta = true;                ///< since schema 1.2; not of products
  bool sampled = false;             ///< theta_seed and what it is made of
};
/// Of a table of a file about to be written. Weighted matrices have the sign flip always: it is
/// their null; products have neither that nor bounds.
ColumnOptions column_options(const FileDescription& description,
                             model::ResultTable table = model::ResultTable::kMatrix);
/// Of a table of a file at hand, by what it holds: older programs wrote fewer columns.
ColumnOptions column_options(const h5::File& file,
                             model::ResultTable table = model::ResultTable::kMatrix);

/// /matrix/ or a derived table in order, without the scales `matrix` and `k`.
std::vector<Column> matrix_columns(const ColumnOptions& options);

/// /resume/: what a later run needs beside /matrix/ (not part of the contract; may change).
std::vector<Column> resume_columns();

}  // namespace vindex::results
