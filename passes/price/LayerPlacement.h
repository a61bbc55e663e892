//===- LayerPlacement.h - Layers among the ops of stages --------*- C++ -*-===//
#pragma once

#include "passes/lower/ProgramFamily.h"
#include "passes/price/FoldStages.h"
#include "passes/shard/Stages.h"

namespace dpc {

/// The ops of the whole model that are assigned to stages.
struct LayerPlacement {
  LayerRun run;
  StagedOps ops;
  /// The positions at which stages may be cut, as numbers of ops before them,
  /// including the begin and the end of the program.
  std::vector<int64_t> cuts;
  bool trains = false;
  /// The number of layers in `run` minus the layers of the model. Positive if
  /// other ops look like layers.
  int64_t moreLayers = 0;
};

/// Finds the layers by comparing programs with few layers. Returns nothing if
/// no layer repeats.
std::optional<LayerPlacement> findLayerPlacement(ProgramFamily &family,
                                                 const cost::Cluster &cluster);

} // namespace dpc
