// Owns a store that reads the beginning of each file at once, so that a header costs one request.
#include "prefetching_store.hpp"

#include "core/integers.hpp"
#include "input/forwarding_store.hpp"
#include "input/local/positional_read.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace vindex::input {

namespace {

/// Requests of a header that is read bit by bit grow to this.
constexpr std::uint64_t kLargestStep = 4U << 20U;
constexpr std::uint64_t kGrowth = 4;
/// A header is read more than once, to be understood and for its digest.
constexpr std::size_t kMaxKept = std::size_t{8} << 20U;

/// A source that reads ahead until its header has been read. It keeps one run of bytes; what is
/// asked for within it costs nothing.
class HeaderSource final : public ForwardingSource {
 public:
  HeaderSource(std::unique_ptr<ByteSource> inner, std::uint64_t first_bytes)
      : ForwardingSource(std::move(inner)), step_(std::max<std::uint64_t>(first_bytes, 1)) {}

  void read_many(std::span<const ReadRequest> requests) override {
    if (!ahead_) {
      return inner().read_many(requests);
    }
    for (const ReadRequest& request : requests) {
      read_ahead(request);
    }
  }

  void header_is_read() override {
    const std::lock_guard lock(mutex_);
    ahead_ = false;
    kept_ = {};
    inner().header_is_read();
  }

 private:
  void read_ahead(const ReadRequest& request) {
    const auto end = checked_add(request.offset, request.into.size());
    if (!end || *end > size()) {
      throw_truncated(name(), request.offset, request.into.size(), size());
    }
    const std::lock_guard lock(mutex_);
    const std::size_t known = copy_kept(request.offset, request.into);
    const std::span<std::byte> rest = request.into.subspan(known);
    if (rest.empty()) {
      return;
    }
    const std::uint64_t at = request.offset + known;
    const std::uint64_t step = step_;
    step_ = std::max(step_, std::min(step_ * kGrowth, kLargestStep));
    if (rest.size() >= step) {
      return inner().read(at, rest);  // as much as would be read ahead: no second copy
    }
    std::vector<std::byte> run(static_cast<std::size_t>(std::min(step, size() - at)));
    inner().read(at, run);
    if (at == begin_ + kept_.size() && kept_.size() + run.size() <= kMaxKept) {
      kept_.insert(kept_.end(), run.begin(), run.end());
    } else {
      kept_ = std::move(run);
      begin_ = at;
    }
    copy_kept(at, rest);
  }

  /// Copies what is kept of the beginning of `into`; returns its bytes.
  std::size_t copy_kept(std::uint64_t offset, std::span<std::byte> into) const {
    if (offset < begin_ || offset - begin_ >= kept_.size()) {
      return 0;
    }
    const auto skipped = static_cast<std::size_t>(offset - begin_);
    const std::size_t bytes = std::min(into.size(), kept_.size() - skipped);
    std::memcpy(into.data(), kept_.data() + skipped, bytes);
    return bytes;
  }

  std::atomic<bool> ahead_{true};
  std::mutex mutex_;
  std::uint64_t step_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> kept_;
};

class PrefetchingStore final : public ForwardingStore {
 public:
  PrefetchingStore(std::shared_ptr<ModelStore> inner, const PrefetchPolicy& policy)
      : ForwardingStore(std::move(inner)), policy_(policy) {}

  std::int32_t parallel_opens() const override { return std::max(policy_.parallel_opens, 1); }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return std::make_unique<HeaderSource>(inner().open(name), policy_.first_bytes);
  }
  PrefetchPolicy policy_;
};

}  // namespace

std::shared_ptr<ModelStore> make_prefetching_store(std::shared_ptr<ModelStore> store,
                                                   const PrefetchPolicy& policy) {
  return std::make_shared<PrefetchingStore>(std::move(store), policy);
}

}  // namespace vindex::input
