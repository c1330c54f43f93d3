// Owns the way of a matrix's bytes from its shards to a back end: held in one staging buffer, or
// read slab by slab while it is measured. Also the check that a file is still the one whose header
// was read.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/run/work_plan.hpp>
#include <vindex/shard/model_files.hpp>

#include <exception>
#include <memory>
#include <vector>

namespace vindex::run {

/// A unit whose inputs are ready. inputs[i] belongs to unit.matrices[i]; where reading failed it is
/// null and errors[i] says why: one bad tensor does not take its neighbours along.
struct LoadedUnit {
  const WorkUnit* unit = nullptr;
  std::unique_ptr<measure::StagingBuffer> staging;
  std::vector<std::unique_ptr<measure::MatrixInput>> inputs;
  std::vector<std::exception_ptr> errors;
};

/// Reads the unit's bytes (codes unless streamed, companions always) into one staging buffer of
/// `backend`.
LoadedUnit load_unit(const shard::ModelFiles& files, const model::ModelIndex& index,
                     const WorkUnit& unit, measure::Backend& backend);

/// An input that reads `matrix` slab by slab from `files`; both must outlive it.
std::unique_ptr<measure::MatrixInput> make_streamed_input(const shard::ModelFiles& files,
                                                          const model::MatrixRecord& matrix);

/// Errors: SystemError E-INPUT-CHANGED (74) where the file behind `tensor` is not the one opened.
void check_unchanged(const shard::ModelFiles& files, std::int32_t tensor);

/// Key of the sign-flip null: first 8 bytes, little-endian, of SHA-256("tensor#slice").
std::uint64_t sign_flip_key(const model::MatrixRecord& matrix);

}  // namespace vindex::run
