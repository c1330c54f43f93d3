// Owns the wrapper over the HDF5 C API: handles that close themselves, every return code checked,
// errors in our words. Reading trusts nothing: hard links only, stored layouts and filters of our
// own, exact types and shapes. libhdf5 knows no threads: every function here takes one lock, so
// that several objects may be used by several threads; one object belongs to one thread at a time.
#pragma once

#include "storage.hpp"
#include "value_digest.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::results::h5 {

using Shape = std::vector<std::uint64_t>;

/// kFloat16 is IEEE binary16, kBFloat16 the upper half of binary32: they are moved as bytes alone.
enum class Type : std::uint8_t {
  kInt8,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kString
};
std::string_view type_name(Type type);
/// Of an element of `type`, which is no string.
std::uint64_t type_bytes(Type type);

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

/// `f` of a zero of the number type `type`, which is neither a string nor of 16 bits.
template <typename F>
decltype(auto) visit_number(Type type, F&& f) {
  switch (type) {
    case Type::kInt8:
      return f(std::int8_t{});
    case Type::kInt32:
      return f(std::int32_t{});
    case Type::kInt64:
      return f(std::int64_t{});
    case Type::kFloat32:
      return f(float{});
    default:
      return f(double{});
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

/// Which objects of a file that is written get digests: all of them, or lists of text alone, where
/// another digest is of the whole file.
enum class Digests : std::uint8_t { kAll, kTextAlone };

/// An open file over a Storage that outlives it.
class File {
 public:
  /// A new file; low bound 1.8, high bound 1.10. `label` is for messages.
  static File create(Storage& storage, std::string label, Digests digests = Digests::kAll);
  /// Read-only. Errors: FormatError E-RESULTS-HDF5.
  static File open(Storage& storage, std::string label);
  /// Flushes and closes; then a failed write of the storage is thrown. The destructor only closes.
  void close();

  /// Throws the first failure that the storage has hidden from the library.
  void check_storage() const { storage_->rethrow_failure(); }

  void make_group(const std::string& path);
  Dataset make_dataset(const std::string& path, Type type, const Shape& shape,
                       const Layout& layout);
  /// Text lies in heaps that no filter sees and no checksum covers, so a digest of it stands beside
  /// it (text_digest.hpp): attribute `sha256`, which read_strings() compares.
  Dataset write_strings(const std::string& path, std::span<const std::string> values);
  void write_text(const std::string& path, const std::string& text);  ///< scalar
  void set_attribute(const std::string& path, const std::string& name, const std::string& value);
  void set_attribute(const std::string& path, const std::string& name, std::int64_t value);
  void set_attribute(const std::string& path, const std::string& name, double value);
  void set_attribute(const std::string& path, const std::string& name,
                     std::span<const std::int8_t> values);
  /// The same for the text attributes of every object (of the root alone where only text has
  /// digests), but for the root's `history`, to which CF lets every program append: attribute
  /// `attributes_sha256`, the digest and behind it the names it is of, `DIMENSION_LIST` for the
  /// paths of the scales. A program that adds others leaves it true. Written by close(), as is the
  /// digest of every dataset's numbers (value_digest.hpp).
  /// Attaches one scale (its path) to each dimension; once for a dataset. The scales' own lists of
  /// users are written by close(): the library's H5DSattach_scale would write a list anew for every
  /// user.
  void attach_scales(const Dataset& dataset, std::span<const std::string> scales);

  /// True where `path` is reached by hard links alone. Errors: FormatError on a link of another
  /// kind.
  bool exists(const std::string& path) const;
  std::vector<std::string> list(const std::string& group) const;  ///< names, in order of name
  bool is_group(const std::string& path) const;
  Dataset open_dataset(const std::string& path) const;
  /// Errors: FormatError; E-RESULTS-DATA where the text is another than its digest is of. Without
  /// one (written before there were digests, or by others) it is what it is.
  std::vector<std::string> read_strings(const std::string& path) const;
  std::string read_text(const std::string& path) const;
  bool has_attribute(const std::string& path, const std::string& name) const;
  bool has_attribute(const Dataset& dataset, const std::string& name) const;
  std::string text_attribute(const std::string& path, const std::string& name) const;
  std::string text_attribute(const Dataset& dataset, const std::string& name) const;
  std::int64_t integer_attribute(const std::string& path, const std::string& name) const;
  /// Errors: FormatError E-RESULTS-DATA where `attributes_sha256` is of other text.
  void check_attributes(const std::string& path) const;
  bool is_scale(const Dataset& dataset) const;
  /// True where dimension `dimension` of the dataset has `scale` attached.
  bool has_scale(const Dataset& dataset, std::size_t dimension, const std::string& scale) const;
  const std::string& label() const { return label_; }
  std::uint64_t size() const { return storage_->size(); }  ///< in bytes

 private:
  /// A use of a scale: an element of its attribute REFERENCE_LIST (HDF5 dimension scale
  /// specification, 1.0).
  struct ScaleUse {
    std::uint64_t dataset;  ///< object reference
    std::int32_t dimension;
  };
  bool is_hard_link(const std::string& path) const;
  /// Of the object at `path`, which is checked to lead there by hard links. `where`: for errors.
  Handle open_attribute(const std::string& path, const std::string& name,
                        const std::string& where) const;
  void note_links(const std::string& group) const;
  Dataset open_anew(const std::string& path, bool& is_small) const;
  /// For each dimension, object references of the scales attached; none at all where it has no
  /// list of them as the library writes it.
  std::vector<std::vector<std::uint64_t>> scale_references(const Dataset& dataset) const;
  std::uint64_t reference_of(const std::string& path) const;
  std::int64_t scale_list() const;
  /// Addresses of eight bytes from the file's begin, as this program writes them.
  bool has_plain_addresses() const;
  /// Where the references of a list of strings lie in the file, as this program writes them: in one
  /// piece. Nothing for lists of another layout (written by other programs) and for those that were
  /// never written.
  std::optional<std::uint64_t> heap_references(const Dataset& dataset) const;
  std::vector<std::string> read_unchecked(const std::string& path, const Dataset& dataset) const;
  std::int64_t creation_list(const Layout& layout, Type type, const std::string& path);
  void write_scale_uses();
  std::shared_ptr<WrittenObject> written_object(const std::string& path);
  void write_digests();
  std::string scales_of(const std::string& path) const;

  Handle handle_;
  Storage* storage_ = nullptr;
  std::string label_;
  /// Of the groups that were walked through so far: links that are hard, and others.
  mutable std::set<std::string, std::less<>> noted_groups_, hard_links_, other_links_;
  Handle links_;     ///< link creation properties
  Handle transfer_;  ///< transfer properties of strings
  Handle creation_;  ///< dataset creation properties of created_
  Layout created_;
  Type created_type_ = Type::kInt8;
  std::map<std::string, std::vector<ScaleUse>> scale_uses_;  ///< by path of the scale
  Digests digests_ = Digests::kAll;
  std::map<std::string, std::shared_ptr<WrittenObject>> written_;  ///< by path
  /// Small datasets that were opened stay open: checks and readers come back to them.
  mutable std::map<std::string, Dataset, std::less<>> kept_;
  mutable std::map<std::string, std::uint64_t, std::less<>> references_;  ///< of scales, by path
  mutable std::optional<bool> has_plain_addresses_;
  mutable Handle scale_list_;  ///< the type of an element of DIMENSION_LIST
};

}  // namespace vindex::results::h5
