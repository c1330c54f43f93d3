// Owns the writing half of the wrapper, digests included; hdf5_read.cpp has the reading half,
// hdf5_attributes.cpp attributes, hdf5_text.cpp text.
#include "hdf5.hpp"

#include "library.hpp"
#include "storage_driver.hpp"
#include "text_digest.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <sstream>
#include <utility>

namespace vindex::results::h5 {

namespace {

Handle access_list(Storage& storage) {
  quiet();
  Handle access(written(H5Pcreate(H5P_FILE_ACCESS), "an access list"));
  Storage* info = &storage;
  written(H5Pset_driver(access.id(), storage_driver(), &info), "an access list");
  written(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V110), "an access list");
  written(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "an access list");
  return access;
}

Handle link_utf8() {
  Handle list(written(H5Pcreate(H5P_LINK_CREATE), "a property list"));
  written(H5Pset_char_encoding(list.id(), H5T_CSET_UTF8), "a property list");
  return list;
}

/// The library clears both of its conversion buffers for every list of strings, 1 MiB each unless
/// set otherwise.
Handle string_transfer() {
  constexpr std::size_t kBufferBytes = 32U << 10U;
  Handle list(written(H5Pcreate(H5P_DATASET_XFER), "a property list"));
  written(H5Pset_buffer(list.id(), kBufferBytes, nullptr, nullptr), "a property list");
  return list;
}

}  // namespace

File File::create(Storage& storage, std::string label, Digests digests) {
  const LibraryLock lock;
  forget_failed_transfer();
  File file;
  file.storage_ = &storage;
  file.label_ = std::move(label);
  file.digests_ = digests;
  require_room_for_a_file();
  const Handle access = access_list(storage);
  file.handle_ =
      Handle(written(H5Fcreate("vindex", H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), file.label_));
  file.links_ = link_utf8();
  file.transfer_ = string_transfer();
  return file;
}

void File::close() {
  const LibraryLock lock;
  write_digests();
  write_scale_uses();
  const std::int64_t id = handle_.id();
  const bool flushed = H5Fflush(id, H5F_SCOPE_LOCAL) >= 0;
  handle_ = Handle();
  storage_->rethrow_failure();
  written(flushed ? 0 : -1, label_);
}

void File::make_group(const std::string& path) {
  const LibraryLock lock;
  const Handle group(
      written(H5Gcreate2(handle_.id(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path));
}

namespace {

/// Reading a chunk that the index of chunks does not have gives the fill value: one that is no
/// value, for readers that do not look for it. Every chunk is written whole, so nothing is filled.
void set_no_value(const Handle& create, Type type, const std::string& path) {
  visit_number(type, [&](auto zero) {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    const T none = Limits::has_quiet_NaN ? Limits::quiet_NaN() : Limits::min();
    written(H5Pset_fill_value(create.id(), memory_type(type), &none), path);
  });
  written(H5Pset_fill_time(create.id(), H5D_FILL_TIME_IFSET), path);
}

}  // namespace

/// Properties of datasets of `layout`; neighbours of a table share them.
std::int64_t File::creation_list(const Layout& layout, Type type, const std::string& path) {
  if (creation_.id() >= 0 && created_ == layout && created_type_ == type) {
    return creation_.id();
  }
  Handle create(written(H5Pcreate(H5P_DATASET_CREATE), path));
  // Times would make two equal runs differ.
  written(H5Pset_obj_track_times(create.id(), false), path);
  if (!layout.chunk.empty()) {
    const std::vector<hsize_t> chunk(layout.chunk.begin(), layout.chunk.end());
    written(H5Pset_chunk(create.id(), static_cast<int>(chunk.size()), chunk.data()), path);
    if (layout.deflate > 0) {
      written(H5Pset_shuffle(create.id()), path);
      written(H5Pset_deflate(create.id(), static_cast<unsigned>(layout.deflate)), path);
    }
    if (layout.checksum) {
      written(H5Pset_fletcher32(create.id()), path);
    }
    set_no_value(create, type, path);
  }
  creation_ = std::move(create);
  created_ = layout;
  created_type_ = type;
  return creation_.id();
}

Dataset File::make_dataset(const std::string& path, Type type, const Shape& shape,
                           const Layout& layout) {
  const LibraryLock lock;
  const Handle space = shape.empty() ? scalar_space() : space_of(shape);
  Dataset dataset;
  dataset.handle_ =
      Handle(written(H5Dcreate2(handle_.id(), path.c_str(), file_type(type), space.id(),
                                links_.id(), creation_list(layout, type, path), H5P_DEFAULT),
                     path));
  dataset.where_ = label_ + " " + path;
  dataset.shape_ = shape;
  dataset.type_ = type;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    dataset.row_elements_ *= shape[i];
  }
  if (digests_ == Digests::kAll) {
    dataset.written_ = written_object(path);
    const std::uint64_t rows = shape.empty() ? 0 : shape[0];
    if (layout.digest && type != Type::kString && rows * dataset.row_elements_ > 0) {
      const std::uint64_t row_bytes = dataset.row_elements_ * type_bytes(type);
      dataset.written_->values.emplace(
          digest_rows(layout.chunk.empty() ? 1 : layout.chunk[0], row_bytes), row_bytes);
      dataset.written_->value_bytes = rows * row_bytes;
    }
  }
  return dataset;
}

namespace {

/// Stands among the names of attributes for the paths of the scales.
constexpr const char* kScales = "DIMENSION_LIST";
/// To which CF lets every program append.
constexpr const char* kHistory = "history";

}  // namespace

std::shared_ptr<WrittenObject> File::written_object(const std::string& path) {
  std::shared_ptr<WrittenObject>& object = written_[path];
  if (!object) {
    object = std::make_shared<WrittenObject>();
  }
  return object;
}

void File::write_digests() {
  for (const auto& [path, object] : written_) {
    const bool has_values = object->values.has_value();
    expects(!has_values || object->values->bytes() == object->value_bytes,
            "every row of a dataset written");
    TextDigest digest;
    std::string names;
    const auto add = [&](const std::string& name, const std::string& text) {
      digest.add(name);
      digest.add(text);
      names += " " + name;
    };
    for (const auto& [name, text] : object->texts) {
      if (name != kTextDigest && (path != "/" || name != kHistory)) {
        add(name, text);
      }
    }
    if (!object->scales.empty()) {
      add(kScales, object->scales);
    }
    const Handle at = object_at(handle_.id(), path);
    if (has_values) {
      write_text_attribute(at.id(), path, kTextDigest, object->values->finish());
    }
    if (!names.empty()) {
      write_text_attribute(at.id(), path, kAttributesDigest, digest.finish() + names);
    }
  }
  written_.clear();
}

/// The paths of the scales of the dataset at `path`, one for each dimension.
std::string File::scales_of(const std::string& path) const {
  const Dataset dataset = open_dataset(path);
  std::string names;
  for (const std::vector<std::uint64_t>& references : scale_references(dataset)) {
    for (const std::uint64_t& reference : references) {
      const auto length =
          was_read(H5Rget_name(handle_.id(), H5R_OBJECT, &reference, nullptr, 0), label_, path);
      std::string name(static_cast<std::size_t>(length), '\0');
      was_read(H5Rget_name(handle_.id(), H5R_OBJECT, &reference, name.data(), name.size() + 1),
               label_, path);
      names += (names.empty() ? "" : " ") + name;
    }
  }
  return names;
}

void File::check_attributes(const std::string& path) const {
  const LibraryLock lock;
  if (!has_attribute(path, kAttributesDigest)) {
    return;
  }
  std::istringstream words(text_attribute(path, kAttributesDigest));
  std::string wanted, name;
  words >> wanted;
  TextDigest digest;
  while (words >> name) {
    digest.add(name);
    digest.add(name == kScales             ? scales_of(path)
               : has_attribute(path, name) ? text_attribute(path, name)
                                           : std::string());
  }
  if (digest.finish() != wanted) {
    throw FormatError("E-RESULTS-DATA", printable(label_ + " attributes of " + path),
                      kOtherThanDigest);
  }
}

}  // namespace vindex::results::h5
