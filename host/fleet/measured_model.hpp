// Owns what a measurement says of a model tensor by tensor and class by class, gathered from its
// results file: theta of every matrix (of a stack, the spread over its slices), the angles of
// 1-D tensors apart from them, and why a tensor has neither.
#pragma once

#include "core/constants.hpp"
#include "model/families/architecture_facts.hpp"
#include "organ/source/organ_class.hpp"
#include "statistics/scales/scale_figures.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::fleet {

/// Mean, population standard deviation and extremes of the values that are numbers; NaN of none.
/// Values of weight 0 or less take part in nothing.
class Spread {
 public:
  void add(double value, double weight = 1.0);
  double mean() const { return count_ == 0 ? kNaN : mean_; }
  double sd() const;
  double min() const { return count_ == 0 ? kNaN : min_; }
  double max() const { return count_ == 0 ? kNaN : max_; }
  std::int64_t count() const { return count_; }

 private:
  double weight_ = 0.0, mean_ = 0.0, squares_ = 0.0;
  double min_ = kInfinity, max_ = -kInfinity;
  std::int64_t count_ = 0;
};

/// What is reported of a matrix: columns of the results file, in the order of the reports.
enum class TensorFigure : std::uint8_t {
  kTheta,
  kThetaNull,
  kSignal,
  kRankEdge,
  kRankGd,
  kMpKs,
  kEffectiveRank,
  kEffectiveRankNull,
  kStableRank,
  kVarAt64,
  kVarAt64Null,
  kThetaSeed,
  kThetaSeedNull,
  kSeedEntropy,
  kSeedKurtosis,
  kSeedCv,
  kZModulus,
  kCsci,
  kZSignFlip,
  kCsciSignFlip,
  kCount
};
inline constexpr std::size_t kTensorFigures = static_cast<std::size_t>(TensorFigure::kCount);

/// Where a figure comes from and what reports call it.
struct FigureRow {
  const char* column;
  const char* name;
  bool of_vectors = false;  ///< there for 1-D tensors too
  std::size_t element = 0;  ///< of a column [matrix, k]
  std::int64_t since = 0;   ///< minor version of the schema that has it first
};

/// By TensorFigure.
inline constexpr std::array<FigureRow, kTensorFigures> kFigureRows = {{
    {"theta", "theta"},
    {"theta_null", "theta_null"},
    {"signal", "signal"},
    {"rank_edge", "rank_edge"},
    {"rank_gd", "rank_gd"},
    {"mp_ks", "ks_mp"},
    {"effective_rank", "erank"},
    {"effective_rank_null", "erank_null"},
    {"stable_rank", "stable_rank"},
    {"var_at_k", "var64", false, 6},
    {"var_at_k_null", "var64_null", false, 6},
    {"theta_seed", "theta_seed", true},
    {"theta_seed_null", "theta_seed_null", true},
    {"seed_entropy", "H", true},
    {"seed_kurtosis", "kurtosis", true},
    {"seed_cv", "cv", true},
    {"z_modulus", "z_modulus", true, 0, 4},
    {"csci", "csci", true, 0, 4},
    {"z_modulus_signflip", "z_modulus_signflip", true, 0, 4},
    {"csci_signflip", "csci_signflip", true, 0, 4},
}};

/// What a matrix is to a model: the class of its name, feed-forward matrices by whether every token
/// passes them.
enum class ModelPart : std::uint8_t {
  kEmbed,
  kSkeleton,
  kDense,   ///< feed-forward of every token
  kRouted,  ///< experts
  kShared,  ///< experts of every token
  kRouter,
  kOther,
  kCount
};
inline constexpr std::size_t kModelParts = static_cast<std::size_t>(ModelPart::kCount);
/// "embed", "skeleton", "dense", "routed", "shared", "router", "other".
std::string_view part_name(ModelPart part);

struct MeasuredTensor {
  std::string name;
  organ::OrganName organ;
  ModelPart part = ModelPart::kOther;
  std::string shape;  ///< outermost first, "1024x4096"
  std::string type;
  std::int64_t parameters = 0;
  std::int64_t slices = 0;  ///< matrices it consists of; 0: a 1-D tensor, no matrix
  std::array<Spread, kTensorFigures> figures = {};  ///< of a single matrix min = mean = max
  double theta_qq = kNaN;                           ///< of 1-D tensors only
  double theta_qq_null = kNaN;                      ///< of 1-D tensors only
  statistics::ScaleFigures scales = {};  ///< with the nulls; of a stack those of its mean
  std::string scales_missing = {};       ///< why z_modulus or csci is none
  std::string remark;  ///< reason of the results file where a value is missing or flagged

  bool is_vector() const { return slices == 0; }
  const Spread& operator[](TensorFigure figure) const {
    return figures[static_cast<std::size_t>(figure)];
  }
  Spread& operator[](TensorFigure figure) { return figures[static_cast<std::size_t>(figure)]; }
};

struct UnmeasuredTensor {
  std::string name;
  organ::OrganName organ;
  std::string reason;
};

/// z_modulus and csci over tensors, unweighted, and what their means would be of noise.
struct ScaleSpread {
  Spread z_modulus, z_modulus_null, z_modulus_signflip, csci, csci_signflip, csci_permuted;
  Spread z_variance, csci_variance;  ///< squared standard deviations of the tensors' nulls

  void add(const MeasuredTensor& tensor);
  /// Of the mean over the tensors.
  double z_null_sd() const;
  double csci_null_sd() const;
};

/// Of the matrices of a class, or of a model. A stack counts as one tensor, by its slices' mean.
struct GroupStatistics {
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  Spread theta, theta_weighted;  ///< unweighted over tensors, and weighted by their parameters
  Spread theta_null;             ///< weighted
  Spread signal;                 ///< weighted
  Spread theta_seed, theta_seed_null;
  Spread var64, var64_null;                 ///< weighted
  Spread var64_over_null, erank_over_null;  ///< weighted means of the matrices' ratios
  Spread var64_excess;  ///< of (var64 - null) / (1 - null): its share above the null, for any shape
  ScaleSpread scales;
};

/// Of 1-D tensors of a class, or of a model.
struct VectorStatistics {
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  Spread theta_qq, theta_qq_null, theta_seed, theta_seed_null;
  ScaleSpread scales;
};

struct ModelMeasure {
  std::string name;     ///< of the model in reports
  std::string path;     ///< as given
  std::string results;  ///< results file
  std::string architecture;
  model::ArchitectureFacts attention;  ///< as the model's configuration claims
  std::string mode, backend;
  std::int64_t tensors_total = 0;       ///< stored in the model's files
  std::int64_t stored_counted = 0;      ///< of them in `tensors` and `unmeasured`
  std::uint64_t bytes = 0;              ///< of the model's files
  double seconds = kNaN;                ///< that measuring took
  std::vector<MeasuredTensor> tensors;  ///< in order of name
  std::vector<UnmeasuredTensor> unmeasured;

  /// Parameters of all measured tensors.
  std::int64_t parameters() const;
};

/// All tensors of `file`, a results file of a run that took samples; name, files' totals and time
/// are the caller's. Errors: those of results::ResultsFile; UsageError E-ORGAN-NOT-SAMPLED where
/// the run took none.
ModelMeasure read_model_measure(const std::string& file);

/// FormatError E-ORGAN-COUNT (65) unless every stored tensor is measured or listed with its reason,
/// and the files hold as many as `declared` (split.tensors.count; negative: not declared) says.
void require_all_counted(const ModelMeasure& model, std::int64_t declared);

GroupStatistics group_statistics(const ModelMeasure& model,
                                 const organ::OrganClass* only = nullptr);
GroupStatistics part_statistics(const ModelMeasure& model, ModelPart part);
/// Of the feed-forward matrices: dense, routed and shared.
GroupStatistics feed_forward_statistics(const ModelMeasure& model);
/// The encoding that most weights of the feed-forward matrices are stored in; empty without any.
std::string feed_forward_encoding(const ModelMeasure& model);
VectorStatistics vector_statistics(const ModelMeasure& model,
                                   const organ::OrganClass* only = nullptr);

}  // namespace vindex::fleet
