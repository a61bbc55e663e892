//===- FormKernels.h - Which ops share a kernel -----------------*- C++ -*-===//
//
// The parts of dpc-form-kernels. A *unit* becomes one instruction: it is a
// group of ops that form a kernel, or one op that stays unchanged.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_FORMKERNELS_H
#define DPC_PASSES_LOCAL_FORMKERNELS_H

#include "ir/Dialect.h"
#include "ir/StridedView.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Partitions the compute ops of a block into kernels.
class KernelGroups {
public:
  explicit KernelGroups(mlir::Block &block);

  /// Merges greedily, in program order.
  void form();
  /// The groups in any order; their ops are in program order. Ops without a
  /// kernel are in no group.
  std::vector<llvm::SmallVector<mlir::Operation *>> groups() const;

private:
  /// The position of an op in the block. A unit has the position of one of its
  /// ops. Movers are in no unit.
  using Id = int32_t;
  static constexpr Id kNone = -1;

  /// Properties of an op, computed once.
  struct Node {
    mlir::Operation *op = nullptr;
    KernelRole role = KernelRole::none;
    bool isCompute = false;
    Id unit = kNone;
    std::pair<mlir::Attribute, mlir::Attribute> phase;
    /// Ranges of `edges` and `producers`.
    Id firstEdge = 0, endEdge = 0, firstProducer = 0, endProducer = 0;
  };
  /// An op that reads a value of another op, perhaps through movers.
  struct Edge {
    Id reader;
    bool moved; ///< At other places, not only through reshapes.
  };
  struct Group {
    llvm::SmallVector<Id> ops; ///< In program order.
    KernelRole role = KernelRole::elementwise;
    llvm::ArrayRef<int64_t> shape; ///< The iteration space.
    Id last = 0;                   ///< Position of the last op.
    bool mixed = false;            ///< Reshapes are between its ops.
  };
  void findEdges();
  void tryMerge(Id producer, Id consumer, bool throughReshape);
  bool compatible(const Group &producer, const Group &consumer,
                  bool throughReshape, bool escapes) const;
  bool needsMore(Id producer, Id consumer) const;
  bool reachesOver(Id producer, Id consumer);
  bool arrange(Id producer, Id consumer, bool isReadElsewhere);
  void moveBehind(Id producer, Id consumer);
  bool readsMoved(Id producer, Id consumer) const;
  bool delays(Id producer, Id consumer) const;
  bool escapes(Id producer, Id consumer) const;
  /// The unit of `op` if it is a group.
  Id groupOf(Id op) const {
    return nodes[op].isCompute ? nodes[op].unit : kNone;
  }
  llvm::ArrayRef<Edge> edgesOf(Id op) const {
    return llvm::ArrayRef(edges).slice(nodes[op].firstEdge,
                                       nodes[op].endEdge - nodes[op].firstEdge);
  }
  /// Ops that `op` reads, perhaps through movers.
  llvm::ArrayRef<Id> producersOf(Id op) const {
    return llvm::ArrayRef(producers).slice(nodes[op].firstProducer,
                                           nodes[op].endProducer -
                                               nodes[op].firstProducer);
  }

  llvm::DenseMap<mlir::Operation *, Id> position;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Id> producers;
  std::vector<Group> groupOfUnit;
  /// Units in topological order (kNone for merged units), and their places in
  /// it.
  std::vector<Id> order, place;
  /// The number of the last call of `reachesOver` that visited a unit.
  std::vector<Id> visited;
  Id visit = 0;
};

/// Marks movers that need no buffer with `dpc.view`, and matmuls that can write
/// a transposed result with `dpc.out_perm`.
void markViews(mlir::Block &block);

/// The layout of `value` in its buffer, once views are marked.
StridedView layoutOf(mlir::Value value);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FORMKERNELS_H
