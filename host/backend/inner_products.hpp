// Owns the seam's sums of inner products: m x n of them, of vectors that come piece by piece, kept
// where a back end computes. Gram matrices of experts, cross products of activations, overlaps of
// subspaces are all of this form.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"

#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex {

/// The same run of components of every vector of one side.
struct VectorSlab {
  /// Matrix i holds components of vector i, row by row; all have one shape, encodings may differ,
  /// and one without an encoding (nullptr) stands for zeros. With `columns`: one matrix
  /// [components, vectors], tokens x features for instance.
  std::span<const decode::EncodedMatrix> matrices;
  bool columns = false;
  /// With `columns` only, empty or one per vector: taken from every component of vector j, in
  /// float64, rounded to float32 afterwards.
  std::span<const double> means = {};
};

/// What is asked of inner_products().
struct InnerProductShape {
  std::int64_t left = 0;      ///< vectors m
  std::int64_t right = 0;     ///< vectors n; 0: the left ones again (a Gram matrix)
  std::int64_t cols = 0;      ///< of the widest matrix that comes; unused with `columns`
  std::int32_t threads = 1;   ///< of one add(), where the host computes
  std::stop_token stop = {};  ///< looked at by add(), which throws Stopped
  bool is_symmetric() const { return right == 0; }
  std::int64_t columns() const { return is_symmetric() ? left : right; }
};

/// What inner products of a shape hold beside the slabs that are given: upper bounds.
struct InnerProductMemory {
  std::uint64_t host = 0, device = 0;
};

/// Rows of a matrix of `cols` columns whose weights are summed together, those of a short row with
/// its neighbours': slabs that begin at multiples of it (counted in the whole matrix,
/// EncodedMatrix::first_row) give the same bits wherever they are cut.
std::int64_t inner_product_rows(const decode::Encoding& encoding, std::int64_t cols, bool columns);

/// Weights that the matrices of a slab have in common.
struct SlabShape {
  std::int64_t rows = 0, cols = 0;  ///< of every matrix
  std::int64_t first_row = 0;       ///< of them in the whole matrix
  std::int64_t block_rows = 1;      ///< inner_product_rows()
  std::int64_t granularity = 1;     ///< columns at which all of them may be cut
};

/// Errors: expects() on a slab that does not hold `vectors` vectors as VectorSlab says.
SlabShape slab_shape(const VectorSlab& slab, std::int64_t vectors);
/// Of both sides of a sum. Errors: expects() where they do not hold the same components.
SlabShape slab_shape(const VectorSlab& left, const VectorSlab& right,
                     const InnerProductShape& shape);

/// sum_k left_i[k] right_j[k] of everything that was added.
///
/// Values     of the weights as decoded to float32 (less means). Float32 sums of a few thousand
///            products at most, float64 across them; blocks of very large or small weights are
///            scaled by powers of two first. |error| <= 2048 eps32 sum_k |left_i[k] right_j[k]|,
///            typically eps32 |left_i| |right_j|. The sums of squares of a symmetric one are
///            float64 all the way.
/// Bits       the same in every run, for any number of threads and wherever slabs are cut at
///            multiples of inner_product_rows(). Back ends agree to rounding, not to bits. Where
///            vector i stands among the others may change the rounding of its products.
/// Threads    one object, one thread at a time; several objects of a back end at once.
/// Errors     expects() on shapes that do not fit and encodings that cannot be decoded; out of
///            memory: OutOfMemory; DeviceError. A weight that is not finite makes NaN or infinity
///            of its vector's products, and of no other's.
class InnerProducts {
 public:
  virtual ~InnerProducts() = default;
  /// Both slabs hold the same number of components. Bytes may go when it returns.
  virtual void add(const VectorSlab& left, const VectorSlab& right) = 0;
  /// Symmetric ones.
  virtual void add(const VectorSlab& both) = 0;
  /// The sums so far, [left, right] row-major, a symmetric one whole.
  virtual void read(std::span<double> out) = 0;
};

/// Sums that are only computed below: slabs have been checked, symmetric sums are half of them.
class CheckedInnerProducts : public InnerProducts {
 public:
  /// Errors: expects() on a shape without vectors.
  explicit CheckedInnerProducts(const InnerProductShape& shape);

  void add(const VectorSlab& left, const VectorSlab& right) final;
  void add(const VectorSlab& both) final;
  void read(std::span<double> out) final;

 protected:
  const InnerProductShape& shape() const { return shape_; }
  std::int64_t sum_count() const { return shape_.left * shape_.columns(); }

 private:
  /// `right` is `left` where the sum is symmetric.
  virtual void add_slabs(const VectorSlab& left, const VectorSlab& right,
                         const SlabShape& slab) = 0;
  /// Puts sum_count() sums to `out`; of a symmetric one those on and below the diagonal count.
  virtual void read_sums(std::span<double> out) = 0;

  InnerProductShape shape_;
};

}  // namespace vindex
