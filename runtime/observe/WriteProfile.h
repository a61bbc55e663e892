//===- WriteProfile.h - --profile -------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_WRITEPROFILE_H
#define DPC_RUNTIME_OBSERVE_WRITEPROFILE_H

#include "runtime/base/Status.h"

#include <string>

namespace dpc {

/// Compares `events`, those that ran (rt::traceEventsJson), with trace.json of
/// the plan's folder, prints that, writes profile.json there, and puts it into
/// report.html if there is one. Without trace.json only what was measured is
/// shown.
Status writeProfile(const std::string &plan, const std::string &events);

} // namespace dpc

#endif // DPC_RUNTIME_OBSERVE_WRITEPROFILE_H
