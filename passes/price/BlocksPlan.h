//===- BlocksPlan.h - A strategy under way ----------------------*- C++ -*-===//
//
// Private to Blocks*.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_BLOCKSPLAN_H
#define DPC_PASSES_PRICE_BLOCKSPLAN_H

#include "passes/price/Blocks.h"

namespace dpc {

struct Blocks::Plan {
  const LoweringSpec &degrees;
  /// By virtual stage, without what comes before the layers and after: whole
  /// layers, which fill its memory, and work in layers, for cuts may lie inside
  /// of them.
  const std::vector<int64_t> &layersOf;
  const std::vector<double> &work;
  const std::vector<StageParts> &parts; ///< By piece.
  ScheduleTables tables;

  int64_t stages() const { return degrees.stages(); }
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_BLOCKSPLAN_H
