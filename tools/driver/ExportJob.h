//===- ExportJob.h - A compilation as a job of other programs ---*- C++ -*-===//
#pragma once

#include "codegen/export/Targets.h"
#include "tools/driver/Compile.h"

namespace dpc {

/// Returns the job without a strategy: the model, the batch and the settings of
/// training. Stages may have any number of layers.
exports::Job jobOf(const CompileOptions &options, const Prepared &prepared);

/// Returns the job of a plan that uses the part `used` of the cluster.
exports::Job jobOf(const CompileOptions &options, const Prepared &prepared,
                   const cost::Candidate &plan, const cost::Cluster &used);

} // namespace dpc
