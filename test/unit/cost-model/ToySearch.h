//===- ToySearch.h - A search over numbers ----------------------*- C++ -*-===//
#pragma once

#include "cost-model/search/Search.h"
#include "cost-model/search/SearchSpace.h"

namespace dpc::cost {

inline Cluster toyCluster(int64_t devices) {
  Cluster cluster;
  cluster.name = "toy";
  Device device;
  device.name = "toy-device";
  device.peakFlops[static_cast<int>(DType::F32)] = 1e9;
  device.memoryBytes = 1000;
  device.memoryBytesPerSecond = 1e9;
  cluster.groups.push_back(NodeGroup{1, devices, device});
  cluster.levels.push_back(
      {.name = "wire", .span = devices, .bytesPerSecond = 1e6});
  return cluster;
}

inline StrategySpace spaceOfDpAndTp(const ModelTotals &totals,
                                    const Cluster &cluster) {
  StrategySpace space = spaceFor(totals, cluster);
  space.maxPp = space.maxVpp = space.maxCp = space.experts = 1;
  space.nodeRanks = 0;
  space.grids = space.offload = false;
  space.recomputes = {Recompute::None};
  return space;
}

/// The time is shortest at tp=2. The memory falls with tp.
class ToyEvaluator : public Evaluator {
public:
  ModelTotals totals() override {
    return {.parameters = 100,
            .parameterBytes = 400,
            .gradientBytes = 400,
            .optimizerBytes = 800,
            .flopsPerStep = 4e9,
            .activationBytesPerSample = 10,
            .globalBatch = 8,
            .layers = 4};
  }
  Bounds bound(const Strategy &strategy) override {
    Evaluation truth = value(strategy);
    return {truth.stepSeconds * tightness, truth.memory.total() * tightness};
  }
  Evaluation evaluate(const Strategy &strategy) override {
    ++calls;
    if (strategy.tp == rejectedTp) {
      Evaluation evaluation;
      evaluation.rejected = "cannot be built";
      return evaluation;
    }
    return value(strategy);
  }
  Evaluation value(const Strategy &strategy) {
    Evaluation evaluation;
    double tp = double(strategy.tp);
    evaluation.computeSeconds = 1 + 0.01 * double(8 - strategy.microBatch);
    evaluation.exposedCommunicationSeconds =
        tp == 1 ? 0.5 : 0.1 * tp + (strategy.sp ? 0.05 : 0);
    evaluation.stepSeconds =
        evaluation.computeSeconds + evaluation.exposedCommunicationSeconds;
    evaluation.memory[MemoryCategory::Parameters] = parameterBytes / tp;
    evaluation.memory[MemoryCategory::Activations] =
        double(10 * strategy.microBatch);
    evaluation.bytesPerLevel = {100 * tp};
    evaluation.flops = 4e9;
    return evaluation;
  }

  double tightness = 1;
  double parameterBytes = 1600;
  int64_t rejectedTp = 0;
  int calls = 0;
};

inline SearchOptions optionsFor(int64_t ranks) {
  SearchOptions options;
  options.space.ranks = ranks;
  options.space.globalBatch = 8;
  return options;
}

inline SearchResult searchToy(Evaluator &evaluator,
                              const SearchOptions &options = optionsFor(4)) {
  return searchStrategies(toyCluster(options.space.ranks), evaluator, options);
}

} // namespace dpc::cost
