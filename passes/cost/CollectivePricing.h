//===- CollectivePricing.h - Costs of a step's collectives ------*- C++ -*-===//
#ifndef DPC_PASSES_COST_COLLECTIVEPRICING_H
#define DPC_PASSES_COST_COLLECTIVEPRICING_H

#include "cost-model/machine/Placement.h"
#include "ir/Attributes.h"
#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The order of the mesh axes on the devices (`dpc.placement`).
cost::RankOrder rankOrderOf(mlir::func::FuncOp step);

/// The names of mesh axes in an attribute.
std::vector<std::string> namesOf(mlir::ArrayAttr axes);

/// The type of the step's GEMMs: a 16-bit type if any GEMM has one.
cost::DType productType(mlir::func::FuncOp step);

/// Prices the collectives and messages of a step function (local altitude) by
/// the placement of its ranks on the cluster.
class CollectivePricing {
public:
  CollectivePricing(mlir::func::FuncOp step, const cost::Cluster &cluster);

  /// The kind of a collective and the bytes of its unsharded buffer.
  struct Traffic {
    cost::Collective kind = cost::Collective::AllReduce;
    double bytes = 0;
  };
  Traffic trafficOf(mlir::Operation *op) const;

  /// A message between stages. With Software::scatteredMessages, each rank
  /// sends a part of it and the receivers gather the parts.
  struct Message {
    double bytes = 0;                ///< Bytes that one rank sends.
    cost::CollectiveEstimate gather; ///< The all_gather that the receivers run.
  };
  Message messageOf(SendOp send) const;

  cost::CollectiveEstimate collective(mlir::Operation *op) const;
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

#endif // DPC_PASSES_COST_COLLECTIVEPRICING_H
