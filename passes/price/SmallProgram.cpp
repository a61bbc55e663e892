//===- SmallProgram.cpp - Costs of a program with few layers --------------===//
#include "passes/price/SmallProgram.h"

#include "passes/lower/Lower.h"
#include "passes/price/SoftwareBuffers.h"
#include "runtime/base/Parallel.h"

using namespace mlir;
using namespace dpc;

/// Sets the size of the pipeline axis, which determines the links of messages.
static void setStages(func::FuncOp step, int64_t stages) {
  auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
  SmallVector<StringAttr> names(mesh.getNames());
  SmallVector<int64_t> sizes(mesh.getSizes());
  for (auto [name, size] : llvm::zip_equal(names, sizes))
    if (name.getValue() == kPipelineAxis)
      size = stages;
  step->setAttr(attr::kMesh, MeshAttr::get(step.getContext(), names, sizes));
}

FailureOr<SmallProgram>
dpc::measureLayers(ProgramFamily &family, int64_t layers,
                   SharedLowering &lowering, const LoweringSpec &spec,
                   int64_t stages,
                   llvm::function_ref<void(ArrayRef<func::FuncOp>)> look) {
  FailureOr<ModuleOp> program = family.program(layers);
  if (failed(program))
    return failure();
  const cost::Cluster &cluster = lowering.cluster;
  auto module = lowering.lower(*program, spec);
  if (failed(module))
    return failure();
  SmallVector<func::FuncOp> steps = findSteps(**module);
  SmallProgram result;
  result.stages.resize(steps.size());
  if (auto blocks =
          steps.front()->getAttrOfType<IntegerAttr>(attr::kBlockLayers))
    result.blockLayers = blocks.getInt();
  bool hasStages = steps.size() > 1;
  if (hasStages) {
    for (func::FuncOp step : steps)
      setStages(step, stages);
    PipelineParts parts = measurePipeline(steps, cluster);
    result.messages = std::move(parts.messages);
    for (auto [stage, part] : llvm::zip(result.stages, parts.stages))
      stage.parts = std::move(part);
  } else {
    auto time = estimateTime(steps, cluster);
    if (!time)
      return steps.front().emitError(time.message());
    result.time = *time;
  }
  MemoryOwner owner = memoryOwner(cluster, spec);
  parallelFor(steps.size(), 1, [&](size_t i) {
    StageProfile &stage = result.stages[i];
    stage.memory = profileMemory(steps[i], /*inLine=*/!look, hasStages, owner);
    stage.away = offloadedBytes(steps[i]);
  });
  if (look)
    look(steps);
  return result;
}
