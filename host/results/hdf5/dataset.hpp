// Owns an open dataset: its rows read and written, and how its digest is kept and compared.
#pragma once

#include "handle.hpp"
#include "types.hpp"
#include "value_digest.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace vindex::results::h5 {

/// How a dataset is stored. Empty `chunk`: contiguous, no filters (zero-size datasets).
struct Layout {
  Shape chunk = {};
  int deflate = 0;       ///< 0: only the checksum
  bool checksum = true;  ///< fletcher32 (chunked only)
  bool digest = true;    ///< of its values; not where the caller keeps digests of its own
  bool operator==(const Layout&) const = default;
};

/// What a file that is written keeps of an object, for the digests that close() puts beside it.
struct WrittenObject {
  std::map<std::string, std::string> texts;  ///< its text attributes
  std::string scales;                        ///< paths of those of its dimensions
  std::optional<ValueDigest> values;
  std::uint64_t value_bytes = 0;  ///< of all its values
};

/// What is known of the values of a dataset that is read; all that have it open share it.
struct ReadValues {
  bool is_known = false;  ///< it was looked at
  std::optional<ValueCheck> check;
};

/// An open dataset. `where` of every error is "FILE PATH".
class Dataset {
 public:
  const Shape& shape() const { return shape_; }
  /// Errors: FormatError where it has no dimension `dimension`.
  std::uint64_t side(std::size_t dimension) const;
  Type type() const { return type_; }
  std::uint64_t stored_bytes() const;
  /// Rows [first, first + count) along the first dimension; `T` must be the stored type. Reading:
  /// FormatError where the dataset is of another type, has not these rows of so many numbers, or
  /// they are others than were written (a digest or a checksum is wrong, a chunk is missing).
  /// Writing: each row once, in order.
  template <typename T>
  void read(std::uint64_t first, std::uint64_t count, std::span<T> out) const {
    transfer(false, type_of<T>(), first, count, out.data(), out.size());
  }
  template <typename T>
  void write(std::uint64_t first, std::uint64_t count, std::span<const T> values) {
    transfer(true, type_of<T>(), first, count, const_cast<T*>(values.data()), values.size());
  }
  /// The same of elements as the bytes of their stored type, which is no string.
  void read_bytes(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;
  void write_bytes(std::uint64_t first, std::uint64_t count, std::span<const std::byte> bytes);
  /// Where the first element lies in the file, where all of them lie there one after the other,
  /// little-endian and unfiltered; nothing of other layouts, and before anything is written.
  std::optional<std::uint64_t> place() const;
  /// A whole chunk whose first row is `first`, as pack_chunk() made it; only for datasets with
  /// deflate and checksum. Its values are those of note_values().
  void write_packed(std::uint64_t first, std::span<const std::byte> packed);
  /// The values of the next rows, for the digest.
  void note_values(std::span<const std::byte> values);
  void set_attribute(const std::string& name, const std::string& value);
  /// Attribute `_FillValue`; the type is kInt8 or kInt32.
  void set_fill_value(std::int32_t value);
  /// Makes it a dimension scale.
  void make_scale(const std::string& name);
  std::int64_t id() const { return handle_.id(); }
  const std::string& where() const { return where_; }

 private:
  friend class File;
  void transfer(bool write, Type type, std::uint64_t first, std::uint64_t count, void* data,
                std::size_t elements) const;
  /// Rows as they are stored, into `data`; `count` is not 0.
  void read_rows(std::uint64_t first, std::uint64_t count, void* data) const;
  void read_checked(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;
  void look_for_digest() const;
  void require_chunks(bool filters) const;
  std::size_t elements_of(std::size_t bytes) const;
  Dataset again() const;
  Handle handle_;
  std::string where_;
  Shape shape_;
  Type type_ = Type::kFloat64;
  std::uint64_t row_elements_ = 1;
  bool contiguous_ = false;  ///< of one that was opened
  std::shared_ptr<WrittenObject> written_;
  std::shared_ptr<ReadValues> values_ = std::make_shared<ReadValues>();
};

}  // namespace vindex::results::h5
