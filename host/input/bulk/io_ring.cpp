// Owns opening the kernel's ring with a probe, and passing reads to it.
#include "io_ring.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <liburing.h>
#include <mutex>

namespace vindex::input {

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

class KernelRing final : public IoRing {
 public:
  explicit KernelRing(const io_uring& ring) : ring_(ring) {}
  KernelRing(const KernelRing&) = delete;
  KernelRing& operator=(const KernelRing&) = delete;
  ~KernelRing() override { ::io_uring_queue_exit(&ring_); }

  void submit(std::uint64_t tag, int descriptor, std::byte* into, std::uint32_t bytes,
              std::uint64_t offset) override {
    const std::lock_guard lock(submit_mutex_);
    expects(!gave_up_, "nothing is submitted to a ring that failed");
    // Every submission is handed over at once, so there is always a place.
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    expects(entry != nullptr, "a free place in the submission ring");
    ::io_uring_prep_read(entry, descriptor, into, bytes, offset);
    ::io_uring_sqe_set_data64(entry, tag);
    int submitted = 0;
    while ((submitted = ::io_uring_submit(&ring_)) < 0) {
      if (!passes(submitted)) {
        gave_up_ = true;  // the entry is still there: the next submission would start it
        throw SystemError("E-READ", -submitted, "io_uring takes no more reads");
      }
    }
  }

  Completion wait() override {
    io_uring_cqe* entry = nullptr;
    int error = 0;
    while ((error = ::io_uring_wait_cqe(&ring_, &entry)) < 0) {
      if (!passes(error)) {
        throw SystemError("E-READ", -error, "io_uring gives no completions");
      }
    }
    return taken(entry);
  }

  std::optional<Completion> poll() override {
    io_uring_cqe* entry = nullptr;
    if (::io_uring_cq_ready(&ring_) == 0 || ::io_uring_peek_cqe(&ring_, &entry) < 0) {
      return std::nullopt;
    }
    return taken(entry);
  }

 private:
  Completion taken(io_uring_cqe* entry) {
    const Completion completion{::io_uring_cqe_get_data64(entry), entry->res};
    ::io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

  io_uring ring_;
  std::mutex submit_mutex_;
  bool gave_up_ = false;
};

}  // namespace

std::unique_ptr<IoRing> IoRing::open(std::uint32_t depth, std::string& why) {
  io_uring ring{};
  if (const int error = ::io_uring_queue_init(depth, &ring, 0); error < 0) {
    why = fmt::format("io_uring_setup: {}", std::strerror(-error));
    return nullptr;
  }
  if (!knows_reads(ring)) {
    ::io_uring_queue_exit(&ring);
    why = "this kernel's io_uring knows no plain reads";
    return nullptr;
  }
  return std::make_unique<KernelRing>(ring);
}

}  // namespace vindex::input
