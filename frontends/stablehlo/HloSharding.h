//===- HloSharding.h - Parser for HLO shardings of XLA ----------*- C++ -*-===//
//
// The text of an `mhlo.sharding` has one of these forms:
//
//   {replicated}                                   replicated on all devices
//   {maximal device=0}                             one device: left to search
//   {devices=[2,1]0,1}                             tile counts per dimension,
//                                                  and devices of the tiles
//   {devices=[2,1]<=[2]}                           devices 0, 1, ..
//   {devices=[2,4]<=[4,2]T(1,0)}                   devices of a transposed grid
//   {devices=[2,1,2]<=[4] last_tile_dim_replicate} the last dimension of the
//                                                  tile grid holds replicas
//   {.. last_tile_dims={replicated}}               newer form of the same
//
// The text names no mesh axes. Two dimensions that are sharded in the same way
// are on the same axis.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_HLOSHARDING_H
#define DPC_FRONTENDS_STABLEHLO_HLOSHARDING_H

#include "frontends/emit/ConstTensor.h"

#include <optional>

namespace dpc::frontend::hlo {

struct HloSharding {
  /// Tile counts of the tensor's dimensions; empty if the tensor is replicated.
  Shape tiles;
  bool isOpen = false; ///< left to search
  /// Devices in the order of their tiles: either a list, or a grid and the
  /// order of its dimensions.
  Shape listed, grid, order;

  int64_t deviceCount() const;
  /// For each sharded dimension, the tile that each device holds. Returns
  /// nullopt if a device is listed twice or is out of range. Takes
  /// listingSteps() steps, which can be many even if the text is short.
  std::optional<std::vector<std::vector<int32_t>>> tileOf() const;
  int64_t listingSteps() const;
};

/// Parses the text; nullopt if it has none of the forms above.
std::optional<HloSharding> parseHloSharding(llvm::StringRef text);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_HLOSHARDING_H
