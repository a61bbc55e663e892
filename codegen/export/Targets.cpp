//===- Targets.cpp - Whose configurations are written ---------------------===//
#include "codegen/export/Targets.h"

namespace dpc::exports {

const std::vector<Target> &targets() {
  static const std::vector<Target> all = {
      {"accelerate", accelerateRules, writeAccelerate},
      {"calculon", calculonRules, writeCalculon},
      {"colossalai", colossalAiRules, writeColossalAi},
      {"deepspeed", deepSpeedRules, writeDeepSpeed},
      {"galvatron", galvatronRules, writeGalvatron},
      {"megatron", megatronRules, writeMegatron, "megatron-core-2024"},
      {"torchtitan", torchtitanRules, writeTorchtitan, "pytorch-fsdp-2024"}};
  return all;
}

const Target *findTarget(std::string_view name) {
  for (const Target &target : targets())
    if (target.name == name)
      return &target;
  return nullptr;
}

} // namespace dpc::exports
