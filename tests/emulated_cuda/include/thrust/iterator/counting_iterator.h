// thrust::counting_iterator: the index as a value.
#pragma once

namespace thrust {  // NOLINT

template <typename T>
class counting_iterator {  // NOLINT: Thrust's name
 public:
  explicit counting_iterator(T start) : start_(start) {}
  T operator[](T index) const { return start_ + index; }

 private:
  T start_;
};

}  // namespace thrust
