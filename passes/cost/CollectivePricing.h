//===- CollectivePricing.h - Costs of a step's collectives ------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Placement.h"
#include "ir/Attributes.h"
#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the order of the mesh axes on the devices (`dpc.placement`).
cost::RankOrder rankOrderOf(mlir::func::FuncOp step);

std::vector<std::string> namesOf(mlir::ArrayAttr axes);

/// Returns the type of the step's GEMMs: a 16-bit type if any has one, or f32.
cost::DType productType(mlir::func::FuncOp step);

/// Prices the collectives and messages of a step function at the local
/// altitude, given how its ranks are placed on the cluster.
class CollectivePricing {
public:
  CollectivePricing(mlir::func::FuncOp step, const cost::Cluster &cluster);

  /// The kind of a collective, and the bytes of its buffer before sharding.
  struct Traffic {
    cost::Collective kind = cost::Collective::AllReduce;
    double bytes = 0;
  };
  Traffic trafficOf(mlir::Operation *op) const;

  /// A message between stages. If Software::scatteredMessages is set, each rank
  /// sends a part, and the receivers gather the parts.
  struct Message {
    double bytes = 0;
    cost::CollectiveEstimate gather; ///< all_gather by the receivers
  };
  Message messageOf(SendOp send) const;

  cost::CollectiveEstimate collective(mlir::Operation *op) const;

  /// The all_to_alls of the rows that the fullest rank exchanges.
  struct Exchange {
    double bytes = 0; ///< in all rounds, with those that return
    int64_t rounds = 0, collectives = 0;
    cost::CollectiveEstimate estimate;
  };
  Exchange exchangeOf(ExpertTilesOp op) const;
  cost::GroupPlacement placement(mlir::ArrayAttr axes) const;
  const cost::RankOrder &rankOrder() const { return order; }
  /// See OpPricing::narrow.
  bool isNarrow() const { return narrow; }

private:
  const cost::Cluster &cluster;
  MeshAttr mesh;
  cost::RankOrder order;
  bool narrow = false;

  double movedBytes(mlir::Operation *op, mlir::ValueRange values) const;
};

} // namespace dpc
