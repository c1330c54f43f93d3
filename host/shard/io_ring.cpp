#include "io_ring.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <liburing.h>

namespace vindex::shard {

namespace {

/// IORING_OP_READ came with Linux 5.6, as did the question for it.
bool knows_reads(io_uring& ring) {
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring);
  const bool known = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
  if (probe != nullptr) {
    ::io_uring_free_probe(probe);
  }
  return known;
}

bool passes(int error) { return error == -EINTR || error == -EAGAIN || error == -EBUSY; }

}  // namespace

struct IoRing::Ring {
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (open) {
      ::io_uring_queue_exit(&ring);
    }
  }
  io_uring ring{};
  bool open = false;
};

std::unique_ptr<IoRing> IoRing::open(std::uint32_t depth, std::string& why) {
  auto ring = std::make_unique<Ring>();
  if (const int error = ::io_uring_queue_init(depth, &ring->ring, 0); error < 0) {
    why = fmt::format("io_uring_setup: {}", std::strerror(-error));
    return nullptr;
  }
  ring->open = true;
  if (!knows_reads(ring->ring)) {
    why = "this kernel's io_uring knows no plain reads";
    return nullptr;
  }
  return std::unique_ptr<IoRing>(new IoRing(std::move(ring)));
}

IoRing::IoRing(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}
IoRing::~IoRing() = default;

template <typename Prepare>
void IoRing::push(std::uint64_t tag, const Prepare& prepare) {
  const std::lock_guard lock(submit_mutex_);
  // Every submission is handed over at once, so there is always a place.
  io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_->ring);
  expects(entry != nullptr, "a free place in the submission ring");
  prepare(entry);
  ::io_uring_sqe_set_data64(entry, tag);
  int submitted = 0;
  while ((submitted = ::io_uring_submit(&ring_->ring)) < 0) {
    if (!passes(submitted)) {
      throw SystemError("E-READ", -submitted, "io_uring takes no more reads");
    }
  }
}

void IoRing::submit(std::uint64_t tag, int descriptor, std::byte* into, std::uint32_t bytes,
                    std::uint64_t offset) {
  push(tag,
       [&](io_uring_sqe* entry) { ::io_uring_prep_read(entry, descriptor, into, bytes, offset); });
}

void IoRing::post(std::uint64_t tag) {
  push(tag, [](io_uring_sqe* entry) { ::io_uring_prep_nop(entry); });
}

IoRing::Completion IoRing::wait() {
  io_uring_cqe* entry = nullptr;
  int error = 0;
  while ((error = ::io_uring_wait_cqe(&ring_->ring, &entry)) < 0) {
    if (!passes(error)) {
      throw SystemError("E-READ", -error, "io_uring gives no completions");
    }
  }
  const Completion completion{::io_uring_cqe_get_data64(entry), entry->res};
  ::io_uring_cqe_seen(&ring_->ring, entry);
  return completion;
}

}  // namespace vindex::shard
