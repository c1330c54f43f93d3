// Owns the documents of the export `phase-json` that are of weights, and the layers of a file of
// spectra with their headline numbers.
#pragma once

#include "core/json/json_document.hpp"
#include "model/model_index.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"
#include "statistics/null/finite_sample.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vindex::report {

using Rows = std::vector<const results::StoredRow*>;
using Layers = std::map<std::int32_t, std::map<model::Block, std::map<std::string, Rows>>>;

/// median_NAME, q25_NAME, q75_NAME.
void add_quantiles(Json& out, const char* name, const std::vector<double>& values);
/// The group of `rows` as a draw (statistics/null/finite_sample.hpp).
statistics::DrawnGroup drawn_rows(const Rows& rows);
/// `value` of the measured ones of `rows`; where they were drawn, of those that stand for all.
std::vector<double> values_of(const Rows& rows, double (*value)(const results::StoredRow&));
/// var@64 of noise; NaN where shapes differ: a null is one of a shape.
double common_null(const Rows& rows);

Layers by_layer(const std::vector<results::StoredRow>& rows);
/// The matrices that a layer's headline numbers are of: down_proj of the routed experts, of the
/// dense MLP where there are none; without a down_proj, the block's first role. Null: neither.
const Rows* headline(const std::map<model::Block, std::map<std::string, Rows>>& blocks,
                     std::string& role);
/// What a document of a file of spectra begins with.
Json phase_head(const results::FileDescription& description, const char* phase);

Json phase1_document(const results::FileDescription& description, const Layers& layers);
Json phase2_document(const results::FileDescription& description, const Layers& layers);
Json moe_config_document(const results::FileDescription& description, const Layers& layers);

}  // namespace vindex::report
