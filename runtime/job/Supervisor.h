//===- Supervisor.h - --max-restarts ----------------------------*- C++ -*-===//
//
// The run is a child process: dpc-run, or a launcher that starts dpc-run on
// several ranks (--launcher="mpirun -np 4"). The supervisor prints the output
// of the run. It restarts the run from the newest checkpoint if the run dies,
// or if it completes no step for --hang-seconds. A damaged checkpoint is
// renamed, and the previous checkpoint is used.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/job/RunOptions.h"

#include <string>
#include <vector>

namespace dpc {

/// Runs the command `words` (see wordsOfRun()) and restarts it up to
/// `options.maxRestarts` times. Returns the exit code for this process.
int supervise(const RunOptions &options, const std::vector<std::string> &words);

/// Returns the command line without --resume, --new-data and the options that
/// only the supervisor reads.
std::vector<std::string> wordsOfRun(const RunOptions &options, int argc,
                                    char **argv);

} // namespace dpc
