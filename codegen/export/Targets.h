//===- Targets.h - Whose configurations are written -------------*- C++ -*-===//
//
// One file for each target: what it demands, and what is written for it. Keys
// and demands are those of the versions that each file names.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_TARGETS_H
#define DPC_CODEGEN_EXPORT_TARGETS_H

#include "codegen/export/Legality.h"

namespace dpc::exports {

struct Target {
  std::string_view name; ///< Of --emit.
  std::vector<Rule> (*rules)();
  /// For a job that all rules hold for.
  Exported (*write)(const Job &job);
  /// The profile that says how it runs a plan (cost-model/machine/Software.h),
  /// fitted to published runs of it; "" where there is none.
  std::string_view software = "";
};

const std::vector<Target> &targets();

/// Null where there is none of the name.
const Target *findTarget(std::string_view name);

std::vector<Rule> accelerateRules();
Exported writeAccelerate(const Job &job);
std::vector<Rule> calculonRules();
Exported writeCalculon(const Job &job);
std::vector<Rule> colossalAiRules();
Exported writeColossalAi(const Job &job);
std::vector<Rule> deepSpeedRules();
Exported writeDeepSpeed(const Job &job);
std::vector<Rule> galvatronRules();
Exported writeGalvatron(const Job &job);
std::vector<Rule> megatronRules();
Exported writeMegatron(const Job &job);
std::vector<Rule> torchtitanRules();
Exported writeTorchtitan(const Job &job);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_TARGETS_H
