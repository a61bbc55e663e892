//===- Writable.h - whether results will have a place -----------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_WRITABLE_H
#define DPC_RUNTIME_JOB_WRITABLE_H

#include "runtime/base/Status.h"

namespace dpc {

/// Whether a file can be written at `path`: tried, so that an hour of training
/// does not end with the answer. Leaves what is there as it is; "" can.
Status checkWritable(const char *option, const std::string &path);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_WRITABLE_H
