// Owns the order in which Gram matrices of a batch are formed: sums and operands, facts, products,
// in cuts that fit the workspace; and the moments from raw sums about a shift a, with m = sum (w -
// a) / n and s_k the sum of (w - a)^k:
//
//   m2 = s_2 - n m^2,   m3 = s_3 - 3 m s_2 + 2 n m^3,   m4 = s_4 - 4 m s_3 + 6 m^2 s_2 - 3 n m^4
//
// Why about a shift: powers about 0 of weights that lie around another number cancel to nothing.
#include "gram_batch.hpp"
#include "gram_facts.hpp"
#include "gram_layout.hpp"
#include "gram_operands.hpp"
#include "gram_plan.hpp"
#include "gram_products.hpp"
#include "product_arguments.hpp"

#include "kernels/decode/decode_matrix.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

/// The view of `view` decoded to float32 at `memory`.
decode::DecodeView decoded(const decode::Encoding& encoding, const decode::DecodeView& view,
                           const GramShape& shape, const GramWorkspace& parts,
                           unsigned char* memory, cudaStream_t stream) {
  decode_matrix(encoding, view, reinterpret_cast<float*>(memory), parts.decoded_stride, stream);
  decode::DecodeView out;
  out.codes = memory;
  out.row_stride_bytes = parts.decoded_stride * static_cast<std::int64_t>(sizeof(float));
  out.rows = shape.rows;
  out.cols = shape.cols;
  return out;
}

}  // namespace

void form_grams(const decode::Encoding& encoding, const OperandPlan& plan, const GramBatch& batch,
                void* workspace, std::size_t workspace_bytes, ProductKernel kernel, float* grams,
                GramFacts* facts, cudaStream_t stream) {
  if (batch.views.empty()) {
    return;
  }
  const bool flip = !batch.sign_flip_keys.empty();
  expects(!flip || batch.sign_flip_keys.size() == batch.views.size(), "a key for every matrix");
  const GramShape shape{batch.views[0].rows, batch.views[0].cols};
  const auto count = static_cast<std::int64_t>(batch.views.size());
  const GramCut cut = cut_grams(shape, plan, count, workspace_bytes);
  const GramWorkspace parts(shape, plan, cut.matrices_at_once, cut.chunks_at_once);
  const GramMemory memory{.workspace = static_cast<unsigned char*>(workspace),
                          .part_bytes = parts.part_bytes,
                          .matrix_bytes = parts.matrix_bytes,
                          .sums_offset = parts.sums_offset,
                          .factors_offset = parts.factors_offset,
                          .row_factors_offset = parts.row_factors_offset,
                          .squares_offset = parts.squares_offset,
                          .diagonals_offset = parts.diagonals_offset,
                          .norms_offset = parts.norms_offset};
  const bool one_pass =
      plan.kind == OperandKind::kBlockScaled && cut.chunks_at_once == shape.chunks();

  for (std::int64_t first = 0; first < count; first += cut.matrices_at_once) {
    const std::int64_t matrices = std::min(cut.matrices_at_once, count - first);
    ViewBatch views{};
    for (std::int64_t i = 0; i < matrices; ++i) {
      const decode::DecodeView& view = batch.views[static_cast<std::size_t>(first + i)];
      expects(view.rows == shape.rows && view.cols == shape.cols, "one shape in a batch");
      views.views[i] =
          plan.source == OperandSource::kDecoded
              ? decoded(encoding, view, shape, parts,
                        memory.workspace + parts.decoded_offset + i * parts.decoded_bytes(shape),
                        stream)
              : view;
      views.sign_flip_keys[i] =
          flip ? batch.sign_flip_keys[static_cast<std::size_t>(first + i)] : 0;
    }
    OperandTask task{.sums = true,
                     .operands = one_pass,
                     .native = batch.native_operands,
                     .flip_signs = flip,
                     .flip_transposed = batch.transposed,
                     .flip_draw = batch.sign_flip_draw,
                     .first_chunk = 0,
                     .chunk_count = shape.chunks()};
    decode_operands(plan, shape, views, matrices, task, memory, facts + first, stream);
    finish_facts(plan, shape, matrices, memory, facts + first, stream);

    ProductArguments arguments{
        .operands = memory.workspace,
        .part_bytes = memory.part_bytes,
        .matrix_bytes = memory.matrix_bytes,
        .row_factors = reinterpret_cast<const float*>(memory.workspace + memory.row_factors_offset),
        .factors = reinterpret_cast<const float*>(memory.workspace + memory.factors_offset),
        .diagonals = reinterpret_cast<const float*>(memory.workspace + memory.diagonals_offset),
        .grams = grams + first * shape.gram_elements(),
        .norms = reinterpret_cast<double*>(memory.workspace + memory.norms_offset),
        .order = shape.order(),
        .tiles = shape.tiles(),
        .chunks = shape.chunks(),
        .tile_pairs = shape.tile_pairs(),
        .first_chunk = 0,
        .chunk_count = 0,
        .parts = plan.parts(),
        .report = trap_report(),
        .wait_cycles = batch.wait_cycles};
    for (std::int64_t chunk = 0; chunk < shape.chunks(); chunk += cut.chunks_at_once) {
      arguments.first_chunk = chunk;
      arguments.chunk_count = std::min(cut.chunks_at_once, shape.chunks() - chunk);
      if (!one_pass) {
        task.sums = false;
        task.operands = true;
        task.first_chunk = chunk;
        task.chunk_count = arguments.chunk_count;
        decode_operands(plan, shape, views, matrices, task, memory, facts + first, stream);
      }
      multiply_operands(kernel, plan, shape.contracts_rows(), arguments, matrices, stream);
    }
    finish_norms(arguments, matrices, facts + first, stream);
  }
}

}  // namespace vindex::kernels
