// Owns the reading half of the HDF5 wrapper: what is refused before libhdf5 sees it, datasets.
#include "hdf5.hpp"
#include "library.hpp"
#include "storage_driver.hpp"

#include "core/integers.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace vindex::results::h5 {

File File::open(Storage& storage, std::string label) {
  const LibraryLock lock;
  quiet();
  forget_failed_transfer();
  File file;
  file.storage_ = &storage;
  file.label_ = std::move(label);
  require_room_for_a_file();
  Handle access(written(H5Pcreate(H5P_FILE_ACCESS), "an access list"));
  Storage* info = &storage;
  written(H5Pset_driver(access.id(), storage_driver(), &info), "an access list");
  written(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "an access list");
  // One chunk of ours is about half a MiB; neighbours are read in order.
  written(H5Pset_cache(access.id(), 0, 521, 1U << 20U, 1.0), "an access list");
  const hid_t id = H5Fopen("vindex", H5F_ACC_RDONLY, access.id());
  storage.rethrow_failure();
  if (id < 0) {
    rethrow_cause();
    throw FormatError("E-RESULTS-HDF5", printable(file.label_),
                      "no HDF5 file, or a damaged or truncated one");
  }
  file.handle_ = Handle(id);
  return file;
}

/// Notes the links of `group`, which hard links lead to: one walk through it is cheaper than a look
/// at every name from the root.
void File::note_links(const std::string& group) const {
  if (!noted_groups_.insert(group).second) {
    return;
  }
  struct Walk {
    const File& file;
    std::string prefix;
  } walk{*this, group == "/" ? group : group + "/"};
  const auto note = [](hid_t /*group*/, const char* name, const H5L_info_t* info,
                       void* data) -> herr_t {
    const Walk& to = *static_cast<const Walk*>(data);
    auto& links = info->type == H5L_TYPE_HARD ? to.file.hard_links_ : to.file.other_links_;
    links.insert(to.prefix + name);
    return 0;
  };
  const Handle object(was_read(H5Oopen(handle_.id(), group.c_str(), H5P_DEFAULT), label_, group));
  if (H5Iget_type(object.id()) == H5I_GROUP) {
    was_read(H5Literate(object.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note, &walk), label_,
             group);
  }
}

bool File::is_hard_link(const std::string& path) const {
  if (!hard_links_.contains(path)) {
    const std::size_t slash = path.rfind('/');
    note_links(slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash));
  }
  if (other_links_.contains(path)) {
    throw FormatError("E-RESULTS-LINK", printable(label_ + " " + path),
                      "a soft or external link; those are not followed");
  }
  return hard_links_.contains(path);
}

bool File::exists(const std::string& path) const {
  const LibraryLock lock;
  if (hard_links_.contains(path)) {
    return true;
  }
  std::size_t end = 0;
  while (end != std::string::npos) {
    end = path.find('/', end + 1);
    const std::string prefix = path.substr(0, end);
    if (!prefix.empty() && prefix != "/" && !is_hard_link(prefix)) {
      return false;
    }
  }
  return true;
}

std::vector<std::string> File::list(const std::string& group) const {
  const LibraryLock lock;
  std::vector<std::string> names;
  if (!exists(group)) {
    return names;
  }
  const auto collect = [](hid_t /*group*/, const char* name, const H5L_info_t* /*info*/,
                          void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  const Handle object(was_read(H5Gopen2(handle_.id(), group.c_str(), H5P_DEFAULT), label_, group));
  // Not by H5_ITER_INC: of a damaged list of links the library releases what it has not read.
  was_read(H5Literate(object.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &names), label_,
           group);
  std::sort(names.begin(), names.end());
  return names;
}

bool File::is_group(const std::string& path) const {
  const LibraryLock lock;
  if (!exists(path)) {
    return false;
  }
  const Handle object(was_read(H5Oopen(handle_.id(), path.c_str(), H5P_DEFAULT), label_, path));
  return H5Iget_type(object.id()) == H5I_GROUP;
}

namespace {

/// The type of ours that `id` is, in the file's byte order or another one.
bool classify(hid_t id, Type& type) {
  const std::size_t size = H5Tget_size(id);
  switch (H5Tget_class(id)) {
    case H5T_INTEGER:
      if (H5Tget_sign(id) != H5T_SGN_2) {
        return false;
      }
      type = size == 1 ? Type::kInt8 : (size == 4 ? Type::kInt32 : Type::kInt64);
      return size == 1 || size == 4 || size == 8;
    case H5T_FLOAT:
      if (size == 2) {
        type = H5Tequal(id, file_type(Type::kFloat16)) > 0 ? Type::kFloat16 : Type::kBFloat16;
        return H5Tequal(id, file_type(type)) > 0;
      }
      type = size == 4 ? Type::kFloat32 : Type::kFloat64;
      return size == 4 || size == 8;
    case H5T_STRING:
      type = Type::kString;
      return H5Tis_variable_str(id) > 0;
    default:
      return false;
  }
}

bool stored_plainly(hid_t create) {
  const H5D_layout_t layout = H5Pget_layout(create);
  if (layout != H5D_CHUNKED && layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) {
    return false;
  }
  if (H5Pget_external_count(create) != 0) {
    return false;
  }
  const int filters = H5Pget_nfilters(create);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    unsigned config = 0;
    const H5Z_filter_t filter = H5Pget_filter2(create, static_cast<unsigned>(i), &flags, &values,
                                               nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_DEFLATE &&
        filter != H5Z_FILTER_FLETCHER32) {
      return false;
    }
  }
  return filters >= 0;
}

/// Chunks are inflated whole, so a file's claim about their size is a claim on memory.
constexpr std::uint64_t kMaxChunkElements = 1ULL << 27U;

/// Elements of a chunk, 0 where there are none; nothing where that is no number to believe.
std::optional<std::uint64_t> chunk_elements(hid_t create, const Shape& shape) {
  if (H5Pget_layout(create) != H5D_CHUNKED) {
    return 0;
  }
  std::vector<hsize_t> chunk(shape.size());
  if (H5Pget_chunk(create, static_cast<int>(chunk.size()), chunk.data()) !=
      static_cast<int>(chunk.size())) {
    return std::nullopt;
  }
  std::uint64_t elements = 1;
  for (const hsize_t side : chunk) {
    const auto product = checked_multiply(elements, side);
    if (!product || *product > kMaxChunkElements) {
      return std::nullopt;
    }
    elements = *product;
  }
  return elements;
}

/// Bytes that a dataset takes in its file. The library says 0 for an error too, as of a read that
/// fails.
/// Whether `elements` (and a chunk, if there are some) may come out of what is stored: deflate
/// makes at most 1032 bytes of one (zlib's technical details). Chunks that were never written take
/// no room, so a file of some kilobytes can claim any number of them.
bool can_hold(hid_t dataset, std::uint64_t elements, std::uint64_t chunk, std::size_t element_bytes,
              std::uint64_t file_bytes) {
  constexpr std::uint64_t kDeflate = 1032, kSlack = 1U << 16U;
  const auto claimed =
      checked_multiply(elements > 0 ? std::max(elements, chunk) : 0, element_bytes);
  const std::uint64_t stored = std::min(storage_size(dataset), file_bytes);
  const auto most = checked_multiply(stored, kDeflate);
  return claimed && (!most || *claimed <= *most + kSlack);
}

}  // namespace

Dataset File::open_dataset(const std::string& path) const {
  constexpr std::size_t kMaxKept = 256;
  const LibraryLock lock;
  if (const auto found = kept_.find(path); found != kept_.end()) {
    return found->second.again();
  }
  bool is_small = false;
  Dataset dataset = open_anew(path, is_small);
  if (is_small && kept_.size() < kMaxKept) {
    kept_.emplace(path, dataset.again());
  }
  return dataset;
}

/// `is_small`: what the library holds of it while it is open is some kilobytes.
Dataset File::open_anew(const std::string& path, bool& is_small) const {
  constexpr std::uint64_t kMostElements = 4096;
  if (!exists(path)) {
    throw FormatError("E-RESULTS-SCHEMA", printable(label_), printable(path) + " is missing");
  }
  Dataset dataset;
  dataset.where_ = label_ + " " + path;
  dataset.handle_ = Handle(H5Dopen2(handle_.id(), path.c_str(), H5P_DEFAULT));
  was_read(dataset.id(), label_, path);
  const Handle space(was_read(H5Dget_space(dataset.id()), label_, path));
  const Handle create(was_read(H5Dget_create_plist(dataset.id()), label_, path));
  const Handle type(was_read(H5Dget_type(dataset.id()), label_, path));
  if (!stored_plainly(create.id())) {
    throw FormatError("E-RESULTS-LAYOUT", printable(dataset.where_),
                      "a virtual or external dataset, or a filter other than shuffle, deflate, "
                      "fletcher32");
  }
  dataset.contiguous_ = H5Pget_layout(create.id()) == H5D_CONTIGUOUS;
  if (!classify(type.id(), dataset.type_)) {
    throw FormatError("E-RESULTS-SCHEMA", printable(dataset.where_), "unexpected data type");
  }
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 0 || rank > 4) {
    throw FormatError("E-RESULTS-SCHEMA", printable(dataset.where_), "unexpected rank");
  }
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  if (rank > 0) {
    was_read(H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr), label_, path);
  }
  dataset.shape_.assign(sizes.begin(), sizes.end());
  const auto elements = checked_product(dataset.shape_);
  const auto chunk = chunk_elements(create.id(), dataset.shape_);
  if (!elements || *elements > (1ULL << 48U) || !chunk ||
      !can_hold(dataset.id(), *elements, *chunk, H5Tget_size(type.id()), storage_->size())) {
    throw FormatError("E-RESULTS-SCHEMA", printable(dataset.where_), "impossible size");
  }
  is_small = std::max(*elements, *chunk) <= kMostElements;
  for (std::size_t i = 1; i < dataset.shape_.size(); ++i) {
    dataset.row_elements_ *= dataset.shape_[i];
  }
  return dataset;
}

}  // namespace vindex::results::h5
