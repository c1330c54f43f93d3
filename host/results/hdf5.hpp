// Owns the wrapper over the HDF5 C API: handles that close themselves, every return code checked,
// errors in our words. Reading trusts nothing: hard links only, stored layouts and filters of our
// own, exact types and shapes. libhdf5 knows no threads: every function here takes one lock, so
// that several objects may be used by several threads; one object belongs to one thread at a time.
#pragma once

#include "storage.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::results::h5 {

using Shape = std::vector<std::uint64_t>;

enum class Type : std::uint8_t { kInt8, kInt32, kInt64, kFloat32, kFloat64, kString };
std::string_view type_name(Type type);

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, std::int8_t>) {
    return Type::kInt8;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return Type::kInt32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return Type::kInt64;
  } else if constexpr (std::is_same_v<T, float>) {
    return Type::kFloat32;
  } else {
    static_assert(std::is_same_v<T, double>);
    return Type::kFloat64;
  }
}

/// Owner of one library identifier of any kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::int64_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();
  std::int64_t id() const { return id_; }

 private:
  std::int64_t id_ = -1;
};

/// How a dataset is stored. Empty `chunk`: contiguous, no filters (zero-size datasets).
struct Layout {
  Shape chunk;
  int deflate = 0;       ///< 0: only the checksum
  bool checksum = true;  ///< fletcher32 (chunked only)
};

/// An open dataset. `where` of every error is "FILE PATH".
class Dataset {
 public:
  const Shape& shape() const { return shape_; }
  Type type() const { return type_; }
  std::uint64_t stored_bytes() const;
  /// Rows [first, first + count) along the first dimension; `T` must be the stored type.
  template <typename T>
  void read(std::uint64_t first, std::uint64_t count, std::span<T> out) const {
    transfer(false, type_of<T>(), first, count, out.data(), out.size());
  }
  template <typename T>
  void write(std::uint64_t first, std::uint64_t count, std::span<const T> values) {
    transfer(true, type_of<T>(), first, count, const_cast<T*>(values.data()), values.size());
  }
  /// A whole chunk whose first row is `first`, as pack_chunk() made it; only for datasets with
  /// deflate and checksum.
  void write_packed(std::uint64_t first, std::span<const std::byte> packed);
  std::int64_t id() const { return handle_.id(); }

 private:
  friend class File;
  void transfer(bool write, Type type, std::uint64_t first, std::uint64_t count, void* data,
                std::size_t elements) const;
  Handle handle_;
  std::string where_;
  Shape shape_;
  Type type_ = Type::kFloat64;
  std::uint64_t row_elements_ = 1;
};

/// An open file over a Storage that outlives it.
class File {
 public:
  /// A new file; low bound 1.8, high bound 1.10. `label` is for messages.
  static File create(Storage& storage, std::string label);
  /// Read-only. Errors: FormatError E-RESULTS-HDF5.
  static File open(Storage& storage, std::string label);
  /// Flushes and closes; then a failed write of the storage is thrown. The destructor only closes.
  void close();

  /// Throws the first failure that the storage has not told the library of.
  void check_storage() const { storage_->rethrow_failure(); }

  void make_group(const std::string& path);
  Dataset make_dataset(const std::string& path, Type type, const Shape& shape,
                       const Layout& layout);
  void write_strings(const std::string& path, std::span<const std::string> values);
  void write_text(const std::string& path, const std::string& text);  ///< scalar
  void set_attribute(const std::string& path, const std::string& name, const std::string& value);
  void set_attribute(const std::string& path, const std::string& name, std::int64_t value);
  void set_attribute(const std::string& path, const std::string& name,
                     std::span<const std::int8_t> values);
  /// Attribute `_FillValue` of a dataset of `type`, kInt8 or kInt32.
  void set_fill_value(const std::string& path, Type type, std::int32_t value);
  void make_scale(const std::string& path, const std::string& name);
  void attach_scale(const std::string& path, unsigned dimension, const std::string& scale);

  /// True where `path` is reached by hard links alone. Errors: FormatError on a link of another
  /// kind.
  bool exists(const std::string& path) const;
  std::vector<std::string> list(const std::string& group) const;  ///< names, in order of name
  Dataset open_dataset(const std::string& path) const;
  std::vector<std::string> read_strings(const std::string& path) const;
  std::string read_text(const std::string& path) const;
  bool has_attribute(const std::string& path, const std::string& name) const;
  std::string text_attribute(const std::string& path, const std::string& name) const;
  std::int64_t integer_attribute(const std::string& path, const std::string& name) const;
  bool is_scale(const std::string& path) const;
  /// True where dimension `dimension` of `path` has `scale` attached.
  bool has_scale(const std::string& path, unsigned dimension, const std::string& scale) const;
  const std::string& label() const { return label_; }

 private:
  Handle handle_;
  Storage* storage_ = nullptr;
  std::string label_;
};

}  // namespace vindex::results::h5
