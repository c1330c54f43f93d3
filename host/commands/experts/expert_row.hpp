// Owns what is found of a group of experts: the overlap of their top singular subspaces, by
// products of blocks of experts, and the row, as the cells and arrays of vindex-experts.
#pragma once

#include "backend/backend.hpp"
#include "engine/run/job.hpp"
#include "model/experts/expert_groups.hpp"
#include "results/rows/result_row.hpp"
#include "statistics/experts/expert_axis.hpp"

#include <cstdint>
#include <exception>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace vindex::commands {

/// Orthonormal rows of some experts: `vectors` of `length` for each, one expert after the other.
struct SubspaceStack {
  SubspaceStack(std::int64_t expert_count, std::int64_t vector_count, std::int64_t vector_length);
  /// Those of `expert` are the first of `rows`.
  void keep(std::int64_t expert, const std::vector<float>& rows);

  std::int64_t experts = 0, vectors = 0, length = 0;
  std::vector<float> values;
  std::vector<bool> known;  ///< per expert; others are not looked at
};

/// out[i * experts + j] = |U_i U_j^T|_F^2 / vectors, 1 on the diagonal, NaN where a side is not
/// known. Errors: those of the back end's inner products.
std::vector<float> subspace_overlaps(Backend& backend, const SubspaceStack& stack,
                                     std::int32_t threads, const std::stop_token& stop = {});

/// Host memory that it takes beside `stack`, and what it gives.
std::uint64_t subspace_overlap_bytes(const Backend& backend, std::int64_t experts,
                                     std::int64_t vectors, std::int64_t length,
                                     std::int32_t threads);

struct ExpertFindings {
  statistics::ExpertCosines cosines;
  statistics::ExpertSpectrum spectrum;
  std::int64_t vectors = 0;  ///< K of the overlaps; 0: none were asked for
  std::vector<float> overlap_right, overlap_left;
  std::vector<std::pair<std::int64_t, std::exception_ptr>> lost;  ///< experts not read, by number
  std::vector<std::string> notes;                                 ///< of experts without vectors
  std::string method;
};

/// `experts`: the file's most, which arrays are padded to.
results::ResultRow expert_row(const model::ExpertGroup& group, const ExpertFindings& found,
                              std::int64_t experts);

}  // namespace vindex::commands
