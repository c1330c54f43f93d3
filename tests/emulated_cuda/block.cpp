// Owns the rounds in which the threads of a block run, barriers and warp operations among them, and
// the report of a thread that breaks a rule.
#include "block.hpp"

#include <algorithm>
#include <cstring>

namespace vindex::emulated {

namespace {

constexpr std::size_t kSharedAlignment = 1024;  ///< of dynamic_shared(), in both twins
constexpr std::size_t kGuardBytes = 64;
constexpr unsigned char kGuard = 0xA5;

/// Unwinds the thread that broke a rule, so that what its frames hold is freed.
struct Abandoned {};

std::string place(const std::source_location& where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

std::string Block::name_of(std::uint32_t thread) const {
  const auto triple = [](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
  };
  return "block " + triple(index_.x, index_.y, index_.z) + " thread " +
         triple(thread % size_.x, thread / size_.x % size_.y, thread / size_.x / size_.y);
}

void Block::fail(const std::string& what, std::source_location where) {
  failure_ = name_of(current_) + " at " + place(where) + ": " + what;
  failed_ = true;
  throw Abandoned{};
}

void Block::thread_main(void* thread) {
  auto* self = static_cast<Thread*>(thread);
  for (;;) {
    try {
      (*self->block->body_)();
    } catch (const Abandoned&) {  // said by fail(); the block is not resumed
    }
    self->finished = true;
    ++self->block->finished_;
    self->fiber.suspend();
  }
}

void Block::prepare_threads() {
  while (threads_.size() < thread_count_) {
    threads_.push_back(std::make_unique<Thread>(this));
  }
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    threads_[i]->index = {i % size_.x, i / size_.x % size_.y, i / size_.x / size_.y};
    threads_[i]->finished = false;
    threads_[i]->waits_for = nullptr;
    threads_[i]->words = {};
    threads_[i]->open_copies.clear();
    threads_[i]->copy_groups.clear();
  }
}

void Block::run(uint3 index, dim3 size, std::size_t shared_bytes, const std::function<void()>& body,
                std::uint64_t& random) {
  begin(index, size, shared_bytes, body);
  while (!is_over()) {
    if (!can_run()) {
      report_deadlock();
      break;
    }
    run_round(random);
  }
  end();
}

void Block::begin(uint3 index, dim3 size, std::size_t shared_bytes,
                  const std::function<void()>& body) {
  index_ = index;
  size_ = size;
  thread_count_ = size.x * size.y * size.z;
  finished_ = 0;
  body_ = &body;
  failed_ = false;
  begin_block();
  prepare_threads();
  for (Barrier& barrier : barriers_) {
    barrier.waiting.clear();
    barrier.arrived = 0;
  }
  predicate_count_ = 0;
  sleepers_.clear();
  meetings_.assign((thread_count_ + 31) / 32, {});
  shared_store_.resize(
      std::max(shared_store_.size(), shared_bytes + kSharedAlignment + kGuardBytes));
  const auto address = reinterpret_cast<std::uintptr_t>(shared_store_.data());
  shared_ = shared_store_.data() +
            ((address + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment - address);
  shared_bytes_ = shared_bytes;
  poison(shared_, shared_bytes);
  std::memset(shared_ + shared_bytes, kGuard, kGuardBytes);
  runnable_.resize(thread_count_);
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    runnable_[i] = i;
  }
}

void Block::run_round(std::uint64_t& random) {
  blockIdx = index_;
  round_.swap(runnable_);
  runnable_.clear();
  if (random != 0) {
    shuffle(round_, random);
  }
  // Stacks of the threads to come are fetched meanwhile: those of a block are more than the first
  // cache holds.
  constexpr std::size_t kAhead = 3;
  for (std::size_t i = 0; i < round_.size(); ++i) {
    if (i + kAhead < round_.size()) {
      threads_[round_[i + kAhead]]->fiber.prefetch();
    }
    current_ = round_[i];
    Thread& thread = *threads_[current_];
    threadIdx = thread.index;
    thread.fiber.resume();
    if (failed_) {
      return;
    }
  }
}

void Block::end() {
  for (std::size_t i = 0; i < kGuardBytes && !failed_; ++i) {
    if (shared_[shared_bytes_ + i] != kGuard) {
      failed_ = true;
      failure_ = name_of(0) + ": the block wrote beyond its " + std::to_string(shared_bytes_) +
                 " bytes of shared memory";
    }
  }
  if (failed_) {
    abandon();
    throw KernelFault(failure_);
  }
}

void Block::abandon() {
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    threads_[i]->fiber.restart();
  }
}

void Block::report_deadlock() {
  failed_ = true;
  const auto speaker = std::find_if(
      threads_.begin(), threads_.begin() + thread_count_,
      [](const auto& thread) { return !thread->finished && thread->words.report != nullptr; });
  if (speaker != threads_.begin() + thread_count_) {
    (*speaker)->words.say(index_, (*speaker)->index);
  }
  std::uint32_t waiting = 0;
  while (threads_[waiting]->finished) {
    ++waiting;
  }
  failure_ = name_of(waiting) + " waits for ever for " + threads_[waiting]->waits_for + " at " +
             place(threads_[waiting]->waits_at);
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    const Thread& other = *threads_[i];
    if (other.finished) {
      failure_ += "; " + name_of(i) + " has returned";
      return;
    }
    if (std::strcmp(other.waits_for, threads_[waiting]->waits_for) != 0 ||
        !same_place(other.waits_at, threads_[waiting]->waits_at)) {
      failure_ +=
          "; " + name_of(i) + " waits for " + other.waits_for + " at " + place(other.waits_at);
      return;
    }
  }
}

void Block::wait(const char* what, std::source_location where) {
  Thread& self = *threads_[current_];
  self.waits_for = what;
  self.waits_at = where;
  self.fiber.suspend();
}

void Block::release(std::uint32_t thread) {
  threads_[thread]->waits_for = nullptr;
  runnable_.push_back(thread);
}

void Block::barrier(std::source_location where) {
  Barrier& barrier = barriers_[0];
  if (barrier.arrived == 0) {
    barrier.where = where;
  } else if (!same_place(barrier.where, where)) {
    fail("__syncthreads() while " + name_of(barrier.waiting.front()) + " is at that of " +
             place(barrier.where),
         where);
  }
  ++barrier.arrived;
  barrier.waiting.push_back(current_);
  if (barrier.arrived == thread_count_) {
    for (const std::uint32_t thread : barrier.waiting) {
      release(thread);
    }
    barrier.waiting.clear();
    barrier.arrived = 0;
    counted_ = predicate_count_;
    predicate_count_ = 0;
    threads_[current_]->fiber.suspend();  // so that the others do not always come later
    return;
  }
  wait("__syncthreads()", where);
}

int Block::count(bool predicate, std::source_location where) {
  predicate_count_ += predicate ? 1 : 0;
  barrier(where);
  return counted_;
}

void Block::named_barrier(int id, int threads, bool wait_too, std::source_location where) {
  if (id < 1 || id > 15 || threads <= 0 || threads % 32 != 0) {
    fail("named barrier " + std::to_string(id) + " of " + std::to_string(threads) + " threads",
         where);
  }
  Barrier& barrier = barriers_[static_cast<std::size_t>(id)];
  if (barrier.arrived == 0) {
    barrier.threads = static_cast<std::uint32_t>(threads);
  } else if (barrier.threads != static_cast<std::uint32_t>(threads)) {
    fail("a named barrier with two thread counts", where);
  }
  ++barrier.arrived;
  if (barrier.arrived == barrier.threads) {
    for (const std::uint32_t thread : barrier.waiting) {
      release(thread);
    }
    barrier.waiting.clear();
    barrier.arrived = 0;
    return;
  }
  if (wait_too) {
    barrier.waiting.push_back(current_);
    wait("a named barrier", where);
  }
}

std::uint32_t Block::existing_lanes() const {
  const std::uint32_t first = current_ / 32 * 32;
  const std::uint32_t lanes = std::min(32U, thread_count_ - first);
  return lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
}

void Block::warp_operation(const char* kind, std::uint32_t mask, void* argument,
                           void (*complete)(void* const (&lanes)[32]), std::source_location where) {
  const std::uint32_t lane = current_ % 32;
  const std::uint32_t wanted = mask & existing_lanes();
  if ((mask >> lane & 1U) == 0) {
    fail(std::string(kind) + " with a mask that leaves out the caller", where);
  }
  std::vector<Meeting>& meetings = meetings_[current_ / 32];
  auto meeting = std::find_if(meetings.begin(), meetings.end(),
                              [&](const Meeting& one) { return (one.mask & wanted) != 0; });
  if (meeting == meetings.end()) {
    meeting = meetings.insert(meetings.end(), Meeting{kind, wanted, 0, {}});
  }
  if (meeting->mask != wanted) {
    fail(std::string(kind) + " with a mask that overlaps the mask others wait with", where);
  }
  if (meeting->kind != kind && std::strcmp(meeting->kind, kind) != 0) {
    fail(std::string(kind) + " while others of the warp wait in " + meeting->kind, where);
  }
  meeting->arrived |= 1U << lane;
  meeting->arguments[lane] = argument;
  if (meeting->arrived != wanted) {
    wait(kind, where);
    return;
  }
  if (complete != nullptr) {
    complete(meeting->arguments);
  }
  meetings.erase(meeting);
  const std::uint32_t first = current_ / 32 * 32;
  for (std::uint32_t other = 0; other < 32; ++other) {
    if (other != lane && (wanted >> other & 1U) != 0) {
      release(first + other);
    }
  }
}

void Block::sleep_on(const void* word, const char* what, std::source_location where,
                     const LastWords& words) {
  sleepers_.push_back({word, current_});
  threads_[current_]->words = words;
  wait(what, where);
  threads_[current_]->words = {};
}

void Block::wake(const void* word) {
  std::erase_if(sleepers_, [&](const Sleeper& sleeper) {
    if (sleeper.word == word) {
      release(sleeper.thread);
    }
    return sleeper.word == word;
  });
}

void Block::issue_copy(void* shared, const void* source, std::size_t bytes) {
  poison(shared, bytes);
  threads_[current_]->open_copies.push_back({shared, source, bytes});
}

void Block::commit_copies() {
  Thread& self = *threads_[current_];
  self.copy_groups.push_back(std::move(self.open_copies));
  self.open_copies.clear();
}

void Block::wait_copies(std::size_t pending_groups) {
  Thread& self = *threads_[current_];
  while (self.copy_groups.size() > pending_groups) {
    for (const Copy& copy : self.copy_groups.front()) {
      if (copy.source == nullptr) {
        std::memset(copy.shared, 0, copy.bytes);
      } else {
        std::memcpy(copy.shared, copy.source, copy.bytes);
      }
    }
    self.copy_groups.pop_front();
  }
}

}  // namespace vindex::emulated
