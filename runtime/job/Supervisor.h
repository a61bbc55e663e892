//===- Supervisor.h - --max-restarts ----------------------------*- C++ -*-===//
//
// The run is a child process: dpc-run, or a launcher that starts dpc-run on
// several ranks (--launcher="mpirun -np 4"). The supervisor prints the output
// of the run. If the run dies, or completes no step for --hang-seconds, the
// supervisor ends it and restarts it from the newest checkpoint. If a
// checkpoint is damaged, the supervisor renames it and uses the previous
// checkpoint.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_JOB_SUPERVISOR_H
#define DPC_RUNTIME_JOB_SUPERVISOR_H

#include "runtime/job/RunOptions.h"

#include <string>
#include <vector>

namespace dpc {

/// Runs `words` (see wordsOfRun()) and restarts it up to `options.maxRestarts`
/// times. Returns the exit code of the process.
int supervise(const RunOptions &options, const std::vector<std::string> &words);

/// The command line without the options of the supervisor, --resume and
/// --new-data.
std::vector<std::string> wordsOfRun(const RunOptions &options, int argc,
                                    char **argv);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_SUPERVISOR_H
