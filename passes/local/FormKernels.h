//===- FormKernels.h - Which ops share a kernel -----------------*- C++ -*-===//
//
// The parts of dpc-form-kernels. A *unit* is what will be one instruction: a
// group of ops that become a kernel, or one op that stays as it is.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_FORMKERNELS_H
#define DPC_PASSES_LOCAL_FORMKERNELS_H

#include "ir/Dialect.h"
#include "ir/StridedView.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Partition of the compute ops of a block into kernels.
class KernelGroups {
public:
  explicit KernelGroups(mlir::Block &block);

  /// Merges greedily, in program order.
  void form();
  /// Groups in any order; each list in program order. Ops without a kernel are
  /// in none.
  std::vector<llvm::SmallVector<mlir::Operation *>> groups() const;

private:
  /// An op by its position in the block, and a unit by the position of one of
  /// its ops: a group, or an op that is in none. Movers are in no unit.
  using Id = int32_t;
  static constexpr Id kNone = -1;

  /// What the questions about an op read, gathered once.
  struct Node {
    mlir::Operation *op = nullptr;
    KernelRole role = KernelRole::none;
    bool isCompute = false;
    Id unit = kNone;
    std::pair<mlir::Attribute, mlir::Attribute> phase;
    /// Ranges of `edges` and `producers`.
    Id firstEdge = 0, endEdge = 0, firstProducer = 0, endProducer = 0;
  };
  /// An op that reads a value of another one, perhaps through movers.
  struct Edge {
    Id reader;
    bool moved; ///< Not only through reshapes: at other places.
  };
  struct Group {
    llvm::SmallVector<Id> ops; ///< in program order
    KernelRole role = KernelRole::elementwise;
    llvm::ArrayRef<int64_t> shape; ///< what is iterated over
    Id last = 0;                   ///< position of the last op
    bool mixed = false;            ///< reshapes between its ops
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
  /// Ops that `op` reads, through movers.
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
  /// Units in an order in which what a unit reads stands before it, by place
  /// (kNone where a unit was merged into another one), and their places.
  std::vector<Id> order, place;
  /// Units that `reachesOver` has visited: those with the number of its call.
  std::vector<Id> visited;
  Id visit = 0;
};

/// Marks movers that need no buffer with `dpc.view` and matmuls that can write
/// a transposed result with `dpc.out_perm`.
void markViews(mlir::Block &block);

/// How `value` lies in the buffer that it is a view of, once views are marked.
StridedView layoutOf(mlir::Value value);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FORMKERNELS_H
