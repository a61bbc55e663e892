//===- MeasureLinks.h - dpc-run --measure-links -----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_MEASURELINKS_H
#define DPC_RUNTIME_JOB_MEASURELINKS_H

#include "runtime/base/Status.h"
#include "runtime/job/RunOptions.h"

namespace dpc {

/// Measures all_reduce between the ranks that `options` says (threads, or the
/// processes of mpirun); the first writes `options.measureLinks`. Of several
/// hosts with several ranks each, ranks of different hosts at the same place
/// meet, all such groups at once, as they would along an axis of a mesh that
/// lies between hosts; what ranks of one host reach is measured on one host.
Status measureLinks(const RunOptions &options);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_MEASURELINKS_H
