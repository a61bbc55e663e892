//===- ModelProgram.cpp - A model that is ready to be sharded -------------===//
#include "tools/driver/ModelProgram.h"

#include "passes/graph/Passes.h"
#include "passes/price/HeterogeneousPipeline.h"

using namespace mlir;

namespace dpc {

ModelProgram::ModelProgram(OwningOpRef<ModuleOp> fused, const PassList &passes)
    : given(std::move(fused)),
      family(std::make_unique<ProgramFamily>(*given, passes)) {}

ModuleOp ModelProgram::whole() const {
  if (!family)
    return *given;
  FailureOr<ModuleOp> made = family->whole();
  return succeeded(made) ? *made : ModuleOp();
}

ModuleOp ModelProgram::sample() const {
  if (!isDeep())
    return whole();
  constexpr int64_t kLayers = 3;
  FailureOr<ModuleOp> made = family->program(kLayers);
  return succeeded(made) ? *made : ModuleOp();
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
