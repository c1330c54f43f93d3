// Owns attributes of HDF5 files, written and read, the dimension scales that some of them make, and
// the lists of who uses a scale.
#include "hdf5.hpp"
#include "library.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5_hl.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace vindex::results::h5 {

namespace {

std::uint64_t reference_to(hid_t object, const std::string& path, const std::string& where) {
  hobj_ref_t reference = 0;
  written(H5Rcreate(&reference, object, path.c_str(), H5R_OBJECT, -1), where);
  return reference;
}

}  // namespace

void File::set_attribute(const std::string& path, const std::string& name,
                         const std::string& value) {
  const LibraryLock lock;
  write_text_attribute(object_at(handle_.id(), path).id(), path, name, value);
  if (digests_ == Digests::kAll || path == "/") {
    written_object(path)->texts[name] = value;
  }
}

void File::set_attribute(const std::string& path, const std::string& name, std::int64_t value) {
  const LibraryLock lock;
  write_attribute(object_at(handle_.id(), path).id(), path, name, H5T_STD_I64LE, H5T_NATIVE_INT64,
                  scalar_space(), &value);
}

void File::set_attribute(const std::string& path, const std::string& name, double value) {
  const LibraryLock lock;
  write_attribute(object_at(handle_.id(), path).id(), path, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE,
                  scalar_space(), &value);
}

void File::set_attribute(const std::string& path, const std::string& name,
                         std::span<const std::int8_t> values) {
  const LibraryLock lock;
  write_attribute(object_at(handle_.id(), path).id(), path, name, H5T_STD_I8LE, H5T_NATIVE_INT8,
                  space_of({values.size()}), values.data());
}

void File::attach_scales(const Dataset& dataset, std::span<const std::string> scales) {
  const LibraryLock lock;
  const std::string& where = dataset.where_;
  const std::uint64_t user = reference_to(dataset.id(), ".", where);
  std::vector<hobj_ref_t> references;
  if (dataset.written_) {
    dataset.written_->scales = fmt::format("{}", fmt::join(scales, " "));
  }
  for (const std::string& scale : scales) {
    const auto dimension = static_cast<std::int32_t>(references.size());
    const auto known = references_.find(scale);
    references.push_back(
        known != references_.end()
            ? known->second
            : references_.emplace(scale, reference_to(handle_.id(), scale, scale)).first->second);
    scale_uses_[scale].push_back({.dataset = user, .dimension = dimension});
  }
  std::vector<hvl_t> lists;
  for (hobj_ref_t& reference : references) {
    lists.push_back({.len = 1, .p = &reference});
  }
  const std::int64_t type = scale_list();
  write_attribute(dataset.id(), where, "DIMENSION_LIST", type, type, space_of({lists.size()}),
                  lists.data());
}

std::int64_t File::scale_list() const {
  if (scale_list_.id() < 0) {
    scale_list_ = Handle(written(H5Tvlen_create(H5T_STD_REF_OBJ), "a type"));
  }
  return scale_list_.id();
}

void File::write_scale_uses() {
  if (scale_uses_.empty()) {
    return;
  }
  const std::string what = "a dimension scale";
  const Handle type(written(H5Tcreate(H5T_COMPOUND, sizeof(ScaleUse)), what));
  written(H5Tinsert(type.id(), "dataset", HOFFSET(ScaleUse, dataset), H5T_STD_REF_OBJ), what);
  written(H5Tinsert(type.id(), "dimension", HOFFSET(ScaleUse, dimension), H5T_NATIVE_INT32), what);
  for (const auto& [scale, uses] : scale_uses_) {
    write_attribute(object_at(handle_.id(), scale).id(), scale, "REFERENCE_LIST", type.id(),
                    type.id(), space_of({uses.size()}), uses.data());
  }
}

bool File::has_attribute(const std::string& path, const std::string& name) const {
  const LibraryLock lock;
  if (!exists(path)) {
    return false;
  }
  return was_read(H5Aexists_by_name(handle_.id(), path.c_str(), name.c_str(), H5P_DEFAULT), label_,
                  path) > 0;
}

bool File::has_attribute(const Dataset& dataset, const std::string& name) const {
  const LibraryLock lock;
  return was_read(H5Aexists(dataset.id(), name.c_str()), dataset.where_, name) > 0;
}

std::string File::text_attribute(const Dataset& dataset, const std::string& name) const {
  const LibraryLock lock;
  const std::string where = dataset.where_ + " attribute " + name;
  const Handle attribute(was_read(H5Aopen(dataset.id(), name.c_str(), H5P_DEFAULT), label_, where));
  return read_text_attribute(attribute.id(), label_, where);
}

Handle File::open_attribute(const std::string& path, const std::string& name,
                            const std::string& where) const {
  exists(path);  // throws where the way there is no hard link
  return Handle(
      was_read(H5Aopen_by_name(handle_.id(), path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
               label_, where));
}

std::string File::text_attribute(const std::string& path, const std::string& name) const {
  const LibraryLock lock;
  const std::string where = path + " attribute " + name;
  const Handle attribute = open_attribute(path, name, where);
  return read_text_attribute(attribute.id(), label_, where);
}

std::int64_t File::integer_attribute(const std::string& path, const std::string& name) const {
  const LibraryLock lock;
  const std::string where = path + " attribute " + name;
  const Handle attribute = open_attribute(path, name, where);
  const Handle stored(was_read(H5Aget_type(attribute.id()), label_, where));
  const Handle space(was_read(H5Aget_space(attribute.id()), label_, where));
  if (H5Tget_class(stored.id()) != H5T_INTEGER || H5Sget_simple_extent_npoints(space.id()) != 1) {
    throw FormatError("E-RESULTS-SCHEMA", printable(label_),
                      printable(where) + " is not an integer");
  }
  std::int64_t value = 0;
  was_read(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), label_, where);
  return value;
}

bool File::is_scale(const Dataset& dataset) const {
  const LibraryLock lock;
  return was_read(H5DSis_scale(dataset.id()), dataset.where_, "its scale") > 0;
}

std::uint64_t File::reference_of(const std::string& path) const {
  const auto found = references_.find(path);
  if (found != references_.end()) {
    return found->second;
  }
  hobj_ref_t reference = 0;
  was_read(H5Rcreate(&reference, handle_.id(), path.c_str(), H5R_OBJECT, -1), label_, path);
  references_.emplace(path, reference);
  return reference;
}

std::vector<std::vector<std::uint64_t>> File::scale_references(const Dataset& dataset) const {
  constexpr const char* kName = "DIMENSION_LIST";
  if (!has_attribute(dataset, kName)) {
    return {};
  }
  const Handle attribute(
      was_read(H5Aopen(dataset.id(), kName, H5P_DEFAULT), dataset.where_, kName));
  const Handle space(was_read(H5Aget_space(attribute.id()), dataset.where_, kName));
  const Handle stored(was_read(H5Aget_type(attribute.id()), dataset.where_, kName));
  const std::int64_t list = scale_list();
  if (H5Tequal(stored.id(), list) <= 0 ||
      H5Sget_simple_extent_npoints(space.id()) != static_cast<hssize_t>(dataset.shape().size())) {
    return {};
  }
  std::vector<hvl_t> lists(dataset.shape().size());
  const herr_t result = H5Aread(attribute.id(), list, lists.data());
  std::vector<std::vector<std::uint64_t>> found;
  for (const hvl_t& one : lists) {
    const auto* const references = static_cast<const hobj_ref_t*>(one.p);
    found.emplace_back(references, references + (result >= 0 ? one.len : 0));
  }
  H5Dvlen_reclaim(list, space.id(), H5P_DEFAULT, lists.data());
  was_read(result, dataset.where_, kName);
  return found;
}

bool File::has_scale(const Dataset& dataset, std::size_t dimension,
                     const std::string& scale) const {
  const LibraryLock lock;
  if (!exists(scale)) {
    return false;
  }
  // Not H5DSis_attached: that follows the scale's references to every one of its users.
  const std::uint64_t wanted = reference_of(scale);
  const std::vector<std::vector<std::uint64_t>> lists = scale_references(dataset);
  return dimension < lists.size() && std::find(lists[dimension].begin(), lists[dimension].end(),
                                               wanted) != lists[dimension].end();
}

}  // namespace vindex::results::h5
