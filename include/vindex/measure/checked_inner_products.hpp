// Owns what sums of inner products ask of their callers, whichever back end computes them.
#pragma once

#include <vindex/measure/inner_products.hpp>

#include <cstdint>
#include <span>

namespace vindex::measure {

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

}  // namespace vindex::measure
