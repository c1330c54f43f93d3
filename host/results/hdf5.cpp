#include "hdf5.hpp"

#include "hdf5_common.hpp"

#include <hdf5_hl.h>

#include <limits>

namespace vindex::results::h5 {

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kInt8:
      return "int8";
    case Type::kInt32:
      return "int32";
    case Type::kInt64:
      return "int64";
    case Type::kFloat32:
      return "float32";
    case Type::kFloat64:
      return "float64";
    case Type::kString:
      return "string";
  }
  return "";
}

std::recursive_mutex& LibraryLock::mutex() {
  // Never destroyed: threads of a run that was stopped may outlive main().
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

void quiet() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

hid_t memory_type(Type type) {
  switch (type) {
    case Type::kInt8:
      return H5T_NATIVE_INT8;
    case Type::kInt32:
      return H5T_NATIVE_INT32;
    case Type::kInt64:
      return H5T_NATIVE_INT64;
    case Type::kFloat32:
      return H5T_NATIVE_FLOAT;
    case Type::kFloat64:
      return H5T_NATIVE_DOUBLE;
    case Type::kString:
      break;
  }
  expects(false, "strings have no plain memory type");
  return -1;
}

Handle file_type(Type type) {
  switch (type) {
    case Type::kInt8:
      return Handle(written(H5Tcopy(H5T_STD_I8LE), "a type"));
    case Type::kInt32:
      return Handle(written(H5Tcopy(H5T_STD_I32LE), "a type"));
    case Type::kInt64:
      return Handle(written(H5Tcopy(H5T_STD_I64LE), "a type"));
    case Type::kFloat32:
      return Handle(written(H5Tcopy(H5T_IEEE_F32LE), "a type"));
    case Type::kFloat64:
      return Handle(written(H5Tcopy(H5T_IEEE_F64LE), "a type"));
    case Type::kString:
      break;
  }
  Handle text(written(H5Tcopy(H5T_C_S1), "a type"));
  written(H5Tset_size(text.id(), H5T_VARIABLE), "a type");
  written(H5Tset_cset(text.id(), H5T_CSET_UTF8), "a type");
  return text;
}

Handle::~Handle() {
  if (id_ < 0) {
    return;
  }
  switch (H5Iget_type(id_)) {
    case H5I_FILE:
      H5Fclose(id_);
      break;
    case H5I_GROUP:
      H5Gclose(id_);
      break;
    case H5I_DATATYPE:
      H5Tclose(id_);
      break;
    case H5I_DATASPACE:
      H5Sclose(id_);
      break;
    case H5I_DATASET:
      H5Dclose(id_);
      break;
    case H5I_ATTR:
      H5Aclose(id_);
      break;
    case H5I_GENPROP_LST:
      H5Pclose(id_);
      break;
    default:
      break;
  }
}

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

Handle space_of(const Shape& shape) {
  std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return Handle(written(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                        "a data space"));
}

Handle scalar_space() { return Handle(written(H5Screate(H5S_SCALAR), "a data space")); }

Handle link_utf8() {
  Handle list(written(H5Pcreate(H5P_LINK_CREATE), "a property list"));
  written(H5Pset_char_encoding(list.id(), H5T_CSET_UTF8), "a property list");
  return list;
}

}  // namespace

void Dataset::write_packed(std::uint64_t first, std::span<const std::byte> packed) {
  const LibraryLock lock;
  std::vector<hsize_t> offset(shape_.size(), 0);
  offset.at(0) = first;
  constexpr std::uint32_t kEveryFilterApplied = 0;
  written(H5Dwrite_chunk(handle_.id(), H5P_DEFAULT, kEveryFilterApplied, offset.data(),
                         packed.size(), packed.data()),
          where_);
}

File File::create(Storage& storage, std::string label) {
  const LibraryLock lock;
  File file;
  file.storage_ = &storage;
  file.label_ = std::move(label);
  const Handle access = access_list(storage);
  file.handle_ =
      Handle(written(H5Fcreate("vindex", H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), file.label_));
  return file;
}

void File::close() {
  const LibraryLock lock;
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

Dataset File::make_dataset(const std::string& path, Type type, const Shape& shape,
                           const Layout& layout) {
  const LibraryLock lock;
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
    // Every chunk is written whole: a fill would be work for nothing.
    written(H5Pset_fill_time(create.id(), H5D_FILL_TIME_NEVER), path);
  }
  const Handle stored = file_type(type);
  const Handle space = shape.empty() ? scalar_space() : space_of(shape);
  const Handle links = link_utf8();
  Dataset dataset;
  dataset.handle_ = Handle(written(H5Dcreate2(handle_.id(), path.c_str(), stored.id(), space.id(),
                                              links.id(), create.id(), H5P_DEFAULT),
                                   path));
  dataset.where_ = label_ + " " + path;
  dataset.shape_ = shape;
  dataset.type_ = type;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    dataset.row_elements_ *= shape[i];
  }
  return dataset;
}

void File::write_strings(const std::string& path, std::span<const std::string> values) {
  const LibraryLock lock;
  // Contiguous: the library lets no filter see references to variable-length strings.
  const Dataset dataset = make_dataset(path, Type::kString, {values.size()}, {});
  if (values.empty()) {
    return;
  }
  std::vector<const char*> pointers;
  pointers.reserve(values.size());
  for (const std::string& value : values) {
    pointers.push_back(value.c_str());
  }
  const Handle memory = file_type(Type::kString);
  written(H5Dwrite(dataset.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
          path);
  storage_->rethrow_failure();
}

void File::write_text(const std::string& path, const std::string& text) {
  const LibraryLock lock;
  const Dataset dataset = make_dataset(path, Type::kString, {}, {});
  const Handle memory = file_type(Type::kString);
  const char* pointer = text.c_str();
  written(H5Dwrite(dataset.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer), path);
}

namespace {

void write_attribute(hid_t file, const std::string& path, const std::string& name, hid_t stored,
                     hid_t memory, const Handle& space, const void* data) {
  const Handle object(written(H5Oopen(file, path.c_str(), H5P_DEFAULT), path));
  const Handle attribute(written(
      H5Acreate2(object.id(), name.c_str(), stored, space.id(), H5P_DEFAULT, H5P_DEFAULT), path));
  written(H5Awrite(attribute.id(), memory, data), path);
}

}  // namespace

void File::set_attribute(const std::string& path, const std::string& name,
                         const std::string& value) {
  const LibraryLock lock;
  const Handle text = file_type(Type::kString);
  const char* pointer = value.c_str();
  write_attribute(handle_.id(), path, name, text.id(), text.id(), scalar_space(), &pointer);
}

void File::set_attribute(const std::string& path, const std::string& name, std::int64_t value) {
  const LibraryLock lock;
  write_attribute(handle_.id(), path, name, H5T_STD_I64LE, H5T_NATIVE_INT64, scalar_space(),
                  &value);
}

void File::set_attribute(const std::string& path, const std::string& name,
                         std::span<const std::int8_t> values) {
  const LibraryLock lock;
  write_attribute(handle_.id(), path, name, H5T_STD_I8LE, H5T_NATIVE_INT8,
                  space_of({values.size()}), values.data());
}

void File::set_fill_value(const std::string& path, Type type, std::int32_t value) {
  const LibraryLock lock;
  if (type == Type::kInt8) {
    const auto small = static_cast<std::int8_t>(value);
    write_attribute(handle_.id(), path, "_FillValue", H5T_STD_I8LE, H5T_NATIVE_INT8, space_of({1}),
                    &small);
    return;
  }
  write_attribute(handle_.id(), path, "_FillValue", H5T_STD_I32LE, H5T_NATIVE_INT32, space_of({1}),
                  &value);
}

void File::make_scale(const std::string& path, const std::string& name) {
  const LibraryLock lock;
  const Handle scale(written(H5Dopen2(handle_.id(), path.c_str(), H5P_DEFAULT), path));
  written(H5DSset_scale(scale.id(), name.c_str()), path);
}

void File::attach_scale(const std::string& path, unsigned dimension, const std::string& scale) {
  const LibraryLock lock;
  const Handle dataset(written(H5Dopen2(handle_.id(), path.c_str(), H5P_DEFAULT), path));
  const Handle other(written(H5Dopen2(handle_.id(), scale.c_str(), H5P_DEFAULT), scale));
  written(H5DSattach_scale(dataset.id(), other.id(), dimension), path);
}

}  // namespace vindex::results::h5
