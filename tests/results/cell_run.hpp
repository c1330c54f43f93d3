// Owns small runs of the kinds whose rows are cells (experts, cka, activations, routing), built by
// hand so that their numbers keep every promise of their schemas.
#pragma once

#include "results/rows/result_row.hpp"
#include "results/schema/run_description.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::results::testing {

/// Every kind of the program whose runs are made here: the tests of kinds take each of them.
std::vector<FileSchema> cell_kinds();

/// `layers` rows of `schema` along scales of a few values, optional columns included.
RunDescription cell_run(FileSchema schema, std::int32_t layers = 4);

/// What a job would have found for row `index`: different from row to row.
ResultRow cell_row(const RunDescription& run, std::int64_t index);

/// A complete file of `run` at `path`.
void write_cells(const std::string& path, const RunDescription& run);

}  // namespace vindex::results::testing
