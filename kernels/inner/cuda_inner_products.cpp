// Owns the sums on a device: slabs are uploaded and decoded, brought into range, multiplied by the
// library in float32 blocks, and the products added in float64.
#include "cuda_inner_products.hpp"

#include "backend/inner_products.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "decode/encoding/code_layout.hpp"
#include "kernels/decode/decode_matrix.hpp"
#include "kernels/decode/device_slab.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/handles.hpp"

#include <algorithm>
#include <vector>

namespace vindex::kernels {

namespace {

/// Components of one float32 sum.
constexpr std::int64_t kChunk = 1024;
/// Blocks of rows that are decoded and multiplied together at most, and what they may fill.
constexpr std::int64_t kMaxBlocks = 64;
constexpr std::int64_t kDecodedFloats = 64LL << 20U;
constexpr std::int64_t kProductFloats = 64LL << 20U;
/// Handles, pageable staging of the driver.
constexpr std::uint64_t kHostBytes = 16ULL << 20U;
/// What the library takes for itself on a device (its workspace on Hopper).
constexpr std::uint64_t kLibraryBytes = 64ULL << 20U;
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return ceil_divide(bytes, kAlignment) * kAlignment; }

/// One side of a slab on the device: bytes as they were, views that decoders there read.
class UploadedSlab {
 public:
  UploadedSlab() = default;

  /// Copies on `stream`; the host bytes must stay until it was waited for.
  void upload(const VectorSlab& slab, cudaStream_t stream) {
    slab_ = slab;
    matrices_.assign(slab.matrices.size(), {});
    std::size_t bytes = aligned(slab.means.size() * sizeof(double));
    for (const decode::EncodedMatrix& matrix : slab.matrices) {
      bytes +=
          matrix.encoding == nullptr ? 0 : code_copy_bytes(matrix) + companion_copy_bytes(matrix);
    }
    auto* at = memory_.reserve_array<std::uint8_t>(std::max<std::size_t>(bytes, 1));
    means_ = reinterpret_cast<double*>(at);
    if (!slab.means.empty()) {
      check(cudaMemcpyAsync(at, slab.means.data(), slab.means.size_bytes(), cudaMemcpyHostToDevice,
                            stream));
      at += aligned(slab.means.size_bytes());
    }
    for (std::size_t i = 0; i < slab.matrices.size(); ++i) {
      const decode::EncodedMatrix& matrix = slab.matrices[i];
      if (matrix.encoding != nullptr) {
        matrices_[i].encoded = copy_codes(matrix, at, stream);
        at += code_copy_bytes(matrix);
        matrices_[i].companions = copy_companions(matrix, at, stream);
        at += companion_copy_bytes(matrix);
      }
    }
  }

  const VectorSlab& slab() const { return slab_; }
  const double* means() const { return slab_.means.empty() ? nullptr : means_; }

  /// Rows [first, first + count) of matrix i as float32; zeros for one that is missing.
  void decode_rows(std::size_t i, std::int64_t first, std::int64_t count, std::int64_t cols,
                   float* out, cudaStream_t stream) const {
    const OnDevice& matrix = matrices_[i];
    if (matrix.encoded.encoding == nullptr) {
      const auto floats = static_cast<std::size_t>(count * cols);
      check(cudaMemsetAsync(out, 0, floats * sizeof(float), stream));
      return;
    }
    const decode::DecodeView view =
        device_view(decode::row_slab(matrix.encoded, first, count), matrix.companions);
    kernels::decode_matrix(*matrix.encoded.encoding, view, out, cols, stream);
  }

 private:
  struct OnDevice {
    decode::EncodedMatrix encoded;  ///< codes on the device, companions on the host
    CompanionCopies companions{};
  };

  DeviceBuffer memory_{"encoded vectors"};
  VectorSlab slab_;
  double* means_ = nullptr;
  std::vector<OnDevice> matrices_;
};

/// Blocks of rows of one shape that are multiplied together.
struct Run {
  std::int64_t first_row = 0;  ///< in the slab
  std::int64_t block_rows = 0;
  std::int64_t blocks = 0;
  std::int64_t batch = 0;  ///< blocks in memory, and in a call of the library
  std::int64_t cols = 0;
  bool columns = false;
  std::int64_t depth() const { return columns ? block_rows : block_rows * cols; }
  std::int64_t chunks() const { return ceil_divide(depth(), kChunk); }
};

/// Libraries choose algorithms by the number of products, so it depends on the shape alone.
std::int64_t blocks_at_once(const InnerProductShape& shape, const Run& block) {
  if (block.columns) {
    return 1;
  }
  const std::int64_t decoded = (shape.left + shape.right) * block.depth();
  const std::int64_t products = shape.left * shape.columns() * block.chunks();
  return std::clamp<std::int64_t>(std::min(kDecodedFloats / std::max<std::int64_t>(decoded, 1),
                                           kProductFloats / std::max<std::int64_t>(products, 1)),
                                  1, kMaxBlocks);
}

/// One side's float32 components.
class DecodedVectors {
 public:
  void load(const UploadedSlab& slab, std::int64_t vectors, const Run& run, cudaStream_t stream) {
    layout_ = {.vectors = vectors,
               .stride = run.columns ? vectors : run.batch * run.depth(),
               .depth = run.depth(),
               .blocks = run.blocks,
               .columns = run.columns};
    const std::int64_t floats = vectors * run.batch * run.depth();
    const std::int64_t facts = vectors * run.batch;
    const bool grows = values_.bytes() < static_cast<std::size_t>(floats) * sizeof(float);
    auto* const values = values_.reserve_array<float>(static_cast<std::size_t>(floats));
    if (grows) {  // blocks that a run does not fill are multiplied too, and forgotten
      check(cudaMemsetAsync(values, 0, values_.bytes(), stream));
    }
    auto* const of_blocks = facts_.reserve_array<double>(static_cast<std::size_t>(2 * facts));
    factors_ = of_blocks;
    squares_ = of_blocks + facts;
    const std::int64_t rows = run.block_rows * run.blocks;
    if (run.columns) {
      slab.decode_rows(0, run.first_row, rows, vectors, values, stream);
      if (slab.means() != nullptr) {
        subtract_means(layout_, slab.means(), values, stream);
      }
    } else {
      for (std::int64_t i = 0; i < vectors; ++i) {
        slab.decode_rows(static_cast<std::size_t>(i), run.first_row, rows, run.cols,
                         values + i * layout_.stride, stream);
      }
    }
    bring_into_range(layout_, values, factors_, squares_, stream);
    data_ = values;
  }

  const float* data() const { return data_; }
  const VectorLayout& layout() const { return layout_; }
  const double* factors() const { return factors_; }
  const double* squares() const { return squares_; }

 private:
  DeviceBuffer values_{"decoded vectors"};
  DeviceBuffer facts_{"ranges of decoded vectors"};
  VectorLayout layout_;
  const float* data_ = nullptr;
  double* factors_ = nullptr;
  double* squares_ = nullptr;
};

class CudaInnerProducts final : public CheckedInnerProducts {
 public:
  CudaInnerProducts(std::int32_t device, const InnerProductShape& shape)
      : CheckedInnerProducts(shape),
        device_(on(device)),
        stream_(make_stream()),
        blas_(make_blas(stream())) {
    const auto bytes = static_cast<std::size_t>(sum_count()) * sizeof(double);
    check(cudaMemsetAsync(sums_.reserve(bytes), 0, bytes, stream()));
  }
  ~CudaInnerProducts() override {
    (void)cudaSetDevice(device_);
    (void)cudaStreamSynchronize(stream());  // nothing may still work in what is given back
  }
  CudaInnerProducts(const CudaInnerProducts&) = delete;
  CudaInnerProducts& operator=(const CudaInnerProducts&) = delete;

 private:
  static std::int32_t on(std::int32_t device) {
    check(cudaSetDevice(device));
    return device;
  }
  cudaStream_t stream() const { return stream_.get(); }
  double* sums() { return sums_.reserve_array<double>(static_cast<std::size_t>(sum_count())); }

  void add_slabs(const VectorSlab& left, const VectorSlab& right, const SlabShape& slab) override {
    (void)on(device_);
    left_slab_.upload(left, stream());
    if (!shape().is_symmetric()) {
      right_slab_.upload(right, stream());
    }
    const Run whole{.block_rows = slab.block_rows, .cols = slab.cols, .columns = left.columns};
    const std::int64_t most = blocks_at_once(shape(), whole);
    for (std::int64_t row = 0; row < slab.rows && slab.cols > 0;) {
      throw_if_stopped(shape().stop);
      Run run = whole;
      run.first_row = row;
      const std::int64_t left_rows = slab.rows - row;
      const std::int64_t within = (slab.first_row + row) % slab.block_rows;
      if (within != 0 || left_rows < slab.block_rows) {
        run.block_rows = std::min(left_rows, slab.block_rows - within);
        run.blocks = run.batch = 1;
      } else {
        run.blocks = std::min(most, left_rows / slab.block_rows);
        run.batch = most;
      }
      add_run(run);
      row += run.block_rows * run.blocks;
    }
    check(cudaStreamSynchronize(stream()));  // the bytes may go
  }

  void read_sums(std::span<double> out) override {
    (void)on(device_);
    check(cudaMemcpyAsync(out.data(), sums(), out.size_bytes(), cudaMemcpyDeviceToHost, stream()));
    check(cudaStreamSynchronize(stream()));
  }

  void add_run(const Run& run) {
    left_.load(left_slab_, shape().left, run, stream());
    if (!shape().is_symmetric()) {
      right_.load(right_slab_, shape().right, run, stream());
    }
    const DecodedVectors& right = shape().is_symmetric() ? left_ : right_;
    const std::int64_t chunks = run.chunks();
    auto* const products =
        products_.reserve_array<float>(static_cast<std::size_t>(chunks * run.batch * sum_count()));
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      multiply(run, right, chunk, products + chunk * run.batch * sum_count());
    }
    add_products({.products = products,
                  .m = shape().left,
                  .n = shape().columns(),
                  .chunks = chunks,
                  .batch = run.batch,
                  .blocks = run.blocks,
                  .left_factors = left_.factors(),
                  .right_factors = right.factors(),
                  .squares = shape().is_symmetric() ? left_.squares() : nullptr},
                 sums(), stream());
  }

  /// Products of one chunk of every block, row-major: the library, column-major, takes the right
  /// side first.
  void multiply(const Run& run, const DecodedVectors& right, std::int64_t chunk, float* out) {
    const float one = 1.0F;
    const float zero = 0.0F;
    const std::int64_t first = chunk * kChunk;
    const std::int64_t depth = std::min(kChunk, run.depth() - first);
    const auto at = [&](const DecodedVectors& side) {
      return side.data() + (run.columns ? first * side.layout().stride : first);
    };
    const auto stride = [&](const DecodedVectors& side) {
      return static_cast<long long>(run.columns ? run.depth() * side.layout().stride : run.depth());
    };
    check(cublasSgemmStridedBatched(
        blas_.get(), run.columns ? CUBLAS_OP_N : CUBLAS_OP_T,
        run.columns ? CUBLAS_OP_T : CUBLAS_OP_N, blas_int(shape().columns()),
        blas_int(shape().left), blas_int(depth), &one, at(right), blas_int(right.layout().stride),
        stride(right), at(left_), blas_int(left_.layout().stride), stride(left_), &zero, out,
        blas_int(shape().columns()), static_cast<long long>(sum_count()), blas_int(run.batch)));
  }

  std::int32_t device_;
  Stream stream_;
  BlasHandle blas_;
  DeviceBuffer sums_{"sums of inner products"};
  DeviceBuffer products_{"products of blocks"};
  UploadedSlab left_slab_, right_slab_;
  DecodedVectors left_, right_;
};

}  // namespace

std::unique_ptr<InnerProducts> make_cuda_inner_products(std::int32_t device,
                                                        const InnerProductShape& shape) {
  return std::make_unique<CudaInnerProducts>(device, shape);
}

InnerProductMemory cuda_inner_product_memory(const InnerProductShape& shape) {
  constexpr std::int64_t kMaxBlockRows = 16;  // of wide matrices
  const std::int64_t depth = std::max(2 * kChunk, kMaxBlockRows * shape.cols);
  const std::int64_t sums = shape.left * shape.columns();
  const std::int64_t vectors = shape.left + shape.right;
  const std::int64_t decoded = std::max(kDecodedFloats, vectors * depth);
  const std::int64_t products = std::max(kProductFloats, sums * ceil_divide(depth, kChunk));
  const auto bytes = [](std::int64_t count, std::size_t size) {
    return static_cast<std::uint64_t>(count) * size;
  };
  return {.host = kHostBytes,
          .device = kLibraryBytes + bytes(sums, sizeof(double)) +
                    bytes(decoded + products, sizeof(float)) +
                    bytes(2 * vectors * kMaxBlocks, sizeof(double))};
}

}  // namespace vindex::kernels
