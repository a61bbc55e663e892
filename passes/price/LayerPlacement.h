//===- LayerPlacement.h - Layers among the ops of stages --------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_LAYERPLACEMENT_H
#define DPC_PASSES_PRICE_LAYERPLACEMENT_H

#include "passes/lower/ProgramFamily.h"
#include "passes/price/FoldStages.h"
#include "passes/shard/Stages.h"

namespace dpc {

/// The ops of the whole model that belong to stages.
struct HomeRun {
  LayerRun run;
  HomedOps ops;
  /// The seconds of all ops before each position at which stages may be cut,
  /// from the begin of the program to its end.
  std::vector<double> cuts;
  bool trains = false;
  /// How many more layers `run` has than the model: other ops may look like
  /// layers.
  int64_t moreLayers = 0;
};

/// Finds the layers in programs with few layers. Nothing if no layer repeats.
std::optional<HomeRun> findHomeRun(ProgramFamily &family,
                                   const cost::Cluster &cluster);

} // namespace dpc

#endif // DPC_PASSES_PRICE_LAYERPLACEMENT_H
