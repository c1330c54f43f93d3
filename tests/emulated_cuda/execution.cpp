// Owns launches of the emulation: the order of threads and blocks, drawn from a seed, blocks that
// run together, and the functions by which a kernel asks for its place.
#include "block.hpp"

#include <atomic>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace vindex::emulated {

namespace {

std::atomic<std::uint64_t> schedule_seed{0};
std::atomic<std::uint64_t> launches{0};

/// A small generator: SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
  return mixed ^ (mixed >> 31U);
}

/// Blocks of the launch that this OS thread runs: one that is used again and again or, where they
/// run together, all of them. A deque, since threads know the address of their block.
thread_local std::deque<Block> blocks_of_launch;
thread_local std::size_t running = 0;   ///< the one whose thread goes on
thread_local std::size_t together = 1;  ///< of them belong to this launch
thread_local std::size_t met = 0;       ///< threads that wait at the barrier of their cluster
thread_local std::uint64_t meetings = 0;

Block& current_block() { return blocks_of_launch[running]; }

/// Rounds that a block runs before another may: a few, or as many as it can, so that some blocks
/// fall far behind others.
std::uint64_t burst_of(std::uint64_t& random) {
  constexpr std::uint64_t kAsManyAsItCan = ~std::uint64_t{0};
  const std::uint64_t drawn = random == 0 ? 0 : next_random(random);
  return drawn % 4 == 0 ? kAsManyAsItCan : 1 + drawn / 4 % 32;
}

/// Runs blocks of which several are under way, in an order that only what they wait for restricts.
void run_together(const std::vector<uint3>& indices, const dim3& size, std::size_t shared_bytes,
                  const std::function<void()>& body, std::uint64_t& random) {
  together = indices.size();
  met = 0;
  for (std::size_t i = 0; i < together; ++i) {
    blocks_of_launch[i].begin(indices[i], size, shared_bytes, body);
  }
  std::size_t broken = together;
  std::vector<std::size_t> able;
  while (broken == together) {
    able.clear();
    std::size_t waiting = together;
    for (std::size_t i = 0; i < together; ++i) {
      if (blocks_of_launch[i].can_run()) {
        able.push_back(i);
      } else if (!blocks_of_launch[i].is_over()) {
        waiting = i;
      }
    }
    if (able.empty()) {
      if (waiting < together) {
        blocks_of_launch[waiting].report_deadlock();
        broken = waiting;
      }
      break;
    }
    running = able[random == 0 ? 0 : next_random(random) % able.size()];
    Block& block = current_block();
    for (std::uint64_t left = burst_of(random); left > 0 && block.can_run(); --left) {
      block.run_round(random);
      if (block.has_failed()) {
        broken = running;
        break;
      }
    }
  }
  for (std::size_t i = 0; i < together && broken < together; ++i) {
    if (i != broken) {
      blocks_of_launch[i].abandon();
    }
  }
  const std::size_t count = std::exchange(together, 1);
  running = 0;
  if (broken < count) {
    blocks_of_launch[broken].end();
  }
  for (std::size_t i = 0; i < count; ++i) {
    blocks_of_launch[i].end();
  }
}

}  // namespace

void shuffle(std::vector<std::uint32_t>& order, std::uint64_t& random) {
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[next_random(random) % i]);
  }
}

void fault(const std::string& what, std::source_location where) {
  current_block().fail(what, where);
}
void block_barrier(std::source_location where) { current_block().barrier(where); }
int block_count(bool predicate, std::source_location where) {
  return current_block().count(predicate, where);
}
void named_barrier(int id, int threads, bool wait, std::source_location where) {
  current_block().named_barrier(id, threads, wait, where);
}
std::uint32_t lane_index() { return current_block().current() % 32; }
std::uint32_t existing_lanes() { return current_block().existing_lanes(); }
void warp_operation(const char* kind, std::uint32_t mask, void* argument,
                    void (*complete)(void* const (&lanes)[32]), std::source_location where) {
  current_block().warp_operation(kind, mask, argument, complete, where);
}
unsigned char* shared_memory() { return current_block().shared(); }
std::size_t block_of_launch() { return running; }
unsigned char* shared_memory_of(std::size_t rank, std::source_location where) {
  if (rank >= together || blocks_of_launch[rank].is_over()) {
    fault("shared memory of a block that the cluster has not, or that has ended", where);
  }
  return blocks_of_launch[rank].shared();
}
void cluster_barrier(std::source_location where) {
  const std::uint64_t meeting = meetings;
  if (++met == together * blockDim.x * blockDim.y * blockDim.z) {
    met = 0;
    ++meetings;
    wake(&meetings);
    return;
  }
  while (meetings == meeting) {
    sleep_on(&meetings, "the barrier of a cluster", where);
  }
}
void LastWords::say(const uint3& block, const uint3& thread) const {
  if (report != nullptr) {
    report[1] = block.x;
    report[2] = block.z;
    report[3] = thread.x;
    report[0] = code;
  }
}
void sleep_on(const void* word, const char* what, std::source_location where,
              const LastWords& words) {
  current_block().sleep_on(word, what, where, words);
}
void wake(const void* word) {
  for (std::size_t i = 0; i < together; ++i) {
    blocks_of_launch[i].wake(word);
  }
}
void issue_copy(void* shared, const void* source, std::size_t bytes) {
  current_block().issue_copy(shared, source, bytes);
}
void commit_copies() { current_block().commit_copies(); }
void wait_copies(std::size_t pending_groups) { current_block().wait_copies(pending_groups); }

void set_schedule_seed(std::uint64_t seed) { schedule_seed = seed; }
std::uint64_t launch_count() { return launches; }

void run_grid(const dim3& grid, const dim3& block, std::size_t shared_bytes,
              const std::function<void()>& body, bool blocks_run_together, unsigned int cluster) {
  const std::uint64_t launch = ++launches;
  const std::uint64_t seed = schedule_seed;
  std::uint64_t random = seed == 0 ? 0 : seed + launch * 0x1000003ULL;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z / cluster;
  std::vector<std::uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  if (random != 0) {
    shuffle(order, random);
  }
  blockDim = block;
  gridDim = grid;
  std::vector<uint3> indices;
  for (const std::uint32_t index : order) {
    for (std::uint32_t i = index * cluster; i < (index + 1) * cluster; ++i) {
      indices.push_back({i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y});
    }
  }
  while (blocks_of_launch.size() < (blocks_run_together ? indices.size() : cluster)) {
    blocks_of_launch.emplace_back();
  }
  if (cluster > 1) {
    for (auto first = indices.begin(); first != indices.end(); first += cluster) {
      run_together({first, first + cluster}, block, shared_bytes, body, random);
    }
    return;
  }
  if (blocks_run_together) {
    run_together(indices, block, shared_bytes, body, random);
    return;
  }
  for (const uint3& at : indices) {
    current_block().run(at, block, shared_bytes, body, random);
  }
}

void poison(void* memory, std::size_t bytes) {
  // float, half and bfloat16 (both halves): NaN; double: signalling NaN; int: about 2^31.
  constexpr unsigned char kPattern[4] = {0xFF, 0xFF, 0xF7, 0x7F};
  auto* out = static_cast<unsigned char*>(memory);
  const std::size_t words = bytes / 4 * 4;
  for (std::size_t i = 0; i < words; i += 4) {
    std::memcpy(out + i, kPattern, 4);
  }
  std::memcpy(out + words, kPattern, bytes - words);
}

}  // namespace vindex::emulated
