//===- WriteProfile.h - --profile -------------------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_RUN_WRITEPROFILE_H
#define DPC_TOOLS_DPC_RUN_WRITEPROFILE_H

#include "runtime/base/Status.h"

#include <string>

namespace dpc {

/// Compares `events`, those that ran (rt::traceEventsJson), with trace.json of
/// the plan's folder, prints that, writes profile.json there, and puts it into
/// report.html if there is one. Without trace.json only what was measured is
/// shown.
rt::Status writeProfile(const std::string &plan, const std::string &events);

} // namespace dpc

#endif // DPC_TOOLS_DPC_RUN_WRITEPROFILE_H
