#include "io_ring.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vindex::shard {

namespace {

int ring_enter(int descriptor, unsigned submitted, unsigned awaited, unsigned flags) {
  return static_cast<int>(
      ::syscall(SYS_io_uring_enter, descriptor, submitted, awaited, flags, nullptr, 0));
}

/// Counters shared with the kernel are plain words in its memory.
std::uint32_t load_acquire(std::uint32_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}
void store_release(std::uint32_t* word, std::uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

/// IORING_OP_READ came with Linux 5.6, as did the question for it.
bool knows_reads(int descriptor) {
  constexpr std::size_t kOperations = 64;
  alignas(io_uring_probe)
      std::array<std::byte, sizeof(io_uring_probe) + kOperations * sizeof(io_uring_probe_op)>
          memory{};
  if (::syscall(SYS_io_uring_register, descriptor, IORING_REGISTER_PROBE, memory.data(),
                kOperations) != 0) {
    return false;
  }
  const auto* probe = reinterpret_cast<const io_uring_probe*>(memory.data());
  const auto* operations =
      reinterpret_cast<const io_uring_probe_op*>(memory.data() + sizeof(io_uring_probe));
  return probe->last_op >= IORING_OP_READ &&
         (operations[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED) != 0;
}

}  // namespace

/// The two rings and the table of submissions, mapped from the kernel.
struct IoRing::Mapping {
  io_uring_params parameters{};
  void* submissions = MAP_FAILED;
  std::size_t submissions_bytes = 0;
  void* completions = MAP_FAILED;
  std::size_t completions_bytes = 0;
  void* table = MAP_FAILED;
  std::size_t table_bytes = 0;

  ~Mapping() {
    unmap(submissions, submissions_bytes);
    unmap(completions, completions_bytes);
    unmap(table, table_bytes);
  }
  static void unmap(void* memory, std::size_t bytes) {
    if (memory != MAP_FAILED) {
      ::munmap(memory, bytes);
    }
  }
  std::uint32_t* submission_word(std::uint32_t offset) const {
    return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(submissions) + offset);
  }
  std::uint32_t* completion_word(std::uint32_t offset) const {
    return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(completions) + offset);
  }
};

std::unique_ptr<IoRing> IoRing::open(std::uint32_t depth, std::string& why) {
  auto mapping = std::make_unique<Mapping>();
  const auto descriptor =
      static_cast<int>(::syscall(SYS_io_uring_setup, depth, &mapping->parameters));
  if (descriptor < 0) {
    why = fmt::format("io_uring_setup: {}", std::strerror(errno));
    return nullptr;
  }
  std::unique_ptr<IoRing> ring(new IoRing(descriptor));
  ring->mapping_ = std::move(mapping);
  if (!knows_reads(descriptor)) {
    why = "this kernel's io_uring knows no plain reads";
    return nullptr;
  }
  if (!ring->map(why)) {
    return nullptr;
  }
  return ring;
}

bool IoRing::map(std::string& why) {
  Mapping& m = *mapping_;
  const io_uring_params& p = m.parameters;
  entries_ = p.sq_entries;
  m.submissions_bytes = p.sq_off.array + p.sq_entries * sizeof(std::uint32_t);
  m.completions_bytes = p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe);
  m.table_bytes = p.sq_entries * sizeof(io_uring_sqe);
  const auto mapped = [&](std::size_t bytes, off_t what) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_,
                  what);
  };
  m.submissions = mapped(m.submissions_bytes, IORING_OFF_SQ_RING);
  m.completions = mapped(m.completions_bytes, IORING_OFF_CQ_RING);
  m.table = mapped(m.table_bytes, IORING_OFF_SQES);
  if (m.submissions == MAP_FAILED || m.completions == MAP_FAILED || m.table == MAP_FAILED) {
    why = fmt::format("io_uring: {}", std::strerror(errno));
    return false;
  }
  return true;
}

IoRing::IoRing(int descriptor) : descriptor_(descriptor) {}

IoRing::~IoRing() {
  mapping_.reset();
  ::close(descriptor_);
}

void IoRing::push(std::uint8_t opcode, std::uint64_t tag, int descriptor, std::byte* into,
                  std::uint32_t bytes, std::uint64_t offset) {
  const std::lock_guard lock(submit_mutex_);
  Mapping& m = *mapping_;
  // Every submission is handed over at once, so the place at the tail is always free.
  std::uint32_t* tail_word = m.submission_word(m.parameters.sq_off.tail);
  const std::uint32_t tail = *tail_word;
  const std::uint32_t place = tail & *m.submission_word(m.parameters.sq_off.ring_mask);
  auto* entry = static_cast<io_uring_sqe*>(m.table) + place;
  std::memset(entry, 0, sizeof(*entry));
  entry->opcode = opcode;
  entry->fd = descriptor;
  entry->addr = reinterpret_cast<std::uint64_t>(into);
  entry->len = bytes;
  entry->off = offset;
  entry->user_data = tag;
  m.submission_word(m.parameters.sq_off.array)[place] = place;
  store_release(tail_word, tail + 1);
  while (ring_enter(descriptor_, 1, 0, 0) < 0) {
    if (errno != EINTR && errno != EAGAIN && errno != EBUSY) {
      throw SystemError("E-READ", errno, "io_uring takes no more reads");
    }
  }
}

void IoRing::submit(std::uint64_t tag, int descriptor, std::byte* into, std::uint32_t bytes,
                    std::uint64_t offset) {
  push(IORING_OP_READ, tag, descriptor, into, bytes, offset);
}

void IoRing::post(std::uint64_t tag) { push(IORING_OP_NOP, tag, -1, nullptr, 0, 0); }

IoRing::Completion IoRing::wait() {
  Mapping& m = *mapping_;
  std::uint32_t* head_word = m.completion_word(m.parameters.cq_off.head);
  std::uint32_t* tail_word = m.completion_word(m.parameters.cq_off.tail);
  const std::uint32_t head = *head_word;
  while (load_acquire(tail_word) == head) {
    if (ring_enter(descriptor_, 0, 1, IORING_ENTER_GETEVENTS) < 0 && errno != EINTR &&
        errno != EAGAIN && errno != EBUSY) {
      throw SystemError("E-READ", errno, "io_uring gives no completions");
    }
  }
  const auto* entries = reinterpret_cast<const io_uring_cqe*>(
      static_cast<const std::byte*>(m.completions) + m.parameters.cq_off.cqes);
  const io_uring_cqe& entry = entries[head & *m.completion_word(m.parameters.cq_off.ring_mask)];
  const Completion completion{entry.user_data, entry.res};
  store_release(head_word, head + 1);
  return completion;
}

}  // namespace vindex::shard
