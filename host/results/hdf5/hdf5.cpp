// Owns the writing half of the wrapper, and handles; hdf5_read.cpp has the reading half,
// hdf5_attributes.cpp attributes.
#include "hdf5.hpp"

#include "hdf5_common.hpp"
#include "storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <dlfcn.h>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace vindex::results::h5 {

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kInt8:
      return "int8";
    case Type::kInt32:
      return "int32";
    case Type::kInt64:
      return "int64";
    case Type::kFloat16:
      return "float16";
    case Type::kBFloat16:
      return "bfloat16";
    case Type::kFloat32:
      return "float32";
    case Type::kFloat64:
      return "float64";
    case Type::kString:
      return "string";
  }
  return "";
}

std::uint64_t type_bytes(Type type) {
  switch (type) {
    case Type::kInt8:
      return 1;
    case Type::kFloat16:
    case Type::kBFloat16:
      return 2;
    case Type::kInt32:
    case Type::kFloat32:
      return 4;
    case Type::kInt64:
    case Type::kFloat64:
      return 8;
    case Type::kString:
      break;
  }
  expects(false, "strings have no size of their own");
  return 0;
}

std::recursive_mutex& LibraryLock::mutex() {
  // Never destroyed: threads of a run that was stopped may outlive main().
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

namespace {

struct MemoryErrors {
  hid_t no_space, cannot_allocate;
};

/// The names are calls of the library, which forget what went wrong before: asked for early.
const MemoryErrors& memory_errors() {
  static const MemoryErrors errors = {H5E_NOSPACE, H5E_CANTALLOC};
  return errors;
}

}  // namespace

namespace {

/// Whether there is memory for what the library asks for beside chunks.
bool has_memory() {
  constexpr std::size_t kBytes = 4U << 20U;
  const std::unique_ptr<std::byte[]> room(new (std::nothrow) std::byte[kBytes]);
  return room != nullptr;
}

}  // namespace

void rethrow_cause() {
  // Some calls of the library do not say that it was memory.
  const bool was_refused = std::exchange(errno, 0) == ENOMEM;
  rethrow_failed_transfer();
  bool lacks_memory = was_refused;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned /*depth*/, const H5E_error2_t* error, void* lacks) -> herr_t {
        const MemoryErrors& memory = memory_errors();
        *static_cast<bool*>(lacks) |=
            error->min_num == memory.no_space || error->min_num == memory.cannot_allocate;
        return 0;
      },
      &lacks_memory);
  // The library says so of no bytes too, which a damaged file has it ask for.
  if (was_refused || (lacks_memory && !has_memory())) {
    throw Error(ExitCode::kInternal, "E-MEMORY", "out of memory in the HDF5 library");
  }
}

void require_room_for_a_file() {
  constexpr std::size_t kBytes = 1U << 20U;
  const std::unique_ptr<std::byte[]> room(new std::byte[kBytes]);
  std::fill_n(static_cast<volatile std::byte*>(room.get()), 1, std::byte{});  // it is asked for
}

namespace {

/// Whether libhdf5 is part of the program or library that this is, so that nobody else uses it.
bool is_own_library() {
  Dl_info library = {};
  Dl_info own = {};
  return ::dladdr(reinterpret_cast<const void*>(&H5open), &library) != 0 &&
         ::dladdr(reinterpret_cast<const void*>(&is_own_library), &own) != 0 &&
         library.dli_fbase == own.dli_fbase;
}

}  // namespace

void quiet() {
  // Before any other call. Files are closed by who opened them; what else the library would do when
  // the process ends is to free its memory piece by piece.
  static const bool ends_at_once = is_own_library() && H5dont_atexit() >= 0;
  (void)ends_at_once;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
  (void)memory_errors();
}

hid_t memory_type(Type type) {
  switch (type) {
    case Type::kInt8:
      return H5T_NATIVE_INT8;
    case Type::kInt32:
      return H5T_NATIVE_INT32;
    case Type::kInt64:
      return H5T_NATIVE_INT64;
    case Type::kFloat16:
    case Type::kBFloat16:
      return file_type(type);
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

namespace {

/// A sign, `exponent_bits` and the rest; one for the whole process, the library closes it.
hid_t float_of_16_bits(std::size_t exponent_bits) {
  constexpr std::size_t kBits = 16;
  const std::size_t rest = kBits - 1 - exponent_bits;
  const hid_t made = written(H5Tcopy(H5T_IEEE_F32LE), "a type");
  written(H5Tset_fields(made, kBits - 1, rest, exponent_bits, 0, rest), "a type");
  written(H5Tset_size(made, kBits / 8), "a type");
  written(H5Tset_ebias(made, (std::size_t{1} << (exponent_bits - 1)) - 1), "a type");
  return made;
}

}  // namespace

hid_t file_type(Type type) {
  switch (type) {
    case Type::kInt8:
      return H5T_STD_I8LE;
    case Type::kInt32:
      return H5T_STD_I32LE;
    case Type::kInt64:
      return H5T_STD_I64LE;
    case Type::kFloat16: {
      static const hid_t half = float_of_16_bits(5);
      return half;
    }
    case Type::kBFloat16: {
      static const hid_t upper_half = float_of_16_bits(8);
      return upper_half;
    }
    case Type::kFloat32:
      return H5T_IEEE_F32LE;
    case Type::kFloat64:
      return H5T_IEEE_F64LE;
    case Type::kString:
      break;
  }
  // One for the whole process: the library closes it.
  static const hid_t text = [] {
    const hid_t made = written(H5Tcopy(H5T_C_S1), "a type");
    written(H5Tset_size(made, H5T_VARIABLE), "a type");
    written(H5Tset_cset(made, H5T_CSET_UTF8), "a type");
    return made;
  }();
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

Handle space_of(const Shape& shape) {
  std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return Handle(written(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                        "a data space"));
}

Handle scalar_space() { return Handle(written(H5Screate(H5S_SCALAR), "a data space")); }

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

}  // namespace vindex::results::h5
