//===- Workers.h - Many cases, a process each --------------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_CASES_WORKERS_H
#define DPC_TOOLS_DPC_CASES_WORKERS_H

#include "tools/dpc-cases/Case.h"

#include <functional>

namespace dpc {

/// How cases are run.
struct WorkerOptions {
  int64_t ranks = 1;
  int64_t jobs = 2;       ///< Processes at a time.
  int64_t seconds = 60;   ///< After which a case is killed.
  bool gradients = false; ///< Differentiate cases instead of running them.
};

/// Runs every case in a forked process, so that a crash is that case's result.
/// Calls `report` in this process as cases end, with "" or one line of why the
/// case has no outputs.
void runCases(const std::vector<Case> &cases, const WorkerOptions &options,
              const std::function<void(const Case &, std::string)> &report);

} // namespace dpc

#endif // DPC_TOOLS_DPC_CASES_WORKERS_H
