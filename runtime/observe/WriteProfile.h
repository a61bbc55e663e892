//===- WriteProfile.h - the output of --profile -----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_WRITEPROFILE_H
#define DPC_RUNTIME_OBSERVE_WRITEPROFILE_H

#include "runtime/base/Status.h"

#include <string>

namespace dpc {

/// Compares `events`, the measured ones (rt::traceEventsJson), with trace.json
/// of the plan folder, prints the comparison, writes profile.json there, and
/// adds it to report.html if that exists. Without trace.json, shows only the
/// measured times.
Status writeProfile(const std::string &plan, const std::string &events);

} // namespace dpc

#endif // DPC_RUNTIME_OBSERVE_WRITEPROFILE_H
