// Owns the pass that forms Y = W X and W^T Y together, slab by slab: each slab of W is decoded once
// and multiplied twice, while it is in memory. W^T (W X) costs 4 n p k flop; the float64 Gram that
// would give the same product costs n p^2.
#include "top/normal_products.hpp"

#include "stopwatch.hpp"
#include "top/orthonormal.hpp"

#include <vindex/blas/blas.hpp>
#include <vindex/core/integers.hpp>

#include <algorithm>

namespace vindex::cpu {
std::uint64_t normal_products_bytes(const SvdPlan& plan, std::int64_t count) {
  return std::max(array_bytes(plan.chunk * plan.short_side, sizeof(double)),
                  orthonormal_bytes(count));
}

void normal_products(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                     std::int64_t count, WorkArray<double>& basis, WorkArray<double>& image,
                     WorkArray<double>& normal, Workspace& workspace, double& seconds,
                     const UseImage& use) {
  const std::int64_t p = plan.short_side;
  {
    const Stopwatch watch(seconds);
    orthonormalise(basis.data(), p, count, workspace);
    std::fill_n(normal.data(), p * count, 0.0);
  }
  WorkArray<double> wide(workspace, plan.chunk * p, "weights as doubles");
  // Row-major is the transpose in the column-major order of the library.
  const auto down = plan.row_slabs ? CblasTrans : CblasNoTrans;
  const auto up = plan.row_slabs ? CblasNoTrans : CblasTrans;
  reader.pass(change, [&](const Tile& tile) {
    const Stopwatch watch(seconds);
    const std::int64_t length = plan.row_slabs ? tile.rows : tile.cols;
    std::copy_n(tile.values, tile.rows * tile.cols, wide.data());
    blas::blas().cblas_dgemm(CblasColMajor, down, CblasNoTrans, as_int(length), as_int(count),
                             as_int(p), 1.0, wide.data(), as_int(tile.cols), basis.data(),
                             as_int(p), 0.0, image.data(), as_int(length));
    blas::blas().cblas_dgemm(CblasColMajor, up, CblasNoTrans, as_int(p), as_int(count),
                             as_int(length), 1.0, wide.data(), as_int(tile.cols), image.data(),
                             as_int(length), 1.0, normal.data(), as_int(p));
    use(image.data(), length, tile.first);
  });
}

}  // namespace vindex::cpu
