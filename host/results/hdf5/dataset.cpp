// Owns moving rows, whole chunks and attributes of a dataset, and the comparison with its digest.
// Of datasets without one (older programs, other ones) the index of chunks is looked at, since the
// library gives fill values for a chunk that is missing there.
#include "dataset.hpp"

#include "library.hpp"
#include "storage_driver.hpp"
#include "text_digest.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <hdf5_hl.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace vindex::results::h5 {

namespace {

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

/// The same open dataset: the library counts who uses it.
Dataset Dataset::again() const {
  Dataset same;
  written(H5Iinc_ref(id()), where_);
  same.handle_ = Handle(id());
  same.where_ = where_;
  same.shape_ = shape_;
  same.type_ = type_;
  same.row_elements_ = row_elements_;
  same.contiguous_ = contiguous_;
  same.values_ = values_;
  return same;
}

void Dataset::write_packed(std::uint64_t first, std::span<const std::byte> packed) {
  const LibraryLock lock;
  std::vector<hsize_t> offset(shape_.size(), 0);
  offset.at(0) = first;
  constexpr std::uint32_t kEveryFilterApplied = 0;
  written(H5Dwrite_chunk(handle_.id(), H5P_DEFAULT, kEveryFilterApplied, offset.data(),
                         packed.size(), packed.data()),
          where_);
}

void Dataset::note_values(std::span<const std::byte> values) {
  if (written_ && written_->values) {
    written_->values->add(values);
  }
}

void Dataset::set_attribute(const std::string& name, const std::string& value) {
  const LibraryLock lock;
  write_text_attribute(id(), where_, name, value);
  if (written_) {
    written_->texts[name] = value;
  }
}

void Dataset::set_fill_value(std::int32_t value) {
  const LibraryLock lock;
  expects(type_ == Type::kInt8 || type_ == Type::kInt32, "a fill value of a small integer");
  const auto small = static_cast<std::int8_t>(value);
  const bool is_small = type_ == Type::kInt8;
  write_attribute(id(), where_, "_FillValue", file_type(type_), memory_type(type_), space_of({1}),
                  is_small ? static_cast<const void*>(&small) : &value);
}

void Dataset::make_scale(const std::string& name) {
  const LibraryLock lock;
  written(H5DSset_scale(id(), name.c_str()), where_);
}

std::uint64_t Dataset::side(std::size_t dimension) const {
  if (dimension >= shape_.size()) {
    throw FormatError("E-RESULTS-SCHEMA", printable(where_),
                      std::to_string(shape_.size()) + " dimensions, which are too few");
  }
  return shape_[dimension];
}

void Dataset::read_bytes(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const {
  transfer(false, type_, first, count, out.data(), elements_of(out.size()));
}

void Dataset::write_bytes(std::uint64_t first, std::uint64_t count,
                          std::span<const std::byte> bytes) {
  transfer(true, type_, first, count, const_cast<std::byte*>(bytes.data()),
           elements_of(bytes.size()));
}

/// Of bytes that are no whole number of elements more than any dataset has.
std::size_t Dataset::elements_of(std::size_t bytes) const {
  const std::uint64_t each = type_bytes(type_);
  return bytes % each == 0 ? bytes / each : std::numeric_limits<std::size_t>::max();
}

std::optional<std::uint64_t> Dataset::place() const {
  const LibraryLock lock;
  const Handle create(was_read(H5Dget_create_plist(id()), where_, ""));
  const Handle type(was_read(H5Dget_type(id()), where_, ""));
  if (H5Pget_layout(create.id()) != H5D_CONTIGUOUS || H5Pget_nfilters(create.id()) != 0 ||
      H5Tequal(type.id(), file_type(type_)) <= 0) {
    return std::nullopt;
  }
  const haddr_t place = H5Dget_offset(id());
  return place == HADDR_UNDEF ? std::nullopt : std::optional<std::uint64_t>(place);
}

std::uint64_t Dataset::stored_bytes() const {
  const LibraryLock lock;
  return storage_size(id());
}

namespace {

/// Rows of a dataset in its file and in memory.
struct Selection {
  Handle file, memory;
  Selection(const Dataset& dataset, std::uint64_t first, std::uint64_t count) {
    std::vector<hsize_t> start(dataset.shape().size(), 0);
    std::vector<hsize_t> size(dataset.shape().begin(), dataset.shape().end());
    start[0] = first;
    size[0] = count;
    file = Handle(was_read(H5Dget_space(dataset.id()), dataset.where(), ""));
    was_read(
        H5Sselect_hyperslab(file.id(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr),
        dataset.where(), "");
    memory = Handle(was_read(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr),
                             dataset.where(), ""));
  }
};

}  // namespace

void Dataset::transfer(bool write, Type type, std::uint64_t first, std::uint64_t count, void* data,
                       std::size_t elements) const {
  const LibraryLock lock;
  if (type != type_) {
    throw FormatError(
        "E-RESULTS-SCHEMA", printable(where_),
        std::string(type_name(type_)) + " where " + std::string(type_name(type)) + " belongs");
  }
  const bool is_inside = !shape_.empty() && first <= shape_[0] && count <= shape_[0] - first &&
                         elements == count * row_elements_;
  expects(is_inside || !write, "a transfer outside a dataset");
  if (!is_inside) {
    throw FormatError("E-RESULTS-SCHEMA", printable(where_), "another shape than belongs here");
  }
  if (elements == 0) {
    return;
  }
  const std::size_t bytes = elements * type_bytes(type);
  if (!write) {
    read_checked(first, count, {static_cast<std::byte*>(data), bytes});
    return;
  }
  const Selection rows(*this, first, count);
  written(H5Dwrite(id(), memory_type(type), rows.memory.id(), rows.file.id(), H5P_DEFAULT, data),
          where_);
  if (written_ && written_->values) {
    expects(written_->values->bytes() == first * row_elements_ * type_bytes(type),
            "rows that are written in order");
    written_->values->add({static_cast<const std::byte*>(data), bytes});
  }
}

void Dataset::read_rows(std::uint64_t first, std::uint64_t count, void* data) const {
  const Selection rows(*this, first, count);
  if (H5Dread(id(), memory_type(type_), rows.memory.id(), rows.file.id(), H5P_DEFAULT, data) < 0) {
    rethrow_cause();
    throw FormatError("E-RESULTS-DATA", printable(where_),
                      "cannot be read: a checksum is wrong or the file is damaged");
  }
}

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

}  // namespace vindex::results::h5
