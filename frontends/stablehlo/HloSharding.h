//===- HloSharding.h - Parser for HLO shardings of XLA ----------*- C++ -*-===//
//
// The text of an `mhlo.sharding` has one of these forms:
//
//   {replicated}                                   replicated on all devices
//   {maximal device=0}                             one device; left to search
//   {devices=[2,1]0,1}                             tiles per dimension, and the
//                                                  device of each tile
//   {devices=[2,1]<=[2]}                           devices in order: 0, 1
//   {devices=[2,4]<=[4,2]T(1,0)}                   devices of a transposed grid
//   {devices=[2,1,2]<=[4] last_tile_dim_replicate} 2 x 1 tiles with 2 replicas
//   {.. last_tile_dims={replicated}}               newer form of the above
//
// The text does not name mesh axes. Dimensions that divide the devices in the
// same way are on the same axis.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/ConstTensor.h"

#include <optional>

namespace dpc::frontend::hlo {

struct HloSharding {
  /// The number of tiles per dimension; empty if the tensor is replicated.
  Shape tiles;
  bool isOpen = false; ///< left to search
  /// The device of each tile: either `listed`, or derived from a device grid
  /// and the order of its dimensions.
  Shape listed, grid, order;

  int64_t deviceCount() const;
  /// Returns, for each sharded dimension, each device's tile; nullopt if a
  /// device is out of range or occurs twice. Takes listingSteps() steps, which
  /// can be many even if the text is short.
  std::optional<std::vector<std::vector<int32_t>>> tileOf() const;
  int64_t listingSteps() const;
};

/// Parses the text; nullopt if it does not have one of these forms.
std::optional<HloSharding> parseHloSharding(llvm::StringRef text);

} // namespace dpc::frontend::hlo
