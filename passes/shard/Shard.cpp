//===- Shard.cpp - dpc-shard ----------------------------------------------===//
#include "passes/shard/Assign.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

namespace dpc {
#define GEN_PASS_DEF_DPCSHARD
#include "passes/shard/Passes.h.inc"
} // namespace dpc

func::FuncOp dpc::findProgram(ModuleOp module) {
  if (auto func = module.lookupSymbol<func::FuncOp>("train_step"))
    return func;
  return module.lookupSymbol<func::FuncOp>("forward");
}

namespace {

struct ShardPass : public dpc::impl::DpcShardBase<ShardPass> {
  using DpcShardBase::DpcShardBase;

  void runOnOperation() override {
    func::FuncOp func = findProgram(getOperation());
    if (!func) {
      getOperation().emitError("no function @train_step or @forward to shard");
      return signalPassFailure();
    }
    std::string name =
        cluster.empty() ? "local:" + std::to_string(dp * tp) : cluster;
    cost::Result<cost::Cluster> loaded = cost::loadCluster(name);
    if (!loaded) {
      func.emitError(loaded.error());
      return signalPassFailure();
    }
    ShardDegrees degrees{dp, tp, sp, microBatches, zero};
    ProgramFacts facts(func);
    cost::Result<ShardChoices> choices = chooseShards(facts, *loaded, degrees);
    if (!choices) {
      func.emitError(choices.error());
      return signalPassFailure();
    }
    if (failed(assignShardings(facts, *choices, degrees)))
      signalPassFailure();
  }
};

} // namespace
