// Owns `vindex lookup MODEL -o OUT.h5`: the features of a model, what they write and its embedding
// in a file that is searched as the model is (gate_vector_layout.hpp).
#pragma once

#include "store_settings.hpp"

#include "decode/encoding/element_type.hpp"
#include "engine/run/job_runner.hpp"
#include "engine/run/opening.hpp"
#include "model/transformer/features.hpp"

namespace vindex::commands {

/// Writes settings.run.output at once, or not at all: nothing is kept of a run that is stopped. A
/// complete file of the same settings is left as it is. Errors: those of open_weights() and
/// FeatureSource::features(); FormatError E-UNSUPPORTED (65) where no matrix can be decoded;
/// ConfigurationError E-DTYPE (78) where a weight is beyond the type, E-BUDGET (78), and
/// E-RESUME-FINGERPRINT (78) where the output is of other settings; OutputError, SystemError.
engine::RunOutcome store_features(const StoreSettings& settings, const engine::RunHooks& hooks);

}  // namespace vindex::commands
