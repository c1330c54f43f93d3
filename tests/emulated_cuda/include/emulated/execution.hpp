// Owns what a kernel sees of its launch: indices, shared memory, barriers and warp operations. Each
// thread of a block is a fiber; whatever waits suspends it. A broken rule (a barrier that not all
// threads reach, a mask that does not hold) ends the launch with KernelFault naming block and
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <emulated/types.hpp>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>

// What CUDA calls threadIdx and so on; set whenever a fiber is resumed.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace vindex::emulated {

/// A kernel broke a rule of the programming model.
class KernelFault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Ends the launch: KernelFault with block, thread and `what`. Call in a kernel only.
[[noreturn]] void fault(const std::string& what,
                        std::source_location where = std::source_location::current());

/// Waits for every thread of the block; threads must wait at one place.
void block_barrier(std::source_location where);
/// The same, and the number of threads whose `predicate` holds.
int block_count(bool predicate, std::source_location where);
/// Waits for the first `threads` threads that arrive at barrier `id` (1 to 15); `wait` false:
/// arrives only.
void named_barrier(int id, int threads, bool wait, std::source_location where);

/// The calling thread's position in its warp.
std::uint32_t lane_index();
/// The threads of the calling thread's warp that exist.
std::uint32_t existing_lanes();

/// Meets all lanes of `mask`. Each brings an argument on its own stack; the last to arrive calls
/// `complete` with all of them (absent lanes null), which reads and writes them; then all continue.
/// `kind` must be one text for all.
void warp_operation(const char* kind, std::uint32_t mask, void* argument,
                    void (*complete)(void* const (&lanes)[32]), std::source_location where);

/// Dynamic shared memory of the block: NaN bytes when it starts.
unsigned char* shared_memory();

/// What a thread leaves in memory when it ends its kernel: four words, the code first. Null:
/// nothing.
struct LastWords {
  std::uint32_t* report = nullptr;
  std::uint32_t code = 0;
  void say(const uint3& block, const uint3& thread) const;
};

/// Suspends the thread until another, of its block or of one that runs together with it, wakes
/// `word`; the caller looks again at what it waits for.
/// `what` names it in the report of a deadlock, where the first thread that waits says its `words`.
void sleep_on(const void* word, const char* what, std::source_location where,
              const LastWords& words = {});
void wake(const void* word);

/// cp.async: the destination is poisoned at once and written when the wait that covers it comes.
/// `source` null: zeros.
void issue_copy(void* shared, const void* source, std::size_t bytes);
void commit_copies();
void wait_copies(std::size_t pending_groups);

/// Runs `body` for every thread of the grid, in the calling OS thread. Errors: KernelFault; what
/// a device refuses is found by the caller. Blocks run one after another unless they
/// `run_together`, as those of a cooperative launch do: then each goes on for as long as an order
/// drawn from the seed says, and without a seed until it waits for another. `cluster` > 1: so
/// many neighbours in x run together, and then the next ones; a cooperative launch has none.
void run_grid(const dim3& grid, const dim3& block, std::size_t shared_bytes,
              const std::function<void()>& body, bool blocks_run_together = false,
              unsigned int cluster = 1);

/// The number of this block among those that run together: in a cluster its rank.
std::size_t block_of_launch();
/// The shared memory of a block of this cluster; a fault where there is none such any more.
unsigned char* shared_memory_of(std::size_t rank, std::source_location where);
/// Waits for all threads of the cluster.
void cluster_barrier(std::source_location where);

/// Order in which threads of a block and blocks of a grid run; 0: by index. Any other seed permutes
/// them anew at each launch, which shows races.
void set_schedule_seed(std::uint64_t seed);

/// Makes the `number`th bulk copy from now on, 1 the next, one that never lands. 0: none.
void lose_bulk_copy(int number);

/// Makes the flag that is set as the `number`th from now on, 1 the next, one that stays as it was
/// from then on. 0: none.
void lose_flag(int number);

/// How many launches have run, for tests that count them.
std::uint64_t launch_count();

/// Fills memory with bytes that are NaN in every float type and a wild index in every integer type.
void poison(void* memory, std::size_t bytes);

}  // namespace vindex::emulated
