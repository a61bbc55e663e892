//===- SaveWeights.h - --save-params and --export ---------------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Writes all weights of the model (Tensor::isWeight), floats as fp32, under
/// their names in the model: trained and frozen parameters, and buffers. Only
/// one tensor is in memory at a time. All processes call this; rank 0 writes,
/// with its `profile` of the data that trained the weights, or "".
Status saveWeights(const RunOptions &options, const rt::Plan &plan,
                   rt::Session &session, const std::string &profile);

} // namespace dpc
