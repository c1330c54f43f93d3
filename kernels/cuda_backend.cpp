// Owns the lanes of a device: how many there are, who has one, when its memory is given back; and
// the calls of the interface in terms of them.
#include "cuda_backend.hpp"

#include "decode/bind_view.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include "kernels/device/device_versions.hpp"
#include "kernels/inner/cuda_inner_products.hpp"
#include "statistics/judgement/batch_inputs.hpp"
#include "statistics/spectrum/singular_triplets.hpp"

#include <algorithm>

namespace vindex::kernels {

namespace {

/// Calls at once: of three one copies while two compute, so that the device has work while a call
/// ends, is judged on the host, and another begins. Two where memory is scarce: a lane keeps what
/// it takes.
constexpr std::int32_t kLanes = 3;
constexpr std::int32_t kFewLanes = 2;
constexpr std::uint64_t kAmpleBytes = 40ULL << 30U;
/// Matrices handed over at once: three times the multiprocessors of the largest devices, which the
/// stages with a block per matrix need.
constexpr std::int64_t kBatch = 384;
/// Host memory beside results: handles, pageable staging of the driver.
constexpr std::uint64_t kHostWorkspace = 16ULL << 20U;
/// A slab, and as much again for whoever reads it.
constexpr std::uint64_t kSlabCopies = 2;
/// The slab that a streamed input is read by where memory is scarce.
constexpr std::uint64_t kMinSlabBytes = 4ULL << 20U;
/// Of the memory that is free at the start, kept for the libraries and the driver: cuBLAS takes 32
/// MiB per handle and stream on Hopper, kernels are loaded when they are first launched, cuSOLVER's
/// by hundreds of MiB, and a kernel's stack is taken for all threads that the device can hold.
constexpr std::uint64_t kReserve = 1536ULL << 20U;

/// Host bytes beside slabs: eigenvalues of a batch, reports, what the driver keeps.
std::uint64_t held_workspace(std::int64_t rows, std::int64_t cols) {
  return kHostWorkspace + 64 * static_cast<std::uint64_t>(std::min(rows, cols));
}

}  // namespace

CudaBackend::CudaBackend(std::int32_t device, const KernelTable& kernels, const TrialPlan& trials)
    : device_(device), kernels_(kernels), trial_order_(trials.order), tests_(trials.known) {
  check(cudaSetDevice(device_));
  clear_trap_report();
  check(cudaGetDeviceProperties(&properties_, device_));
  traits_ = {.major = properties_.major,
             .minor = properties_.minor,
             .shared_bytes = properties_.sharedMemPerBlockOptin,
             .multiprocessors = properties_.multiProcessorCount};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  const std::int32_t lanes = free_bytes >= kAmpleBytes ? kLanes : kFewLanes;
  lane_budget_ = (free_bytes - std::min<std::uint64_t>(free_bytes / 4, kReserve)) /
                 static_cast<std::uint64_t>(lanes);
  lanes_.resize(static_cast<std::size_t>(lanes));
  for (std::size_t i = lanes_.size(); i > 0; --i) {
    free_lanes_.push_back(i - 1);
  }
}

CudaBackend::LaneLease::LaneLease(CudaBackend& backend) : backend_(backend) {
  while (!take()) {
  }
}

/// False where the lane cannot be made and is left out: somebody else took the device's memory, and
/// the calls go on with the lanes that there are.
bool CudaBackend::LaneLease::take() {
  {
    std::unique_lock lock(backend_.mutex_);
    backend_.freed_.wait(lock, [&] { return !backend_.free_lanes_.empty(); });
    number_ = backend_.free_lanes_.back();
    backend_.free_lanes_.pop_back();
  }
  if (backend_.lanes_[number_] != nullptr) {
    return true;
  }
  try {
    auto lane = std::make_unique<Lane>(backend_.turns_);
    const std::lock_guard lock(backend_.mutex_);
    backend_.lanes_[number_] = std::move(lane);
    return true;
  } catch (const OutOfMemory&) {
    if (backend_.made_lanes() > 0) {
      return false;
    }
    give_back();
    throw;
  } catch (...) {
    give_back();
    throw;
  }
}

CudaBackend::LaneLease::~LaneLease() { give_back(); }

void CudaBackend::LaneLease::give_back() {
  const std::lock_guard lock(backend_.mutex_);
  backend_.free_lanes_.push_back(number_);
  backend_.freed_.notify_one();
}

std::int32_t CudaBackend::made_lanes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int32_t>(std::count_if(lanes_.begin(), lanes_.end(),
                                                 [](const auto& lane) { return lane != nullptr; }));
}

BackendInfo CudaBackend::info() const {
  BackendInfo info;
  info.name = "cuda";
  info.device = properties_.name;
  info.libraries = cuda_versions();
  info.libraries.push_back("cuSOLVER " + library_version(&cusolverGetProperty));
  const TestVerdicts known = verdicts();
  const std::lock_guard lock(mutex_);
  for (const SelfTest& test : tests_) {
    const std::string name = trial_name(test.trial);
    info.self_tests.push_back({name, test.passed, test.detail});
    if (!test.passed) {
      const Variant other = test.trial.variant == Variant::kFast ? Variant::kPlain : Variant::kFast;
      // A newer kernel is used by its plain variant, or with it, or not at all.
      const bool is_out = is_newer_kernel(test.trial.kernel) && !known.has(test.trial.kernel);
      const std::string instead =
          is_out                                        ? "the former kernel"
          : known.has(test.trial.kernel, other)         ? trial_name({test.trial.kernel, other})
          : test.trial.kernel == KernelUnderTest::kTail ? "a whole float64 spectrum"
                                                        : "the libraries' route";
      info.notes.push_back("the kernel for " + name + " failed its self-test on this device (" +
                           test.detail + "); " + instead + " runs in its place");
    }
  }
  return info;
}

BackendLimits CudaBackend::limits() const {
  return {.concurrent_calls = static_cast<std::int32_t>(lanes_.size()),
          .batch = kBatch,
          .device_bytes = properties_.totalGlobalMem,
          .held_inputs = kHeldInputs};
}

TestVerdicts CudaBackend::verdicts() const {
  const std::lock_guard lock(mutex_);
  TestVerdicts verdicts;
  for (const SelfTest& test : tests_) {
    verdicts.set(test.trial, test.passed);
  }
  return verdicts;
}

void CudaBackend::prepare(const MeasureOptions& options) {
  const RoutePreference wish = parse_route(options.svd_route);
  check(cudaSetDevice(device_));
  try_kernels(wish, options.mode);
  // A wish that cannot be had is refused now, not after the first matrix was read.
  (void)choose_routes(wish, options.mode, OperandKind::kHalfPair, 1, traits_, verdicts());
}

/// The self-tests that this wish wants and that were not made yet.
void CudaBackend::try_kernels(const RoutePreference& wish, SpectrumMode mode) {
  const std::lock_guard testing(test_mutex_);
  std::vector<KernelTrial> untried = trials_wanted(wish, mode, traits_);
  std::erase_if(untried, [&](const KernelTrial& trial) {
    return std::any_of(tests_.begin(), tests_.end(),
                       [&](const SelfTest& test) { return test.trial == trial; });
  });
  if (!untried.empty() && !broken_by_) {
    LaneLease lease(*this);
    const auto keep = [&](const SelfTest& test) {
      const std::lock_guard lock(mutex_);
      tests_.push_back(test);
    };
    broken_by_ =
        run_self_tests(lease.lane().solver, kernels_, traits_, untried, keep, trial_order_);
  }
  if (broken_by_) {
    throw DeviceError("E-SELF-TEST", broken_text(wish));
  }
}

/// What a kernel did to the device, what is known of the others, and what to do.
std::string CudaBackend::broken_text(const RoutePreference& wish) const {
  std::string passed;
  std::string failed;
  for (const SelfTest& test : tests_) {
    std::string& list = test.passed ? passed : failed;
    if (test.trial != broken_by_->trial) {
      list += (list.empty() ? "" : ", ") + trial_name(test.trial);
    }
  }
  return "the kernel for " + trial_name(broken_by_->trial) +
         " broke this process's hold on the device in its self-test (" + broken_by_->detail +
         "); start again with --svd-route " + route_without(wish, broken_by_->trial) +
         (passed.empty() ? "" : "; passed before it: " + passed) +
         (failed.empty() ? "" : "; failed before it: " + failed);
}

std::unique_ptr<StagingBuffer> CudaBackend::make_staging(std::size_t bytes) {
  check(cudaSetDevice(device_));
  return pinned_.take(bytes);
}

std::uint64_t CudaBackend::workspace_bytes(const decode::Encoding& encoding, std::int64_t rows,
                                           std::int64_t cols, const MeasureOptions& /*options*/,
                                           InputBytes input) const {
  if (input == InputBytes::kHeld) {
    return held_workspace(rows, cols);
  }
  const std::uint64_t wanted = input == InputBytes::kStreamed ? kSlabBytes : kMinSlabBytes;
  const auto bytes = decode::code_bytes(encoding, static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(cols));
  const std::uint64_t row_bytes =
      bytes ? *bytes / std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rows)) : 0;
  const auto slab = static_cast<std::uint64_t>(
                        slab_rows(encoding, static_cast<std::int64_t>(row_bytes), wanted)) *
                    row_bytes;
  return held_workspace(rows, cols) + kSlabCopies * std::max(slab, wanted);
}

/// Errors: OutOfMemory where the limit is below what workspace_bytes() said.
std::uint64_t CudaBackend::slab_bytes_within(std::uint64_t workspace_limit,
                                             const MatrixInput& input) const {
  if (workspace_limit == 0) {
    return kSlabBytes;
  }
  const std::uint64_t least =
      workspace_bytes(input.encoding(), input.rows(), input.cols(), {},
                      input.in_memory() ? InputBytes::kHeld : InputBytes::kStreamedLeast);
  if (workspace_limit < least) {
    throw OutOfMemory("the smallest workspace of one matrix", least);
  }
  return std::min(kSlabBytes,
                  (workspace_limit - held_workspace(input.rows(), input.cols())) / kSlabCopies);
}

BatchTask CudaBackend::task_of(const decode::Encoding& encoding, std::int64_t rows,
                               std::int64_t cols, const MeasureOptions& options,
                               const decode::DecodeView& view, const SlotLayout& slot) const {
  BatchTask task;
  task.rows = rows;
  task.cols = cols;
  task.operands = choose_operands(encoding, view, false);
  task.routes = choose_routes(parse_route(options.svd_route), options.mode, task.operands.kind,
                              task.p(), traits_, verdicts());
  task.slot = slot;
  task.is_fast = options.mode == SpectrumMode::kFast;
  task.vector_columns =
      options.vectors > 0 ? statistics::triplet_columns(task.p(), options.vectors) : 0;
  task.device = traits_;
  return task;
}

std::uint64_t CudaBackend::device_workspace_bytes(const decode::Encoding& encoding,
                                                  std::int64_t rows, std::int64_t cols,
                                                  const MeasureOptions& options,
                                                  std::int64_t batch) const {
  if (!decode::is_decodable(encoding) || rows <= 0 || cols <= 0) {
    return 0;
  }
  check(cudaSetDevice(device_));  // what CUB needs depends on the device
  decode::EncodedMatrix matrix;   // without companions: they are small
  matrix.encoding = &encoding;
  matrix.rows = rows;
  matrix.cols = cols;
  decode::DecodeView view;
  view.rows = rows;
  view.cols = cols;
  view.block_rows = std::max(1, encoding.block_rows);
  view.block_cols = encoding.block_cols > 0 ? encoding.block_cols : cols;
  const BatchTask task = task_of(encoding, rows, cols, options, view, slot_layout(matrix, rows));
  try {
    return device_bytes(task, plan_batch(task, std::min(batch, kBatch), lane_budget_));
  } catch (const OutOfMemory& error) {
    return error.wanted_bytes();  // more than there is, which the reader of a plan should see
  }
}

void CudaBackend::measure(std::span<MatrixInput* const> batch, const MeasureOptions& options,
                          std::uint64_t workspace_limit, std::span<MatrixReport> out) {
  expects(batch.size() == out.size(), "measure() wants a report for every matrix");
  prepare(options);
  LaneLease lease(*this);
  lease.lane().solver.one_by_one = is_one_by_one(verdicts());
  std::size_t first = 0;
  while (first < batch.size()) {
    if (statistics::is_refused(*batch[first], out[first])) {
      batch[first]->release();
      ++first;
      continue;
    }
    std::size_t last = first + 1;
    while (last < batch.size() && statistics::is_same_kind(*batch[first], *batch[last])) {
      ++last;
    }
    measure_group(lease.lane(), batch.subspan(first, last - first), options,
                  slab_bytes_within(workspace_limit, *batch[first]),
                  out.subspan(first, last - first));
    first = last;
  }
}

/// Matrices of one encoding and shape, in as many batches as device memory wants.
void CudaBackend::measure_group(Lane& lane, std::span<MatrixInput* const> batch,
                                const MeasureOptions& options, std::uint64_t slab_bytes,
                                std::span<MatrixReport> out) {
  MatrixInput& sample = *batch[0];
  const std::int64_t some_rows =
      sample.in_memory()
          ? sample.rows()
          : std::min<std::int64_t>(sample.rows(), std::max(1, sample.encoding().block_rows));
  const decode::EncodedMatrix slab = sample.row_slab(0, some_rows);
  decode::DecodeView view = decode::decode_view(slab);
  view.rows = sample.rows();
  const BatchTask task = task_of(sample.encoding(), sample.rows(), sample.cols(), options, view,
                                 slot_layout(slab, sample.rows()));
  std::uint64_t budget = lane_budget_;
  bool is_bare = false;  // nothing is left of earlier groups
  for (std::size_t first = 0; first < batch.size();) {
    const auto left = static_cast<std::int64_t>(batch.size() - first);
    const BatchSizes sizes = plan_batch(task, left, budget);
    std::unique_ptr<BatchSolver> solver;
    if (!lane.account.admit(device_demand(task, sizes), lane_budget_)) {
      lane.release();
      continue;
    }
    try {
      solver = std::make_unique<BatchSolver>(lane, kernels_, task, sizes, options);
    } catch (const OutOfMemory&) {
      // What the lane kept of other shapes may be in the way, or somebody else uses the device too.
      // No input was touched yet: the same is tried from nothing, then half of it, and last what
      // one matrix takes; where that does not fit, plan_batch() says so.
      lane.release();
      if (is_bare) {
        const std::uint64_t least = device_bytes(task, {});
        budget = budget > least ? std::max(budget / 2, least) : budget / 2;
      }
      is_bare = true;
      continue;
    }
    const auto count = static_cast<std::size_t>(std::min(sizes.batch, left));
    solver->measure(batch.subspan(first, count), slab_bytes, out.subspan(first, count));
    first += count;
  }
}

std::unique_ptr<InnerProducts> CudaBackend::inner_products(const InnerProductShape& shape) {
  return make_cuda_inner_products(device_, shape);
}

InnerProductMemory CudaBackend::inner_product_memory(const InnerProductShape& shape) const {
  return cuda_inner_product_memory(shape);
}

void CudaBackend::decode(const decode::EncodedMatrix& matrix, std::span<float> out) {
  const auto count = static_cast<std::size_t>(matrix.rows * matrix.cols);
  expects(out.size() >= count, "decode() wants room for every weight");
  check(cudaSetDevice(device_));
  LaneLease lease(*this);
  Lane& lane = lease.lane();
  const auto input = make_memory_input(matrix);
  const SlotLayout layout = slot_layout(matrix, matrix.rows);
  cudaStream_t stream = lane.solver.stream.get();
  EncodedBatch encoded(stream, lane.copies.get(), lane.encoded, layout, 1);
  auto* decoded = lane.arena.reserve_array<float>(count);
  MatrixInput* const inputs[] = {input.get()};
  encoded.begin(inputs);
  encoded.upload(1);
  encoded.decode_rows(0, std::nullopt, 0, matrix.rows, decoded);
  check(
      cudaMemcpyAsync(out.data(), decoded, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  encoded.finish();
}

}  // namespace vindex::kernels
