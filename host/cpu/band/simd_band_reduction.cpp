// Owns the reduction of a dense symmetric matrix to a band. Per panel of kBand columns:
//
//   panel = Q R,  Q = I - V T V^T,      T_kk = tau_k,  T_(i<k, k) = -tau_k T (V^T v_k)    (larft)
//   X = A V T,   W = X - V (T^T V^T X) / 2,      Q^T A Q = A - V W^T - W V^T
//
// of the trailing matrix A. The last line is (I - V T^T V^T) A (I - V T V^T) written out: its term
// V (T^T V^T A V T) V^T is symmetric and goes to W by halves. Sources: Bischof, Lang, Sun 2000
// (SBR); Dongarra, Sorensen, Hammarling 1989; LAPACK larft.
//
// The update of one panel waits until the product A V of the next one reads A anyway: so each
// element of the trailing matrix is moved once per kBand columns. Why not tridiagonal at once
// (LAPACK sytrd): half of its 4/3 n^3 flop are products with a vector, which read the whole
// trailing matrix for every column, and are bound by memory however many cores wait.
#include "simd_band_reduction.hpp"

#include "band_storage.hpp"
#include "simd_band_panel.hpp"
#include "simd_block_product.hpp"

#include "core/integers.hpp"
#include "core/philox.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <stop_token>

namespace vindex::cpu {
namespace {

// Where the workspace goes, in elements.
struct Layout {
  explicit Layout(std::int64_t n)
      : order(band_order(n)),
        matrix_elements(ceil_divide(order, kStrip) * kStrip * order),
        column_elements(order * kBand) {}

  std::int64_t order;
  std::int64_t matrix_elements;
  std::int64_t column_elements;  // of an order x kBand block
  // Alignment slack, matrix, reflectors, product, next update's factors (2 wide each), triangles
  // and inverses of all block reflectors.
  std::int64_t total() const { return 64 + matrix_elements + 8 * column_elements + order; }
};

template <typename T, int kRegisterBytes>
class Reduction {
  using Product = BlockProduct<T, kRegisterBytes>;
  using Square = T[kBand][kBand];

 public:
  [[gnu::always_inline]] inline Reduction(std::int64_t n, T* workspace) : order_(band_order(n)) {
    const Layout layout(n);
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    workspace += (64 - address % 64) % 64 / sizeof(T);
    matrix_ = workspace;
    reflectors_ = matrix_ + layout.matrix_elements;
    product_ = reflectors_ + layout.column_elements;
    scaled_reflectors_ = product_ + layout.column_elements;
    left_ = scaled_reflectors_ + layout.column_elements;
    right_ = left_ + 2 * layout.column_elements;
    triangles_ = right_ + 2 * layout.column_elements;
    inverses_ = triangles_ + layout.column_elements;
  }

  [[gnu::always_inline]] inline void run(const T* matrix, std::int64_t n, std::int64_t stride,
                                         T scale, double* band, const std::stop_token& stop) {
    copy_in(matrix, n, stride, scale);
    for (std::int64_t start = 0; start < order_; start += kBand) {
      throw_if_stopped(stop);
      if (is_pending_) {
        update_strip(start);
      }
      store_diagonal_block(start, band);
      const std::int64_t rows = order_ - start - kBand;
      if (rows == 0) {
        break;
      }
      factor_panel(start, rows, band);
      form_block_reflector(rows);
      std::copy_n(&triangle_[0][0], kBand * kBand, triangles_ + start * kBand);
      update_and_multiply(start, rows);
      form_update(rows);
    }
  }

  // Returns the columns that are final.
  [[gnu::always_inline]] inline std::int64_t run_in_part(const T* matrix, std::int64_t n,
                                                         std::int64_t stride, T scale,
                                                         std::span<double> band, BandProbe& probe,
                                                         bool from_random_block,
                                                         const std::stop_token& stop) {
    copy_in(matrix, n, stride, scale);
    if (from_random_block) {
      turn_to_random_block(n);
    }
    for (std::int64_t start = 0; start < order_; start += kBand) {
      throw_if_stopped(stop);
      if (is_pending_) {
        update_strip(start);
      }
      store_diagonal_block(start, band.data());
      const std::int64_t next = start + kBand;
      const std::int64_t rows = order_ - next;
      if (rows == 0) {
        break;
      }
      factor_panel(start, rows, band.data());
      const bool is_wanted = probe.wants_rest(band, next);
      form_block_reflector(rows);
      std::copy_n(&triangle_[0][0], kBand * kBand, triangles_ + start * kBand);
      update_and_multiply(start, rows);
      form_update(rows);
      if (is_wanted) {
        apply_pending(next);
        copy_rest(next, probe.room_for_rest(rows));
        if (probe.is_enough(band, next, rows)) {
          return next;
        }
      }
    }
    return n;
  }

  // A = Q B Q^T, so Q = Q_0 Q_1 ...: Q times a block takes the last panel first, Q^T the first.
  // Q is the product of the block reflectors of `columns` columns; they lie where the columns were
  // that they cleared.
  [[gnu::always_inline]] inline void apply(bool transposed, std::int64_t columns, T* block,
                                           std::int64_t count, const std::stop_token& stop) {
    const std::int64_t panels = std::min(ceil_divide(columns, kBand), order_ / kBand - 1);
    for (std::int64_t step = 0; step < panels; ++step) {
      throw_if_stopped(stop);
      const std::int64_t start = (transposed ? step : panels - 1 - step) * kBand;
      const std::int64_t rows = order_ - start - kBand;
      restore_reflectors(start, rows);
      T* behind = block + (start + kBand) * count;
      for (std::int64_t column = 0; column < count; column += kBand) {
        apply_block_reflector(start, rows, transposed, behind + column, count);
      }
    }
  }

 private:
  // A panel before the first: its reflectors take a random block to the first kBand columns. Rows
  // behind n stay as they are, zero.
  [[gnu::always_inline]] inline void turn_to_random_block(std::int64_t n) {
    T* panel = left_;
    std::fill_n(panel, order_ * kStrip, T{0});
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t j = 0; j < kBand; j += 4) {
        const PhiloxBlock words =
            philox4x32_10({{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32U),
                            static_cast<std::uint32_t>(j), 2}},
                          0);
        for (std::int64_t k = 0; k < 4; ++k) {
          panel[row * kStrip + j + k] = static_cast<T>(words.word[k]) * T{0x1p-31} - T{1};
        }
      }
    }
    T inverses[kBand];
    BandPanel<T, kRegisterBytes>::factor(panel, order_, taus_, inverses);
    scale_reflectors(panel, inverses, order_);
    form_block_reflector(order_);
    update_and_multiply(-kBand, order_);
    form_update(order_);
  }

  [[gnu::always_inline]] inline void restore_reflectors(std::int64_t start, std::int64_t rows) {
    scale_reflectors(at(start + kBand, start), inverses_ + start, rows);
  }

  // reflectors_ from a panel that holds them unscaled.
  [[gnu::always_inline]] inline void scale_reflectors(const T* panel, const T* inverses,
                                                      std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < kBand; ++j) {
        const T below = panel[i * kStrip + j] * inverses[j];
        reflectors_[i * kBand + j] = i > j ? below : (i == j ? T{1} : T{0});
      }
    }
  }

  // Z -= V T V^T Z, or with T^T, for kBand columns of Z, `stride` apart by rows.
  [[gnu::always_inline]] inline void apply_block_reflector(std::int64_t start, std::int64_t rows,
                                                           bool transposed, T* z,
                                                           std::int64_t stride) {
    alignas(64) Square overlaps;
    alignas(64) Square factor;
    std::fill_n(&overlaps[0][0], kBand * kBand, T{0});
    for (std::int64_t first = 0; first < rows; first += kRowChunk) {
      const std::int64_t depth = std::min(kRowChunk, rows - first);
      Product::add(reflectors_ + first * kBand, 1, kBand, z + first * stride, stride, kBand, depth,
                   &overlaps[0][0], kBand);
    }
    const T* triangle = triangles_ + start * kBand;
    for (std::int64_t i = 0; i < kBand; ++i) {
      for (std::int64_t j = 0; j < kBand; ++j) {
        factor[i][j] = -(transposed ? triangle[j * kBand + i] : triangle[i * kBand + j]);
      }
    }
    alignas(64) Square middle;
    std::fill_n(&middle[0][0], kBand * kBand, T{0});
    Product::add(&factor[0][0], kBand, 1, &overlaps[0][0], kBand, kBand, kBand, &middle[0][0],
                 kBand);
    Product::add(reflectors_, kBand, 1, &middle[0][0], kBand, rows, kBand, z, stride);
  }

  // Element (row, 0) of the strip holding column `column`, shifted to that column.
  [[gnu::always_inline]] inline T* at(std::int64_t row, std::int64_t column) {
    return matrix_ + column / kStrip * (kStrip * order_) + row * kStrip + column % kStrip;
  }

  [[gnu::always_inline]] inline void copy_in(const T* matrix, std::int64_t n, std::int64_t stride,
                                             T scale) {
    for (std::int64_t row = 0; row < order_; ++row) {
      // Diagonal blocks are kept whole, so their upper part is filled as well.
      const std::int64_t end = row / kBand * kBand + kBand;
      for (std::int64_t first = 0; first < end; first += kBand) {
        T* out = at(row, first);
        for (std::int64_t j = 0; j < kBand; ++j) {
          const std::int64_t column = first + j;
          const bool inside = row < n && column < n;
          const std::int64_t from = column <= row ? row * stride + column : column * stride + row;
          out[j] = inside ? scale * matrix[from] : T{0};
        }
      }
    }
  }

  // Applies the pending update to the block column at `start`, diagonal block included.
  [[gnu::always_inline]] inline void update_strip(std::int64_t start) {
    // Pending factors begin one block earlier than the trailing matrix does at the next step:
    // row 0 of left_ and panel 0 of right_ belong to `start`.
    Product::add(left_, kStrip, 1, right_, kBand, order_ - start, kStrip, at(start, start), kStrip);
  }

  [[gnu::always_inline]] inline void store_diagonal_block(std::int64_t start, double* band) {
    for (std::int64_t j = 0; j < kBand; ++j) {
      for (std::int64_t i = j; i < kBand; ++i) {
        band[(start + j) * kBandStride + start + i] = static_cast<double>(at(start + i, start)[j]);
      }
    }
  }

  // Householder QR of the block column below the diagonal block.
  [[gnu::always_inline]] inline void factor_panel(std::int64_t start, std::int64_t rows,
                                                  double* band) {
    T* panel = at(start + kBand, start);
    BandPanel<T, kRegisterBytes>::factor(panel, rows, taus_, inverses_ + start);
    store_panel(start, panel, band);
    restore_reflectors(start, rows);
  }

  // R goes to the band.
  [[gnu::always_inline]] inline void store_panel(std::int64_t start, const T* panel, double* band) {
    for (std::int64_t j = 0; j < kBand; ++j) {
      for (std::int64_t i = 0; i <= j; ++i) {
        band[(start + j) * kBandStride + start + kBand + i] =
            static_cast<double>(panel[i * kStrip + j]);
      }
    }
  }

  // out(kBand x kBand) = X^T Y over `rows` rows, in chunks.
  [[gnu::always_inline]] inline void transposed_product(const T* x, const T* y, std::int64_t rows,
                                                        Square& out) {
    std::fill_n(&out[0][0], kBand * kBand, T{0});
    for (std::int64_t first = 0; first < rows; first += kRowChunk) {
      const std::int64_t depth = std::min(kRowChunk, rows - first);
      Product::add(x + first * kBand, 1, kBand, y + first * kBand, kBand, kBand, depth, &out[0][0],
                   kBand);
    }
  }

  // Q = I - V T V^T; leaves T in triangle_ and V T in scaled_reflectors_.
  [[gnu::always_inline]] inline void form_block_reflector(std::int64_t rows) {
    alignas(64) Square overlaps;
    transposed_product(reflectors_, reflectors_, rows, overlaps);
    std::fill_n(&triangle_[0][0], kBand * kBand, T{0});
    for (std::int64_t k = 0; k < kBand; ++k) {
      triangle_[k][k] = taus_[k];
      for (std::int64_t i = 0; i < k; ++i) {
        T sum = T{0};
        for (std::int64_t j = i; j < k; ++j) {
          sum += triangle_[i][j] * overlaps[j][k];
        }
        triangle_[i][k] = -taus_[k] * sum;
      }
    }
    std::fill_n(scaled_reflectors_, rows * kBand, T{0});
    Product::add(reflectors_, kBand, 1, &triangle_[0][0], kBand, rows, kBand, scaled_reflectors_,
                 kBand);
  }

  // Applies the pending update to the trailing matrix behind `start` and forms its product with
  // scaled_reflectors_ on the way, each block while it is in the cache.
  [[gnu::always_inline]] inline void update_and_multiply(std::int64_t start, std::int64_t rows) {
    const std::int64_t trailing = start + kBand;
    std::fill_n(product_, rows * kBand, T{0});
    for (std::int64_t column = trailing; column < order_;) {
      const std::int64_t column_end = std::min(order_, column / kStrip * kStrip + kStrip);
      for (std::int64_t row = column; row < column_end; row += kBand) {
        for (std::int64_t j = column; j <= row; j += kBand) {
          block(start, row, kBand, j, kBand);
        }
      }
      for (std::int64_t row = column_end; row < order_; row += kRowChunk) {
        block(start, row, std::min(kRowChunk, order_ - row), column, column_end - column);
      }
      column = column_end;
    }
  }

  [[gnu::always_inline]] inline void update_block(std::int64_t start, std::int64_t row,
                                                  std::int64_t row_count, std::int64_t column,
                                                  std::int64_t column_count) {
    for (std::int64_t j = 0; j < column_count; j += kBand) {
      Product::add(left_ + (row - start) * kStrip, kStrip, 1,
                   right_ + (column + j - start) * kStrip, kBand, row_count, kStrip,
                   at(row, column) + j, kStrip);
    }
  }

  // Applies the pending update to all that is left at once.
  [[gnu::always_inline]] inline void apply_pending(std::int64_t start) {
    for (std::int64_t column = start; column < order_; column += kBand) {
      for (std::int64_t row = column; row < order_; row += kRowChunk) {
        update_block(start, row, std::min(kRowChunk, order_ - row), column, kBand);
      }
    }
    is_pending_ = false;
  }

  // The lower triangle of what is left, behind `start`.
  [[gnu::always_inline]] inline void copy_rest(std::int64_t start, float* out) {
    const std::int64_t count = order_ - start;
    for (std::int64_t row = start; row < order_; ++row) {
      for (std::int64_t first = start; first <= row; first += kBand) {
        const std::int64_t length = std::min(kBand, row + 1 - first);
        const T* const from = at(row, first);
        float* const to = out + (row - start) * count + first - start;
        for (std::int64_t j = 0; j < length; ++j) {
          to[j] = static_cast<float>(from[j]);
        }
      }
    }
  }

  [[gnu::always_inline]] inline void block(std::int64_t start, std::int64_t row,
                                           std::int64_t row_count, std::int64_t column,
                                           std::int64_t column_count) {
    T* values = at(row, column);
    if (is_pending_) {
      update_block(start, row, row_count, column, column_count);
    }
    const std::int64_t trailing = start + kBand;
    const std::int64_t i = (row - trailing) * kBand;
    const std::int64_t j = (column - trailing) * kBand;
    Product::add(values, kStrip, 1, scaled_reflectors_ + j, kBand, row_count, column_count,
                 product_ + i, kBand);
    if (row != column) {
      Product::add(values, 1, kStrip, scaled_reflectors_ + i, kBand, column_count, row_count,
                   product_ + j, kBand);
    }
  }

  // With X = A V T: W = X - V (T^T V^T X) / 2; the update A - V W^T - W V^T becomes left_ right_,
  // left_ = [-V, -W] by rows, right_ = [W, V]^T by blocks of kBand columns.
  [[gnu::always_inline]] inline void form_update(std::int64_t rows) {
    alignas(64) Square overlaps;
    alignas(64) Square correction;
    transposed_product(scaled_reflectors_, product_, rows, overlaps);
    for (std::int64_t i = 0; i < kBand; ++i) {
      for (std::int64_t j = 0; j < kBand; ++j) {
        correction[i][j] = T{-0.5} * overlaps[i][j];
      }
    }
    Product::add(reflectors_, kBand, 1, &correction[0][0], kBand, rows, kBand, product_, kBand);
    for (std::int64_t first = 0; first < rows; first += kBand) {
      T* right = right_ + first * kStrip;
      for (std::int64_t i = 0; i < kBand; ++i) {
        const T* v = reflectors_ + (first + i) * kBand;
        const T* w = product_ + (first + i) * kBand;
        T* left = left_ + (first + i) * kStrip;
        for (std::int64_t k = 0; k < kBand; ++k) {
          left[k] = -v[k];
          left[kBand + k] = -w[k];
          right[k * kBand + i] = w[k];
          right[(kBand + k) * kBand + i] = v[k];
        }
      }
    }
    is_pending_ = true;
  }

  std::int64_t order_;
  bool is_pending_ = false;  // left_ right_ is to be added to what is left
  T* matrix_;                // trailing matrix in strips
  T* reflectors_;            // V, rows x kBand
  T* product_;               // A V T, then W
  T* scaled_reflectors_;     // V T
  T* left_;                  // pending update, rows x 2 kBand
  T* right_;                 // per kBand columns: 2 kBand x kBand
  T* triangles_;             // T of every block reflector, kBand x kBand at its first column
  T* inverses_;              // scales of the reflectors as the panels hold them
  T taus_[kBand];
  alignas(64) Square triangle_;
};

template <typename T>
struct ReduceCall {
  const T* matrix;
  std::int64_t n;
  std::int64_t stride;
  T scale;
  double* band;
  T* workspace;
  const std::stop_token& stop;

  template <int kRegisterBytes>
  [[gnu::always_inline]] inline void run() const {
    Reduction<T, kRegisterBytes> reduction(n, workspace);
    reduction.run(matrix, n, stride, scale, band, stop);
  }
};

template <typename T>
struct PartCall {
  const T* matrix;
  std::int64_t n;
  std::int64_t stride;
  T scale;
  std::span<double> band;
  T* workspace;
  BandProbe& probe;
  bool from_random_block;
  const std::stop_token& stop;
  std::int64_t& columns;

  template <int kRegisterBytes>
  [[gnu::always_inline]] inline void run() const {
    Reduction<T, kRegisterBytes> reduction(n, workspace);
    columns = reduction.run_in_part(matrix, n, stride, scale, band, probe, from_random_block, stop);
  }
};

template <typename T>
struct ApplyCall {
  std::int64_t n;
  bool transposed;
  std::int64_t columns;
  T* block;
  std::int64_t count;
  T* workspace;
  const std::stop_token& stop;

  template <int kRegisterBytes>
  [[gnu::always_inline]] inline void run() const {
    Reduction<T, kRegisterBytes> reduction(n, workspace);
    reduction.apply(transposed, columns, block, count, stop);
  }
};

template <typename Call>
void run_portable(const Call& call) {
  call.template run<16>();
}

#if defined(__x86_64__)
template <typename Call>
__attribute__((target("avx2,fma"))) void run_avx2(const Call& call) {
  call.template run<32>();
}

template <typename Call>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))) void run_avx512(
    const Call& call) {
  call.template run<64>();
}
#endif

template <typename Call>
void dispatch(const Call& call, SimdLevel level) {
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    run_avx512(call);
    return;
  }
  if (level == SimdLevel::kAvx2) {
    run_avx2(call);
    return;
  }
#else
  (void)level;
#endif
  run_portable(call);
}

void expects_sizes(std::int64_t n, std::int64_t stride, std::size_t band, std::size_t workspace) {
  expects(n >= 0 && stride >= n, "matrix stride");
  expects(static_cast<std::int64_t>(band) >= band_elements(n), "band storage too small");
  expects(static_cast<std::int64_t>(workspace) >= band_workspace_elements(n),
          "band workspace too small");
}

template <typename T>
void reduce_matrix(const T* matrix, std::int64_t n, std::int64_t stride, T scale,
                   std::span<double> band, std::span<T> workspace, SimdLevel level,
                   const std::stop_token& stop) {
  expects_sizes(n, stride, band.size(), workspace.size());
  std::fill(band.begin(), band.end(), 0.0);
  dispatch(ReduceCall<T>{matrix, n, stride, scale, band.data(), workspace.data(), stop}, level);
}

template <typename T>
std::int64_t reduce_in_part(const T* matrix, std::int64_t n, std::int64_t stride, T scale,
                            std::span<double> band, std::span<T> workspace, BandProbe& probe,
                            bool from_random_block, SimdLevel level, const std::stop_token& stop) {
  expects_sizes(n, stride, band.size(), workspace.size());
  std::fill(band.begin(), band.end(), 0.0);
  std::int64_t columns = 0;
  dispatch(PartCall<T>{matrix, n, stride, scale, band, workspace.data(), probe, from_random_block,
                       stop, columns},
           level);
  return columns;
}

template <typename T>
void apply(std::int64_t n, bool transposed, std::int64_t columns, std::span<T> block,
           std::int64_t count, std::span<T> workspace, SimdLevel level,
           const std::stop_token& stop) {
  expects(count % kBand == 0 && static_cast<std::int64_t>(block.size()) == band_order(n) * count,
          "a block of whole columns");
  expects(static_cast<std::int64_t>(workspace.size()) >= band_workspace_elements(n),
          "band workspace too small");
  dispatch(ApplyCall<T>{n, transposed, columns, block.data(), count, workspace.data(), stop},
           level);
}

}  // namespace

std::int64_t band_workspace_elements(std::int64_t n) { return Layout(n).total(); }

void reduce_to_band(const float* matrix, std::int64_t n, std::int64_t stride, float scale,
                    std::span<double> band, std::span<float> workspace, SimdLevel level,
                    const std::stop_token& stop) {
  reduce_matrix(matrix, n, stride, scale, band, workspace, level, stop);
}

void reduce_to_band(const double* matrix, std::int64_t n, std::int64_t stride, double scale,
                    std::span<double> band, std::span<double> workspace, SimdLevel level,
                    const std::stop_token& stop) {
  reduce_matrix(matrix, n, stride, scale, band, workspace, level, stop);
}

std::int64_t reduce_to_band_in_part(const float* matrix, std::int64_t n, std::int64_t stride,
                                    float scale, std::span<double> band, std::span<float> workspace,
                                    BandProbe& probe, SimdLevel level,
                                    const std::stop_token& stop) {
  return reduce_in_part(matrix, n, stride, scale, band, workspace, probe, true, level, stop);
}

std::int64_t begin_band(const double* matrix, std::int64_t n, std::int64_t stride, double scale,
                        std::span<double> band, std::span<double> workspace, BandProbe& probe,
                        SimdLevel level, const std::stop_token& stop) {
  return reduce_in_part(matrix, n, stride, scale, band, workspace, probe, false, level, stop);
}

void apply_band_factor(std::int64_t n, bool transposed, std::int64_t columns,
                       std::span<float> block, std::int64_t count, std::span<float> workspace,
                       SimdLevel level, const std::stop_token& stop) {
  apply(n, transposed, columns, block, count, workspace, level, stop);
}

void apply_band_factor(std::int64_t n, bool transposed, std::int64_t columns,
                       std::span<double> block, std::int64_t count, std::span<double> workspace,
                       SimdLevel level, const std::stop_token& stop) {
  apply(n, transposed, columns, block, count, workspace, level, stop);
}

}  // namespace vindex::cpu
