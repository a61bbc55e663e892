//===- OutputFiles.h - the files that a run writes --------------*- C++ -*-===//
#pragma once

#include "runtime/io/InitialValues.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// What a run reads. `evalPlan` is null without --eval-plan.
struct RunInputs {
  const RunOptions &options;
  const rt::Plan &plan;
  const rt::Plan *evalPlan;
  const rt::InitChoice &init;
};

/// Checks that all result files can be written, and that none of them replaces
/// a file that the run reads. Results of an earlier run may be replaced.
Status checkOutputs(const RunInputs &run);

/// Returns a line about arrays in the folder of --outputs that the plan neither
/// reads from there nor writes, or "" if there are none.
std::string otherArrays(const RunOptions &options, const rt::Plan &plan);

} // namespace dpc
