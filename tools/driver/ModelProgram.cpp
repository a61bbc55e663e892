//===- ModelProgram.cpp - A model that is ready to be sharded -------------===//
#include "tools/driver/ModelProgram.h"

#include "ir/ExpertLoads.h"
#include "passes/graph/Passes.h"
#include "passes/price/HeterogeneousPipeline.h"

using namespace mlir;

namespace dpc {

ModelProgram::ModelProgram(OwningOpRef<ModuleOp> fused, const PassList &passes)
    : given(std::move(fused)), passes(passes),
      family(std::make_unique<ProgramFamily>(*given, passes)) {}

std::optional<ModelProgram>
ModelProgram::withExpertLoads(ArrayRef<double> loads) const {
  if (!family)
    return std::nullopt;
  ModuleOp fused = given.get();
  OwningOpRef<ModuleOp> clone(cast<ModuleOp>(fused->clone()));
  setExpertLoads(*clone, loads);
  return ModelProgram(std::move(clone), passes);
}

FailureOr<ModuleOp> ModelProgram::whole() const {
  return family ? family->whole() : FailureOr<ModuleOp>(*given);
}

ModuleOp ModelProgram::sample() const {
  constexpr int64_t kLayers = 3;
  return (isDeep() ? family->program(kLayers) : whole()).value_or(ModuleOp());
}

bool ModelProgram::trains() const {
  return static_cast<bool>(sample().lookupSymbol(kTrainStepFunction));
}

std::unique_ptr<cost::Evaluator>
ModelProgram::evaluator(const cost::Cluster &cluster, bool isArranged,
                        const LoweringSpec &common) const {
  return makeEvaluator(family.get(), family ? ModuleOp() : *given, cluster,
                       isArranged, common);
}

} // namespace dpc
