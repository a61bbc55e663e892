//===- LayerPlacement.cpp - Layers among the ops of stages ----------------===//
#include "passes/price/LayerPlacement.h"

#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

static std::optional<StagedOps> stagedOpsOf(ProgramFamily &family,
                                            int64_t layers,
                                            const cost::Cluster &cluster,
                                            bool &trains) {
  FailureOr<ModuleOp> program = family.program(layers);
  if (failed(program))
    return std::nullopt;
  OwningOpRef<ModuleOp> clone(cast<ModuleOp>((*program)->clone()));
  func::FuncOp func = findProgram(*clone);
  separateConstants(func);
  ProgramFacts facts(func);
  trains = !facts.forwardOf.empty();
  return findStagedOps(facts, cluster);
}

/// Finds the longest run of ops that are equal to the ops one layer later. A
/// layer has `more.size() - fewer.size()` ops.
static std::optional<LayerRun> findLayers(const StagedOps &fewer,
                                          const StagedOps &more) {
  LayerRun run;
  run.period = more.size() - fewer.size();
  if (run.period < 1)
    return std::nullopt;
  auto isRepeated = [&](int64_t i) {
    int64_t j = i + run.period;
    return more.names[i] == more.names[j] &&
           more.seconds[i] == more.seconds[j] &&
           more.crossingBytes[i] == more.crossingBytes[j];
  };
  int64_t best = 0, length = 0;
  for (int64_t i = 0; i + run.period < more.size(); ++i) {
    length = isRepeated(i) ? length + 1 : 0;
    if (length > best) {
      best = length;
      run.before = i + 1 - length;
    }
  }
  run.layers = best / run.period + 1;
  run.after = more.size() - run.before - run.layers * run.period;
  return run.layers < 2 ? std::nullopt : std::optional(run);
}

static StagedOps withLayers(const StagedOps &ops, const LayerRun &run,
                            int64_t extra) {
  StagedOps result;
  auto append = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      result.seconds.push_back(ops.seconds[i]);
      result.sums.push_back(ops.sums[i]);
      result.crossingBytes.push_back(ops.crossingBytes[i]);
      result.names.push_back(ops.names[i]);
    }
  };
  append(0, run.before);
  for (int64_t i = 0; i < extra; ++i)
    append(run.before, run.before + run.period);
  append(run.before, ops.size());
  return result;
}

/// Returns LayerPlacement::cuts: the positions where the fewest bytes cross.
static std::vector<int64_t> findCuts(const StagedOps &ops) {
  std::vector<int64_t> cuts = {0};
  ArrayRef<double> crossing = ops.crossingBytes;
  for (int64_t cut : goodCuts(crossing.drop_back(), 0))
    cuts.push_back(cut + 1);
  cuts.push_back(ops.size());
  return cuts;
}

std::optional<LayerPlacement>
dpc::findLayerPlacement(ProgramFamily &family, const cost::Cluster &cluster) {
  constexpr int64_t kLayers = 3;
  LayerPlacement found;
  auto fewer = stagedOpsOf(family, kLayers - 1, cluster, found.trains);
  auto more = stagedOpsOf(family, kLayers, cluster, found.trains);
  auto run = fewer && more ? findLayers(*fewer, *more) : std::nullopt;
  if (!run)
    return std::nullopt;
  int64_t extra = family.layers() - kLayers;
  found.ops = withLayers(*more, *run, extra);
  found.cuts = findCuts(found.ops);
  found.run = *run;
  found.run.layers += extra;
  found.moreLayers = found.run.layers - family.layers();
  return found;
}
