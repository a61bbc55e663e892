//===- ProgramRemarks.h - What is probably a mistake ------------*- C++ -*-===//
//
// Mistakes that only the program of torch shows. tools/driver/Suspicions.h
// finds others in the imported @forward.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Options.h"
#include "frontends/torch/Liveness.h"

namespace dpc::frontend::pt2 {

/// Returns a line for each loss whose operands make no sense: an elementwise
/// loss that broadcasts one operand to the other, nll_loss of values that
/// cannot be log-probabilities of its classes, cross_entropy of probabilities
/// or of one class if its labels are probabilities, or binary_cross_entropy of
/// values that cannot be probabilities. Also returns a line for each
/// elementwise op that broadcasts two batches to a matrix of all pairs of
/// samples. Ignores nodes that are not live.
std::vector<std::string> remarksOnLosses(const Program &program,
                                         const Liveness &live);

/// Returns a line that names the tensors which live nodes use like weights, but
/// which are neither parameters nor buffers, if there are any. Numbers that the
/// forward itself writes down, as torch.tensor([..]), are no such tensors.
std::vector<std::string> remarksOnConstants(const Program &program,
                                            const Liveness &live);

/// Returns both, or the first for a model that is not trained.
inline std::vector<std::string> remarksOn(const Program &program,
                                          const Liveness &live,
                                          const ImportOptions &options) {
  std::vector<std::string> remarks = remarksOnLosses(program, live);
  if (!options.evaluates)
    llvm::append_range(remarks, remarksOnConstants(program, live));
  return remarks;
}

} // namespace dpc::frontend::pt2
