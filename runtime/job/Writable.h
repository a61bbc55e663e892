//===- Writable.h - early checks of result files ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_WRITABLE_H
#define DPC_RUNTIME_JOB_WRITABLE_H

#include "runtime/base/Status.h"

namespace dpc {

/// Checks whether a file can be written at `path`, by trying, so that the
/// failure does not come after an hour of training. Existing contents stay
/// unchanged. Accepts "".
Status checkWritable(const char *option, const std::string &path);

} // namespace dpc

#endif // DPC_RUNTIME_JOB_WRITABLE_H
