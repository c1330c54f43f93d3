// Owns what a run does differently for rows that are derived from the model's matrices: what a back
// end sees of them and with which options it measures them; and rows of /product/, whose windows of
// factors are read and handed to the arithmetic of products, always on the host, in float64.
#pragma once

#include "backend/backend.hpp"
#include "cpu/product/product_spectrum.hpp"
#include "engine/units/source_watch.hpp"
#include "model/model_index.hpp"
#include "model/products/product.hpp"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

namespace vindex::engine {

/// `options` for rows of `table`. The null of a weighted matrix is its sign flip, asked for or not.
MeasureOptions options_for(model::ResultTable table, MeasureOptions options);

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
std::unique_ptr<MatrixInput> derived_input(const model::MatrixRecord& matrix,
                                           std::unique_ptr<MatrixInput> stored);

/// An input over `stored` that stands in a batch for a derived row which could not be made: of the
/// same shape and encoding as its neighbours, and zero.
std::unique_ptr<MatrixInput> placeholder_input(const model::MatrixRecord& matrix,
                                               std::unique_ptr<MatrixInput> stored);

/// Host memory that a ProductMeasurer takes for `row`, an upper bound.
std::uint64_t product_bytes(const model::MatrixRecord& row);

/// Bytes of codes that its factors are read from; its part of what several heads share.
std::uint64_t product_read_bytes(const model::MatrixRecord& row);

/// Arithmetic of one row in flop, likewise; only ratios matter.
double product_cost(const model::MatrixRecord& row);
/// Of two factors, rows x rank and rank x cols.
double product_cost(std::int64_t rows, std::int64_t rank, std::int64_t cols);

/// Reads factors. Of a matrix whose columns several rows share step by step (experts of one pair)
/// every decoded value is kept until another such matrix is read. Not thread-safe.
class FactorReader {
 public:
  explicit FactorReader(SourceWatch& watch) : watch_(watch) {}
  /// `factor` as it enters the product. Errors: those of reading.
  cpu::Factor read(const model::ProductFactor& factor);

 private:
  cpu::Factor read_steps(const model::ProductFactor& factor);

  SourceWatch& watch_;
  std::shared_ptr<const model::MatrixRecord> shared_;
  std::vector<float> shared_values_;
};

/// Measures rows one after another. An outer factor that the next row has too (the heads of a layer
/// share theirs) is read and reduced once. The files behind a row are asked whether they are still
/// those that were opened before it is returned. Not thread-safe: one for a worker.
class ProductMeasurer {
 public:
  explicit ProductMeasurer(const input::ModelFiles& files) : watch_(files), reader_(watch_) {}
  ProductMeasurer(const ProductMeasurer&) = delete;
  ProductMeasurer& operator=(const ProductMeasurer&) = delete;
  MatrixReport measure(const model::MatrixRecord& row, const std::stop_token& stop = {});

 private:
  struct Kept {
    model::ProductFactor source;
    cpu::Factor reduced;
  };
  const cpu::Factor& outer(Kept& kept, const model::ProductFactor& factor, bool left,
                           const std::stop_token& stop);

  SourceWatch watch_;
  FactorReader reader_;
  Kept left_, right_;
};

}  // namespace vindex::engine
