//===- Supervisor.h - --max-restarts ----------------------------*- C++ -*-===//
//
// The run is a child process: dpc-run itself, or a launcher that starts it on
// several ranks (--launcher="mpirun -np 4"). The supervisor passes on its
// output line by line; the line of a step is a sign of life. When the run dies,
// or gives no sign of life for --hang-seconds, the supervisor ends it and
// restarts it from the newest checkpoint, or from the one before if the newest
// leads to no progress.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_SUPERVISOR_H
#define DPC_RUNTIME_JOB_SUPERVISOR_H

#include "runtime/job/RunOptions.h"

#include <string>
#include <vector>

namespace dpc {

/// Runs `words`, the command line of the run without the supervisor's options,
/// --resume and --new-data. Restarts it up to `options.maxRestarts` times.
/// Returns the exit code of the process.
int supervise(const RunOptions &options, const std::vector<std::string> &words);

/// The `words` for supervise() in a command line.
std::vector<std::string> wordsOfRun(const RunOptions &options, int argc,
                                    char **argv);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SUPERVISOR_H
