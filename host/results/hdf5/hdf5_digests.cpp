// Owns the digests in HDF5 files: those that stand beside what was written, and the comparison with
// them of what is read. Of files without digests (older programs, other ones) the index of chunks
// is looked at, since the library gives fill values for a chunk that is missing there.
#include "hdf5.hpp"
#include "hdf5_common.hpp"
#include "text_digest.hpp"

#include "core/integers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace vindex::results::h5 {

namespace {

/// Stands among the names of attributes for the paths of the scales.
constexpr const char* kScales = "DIMENSION_LIST";
/// To which CF lets every program append.
constexpr const char* kHistory = "history";

/// Chunks that are searched for one by one: the library walks through all of them for each.
constexpr std::uint64_t kMostSearched = 64;

struct FoundChunk {
  hsize_t bytes = 0;             ///< 0: it is not there
  unsigned skipped_filters = 0;  ///< a bit for each
};

FoundChunk find_chunk(hid_t dataset, const std::vector<hsize_t>& first, bool is_searched) {
  FoundChunk chunk;
  haddr_t address = 0;
  const herr_t result =
      is_searched ? H5Dget_chunk_info_by_coord(dataset, first.data(), &chunk.skipped_filters,
                                               &address, &chunk.bytes)
                  : H5Dget_chunk_storage_size(dataset, first.data(), &chunk.bytes);
  if (result < 0 || address == HADDR_UNDEF) {
    chunk.bytes = 0;
  }
  return chunk;
}

/// The filters that no writer leaves out of a chunk; deflate may be, where it saves nothing.
unsigned required_filters(hid_t create) {
  unsigned required = 0;
  const int count = H5Pget_nfilters(create);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(create, static_cast<unsigned>(i), &flags, &values,
                                               nullptr, 0, nullptr, &config);
    required |= filter == H5Z_FILTER_DEFLATE ? 0U : 1U << static_cast<unsigned>(i);
  }
  return required;
}

/// The next corner of a chunk in row-major order; false behind the last one.
bool advance(std::vector<hsize_t>& first, const std::vector<hsize_t>& chunk, const Shape& shape) {
  for (std::size_t i = first.size(); i-- > 0;) {
    first[i] += chunk[i];
    if (first[i] < shape[i]) {
      return true;
    }
    first[i] = 0;
  }
  return false;
}

}  // namespace

/// Errors: FormatError E-RESULTS-DATA where the file has not every chunk of the dataset, of a size
/// that filters may make of it; with `filters`, where one was written without them.
void Dataset::require_chunks(bool filters) const {
  const Handle create(was_read(H5Dget_create_plist(id()), where_, ""));
  if (H5Pget_layout(create.id()) != H5D_CHUNKED ||
      std::find(shape_.begin(), shape_.end(), 0U) != shape_.end()) {
    return;
  }
  std::vector<hsize_t> chunk(shape_.size());
  was_read(H5Pget_chunk(create.id(), static_cast<int>(chunk.size()), chunk.data()), where_, "");
  std::uint64_t count = 1;
  std::uint64_t most = type_bytes(type_);
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    count *= ceil_divide(shape_[i], std::uint64_t{chunk[i]});
    most *= chunk[i];
  }
  most += most / 8 + (64U << 10U);  // what deflate finds nothing in grows by less
  const unsigned required = required_filters(create.id());
  std::vector<hsize_t> first(shape_.size(), 0);
  do {
    const FoundChunk found = find_chunk(id(), first, filters && count <= kMostSearched);
    rethrow_failed_transfer();
    if (found.bytes == 0 || found.bytes > most || (found.skipped_filters & required) != 0) {
      throw FormatError("E-RESULTS-DATA", printable(where_),
                        fmt::format("the chunk of row {} is missing: the file is damaged",
                                    std::uint64_t{first[0]}));
    }
  } while (advance(first, chunk, shape_));
}

void Dataset::look_for_digest() const {
  if (values_->is_known) {
    return;
  }
  if (was_read(H5Aexists(id(), kTextDigest), where_, kTextDigest) > 0) {
    const Handle attribute(was_read(H5Aopen(id(), kTextDigest, H5P_DEFAULT), where_, kTextDigest));
    values_->check =
        ValueCheck::of(read_text_attribute(attribute.id(), where_, kTextDigest), shape_.at(0));
    if (!values_->check) {
      throw FormatError("E-RESULTS-DATA", printable(where_), kOtherThanDigest);
    }
  }
  require_chunks(!values_->check);
  values_->is_known = true;
}

/// `out`: `count` rows, not none. A block is read whole and compared when its first row is asked
/// for.
void Dataset::read_checked(std::uint64_t first, std::uint64_t count,
                           std::span<std::byte> out) const {
  look_for_digest();
  if (!values_->check) {
    read_rows(first, count, out.data());
    return;
  }
  ValueCheck& check = *values_->check;
  const std::uint64_t row_bytes = out.size() / count;
  const std::uint64_t step = check.block_rows();
  std::vector<std::byte> whole;
  for (std::uint64_t block = first / step; block <= (first + count - 1) / step; ++block) {
    const std::uint64_t begin = block * step;
    const std::uint64_t rows = std::min(step, shape_[0] - begin);
    const std::uint64_t from = std::max(begin, first);
    const std::uint64_t to = std::min(begin + rows, first + count);
    const std::span<std::byte> part =
        out.subspan((from - first) * row_bytes, (to - from) * row_bytes);
    if (check.is_checked(block)) {
      read_rows(from, to - from, part.data());
      continue;
    }
    const bool is_whole = to - from == rows;
    if (!is_whole) {
      whole.resize(rows * row_bytes);
    }
    const std::span<std::byte> bytes = is_whole ? part : std::span(whole);
    read_rows(begin, rows, bytes.data());
    if (!check.check(block, bytes)) {
      throw FormatError("E-RESULTS-DATA", printable(where_), kOtherThanDigest);
    }
    if (!is_whole) {
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>((from - begin) * row_bytes),
                  part.size(), part.begin());
    }
  }
}

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
