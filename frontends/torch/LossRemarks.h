//===- LossRemarks.h - Losses that are probably a mistake -------*- C++ -*-===//
#pragma once

#include "frontends/torch/Liveness.h"

namespace dpc::frontend::pt2 {

/// Returns a line for each loss whose operands make no sense: an elementwise
/// loss that broadcasts one operand to the other, cross_entropy of
/// probabilities, or nll_loss of values that cannot be log-probabilities.
/// Ignores nodes that are not live.
std::vector<std::string> remarksOnLosses(const Program &program,
                                         const Liveness &live);

} // namespace dpc::frontend::pt2
