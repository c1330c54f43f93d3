// Owns the nulls of a run of `vindex routing`: several threads want them and one makes each once,
// other ones meanwhile; layers of one shape share what does not depend on their logits, and
// neighbours what does.
#pragma once
#include "statistics/routing/choice_law.hpp"
#include "statistics/routing/lift_maxima.hpp"
#include "statistics/routing/routing_nulls.hpp"

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::engine {

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

class RoutingNullCache {
 public:
  const statistics::NoiseRouter& noise(RouterRule rule, std::int64_t experts, double mean,
                                       double deviation, std::int64_t tokens) {
    rule.biased = false;
    const Key key = {experts,
                     tokens,
                     rule.top_k,
                     rule.groups,
                     rule.chosen_groups,
                     static_cast<std::int64_t>(rule.group_score),
                     static_cast<std::int64_t>(rule.scoring),
                     std::bit_cast<std::int64_t>(mean),
                     std::bit_cast<std::int64_t>(deviation)};
    return noise_.get(
        key, [&] { return statistics::noise_router(rule, experts, mean, deviation, tokens); });
  }
  const statistics::UniformRoutingNulls& uniform(const statistics::ChoiceLaw& law,
                                                 std::int64_t tokens) {
    return uniform_.get(key_of(law, tokens),
                        [&] { return statistics::uniform_routing_nulls(law, tokens); });
  }
  const statistics::MaximumNull& transition(const statistics::ChoiceLaw& from,
                                            const statistics::ChoiceLaw& to, std::int64_t tokens) {
    Key key = key_of(from, tokens);
    const Key more = key_of(to, tokens);
    key.insert(key.end(), more.begin(), more.end());
    return transition_.get(key, [&] { return statistics::transition_maximum(from, to, tokens); });
  }

 private:
  using Key = std::vector<std::int64_t>;
  static Key key_of(const statistics::ChoiceLaw& law, std::int64_t tokens) {
    Key key = {law.experts, law.top_k, law.groups, tokens,
               static_cast<std::int64_t>(law.patterns.size())};
    for (const statistics::ChoicePattern& pattern : law.patterns) {
      key.push_back(static_cast<std::int64_t>(pattern.parts.size()));
      key.insert(key.end(), pattern.parts.begin(), pattern.parts.end());
      key.push_back(std::bit_cast<std::int64_t>(pattern.chance));
    }
    return key;
  }
  OnceCache<Key, statistics::NoiseRouter> noise_;
  OnceCache<Key, statistics::UniformRoutingNulls> uniform_;
  OnceCache<Key, statistics::MaximumNull> transition_;
};

}  // namespace vindex::engine
