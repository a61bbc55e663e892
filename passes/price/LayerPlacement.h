//===- LayerPlacement.h - Repeated layers among ops with a home --------*- C++
//-*-===//
#ifndef DPC_PASSES_PRICE_LAYERPLACEMENT_H
#define DPC_PASSES_PRICE_LAYERPLACEMENT_H

#include "passes/lower/ProgramFamily.h"
#include "passes/price/FoldStages.h"
#include "passes/shard/Stages.h"

namespace dpc {

/// The ops with a home of the whole model.
struct HomeRun {
  LayerRun run;
  HomedOps ops;
  /// Seconds of all ops before every place where stages may be cut, rising; the
  /// first is the program's begin, the last its end.
  std::vector<double> cuts;
  bool trains = false;
  /// The program with n layers to cut has so many more of equal ops.
  int64_t moreLayers = 0;
};

/// Found on programs of few layers. Nothing where no layer repeats.
std::optional<HomeRun> findHomeRun(ProgramFamily &family,
                                   const cost::Cluster &cluster);

} // namespace dpc

#endif // DPC_PASSES_PRICE_LAYERPLACEMENT_H
