//===- Supervisor.h - --max-restarts ----------------------------*- C++ -*-===//
//
// The run is a child process: dpc-run itself, or a launcher that starts it on
// several (--launcher="mpirun -np 4"). What it prints goes through here, line
// by line; a line of a step is its sign of life. When it dies, or shows none
// for
// --hang-seconds, it is ended and started again from the newest checkpoint, or
// from the one before when nothing came of that.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_SUPERVISOR_H
#define DPC_RUNTIME_JOB_SUPERVISOR_H

#include "runtime/job/RunOptions.h"

#include <string>
#include <vector>

namespace dpc {

/// Runs `words`, the command line of the run without the options that are the
/// supervisor's, --resume and --new-data, up to `options.maxRestarts` times
/// again. Returns what the process exits with.
int supervise(const RunOptions &options, const std::vector<std::string> &words);

/// Of a command line what supervise() takes.
std::vector<std::string> wordsOfRun(const RunOptions &options, int argc,
                                    char **argv);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SUPERVISOR_H
