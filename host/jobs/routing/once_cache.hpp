// Owns values that several threads want and one makes: of every key once, other keys meanwhile.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace vindex::jobs {

template <typename Key, typename Value>
class OnceCache {
 public:
  /// The value of `key`, which lives as long as the cache. Where `make` throws, the next caller
  /// tries again.
  template <typename Make>
  const Value& get(const Key& key, Make make) {
    Entry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      std::unique_ptr<Entry>& place = entries_[key];
      if (place == nullptr) {
        place = std::make_unique<Entry>();
      }
      entry = place.get();
    }
    const std::lock_guard lock(entry->mutex);
    if (!entry->is_made) {
      entry->value = make();
      entry->is_made = true;
    }
    return entry->value;
  }

 private:
  struct Entry {
    std::mutex mutex;
    bool is_made = false;
    Value value;
  };
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
};

}  // namespace vindex::jobs
