//===- CollectivePricing.h - What collectives of a step cost ----*- C++ -*-===//
#ifndef DPC_PASSES_COST_COLLECTIVEPRICING_H
#define DPC_PASSES_COST_COLLECTIVEPRICING_H

#include "cost-model/machine/Placement.h"
#include "ir/Attributes.h"
#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The axes of a step function's ranks on the devices (`dpc.placement`).
cost::RankOrder rankOrderOf(mlir::func::FuncOp step);

/// The names of mesh axes in an attribute.
std::vector<std::string> namesOf(mlir::ArrayAttr axes);

/// The type of the step's products: a 16-bit one where there are such.
cost::DType productType(mlir::func::FuncOp step);

/// Prices the collectives and messages of one step function of the local
/// altitude by where its ranks are on the cluster.
class CollectivePricing {
public:
  CollectivePricing(mlir::func::FuncOp step, const cost::Cluster &cluster);

  /// What a collective is to the links: its kind and its full buffer in bytes.
  struct Traffic {
    cost::Collective kind = cost::Collective::AllReduce;
    double bytes = 0;
  };
  Traffic trafficOf(mlir::Operation *op) const;

  /// What one rank sends of a message between stages, and what the receivers
  /// do to have all of it (see Software::scatteredMessages).
  struct Message {
    double bytes = 0;
    cost::CollectiveEstimate gather;
  };
  Message messageOf(SendOp send) const;

  /// What a collective costs.
  cost::CollectiveEstimate collective(mlir::Operation *op) const;
  /// Where the ranks along `axes` are.
  cost::GroupPlacement placement(mlir::ArrayAttr axes) const;
  /// The axes of the step's ranks on the devices.
  const cost::RankOrder &rankOrder() const { return order; }
  /// Whether activations move in 16 bits (OpPricing).
  bool isNarrow() const { return narrow; }

private:
  const cost::Cluster &cluster;
  MeshAttr mesh;
  cost::RankOrder order;
  bool narrow = false;

  double movedBytes(mlir::Operation *op, mlir::ValueRange values) const;
};

} // namespace dpc

#endif // DPC_PASSES_COST_COLLECTIVEPRICING_H
