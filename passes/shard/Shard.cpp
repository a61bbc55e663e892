//===- Shard.cpp - dpc-shard ----------------------------------------------===//
#include "passes/shard/Assign.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Stages.h"

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
    std::optional<LoweringSpec> degrees = readOptions(func);
    if (!degrees)
      return signalPassFailure();
    std::string name = cluster.empty()
                           ? "local:" + std::to_string(numRanks(*degrees))
                           : cluster;
    Expected<cost::Cluster> loaded = cost::loadCluster(name);
    if (!loaded) {
      func.emitError(loaded.message());
      return signalPassFailure();
    }
    markRings(func, *degrees);
    ProgramFacts facts(func);
    if (failed(markStages(facts, *loaded, *degrees)))
      return signalPassFailure();
    Expected<ShardChoices> choices = chooseShards(facts, *loaded, *degrees);
    if (!choices) {
      func.emitError(choices.message());
      return signalPassFailure();
    }
    if (failed(assignShardings(facts, *choices, *degrees)))
      signalPassFailure();
  }

  /// The pass options, or nothing after a diagnostic.
  std::optional<LoweringSpec> readOptions(func::FuncOp func) {
    LoweringSpec degrees;
    degrees.dp = dp;
    degrees.tp = tp;
    degrees.sp = sp;
    degrees.numMicroBatches = microBatches;
    degrees.zero = zero;
    degrees.pp = pp;
    degrees.vpp = vpp;
    degrees.cp = cp;
    degrees.tp.grid.assign(tpGrid.begin(), tpGrid.end());
    degrees.hybridShard = hybridShard;
    degrees.ep = ep;
    degrees.compressGradients = compressGradients;
    degrees.compressWeights = compressWeights;
    if (cpKind != "ring" && cpKind != "ulysses") {
      func.emitError("cp-kind=") << cpKind << "; expected ring or ulysses";
      return std::nullopt;
    }
    degrees.cpKind = cpKind == "ring" ? cost::CpKind::Ring : cost::CpKind::Ulysses;
    std::string why = checkDegrees(degrees);
    if (why.empty())
      return degrees;
    func.emitError(why);
    return std::nullopt;
  }
};

} // namespace
