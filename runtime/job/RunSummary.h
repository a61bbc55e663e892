//===- RunSummary.h - the last lines of a run -------------------*- C++ -*-===//
#pragma once

#include "runtime/job/RunOptions.h"
#include "runtime/plan/Plan.h"

namespace dpc {

/// What a run has done and written. Printed after everything is written.
struct RunSummary {
  int64_t ran = 0;         ///< completed steps of this run
  int64_t step = 0;        ///< the last completed step
  bool wasStopped = false; ///< by a signal
  bool writesOutputs = false;

  /// A run that a signal stops before its first step writes no results.
  bool hasResults() const { return ran > 0 || !wasStopped; }
  void print(const RunOptions &options, const rt::Plan &plan) const;
};

} // namespace dpc
