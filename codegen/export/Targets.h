//===- Targets.h - Programs that exports are written for --------*- C++ -*-===//
//
// Each target has a file that defines it, for the version that the head of the
// file names.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_TARGETS_H
#define DPC_CODEGEN_EXPORT_TARGETS_H

#include "codegen/export/Legality.h"

namespace dpc::exports {

using Rules = std::vector<Rule>;

struct Target {
  std::string_view name; ///< The value of --emit.
  Rules (*rules)();
  /// Requires that all rules hold for `job`.
  Exported (*write)(const Job &job);
  /// The software profile (cost-model/machine/Software.h) fitted to published
  /// runs of the target, or "".
  std::string_view software = "";
};

const std::vector<Target> &targets();

/// The target called `name`, or null.
const Target *findTarget(std::string_view name);

extern const Target accelerate, calculon, colossalAi, deepSpeed, galvatron,
    megatron, torchtitan;

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_TARGETS_H
