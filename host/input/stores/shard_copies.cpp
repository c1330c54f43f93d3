// Owns the folder and the budget of the copies, and the source that looks there first.
#include "shard_copies.hpp"

#include "shard_copy.hpp"

#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "core/text/size_text.hpp"
#include "input/forwarding_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vindex::input {

namespace {

constexpr const char* kEnding = ".shard";

/// Bytes of all copies in `folder`.
std::uint64_t bytes_in(const std::string& folder) {
  std::error_code error;
  std::uint64_t sum = 0;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::error_code gone;  // a run that ends removes its own
    const std::uint64_t bytes =
        entries->path().extension() == kEnding ? entries->file_size(gone) : 0;
    sum += gone ? 0 : bytes;
  }
  if (error) {
    throw_output_error("E-DISK-CACHE", error.value(), "cannot list " + printable(folder));
  }
  return sum;
}

/// A remote file, and its copy from the first read behind the header on.
class KeptSource final : public ForwardingSource {
 public:
  KeptSource(std::unique_ptr<ByteSource> inner, std::shared_ptr<ShardCopies> copies)
      : ForwardingSource(std::move(inner)), copies_(std::move(copies)) {
    const SourceIdentity identity = identity_at_opening();
    if (descriptor() < 0 && !identity.version.empty()) {
      subject_ = fmt::format("{} {} {}", name(), identity.bytes, identity.version);
    }
  }

  void header_is_read() override {
    is_behind_header_ = true;
    inner().header_is_read();
  }

  void read_many(std::span<const ReadRequest> requests) override {
    const std::shared_ptr<ShardCopy> copy = is_behind_header_ ? opened() : nullptr;
    if (copy == nullptr) {
      return inner().read_many(requests);
    }
    std::vector<ReadRequest> missing;
    for (const ReadRequest& request : requests) {
      if (copy->read(request)) {
        copies_->reused(request.into.size());
      } else {
        missing.push_back(request);
      }
    }
    if (!missing.empty()) {
      inner().read_many(missing);
    }
    for (const ReadRequest& request : missing) {
      const std::uint64_t room = ShardCopy::record_bytes(request.into.size());
      if (copies_->reserve(room)) {
        copies_->settle(room, copy->add(request.offset, request.into));
      }
    }
    copies_->note_error(copy->error());
  }

  void results_are_stored() override {
    if (const std::shared_ptr<ShardCopy> copy = opened()) {
      const std::uint64_t bytes = copy->file_bytes();
      copy->remove();
      copies_->freed(bytes);
      copies_->note_error(copy->error());
      const std::lock_guard lock(mutex_);
      copy_ = nullptr;
      subject_.clear();
    }
    inner().results_are_stored();
  }

 private:
  /// Null where none is kept.
  std::shared_ptr<ShardCopy> opened() {
    const std::lock_guard lock(mutex_);
    if (copy_ == nullptr && !subject_.empty()) {
      copy_ = std::make_shared<ShardCopy>(copies_->path_of(subject_), subject_);
    }
    return copy_;
  }

  std::shared_ptr<ShardCopies> copies_;
  std::atomic<bool> is_behind_header_{false};
  std::mutex mutex_;
  std::string subject_;  ///< empty: not to be kept
  std::shared_ptr<ShardCopy> copy_;
};

class KeepingStore final : public ForwardingStore {
 public:
  KeepingStore(std::shared_ptr<ModelStore> inner, std::shared_ptr<ShardCopies> copies)
      : ForwardingStore(std::move(inner)), copies_(std::move(copies)) {}

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return std::make_unique<KeptSource>(inner().open(name), copies_);
  }
  std::shared_ptr<ShardCopies> copies_;
};

}  // namespace

ShardCopies::ShardCopies(std::string folder, std::uint64_t budget_bytes)
    : folder_(std::move(folder)),
      budget_bytes_(budget_bytes),
      used_bytes_(is_folder(folder_) ? bytes_in(folder_) : 0) {
  statistics_.most_bytes = used_bytes_;
}

void ShardCopies::make_folder() const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw_output_error("E-DISK-CACHE", error.value(), "cannot make " + printable(folder_));
  }
}

ShardCopies::~ShardCopies() {
  // Fails where something is left in it, as it should.
  ::rmdir(folder_.c_str());
}

ShardCopies::Statistics ShardCopies::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::string ShardCopies::path_of(const std::string& subject) const {
  constexpr std::size_t kDigits = 32;
  return folder_ + "/" + hex(sha256(subject)).substr(0, kDigits) + kEnding;
}

bool ShardCopies::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > budget_bytes_ - std::min(budget_bytes_, used_bytes_)) {
    statistics_.refused_bytes += bytes;
    return false;
  }
  used_bytes_ += bytes;
  statistics_.most_bytes = std::max(statistics_.most_bytes, used_bytes_);
  return true;
}

void ShardCopies::settle(std::uint64_t reserved, std::uint64_t kept) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= std::min(used_bytes_, reserved - std::min(reserved, kept));
  statistics_.kept_bytes += kept;
}

void ShardCopies::freed(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= std::min(used_bytes_, bytes);
}

void ShardCopies::reused(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  statistics_.reused_bytes += bytes;
}

void ShardCopies::note_error(std::string error) {
  if (!error.empty()) {
    const std::lock_guard lock(mutex_);
    statistics_.error = std::move(error);
  }
}

std::shared_ptr<ModelStore> make_keeping_store(std::shared_ptr<ModelStore> store,
                                               std::shared_ptr<ShardCopies> copies) {
  return std::make_shared<KeepingStore>(std::move(store), std::move(copies));
}

std::string copies_text(const ShardCopies& copies) {
  const ShardCopies::Statistics s = copies.statistics();
  std::string out = fmt::format("copies in {}: {} kept, {} read again, {} at most at a time",
                                printable(copies.folder()), data_text(s.kept_bytes),
                                data_text(s.reused_bytes), data_text(s.most_bytes));
  if (s.refused_bytes > 0) {
    out += fmt::format("; {} not kept, --disk-budget was used up", data_text(s.refused_bytes));
  }
  return s.error.empty() ? out : out + "; " + s.error;
}

}  // namespace vindex::input
