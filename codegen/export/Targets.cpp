//===- Targets.cpp - Programs that exports are written
// for------------------===//
#include "codegen/export/Targets.h"

#include <algorithm>

namespace dpc::exports {

const std::vector<Target> &targets() {
  static const std::vector<Target> all = {accelerate, calculon,  colossalAi,
                                          deepSpeed,  galvatron, megatron,
                                          torchtitan};
  return all;
}

const Target *findTarget(std::string_view name) {
  auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

} // namespace dpc::exports
