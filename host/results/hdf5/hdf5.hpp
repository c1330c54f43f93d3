// Owns a file behind the HDF5 C API: every return code checked, errors in our words. Reading trusts
// nothing: hard links only, stored layouts and filters of our own, exact types and shapes. libhdf5
// knows no threads: every function here takes one lock, so that several objects may be used by
// several threads; one object belongs to one thread at a time.
#pragma once

#include "dataset.hpp"
#include "handle.hpp"
#include "storage.hpp"
#include "types.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results::h5 {

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
