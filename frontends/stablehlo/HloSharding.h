//===- HloSharding.h - The shardings of XLA's HLO --------------*- C++ -*-===//
//
// The text of an `mhlo.sharding`:
//
//   {replicated}                                   whole on every device
//   {maximal device=0}                             whole on one: left to search
//   {devices=[2,1]0,1}                             tiles per dimension, and the
//                                                  devices of the tiles
//   {devices=[2,1]<=[2]}                           devices 0, 1, ..
//   {devices=[2,4]<=[4,2]T(1,0)}                   those, of a grid transposed
//   {devices=[2,1,2]<=[4] last_tile_dim_replicate} a last list of tiles that
//                                                  holds copies
//   {.. last_tile_dims={replicated}}               the same, newer
//
// It names no axes: what splits two dimensions alike is one axis.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_HLOSHARDING_H
#define DPC_FRONTENDS_STABLEHLO_HLOSHARDING_H

#include "frontends/emit/ConstTensor.h"

#include <optional>

namespace dpc::frontend::hlo {

struct HloSharding {
  /// Of the tensor's dimensions; none: it is whole everywhere.
  Shape tiles;
  bool isOpen = false; ///< left to search
  /// Devices in the order of their tiles: those listed, or those of a grid
  /// whose dimensions come in this order.
  Shape listed, grid, order;

  int64_t deviceCount() const;
  /// By dimension that is split: which of its tiles each device holds. Nullopt
  /// if a device is listed twice, or is none of so many. A short text may stand
  /// for long lists, which take so many steps.
  std::optional<std::vector<std::vector<int32_t>>> tileOf() const;
  int64_t listingSteps() const;
};

/// Nullopt for what is none of the above.
std::optional<HloSharding> parseHloSharding(llvm::StringRef text);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_HLOSHARDING_H
