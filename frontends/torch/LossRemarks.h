//===- LossRemarks.h - Losses that are probably a mistake -------*- C++ -*-===//
#pragma once

#include "frontends/torch/Liveness.h"

namespace dpc::frontend::pt2 {

/// Returns a line for each loss whose operands make no sense: an elementwise
/// loss that broadcasts one operand to the other, cross_entropy of
/// probabilities or of one class, nll_loss of values that cannot be
/// log-probabilities, or binary_cross_entropy of values that cannot be
/// probabilities. Also returns a line for each elementwise op that broadcasts
/// two batches to a matrix of all pairs of samples. Ignores nodes that are not
/// live.
std::vector<std::string> remarksOnLosses(const Program &program,
                                         const Liveness &live);

} // namespace dpc::frontend::pt2
