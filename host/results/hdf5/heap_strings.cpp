// Owns walking global heap collections with every size checked, and the strings that they hold.
#include "heap_strings.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <unordered_map>

namespace vindex::results {

namespace {

constexpr std::uint64_t kReferenceBytes = 16;
constexpr std::uint64_t kHeadBytes = 16;  ///< of a collection, and of an object in it
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

template <typename T>
T number_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct HeapObject {
  std::uint16_t index = 0;  ///< 0: free space
  std::span<const std::byte> bytes;
};

bool begins_collection(std::span<const std::byte> bytes) {
  constexpr unsigned char kBegin[] = {'G', 'C', 'O', 'L', 1, 0, 0, 0};
  return bytes.size() >= kHeadBytes && std::memcmp(bytes.data(), kBegin, sizeof(kBegin)) == 0;
}

/// The object at byte `at` of a collection, and `at` moved behind it; nothing where it does not
/// fit.
std::optional<HeapObject> next_object(std::span<const std::byte> collection, std::uint64_t& at) {
  const std::uint64_t left = collection.size() - at;
  HeapObject object;
  object.index = number_at<std::uint16_t>(collection, at);
  const auto size = number_at<std::uint64_t>(collection, at + 8);
  if (object.index == 0) {  // its size counts the head
    if (size < kHeadBytes || size > left) {
      return std::nullopt;
    }
    at += size;
    return object;
  }
  if (size > left - kHeadBytes) {
    return std::nullopt;
  }
  object.bytes = collection.subspan(at + kHeadBytes, size);
  at += std::min(kHeadBytes + (size + 7) / 8 * 8, left);
  return object;
}

/// Calls use(object) for every object of a collection, free space too; false where one does not
/// fit.
template <typename Use>
bool each_object(std::span<const std::byte> collection, Use&& use) {
  for (std::uint64_t at = kHeadBytes; collection.size() - at >= kHeadBytes;) {
    const auto object = next_object(collection, at);
    if (!object) {
      return false;
    }
    use(*object);
  }
  return true;
}

/// A heap collection and where its objects lie in it.
struct Collection {
  std::vector<std::byte> bytes;
  std::unordered_map<std::uint16_t, std::span<const std::byte>> objects;
};

class HeapReader {
 public:
  HeapReader(Storage& storage, const std::string& where) : storage_(storage), where_(where) {}

  std::vector<std::byte> bytes_at(std::uint64_t offset, std::uint64_t count) {
    const auto end = checked_add(offset, count);
    if (!end || *end > storage_.size()) {
      fail(offset, "strings are said to lie beyond the end of the file");
    }
    std::vector<std::byte> bytes(count);
    if (!storage_.read(offset, bytes)) {
      storage_.rethrow_failure();
      fail(offset, "cannot be read");
    }
    return bytes;
  }

  std::string text(std::span<const std::byte> reference, std::uint64_t offset) {
    const auto length = number_at<std::uint32_t>(reference, 0);
    const auto address = number_at<std::uint64_t>(reference, 4);
    const auto index = number_at<std::uint32_t>(reference, 12);
    if (length == 0 || address == 0 || address == kNowhere) {
      return std::string();
    }
    const Collection& heap = collection(address);
    const auto object =
        index > 0xFFFF ? heap.objects.end() : heap.objects.find(static_cast<std::uint16_t>(index));
    if (object == heap.objects.end() || object->second.size() < length) {
      fail(offset, "a string that the file does not hold");
    }
    const char* text = reinterpret_cast<const char*>(object->second.data());
    return std::string(text, ::strnlen(text, length));
  }

 private:
  [[noreturn]] void fail(std::uint64_t offset, const char* message) const {
    throw FormatError("E-RESULTS-DATA", fmt::format("{} at byte {}", where_, offset), message);
  }

  const Collection& collection(std::uint64_t address) {
    if (const auto known = collections_.find(address); known != collections_.end()) {
      return known->second;
    }
    const std::vector<std::byte> head = bytes_at(address, kHeadBytes);
    const auto size = number_at<std::uint64_t>(head, 8);
    if (!begins_collection(head) || size < kHeadBytes) {
      fail(address, "no heap of strings where one is expected");
    }
    total_bytes_ = checked_add(total_bytes_, size).value_or(kNowhere);
    if (total_bytes_ > storage_.size()) {
      fail(address, "heaps of strings that overlap, or one that is larger than the file");
    }
    Collection& added = collections_[address];
    added.bytes = bytes_at(address, size);
    const bool fits = each_object(added.bytes, [&](const HeapObject& object) {
      if (object.index != 0 && !added.objects.emplace(object.index, object.bytes).second) {
        fail(address, "two strings in a heap have the same index");
      }
    });
    if (!fits) {
      fail(address, "a string in a heap is longer than the heap");
    }
    return added;
  }

  Storage& storage_;
  const std::string& where_;
  std::unordered_map<std::uint64_t, Collection> collections_;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace

std::vector<std::string> read_heap_strings(Storage& storage, std::uint64_t offset,
                                           std::uint64_t count, const std::string& where) {
  HeapReader heap(storage, where);
  expects(count <= storage.size() / kReferenceBytes + 1, "a count that was compared with the file");
  const std::vector<std::byte> references = heap.bytes_at(offset, count * kReferenceBytes);
  std::vector<std::string> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    out.push_back(heap.text(std::span(references).subspan(i * kReferenceBytes, kReferenceBytes),
                            offset + i * kReferenceBytes));
  }
  return out;
}

bool heap_is_sound(Storage& storage, std::uint64_t address,
                   std::span<const std::byte> bytes) noexcept {
  if (!begins_collection(bytes)) {
    return true;
  }
  const auto size = number_at<std::uint64_t>(bytes, 8);
  if (size < kHeadBytes || address > storage.size() || size > storage.size() - address) {
    return false;
  }
  try {
    std::vector<std::byte> whole(size);
    return storage.read(address, whole) && each_object(whole, [](const HeapObject& /*any*/) {});
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace vindex::results
