// Owns the few files that stay open, and reading through them.
#include "organ_source.hpp"

#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::organ {

std::shared_ptr<ByteSource> OpenOrgans::open(const OrganSource& organ) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const auto& each) { return each.first == &organ; });
    if (found != open_.end()) {
      open_.splice(open_.begin(), open_, found);
      return found->second;
    }
  }
  std::shared_ptr<ByteSource> file = input::open_input(organ.path());
  if (file->identity_at_opening() != organ.identity_at_opening()) {
    throw SystemError("E-INPUT-CHANGED", 0,
                      fmt::format("{}: the file was changed or replaced while the model was read; "
                                  "nothing was written",
                                  organ.name()));
  }
  file->header_is_read();
  add(organ, file);
  return file;
}

void OpenOrgans::add(const OrganSource& organ, std::shared_ptr<ByteSource> file) {
  const std::lock_guard lock(mutex_);
  open_.emplace_front(&organ, std::move(file));
  if (open_.size() > kMax) {
    open_.pop_back();
  }
}

void OpenOrgans::forget(const OrganSource& organ) {
  const std::lock_guard lock(mutex_);
  open_.remove_if([&](const auto& each) { return each.first == &organ; });
}

OrganSource::OrganSource(std::string path, std::shared_ptr<OpenOrgans> open)
    : path_(std::move(path)), open_(std::move(open)) {
  std::shared_ptr<ByteSource> file = input::open_input(path_);
  name_ = file->name();
  at_opening_ = file->identity_at_opening();
  open_->add(*this, std::move(file));
}

SourceIdentity OrganSource::identity() const {
  try {
    return input::open_input(path_)->identity_at_opening();
  } catch (const MissingInputError&) {
    return {0, "gone"};
  }
}

void OrganSource::read_many(std::span<const ReadRequest> requests) {
  opened()->read_many(requests);
}

}  // namespace vindex::organ
