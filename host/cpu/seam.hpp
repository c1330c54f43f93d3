// Owns the list of names that the CPU back end takes from the seam and from the shared arithmetic
// above it: what it uses of other layers, at a glance.
#pragma once

#include "backend/backend.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include "statistics/spectrum/judgement.hpp"
#include "statistics/spectrum/singular_triplets.hpp"
#include "statistics/spectrum/spectrum_bounds.hpp"

namespace vindex::cpu {

using measure::are_dense_vectors;
using measure::Backend;
using measure::BackendInfo;
using measure::BackendLimits;
using measure::begin_draw;
using measure::begin_draws;
using measure::begin_measurement;
using measure::begin_vectors;
using measure::bounded_count;
using measure::bounded_k;
using measure::bounds_between;
using measure::certificate_gap;
using measure::CertificateInput;
using measure::certified_bounds;
using measure::complement_candidates;
using measure::definiteness_shift;
using measure::Finding;
using measure::is_enough_for_bounds;
using measure::is_enough_for_vectors;
using measure::is_refused;
using measure::is_tail_enough;
using measure::is_tail_of;
using measure::judge;
using measure::judge_draw;
using measure::kBlockWidth;
using measure::kFastValues;
using measure::kFullSpectrumSize;
using measure::kProvedVectors;
using measure::matrix_error;
using measure::MatrixInput;
using measure::MatrixReport;
using measure::MeasureOptions;
using measure::Mode;
using measure::next_situation;
using measure::root_error;
using measure::SignFlipCollector;
using measure::singular_triplets;
using measure::SingularVectors;
using measure::Situation;
using measure::SpectrumBounds;
using measure::StagingBuffer;
using measure::Step;
using measure::take_eigenvalues;
using measure::triplet_columns;
using measure::unproved_bounds;
using measure::UpperSums;
using measure::vector_block_width;
using measure::Verdict;

}  // namespace vindex::cpu
