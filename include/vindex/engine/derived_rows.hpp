// Owns what a run does differently for rows that are derived from the model's matrices: what a back
// end sees of them and with which options it measures them.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>

#include <cstdint>
#include <memory>

namespace vindex::engine {

/// `options` for rows of `table`. The null of a weighted matrix is its sign flip, asked for or not.
measure::MeasureOptions options_for(model::ResultTable table, measure::MeasureOptions options);

/// The encoding in which a back end sees `matrix`.
const decode::Encoding& measured_encoding(const model::MatrixRecord& matrix);

/// Host memory of one input of `matrix` beside its encoded bytes: `working` while slabs of it are
/// asked for, `lasting` as long as it lives.
struct InputMemory {
  std::uint64_t working = 0, lasting = 0;
};
InputMemory input_memory(const model::MatrixRecord& matrix);

/// What a back end is to measure of `matrix`, where `stored` gives its stored weights: `stored`
/// itself for a row of /matrix/, else an input over it. Errors: those of reading what the row is
/// weighted by.
std::unique_ptr<measure::MatrixInput> derived_input(const model::MatrixRecord& matrix,
                                                    std::unique_ptr<measure::MatrixInput> stored);

/// An input over `stored` that stands in a batch for a derived row which could not be made: of the
/// same shape and encoding as its neighbours, and zero.
std::unique_ptr<measure::MatrixInput> placeholder_input(
    const model::MatrixRecord& matrix, std::unique_ptr<measure::MatrixInput> stored);

}  // namespace vindex::engine
