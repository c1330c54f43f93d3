// Owns `vindex lookup`: which features of a model activate for a token or a vector, what chance
// would give, and what each of them writes. Definitions: docs/commands/lookup.md.
#pragma once

#include "commands/lookup/features/lookup_result.hpp"
#include "engine/run/job_runner.hpp"

#include <functional>

namespace vindex::commands {

/// Takes queries in their order, as soon as they are answered; `result` holds what they share.
using SeeQuery = std::function<void(const LookupResult& result, const QueryResult& query)>;

/// Searches: one pass over the weights for as many queries at a time as a part of ram_budget holds.
/// Every query is known to be sound before the first pass. Errors: those of open_model(),
/// index_model(), read_vocabulary() and QueryMaker; MissingInputError E-NOTHING (66) without a
/// feature matrix; UsageError E-SELECTION (64); ConfigurationError E-QUERY-WIDTH (78) where none
/// takes inputs of the queries' width, E-BUDGET (78); FormatError E-UNSUPPORTED (65) where no
/// matrix can be decoded; those of reading.
LookupResult look_up(const LookupSettings& settings, const engine::RunHooks& hooks,
                     const SeeQuery& see);

}  // namespace vindex::commands
