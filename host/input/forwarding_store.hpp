// Owns stores and sources that pass everything on: what others replace a part of.
#pragma once

#include "model_store.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::input {

/// Passes everything on; decorators replace what they change.
class ForwardingStore : public ModelStore {
 public:
  explicit ForwardingStore(std::shared_ptr<ModelStore> inner) : inner_(std::move(inner)) {}
  const std::string& address() const override { return inner_->address(); }
  const std::string& file() const override { return inner_->file(); }
  std::string location(std::string_view name) const override { return inner_->location(name); }
  std::vector<StoreMember> list() override { return inner_->list(); }
  MemberState state(std::string_view name) override { return inner_->state(name); }
  std::string published_sha256(std::string_view name) override {
    return inner_->published_sha256(name);
  }
  std::string revision() const override { return inner_->revision(); }
  std::int32_t parallel_opens() const override { return inner_->parallel_opens(); }

 protected:
  ModelStore& inner() { return *inner_; }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return inner_->open(name);
  }
  std::shared_ptr<ModelStore> inner_;
};

/// The same for a source.
class ForwardingSource : public ByteSource {
 public:
  explicit ForwardingSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}
  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  SourceIdentity identity() const override { return inner_->identity(); }
  SourceIdentity identity_at_opening() const override { return inner_->identity_at_opening(); }
  void read_many(std::span<const ReadRequest> requests) override { inner_->read_many(requests); }
  void header_is_read() override { inner_->header_is_read(); }
  void results_are_stored() override { inner_->results_are_stored(); }
  int descriptor() const override { return inner_->descriptor(); }

 protected:
  ByteSource& inner() { return *inner_; }
  const ByteSource& inner() const { return *inner_; }

 private:
  std::unique_ptr<ByteSource> inner_;
};

}  // namespace vindex::input
