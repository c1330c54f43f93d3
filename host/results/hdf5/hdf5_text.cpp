// Owns the text in HDF5 files: lists of strings, and the digests that stand beside them.
#include "hdf5.hpp"
#include "heap_strings.hpp"
#include "library.hpp"
#include "text_digest.hpp"

#include <optional>

namespace vindex::results::h5 {

Dataset File::write_strings(const std::string& path, std::span<const std::string> values) {
  const LibraryLock lock;
  // Contiguous: the library lets no filter see references to variable-length strings.
  Dataset dataset = make_dataset(path, Type::kString, {values.size()}, {});
  if (values.empty()) {
    return dataset;
  }
  std::vector<const char*> pointers;
  pointers.reserve(values.size());
  for (const std::string& value : values) {
    pointers.push_back(value.c_str());
  }
  written(H5Dwrite(dataset.id(), file_type(Type::kString), H5S_ALL, H5S_ALL, transfer_.id(),
                   pointers.data()),
          path);
  storage_->rethrow_failure();
  dataset.set_attribute(kTextDigest, text_digest(values));
  return dataset;
}

void File::write_text(const std::string& path, const std::string& text) {
  const LibraryLock lock;
  Dataset dataset = make_dataset(path, Type::kString, {}, {});
  const char* pointer = text.c_str();
  written(
      H5Dwrite(dataset.id(), file_type(Type::kString), H5S_ALL, H5S_ALL, transfer_.id(), &pointer),
      path);
  dataset.set_attribute(kTextDigest, text_digest({&text, 1}));
}

std::vector<std::string> File::read_strings(const std::string& path) const {
  const LibraryLock lock;
  const Dataset dataset = open_dataset(path);
  if (dataset.type() != Type::kString || dataset.shape().size() > 1) {
    throw FormatError("E-RESULTS-SCHEMA", printable(label_ + " " + path),
                      "no list of strings where one belongs");
  }
  std::vector<std::string> values = read_unchecked(path, dataset);
  if (has_attribute(dataset, kTextDigest) &&
      text_attribute(dataset, kTextDigest) != text_digest(values)) {
    throw FormatError("E-RESULTS-DATA", printable(label_ + " " + path), kOtherThanDigest);
  }
  return values;
}

bool File::has_plain_addresses() const {
  if (!has_plain_addresses_) {
    const Handle whole(H5Fget_create_plist(handle_.id()));
    std::size_t address_bytes = 0;
    std::size_t size_bytes = 0;
    hsize_t user_block = 0;
    has_plain_addresses_ = H5Pget_sizes(whole.id(), &address_bytes, &size_bytes) >= 0 &&
                           H5Pget_userblock(whole.id(), &user_block) >= 0 && address_bytes == 8 &&
                           size_bytes == 8 && user_block == 0;
  }
  return *has_plain_addresses_;
}

std::optional<std::uint64_t> File::heap_references(const Dataset& dataset) const {
  if (!dataset.contiguous_ || !has_plain_addresses()) {
    return std::nullopt;
  }
  const haddr_t offset = H5Dget_offset(dataset.id());
  return offset == HADDR_UNDEF ? std::nullopt : std::optional<std::uint64_t>(offset);
}

std::vector<std::string> File::read_unchecked(const std::string& path,
                                              const Dataset& dataset) const {
  const std::uint64_t count = dataset.shape().empty() ? 1 : dataset.shape()[0];
  // Strings are stored unfiltered, 16 bytes of reference each: a claim beyond the file is a lie.
  if (count > storage_->size() / 16 + 1) {
    throw FormatError("E-RESULTS-SCHEMA", printable(label_ + " " + path), "impossible size");
  }
  if (const auto offset = heap_references(dataset)) {
    return read_heap_strings(*storage_, *offset, count, printable(label_ + " " + path));
  }
  std::vector<char*> pointers(count, nullptr);
  const hid_t memory = file_type(Type::kString);
  const Handle space(was_read(H5Dget_space(dataset.id()), label_, path));
  std::vector<std::string> out;
  if (count > 0) {
    const herr_t result =
        H5Dread(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data());
    if (result < 0) {
      H5Dvlen_reclaim(memory, space.id(), H5P_DEFAULT, pointers.data());
      rethrow_cause();
      throw FormatError("E-RESULTS-DATA", printable(label_ + " " + path), "cannot be read");
    }
    out.reserve(count);
    for (const char* pointer : pointers) {
      out.emplace_back(pointer == nullptr ? "" : pointer);
    }
    H5Dvlen_reclaim(memory, space.id(), H5P_DEFAULT, pointers.data());
  }
  return out;
}

std::string File::read_text(const std::string& path) const {
  const LibraryLock lock;
  const Dataset dataset = open_dataset(path);
  if (!dataset.shape().empty()) {
    throw FormatError("E-RESULTS-SCHEMA", printable(label_ + " " + path), "no single text");
  }
  return read_strings(path).at(0);
}

}  // namespace vindex::results::h5
