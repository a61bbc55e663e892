//===- FormKernelsGroups.cpp - Greedy fusion ------------------------------===//
//
// Fuses ops greedily in program order: each op tries to join the kernels of its
// operands. Producer P and consumer C may be merged if
//   * they run in one phase and have the same iteration space (see
//     `compatible`);
//   * no path leads from P through another unit to C, because the kernel would
//     wait for itself;
//   * no other reader of P is delayed: P has no other reader, or all operands
//     of C exist before the last op of P.
//
// The second condition is the expensive one. Units are kept in topological
// order, so that a search visits only the units between P and C. A merge
// updates only this part of the order (Pearce and Kelly, "A dynamic topological
// sort algorithm for directed acyclic graphs", JEA 11, 2006).
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "passes/local/FormKernels.h"
#include "passes/local/Partition.h"

using namespace mlir;

namespace dpc {

/// Limits compile time. Larger kernels save little more memory traffic.
static constexpr size_t kMaxOps = 48;

static bool isCompute(KernelRole role) {
  return role == KernelRole::elementwise || role == KernelRole::row ||
         role == KernelRole::reduction || role == KernelRole::alone;
}

/// True if `reduce` computes the row maxima that `sums` needs. In one kernel,
/// `sums` rereads the rows from the cache.
static bool isRowMaxOf(Operation *reduce, Operation *sums) {
  auto max = dyn_cast<ReduceOp>(reduce);
  auto entropy = dyn_cast<CrossEntropySumsOp>(sums);
  return max && entropy && max.getKind() == ReduceKind::max &&
         entropy.getRowmax() == max.getResult() &&
         entropy.getLogits() == max.getX() &&
         llvm::equal(max.getDims(), ArrayRef<int64_t>{1});
}

/// False for results of row ops with one element per row or per column.
static bool isWide(Value value, Operation *producer) {
  return kernelRole(producer) != KernelRole::row ||
         shapeOf(value) == shapeOf(producer->getOperand(0));
}

namespace {

class KernelGroups {
public:
  explicit KernelGroups(Block &block) {
    for (Operation &op : block) {
      Id id = nodes.size();
      position[&op] = id;
      Node node;
      node.op = &op;
      node.role = kernelRole(&op);
      node.isCompute = isCompute(node.role);
      node.unit = node.role == KernelRole::mover ? kNone : id;
      node.phase = phaseKey(&op);
      nodes.push_back(node);
      place.push_back(id);
      order.push_back(node.unit);
      groupOfUnit.emplace_back();
      if (node.isCompute)
        groupOfUnit.back() = {{id},
                              node.role,
                              cast<FusionOpInterface>(op).getIterationShape(),
                              id};
    }
    visited.assign(nodes.size(), 0);
    findEdges();
  }

  void form() {
    for (auto [id, node] : llvm::enumerate(nodes)) {
      if (!node.isCompute)
        continue;
      auto fusion = cast<FusionOpInterface>(node.op);
      for (OpOperand &operand : node.op->getOpOperands()) {
        Value value = operand.get();
        Operation *producer = value.getDefiningOp();
        bool throughReshape = false;
        while (auto reshape = dyn_cast_or_null<ReshapeOp>(producer)) {
          value = reshape.getX();
          producer = value.getDefiningOp();
          throughReshape = true;
        }
        if (!producer || !fusion.readsSameElement(operand) ||
            !isWide(value, producer))
          continue;
        // Skip the scales and biases of row ops.
        if (shapeOf(operand.get()) != fusion.getIterationShape())
          continue;
        tryMerge(position.lookup(producer), id, throughReshape);
      }
    }
  }

  std::vector<SmallVector<Operation *>> groups() const {
    std::vector<SmallVector<Operation *>> result;
    for (const Group &group : groupOfUnit) {
      if (group.ops.empty())
        continue;
      SmallVector<Operation *> &ops = result.emplace_back();
      for (Id op : group.ops)
        ops.push_back(nodes[op].op);
    }
    return result;
  }

private:
  /// The position of an op in the block. A unit has the id of one of its ops.
  /// Movers are in no unit.
  using Id = int32_t;
  static constexpr Id kNone = -1;

  struct Node {
    Operation *op = nullptr;
    KernelRole role = KernelRole::none;
    bool isCompute = false;
    Id unit = kNone;
    std::pair<Attribute, Attribute> phase;
    Id firstEdge = 0, endEdge = 0, firstProducer = 0, endProducer = 0;
  };
  /// A read of an op's result, directly or through movers.
  struct Edge {
    Id reader;
    bool moved; ///< A mover other than a reshape is in between.
  };
  struct Group {
    SmallVector<Id> ops; ///< In program order.
    KernelRole role = KernelRole::elementwise;
    ArrayRef<int64_t> shape;
    Id last = 0;
    bool mixed = false; ///< Has reshapes between its ops.
  };
  /// An edge skips movers: it leads to a reader that is not a mover.
  void findEdges() {
    struct Origin {
      Id op = kNone;
      bool moved = false;
    };
    std::vector<Origin> origins(nodes.size());
    std::vector<std::pair<Id, Edge>> all;
    for (auto [id, node] : llvm::enumerate(nodes)) {
      bool isMover = node.role == KernelRole::mover;
      origins[id] = {static_cast<Id>(id), false};
      node.firstProducer = producers.size();
      for (Value operand : node.op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        Origin origin =
            producer ? origins[position.lookup(producer)] : Origin();
        if (isMover)
          origins[id] = {origin.op, origin.moved || !isa<ReshapeOp>(node.op)};
        if (isMover || origin.op == kNone)
          continue;
        producers.push_back(origin.op);
        all.push_back({origin.op, {static_cast<Id>(id), origin.moved}});
        ++nodes[origin.op].endEdge;
      }
      node.endProducer = producers.size();
    }
    // Counting sort by producer.
    Id first = 0;
    for (Node &node : nodes) {
      Id count = node.endEdge;
      node.firstEdge = node.endEdge = first;
      first += count;
    }
    edges.resize(all.size());
    for (auto [from, edge] : all)
      edges[nodes[from].endEdge++] = edge;
  }

  void tryMerge(Id producer, Id consumer, bool throughReshape) {
    Id p = groupOf(producer), c = groupOf(consumer);
    if (p == kNone || c == kNone || p == c)
      return;
    bool isReadElsewhere = escapes(p, c);
    Group &from = groupOfUnit[p], &into = groupOfUnit[c];
    if (!compatible(from, into, throughReshape, isReadElsewhere) ||
        (isReadElsewhere && delays(p, c)) || readsMoved(p, c) ||
        !arrange(p, c, isReadElsewhere))
      return;
    if (from.role != KernelRole::elementwise && into.role != KernelRole::alone)
      into.role = from.role;
    into.mixed |= from.mixed || into.shape != from.shape;
    into.last = std::max(into.last, from.last);
    for (Id op : from.ops)
      nodes[op].unit = c;
    into.ops.append(from.ops);
    llvm::sort(into.ops);
    from.ops.clear();
  }

  bool compatible(const Group &producer, const Group &consumer,
                  bool throughReshape, bool escapes) const {
    if (nodes[producer.ops.front()].phase !=
            nodes[consumer.ops.front()].phase ||
        producer.ops.size() + consumer.ops.size() > kMaxOps)
      return false;
    auto only = [&](const Group &group) {
      return group.ops.size() == 1 ? nodes[group.ops.front()].op : nullptr;
    };
    if (only(producer) && only(consumer) &&
        isRowMaxOf(only(producer), only(consumer)))
      return true;
    bool sameShape = producer.shape == consumer.shape;
    KernelRole from = producer.role, to = consumer.role;
    if (from == KernelRole::elementwise && to == KernelRole::elementwise)
      return throughReshape ? !escapes : sameShape;
    if (throughReshape || !sameShape || producer.mixed || consumer.mixed)
      return false;
    if (from == KernelRole::elementwise && to == KernelRole::row)
      return escapes || llvm::all_of(producer.ops, [&](Id op) {
               return cast<FusionOpInterface>(nodes[op].op).isCheap();
             });
    if (from == KernelRole::row && to == KernelRole::elementwise)
      return true;
    if (from == KernelRole::elementwise && to == KernelRole::reduction)
      return !escapes;
    return false;
  }

  bool needsMore(Id producer, Id consumer) const {
    return anyProducer(consumer, [&](Id other) {
      Id unit = nodes[other].unit;
      return unit != consumer && place[unit] > place[producer];
    });
  }

  /// True if a path leads from the producer through another unit to the
  /// consumer. Otherwise, `visited` marks all units before the consumer that
  /// depend on the producer.
  bool reachesOver(Id producer, Id consumer) {
    ++visit;
    SmallVector<Id> worklist;
    auto push = [&](Id unit) {
      if (place[unit] > place[consumer] || visited[unit] == visit)
        return;
      visited[unit] = visit;
      worklist.push_back(unit);
    };
    visited[producer] = visit;
    for (Id op : groupOfUnit[producer].ops)
      for (const Edge &edge : edgesOf(op))
        if (nodes[edge.reader].unit != consumer)
          push(nodes[edge.reader].unit);
    while (!worklist.empty()) {
      Id unit = worklist.pop_back_val();
      if (unit == consumer)
        return true;
      ArrayRef<Id> ops = groupOfUnit[unit].ops;
      for (Id op : ops.empty() ? ArrayRef<Id>(unit) : ops)
        for (const Edge &edge : edgesOf(op))
          push(nodes[edge.reader].unit);
    }
    return false;
  }

  /// Updates the order for a merge. Returns false if a path leads through
  /// another unit. The first two cases need no search: the merged unit takes
  /// the place of the consumer or of the producer.
  bool arrange(Id producer, Id consumer, bool isReadElsewhere) {
    if (!isReadElsewhere) {
      order[place[producer]] = kNone;
      return true;
    }
    if (!needsMore(producer, consumer)) {
      order[place[consumer]] = kNone;
      place[consumer] = place[producer];
      order[place[consumer]] = consumer;
      return true;
    }
    if (reachesOver(producer, consumer))
      return false;
    moveBehind(producer, consumer);
    return true;
  }

  /// Moves the units that `reachesOver` visited after the merged unit. The
  /// other units between producer and consumer stay before it.
  void moveBehind(Id producer, Id consumer) {
    Id next = place[producer], end = place[consumer];
    SmallVector<Id> behind = {consumer};
    auto put = [&](Id unit) {
      order[next] = unit;
      place[unit] = next++;
    };
    for (Id at = next; at < end; ++at) {
      Id unit = order[at];
      if (unit == kNone || unit == producer)
        continue;
      if (visited[unit] == visit)
        behind.push_back(unit);
      else
        put(unit);
    }
    for (Id unit : behind)
      put(unit);
    while (next <= end)
      order[next++] = kNone;
  }

  /// True if a mover is between them, so that the value needs a buffer.
  bool readsMoved(Id producer, Id consumer) const {
    return anyEdge(producer, [&](const Edge &edge) {
      return edge.moved && nodes[edge.reader].unit == consumer;
    });
  }

  /// True if a merge makes other readers of the producer wait for values that
  /// only the consumer needs.
  bool delays(Id producer, Id consumer) const {
    return anyProducer(consumer, [&](Id other) {
      Id group = groupOf(other);
      Id at = group == kNone ? other : groupOfUnit[group].last;
      return group != producer && group != consumer &&
             at > groupOfUnit[producer].last;
    });
  }

  bool escapes(Id producer, Id consumer) const {
    return anyEdge(producer, [&](const Edge &edge) {
      Id unit = nodes[edge.reader].unit;
      return unit != producer && unit != consumer;
    });
  }

  bool anyEdge(Id unit, auto predicate) const {
    return llvm::any_of(groupOfUnit[unit].ops, [&](Id op) {
      return llvm::any_of(edgesOf(op), predicate);
    });
  }
  bool anyProducer(Id unit, auto predicate) const {
    return llvm::any_of(groupOfUnit[unit].ops, [&](Id op) {
      return llvm::any_of(producersOf(op), predicate);
    });
  }
  Id groupOf(Id op) const {
    return nodes[op].isCompute ? nodes[op].unit : kNone;
  }
  ArrayRef<Edge> edgesOf(Id op) const {
    return ArrayRef(edges).slice(nodes[op].firstEdge,
                                 nodes[op].endEdge - nodes[op].firstEdge);
  }
  ArrayRef<Id> producersOf(Id op) const {
    return ArrayRef(producers).slice(nodes[op].firstProducer,
                                     nodes[op].endProducer -
                                         nodes[op].firstProducer);
  }

  llvm::DenseMap<Operation *, Id> position;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Id> producers;
  std::vector<Group> groupOfUnit;
  /// `order` lists the units in topological order, with kNone for merged units.
  /// `place` is the index of each unit in `order`.
  std::vector<Id> order, place;
  /// The value of `visit` when `reachesOver` last visited each unit.
  std::vector<Id> visited;
  Id visit = 0;
};

} // namespace

std::vector<SmallVector<Operation *>> groupKernels(Block &block) {
  KernelGroups groups(block);
  groups.form();
  return groups.groups();
}

} // namespace dpc
