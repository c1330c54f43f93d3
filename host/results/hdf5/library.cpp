// Owns the lock of libhdf5, how it is kept quiet, its types, and attributes of text.
#include "library.hpp"

#include "storage_driver.hpp"

#include <vindex/error.hpp>

#include <cerrno>
#include <cstddef>
#include <dlfcn.h>
#include <memory>
#include <new>
#include <vector>

namespace vindex::results::h5 {

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

Handle space_of(const Shape& shape) {
  std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return Handle(written(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                        "a data space"));
}

Handle scalar_space() { return Handle(written(H5Screate(H5S_SCALAR), "a data space")); }

std::uint64_t storage_size(hid_t dataset) {
  const std::uint64_t bytes = H5Dget_storage_size(dataset);
  if (bytes == 0) {
    rethrow_failed_transfer();
  }
  return bytes;
}

void write_attribute(hid_t object, const std::string& where, const std::string& name, hid_t stored,
                     hid_t memory, const Handle& space, const void* data) {
  const Handle attribute(written(
      H5Acreate2(object, name.c_str(), stored, space.id(), H5P_DEFAULT, H5P_DEFAULT), where));
  written(H5Awrite(attribute.id(), memory, data), where);
}

Handle object_at(hid_t file, const std::string& path) {
  return Handle(written(H5Oopen(file, path.c_str(), H5P_DEFAULT), path));
}

void write_text_attribute(hid_t object, const std::string& where, const std::string& name,
                          const std::string& value) {
  const hid_t text = file_type(Type::kString);
  const char* pointer = value.c_str();
  write_attribute(object, where, name, text, text, scalar_space(), &pointer);
}

std::string read_text_attribute(std::int64_t attribute, const std::string& label,
                                const std::string& where) {
  const Handle stored(was_read(H5Aget_type(attribute), label, where));
  const Handle space(was_read(H5Aget_space(attribute), label, where));
  if (H5Tget_class(stored.id()) != H5T_STRING || H5Tis_variable_str(stored.id()) <= 0 ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    throw FormatError("E-RESULTS-SCHEMA", printable(label), printable(where) + " is not a string");
  }
  char* pointer = nullptr;
  was_read(H5Aread(attribute, file_type(Type::kString), &pointer), label, where);
  std::string value = pointer == nullptr ? "" : pointer;
  H5free_memory(pointer);
  return value;
}

}  // namespace vindex::results::h5
