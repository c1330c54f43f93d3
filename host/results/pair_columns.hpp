// Owns the columns of /pair/ (schema vindex-compare): those that a row shares with /matrix/ by
// other names, and its cells.
#pragma once

#include "columns.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::results {

/// Groups of columns that a file of pairs has only where they were asked for.
struct PairColumns {
  bool spectra = false;       ///< of both sides' spectra
  bool delta = false;         ///< of the spectrum of B - A
  std::int64_t subspace = 0;  ///< directions whose overlap was asked for; 0: none
  bool overlap_sd = true;     ///< since schema 1.1
};
PairColumns pair_columns_of(const FileDescription& description);
PairColumns pair_columns_of(const h5::File& file);
/// Makes `description` ask for `groups`.
void set_pair_columns(const PairColumns& groups, FileDescription& description);

/// /pair/ in order, without its scales.
std::vector<Column> pair_columns(const PairColumns& groups);

/// The scales of second dimensions that these columns have, and their values.
struct PairScale {
  const char* name = "";
  const char* long_name = "";
  std::vector<std::int32_t> values = {};
};
std::vector<PairScale> pair_scales(const PairColumns& groups);

/// The scale of the second dimension of `column`, which `usual` is where it has one and no other;
/// empty where it has one dimension. Angles have two even where there is one of them.
std::string second_scale(const Column& column, const std::string& usual);

}  // namespace vindex::results
