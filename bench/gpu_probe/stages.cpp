// Every kernel of a spectrum in `default` and in `strict`, timed by events around its launches:
// where the time of a batch goes, without a profiler. Block-scaled fp8 of 7168 x 2048, as many
// matrices as there are multiprocessors, unless told otherwise. all_stages() is the list: a newer
// kernel is a line there, beside the former one that it is compared with. What waits least for the
// unknown comes first: Gram by mma.sync; then blocks that wait for one another by flags, Gram by
// wgmma last.
#include "stage_batch.hpp"

#include "kernels/band/back_transform/wide_back_transform.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <map>

namespace vindex::probe {

namespace {

using namespace kernels;

/// "factor_panel" of a kernel's host address.
std::string name_of(const void* kernel) {
  const std::string whole = function_name(kernel);
  return whole.substr(0, whole.find("_kernel"));
}

/// Device time by kernel, of all launches while it lives.
class LaunchClock final : public LaunchObserver {
 public:
  LaunchClock() { launch_observer = this; }
  ~LaunchClock() override { launch_observer = nullptr; }
  void before(const void* kernel, cudaStream_t stream) override {
    spans_.push_back({kernel, make_event(), make_event()});
    check(cudaEventRecord(spans_.back().begin.get(), stream));
  }
  void after(const void* /*kernel*/, cudaStream_t stream) override {
    check(cudaEventRecord(spans_.back().end.get(), stream));
  }

  struct Sum {
    double microseconds = 0.0;
    int launches = 0;
  };
  std::map<std::string, Sum> take() {
    std::map<std::string, Sum> sums;
    for (const Span& span : spans_) {
      float milliseconds = 0.0F;
      check(cudaEventSynchronize(span.end.get()));
      check(cudaEventElapsedTime(&milliseconds, span.begin.get(), span.end.get()));
      Sum& sum = sums[name_of(span.kernel)];
      sum.microseconds += 1e3 * static_cast<double>(milliseconds);
      ++sum.launches;
    }
    spans_.clear();
    return sums;
  }

 private:
  struct Span {
    const void* kernel;
    Event begin, end;
  };
  std::vector<Span> spans_;
};

/// What a stage starts from, which is made anew before each sample: most destroy it.
enum class From {
  kCodes,  ///< or what its batch keeps
  kGrams,
  kBands,
  kTridiagonals,
  // In float64.
  kGrams64,
  kBands64,
  kTridiagonals64
};

struct Stage {
  const char* group;  ///< of stage_names()
  std::string name;   ///< of its row
  From from;
  std::function<void(StageBatch&)> run;
  std::int64_t matrices = 0;  ///< of the batch that it works on; 0: all
};

template <typename Real>
void add_chases(const Probe& probe, const StageBatch& batch, const char* group,
                std::vector<Stage>& all) {
  std::vector<int> sweeps = probe.stages.sweeps;
  // Shared memory may not hold so many: then those that it does, once.
  std::transform(sweeps.begin(), sweeps.end(), sweeps.begin(),
                 [&](int most) { return batch.sweeps_of<Real>(most); });
  std::sort(sweeps.begin(), sweeps.end());
  sweeps.erase(std::unique(sweeps.begin(), sweeps.end()), sweeps.end());
  for (const int count : sweeps) {
    all.push_back({group,
                   "chase in float" + std::to_string(8 * sizeof(Real)) + ", " +
                       std::to_string(count) + " sweeps",
                   From::kBands,
                   [count](StageBatch& one) { one.chase<Real>(count, one.count()); }});
  }
}

/// What few matrices wait for, and chases by flags.
template <typename Real>
void add_newer_chases(const Probe& probe, const StageBatch& batch, const char* group,
                      std::vector<Stage>& all) {
  const std::string type = "float" + std::to_string(8 * sizeof(Real));
  const int most = batch.sweeps_of<Real>(
      *std::max_element(probe.stages.sweeps.begin(), probe.stages.sweeps.end()));
  all.push_back({group, "chase by flags in " + type, From::kBands,
                 [](StageBatch& one) { one.shared_chase<Real>(one.count()); }});
  all.push_back({group, "one chase in " + type, From::kBands,
                 [most](StageBatch& one) { one.chase<Real>(most, 1); }, 1});
  all.push_back({group, "one chase by flags in " + type, From::kBands,
                 [](StageBatch& one) { one.shared_chase<Real>(1); }, 1});
}

/// Of another order than the batch's rows and columns, hence its name.
void add_back(const Probe& probe, const StageBatch& batch, std::vector<Stage>& all) {
  const std::string name = "back-transformation of order " + std::to_string(batch.back_order());
  all.push_back({"back", name + ", 8 columns at a time", From::kCodes,
                 [](StageBatch& one) { one.back().turn(false); }, batch.back_count()});
  if (wide_transform_warps(probe.properties().sharedMemPerBlockOptin) > 0) {
    all.push_back({"back", name + ", 32 columns at a time", From::kCodes,
                   [](StageBatch& one) { one.back().turn(true); }, batch.back_count()});
  }
}

/// Gram matrices of codes by one kernel, for both kinds of scale.
void add_code_grams(const StageBatch& batch, ProductKernel product, const std::string& by,
                    std::vector<Stage>& all) {
  for (const bool rounded : {false, true}) {
    all.push_back({"strict", "float64 gram of codes by " + by + (rounded ? ", rounded" : ", exact"),
                   From::kCodes, [=](StageBatch& one) { one.strict().form(product, rounded); },
                   batch.strict_count()});
  }
}

void add_strict(const StageBatch& batch, std::vector<Stage>& all) {
  const std::int64_t count = batch.strict_count();
  all.push_back({"strict", "float64 gram by cuBLAS", From::kCodes,
                 [](StageBatch& one) { one.strict().form_by_library(); }, count});
  add_code_grams(batch, ProductKernel::kWarp, "mma.sync", all);
  all.push_back({"strict", "float64 band", From::kGrams64,
                 [](StageBatch& one) { one.strict().reduce(); }, count});
  all.push_back({"strict", "float64 chase", From::kBands64,
                 [](StageBatch& one) { one.strict().chase(); }, count});
  all.push_back({"strict", "float64 chase by flags", From::kBands64,
                 [](StageBatch& one) { one.strict().shared_chase(); }, count});
  all.push_back({"strict", "float64 values", From::kTridiagonals64,
                 [](StageBatch& one) { one.strict().solve(); }, count});
}

/// What only wgmma can.
void add_warpgroups(const StageBatch& batch, std::vector<Stage>& all) {
  const auto gram = [&](const char* name, ProductKernel product, bool native) {
    all.push_back(
        {"gram", name, From::kCodes, [=](StageBatch& one) { one.form(product, native); }});
  };
  gram("gram by wgmma", ProductKernel::kWarpgroup, false);
  gram("gram by wgmma, native operands", ProductKernel::kWarpgroup, true);
  add_code_grams(batch, ProductKernel::kWarpgroup, "wgmma", all);
  gram("gram by wgmma in clusters, native operands", ProductKernel::kWarpgroupPairs, true);
}

/// Every stage and every kernel that can do its work here, in the order in which they are timed.
std::vector<Stage> all_stages(const Probe& probe, const StageBatch& batch) {
  std::vector<Stage> all;
  all.push_back({"gram", "gram by mma.sync", From::kCodes,
                 [](StageBatch& one) { one.form(ProductKernel::kWarp); }});
  all.push_back({"gram", "gram by mma.sync, native operands", From::kCodes,
                 [](StageBatch& one) { one.form(ProductKernel::kWarp, true); }});
  for (const std::int64_t strip_rows : batch.strips()) {
    const std::string strips =
        strip_rows == 0 ? "" : ", strips of " + std::to_string(strip_rows) + " rows";
    all.push_back({"band", "band on tensor cores" + strips, From::kGrams,
                   [strip_rows](StageBatch& one) { one.reduce(BandRoute::kTensor, strip_rows); }});
  }
  all.push_back({"band", "band with deferred updates", From::kGrams,
                 [](StageBatch& one) { one.reduce_deferred(); }});
  add_chases<double>(probe, batch, "chase64", all);
  add_chases<float>(probe, batch, "chase32", all);
  all.push_back({"values", "values", From::kTridiagonals, [](StageBatch& one) { one.solve(); }});
  all.push_back(
      {"values", "values in float32", From::kTridiagonals, [](StageBatch& one) { one.solve32(); }});
  add_newer_chases<double>(probe, batch, "chase64", all);
  add_newer_chases<float>(probe, batch, "chase32", all);
  add_back(probe, batch, all);
  add_strict(batch, all);
  all.push_back({"band", "band without tensor cores", From::kGrams,
                 [](StageBatch& one) { one.reduce(BandRoute::kPlain, 0); }});
  if (choose_product_kernel(probe.properties().major, probe.properties().minor) ==
      ProductKernel::kWarpgroup) {
    add_warpgroups(batch, all);
  }
  return all;
}

void prepare(StageBatch& batch, From from) {
  if (from >= From::kGrams64) {
    batch.strict().form(ProductKernel::kWarp, false);
    batch.strict().complete();
    if (from >= From::kBands64) {
      batch.strict().reduce();
    }
    if (from >= From::kTridiagonals64) {
      batch.strict().chase();
    }
    return;
  }
  if (from >= From::kGrams) {
    batch.form(ProductKernel::kWarp);
  }
  if (from >= From::kBands) {
    batch.reduce(BandRoute::kTensor, 0);
  }
  if (from >= From::kTridiagonals) {
    batch.chase<double>(7, batch.count());
  }
}

/// Its whole time, then that of its kernels, per matrix that it works on.
void time_stage(Probe& probe, StageBatch& batch, const Stage& stage) {
  const std::int64_t count = stage.matrices > 0 ? stage.matrices : batch.count();
  const auto row = [&](const std::string& route) {
    return throughput::Row{.name = "probe.stage",
                           .route = route,
                           .backend = "cuda",
                           .rows = probe.stages.rows,
                           .cols = probe.stages.cols,
                           .batch = count,
                           .encoding = "F8_E4M3 128x128",
                           .unit = "microseconds"};
  };
  const auto each = static_cast<double>(count);
  std::map<std::string, LaunchClock::Sum> sums;
  probe.run(row(stage.name), [&](throughput::Row& found) {
    found.samples =
        probe.microseconds([&] { stage.run(batch); }, [&] { prepare(batch, stage.from); });
    for (double& sample : found.samples) {
      sample /= each;
    }
    found.note = "per matrix";
    prepare(batch, stage.from);
    LaunchClock clock;
    stage.run(batch);
    sums = clock.take();
  });
  for (const auto& [kernel, sum] : sums) {
    probe.run(row(stage.name + ": " + kernel), [&, sum = sum](throughput::Row& found) {
      found.samples = {sum.microseconds / each};
      found.note = "per matrix, " + std::to_string(sum.launches) + " launches, events around each";
    });
  }
}

}  // namespace

std::vector<std::string> stage_names() {
  return {"gram", "band", "chase64", "chase32", "values", "back", "strict"};
}

void probe_stages(Probe& probe) {
  StageBatch batch(probe);
  const std::vector<std::string>& only = probe.stages.only;
  for (const Stage& stage : all_stages(probe, batch)) {
    if (only.empty() || std::find(only.begin(), only.end(), stage.group) != only.end()) {
      time_stage(probe, batch, stage);
    }
  }
}

}  // namespace vindex::probe
