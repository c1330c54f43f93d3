// Owns the row of a group of experts: what was found, as the cells and arrays of vindex-experts.
#pragma once

#include <vindex/engine/job.hpp>
#include <vindex/measure/expert_axis.hpp>
#include <vindex/model/expert_groups.hpp>
#include <vindex/results/result_row.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace vindex::jobs {

struct ExpertFindings {
  measure::ExpertCosines cosines;
  measure::ExpertSpectrum spectrum;
  std::int64_t vectors = 0;  ///< K of the overlaps; 0: none were asked for
  std::vector<float> overlap_right, overlap_left;
  std::vector<std::pair<std::int64_t, std::exception_ptr>> lost;  ///< experts not read, by number
  std::vector<std::string> notes;                                 ///< of experts without vectors
  std::string method;
};

/// `experts`: the file's most, which arrays are padded to.
results::ResultRow expert_row(const model::ExpertGroup& group, const ExpertFindings& found,
                              std::int64_t experts);

}  // namespace vindex::jobs
