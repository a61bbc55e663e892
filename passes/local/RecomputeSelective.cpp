//===- RecomputeSelective.cpp - Values that are cheap to recompute --------===//
//
// Chooses the values to keep by a minimal cut of the graph of forward ops:
//
//   source -> op      cost of running the op again; infinite for GEMMs and
//                     collectives except all_gathers along tensor axes or the
//                     axis of experts
//   op -> result      bytes of the value
//   result -> reader  infinite, for readers in the forward phase
//   result -> sink    infinite, if the backward phase reads the value
//
// Ops on the sink side are recomputed. A value is kept if the cut contains the
// edge from its op. Costs are in bytes: an op that moves b bytes and computes f
// floating-point operations costs max(b, f / 10) / 32. So a chain of about ten
// elementwise ops is recomputed to save one value of their size. The bytes
// of an all_gather are multiplied by the ratio of memory bandwidth to link
// bandwidth. As in Megatron-LM, a value that sequence parallelism gathers can
// be kept as a shard (Korthikanti et al., "Reducing Activation Recomputation in
// Large Transformer Models", section 4.2.2).
//
// The cut does not count the bytes of recomputed values, which stay in memory
// until their last reader. A *join* adds the result of a GEMM to a value from
// before the GEMM, as a residual connection does. Chains of joins span layers:
// the first reader, in the last layer, would recompute the chain of all layers
// at once. If the cut recomputes such chains, it is repeated with every second
// join kept: one for each layer of a transformer, so that all layers are equal.
//
//===----------------------------------------------------------------------===//
#include "cost-model/solve/MinCut.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "passes/local/Recompute.h"

using namespace mlir;
using namespace dpc;

/// Bytes of memory traffic that are worth one byte of memory.
static constexpr int64_t kTrafficPerByte = 32;
static constexpr double kOperationsPerByte = 10;

namespace {

class SelectiveCut {
public:
  using Ops = DenseSet<Operation *>;
  /// The results of `keptJoins` are not recomputed.
  SelectiveCut(const ForwardPhase &forward, double gather, double gatherTokens,
               const Ops &keptJoins)
      : forward(forward), gather(gather), gatherTokens(gatherTokens),
        keptJoins(keptJoins) {
    source = network.addNode();
    sink = network.addNode();
  }
  DenseSet<Value> keep() {
    for (const Run &run : forward.runs)
      for (Operation *op : run.ops)
        add(op);
    side = network.sourceSide(source, sink);
    DenseSet<Value> kept;
    for (auto [value, node] : nodeOf)
      if (!side[node] && side[nodeOfOp[value.getDefiningOp()]])
        kept.insert(withoutReshapes(value));
    return kept;
  }

  /// Adds every second join of the chains that are recomputed. Call it after
  /// keep().
  void addSecondJoins(Ops &joins) const {
    DenseMap<Operation *, int64_t> length; // of the chain up to the op
    for (const Run &run : forward.runs)
      for (Operation *op : run.ops) {
        if (side[nodeOfOp.lookup(op)])
          continue; // not recomputed
        int64_t before = 0;
        for (Value operand : op->getOperands())
          before = std::max(before, length.lookup(operand.getDefiningOp()));
        length[op] = before + isJoin(op);
        if (length[op] > 1) {
          joins.insert(op);
          length[op] = 0;
        }
      }
  }

private:
  using Network = cost::FlowNetwork;

  bool isNeverRepeated(Operation *op) const {
    return isa<MatmulOp, ExpertMatmulOp, ExpertTilesOp, ConvOp, AttentionOp>(
               op) ||
           (isa<CollectiveOpInterface>(op) && costOfGather(op) <= 0) ||
           !isRepeatable(op) || llvm::any_of(op->getOperands(), [&](Value v) {
             return needsGather(v);
           });
  }

  /// Returns true if `op` reads both `value` and a result of an op that is
  /// never repeated and depends on `value`.
  bool skips(Value value, Operation *op) const {
    // Ops on the way from `value` to `op`, and if the way has such an op.
    SmallVector<std::pair<Operation *, bool>> work;
    std::array<DenseSet<Operation *>, 2> seen;
    auto follow = [&](Value from, bool isPast) {
      for (Operation *user : from.getUsers())
        if (user != op && isForward(user) &&
            forward.position(user) < forward.position(op) &&
            seen[isPast].insert(user).second)
          work.push_back({user, isPast});
    };
    follow(value, false);
    while (!work.empty()) {
      auto [at, isPast] = work.pop_back_val();
      isPast |= neverRepeated.contains(at);
      for (Value result : at->getResults()) {
        if (isPast && llvm::is_contained(op->getOperands(), result))
          return true;
        follow(result, isPast);
      }
    }
    return false;
  }

  bool isJoin(Operation *op) const {
    int64_t operands = llvm::count_if(op->getOperands(), [&](Value operand) {
      return nodeOf.contains(operand);
    });
    return operands > 1 && llvm::any_of(op->getOperands(), [&](Value operand) {
             return nodeOf.contains(operand) && skips(operand, op);
           });
  }

  int64_t costOf(Operation *op) {
    double gathers = costOfGather(op);
    if (isNeverRepeated(op))
      neverRepeated.insert(op);
    if (neverRepeated.contains(op) || keptJoins.contains(op))
      return Network::kUnlimited;
    if (isa<ReshapeOp>(op))
      return 0;
    auto costed = dyn_cast<CostOpInterface>(op);
    double bytes = 0;
    for (Value value : op->getOperands())
      bytes += sizeInBytes(value);
    for (Value value : op->getResults())
      bytes += sizeInBytes(value);
    if (costed)
      bytes = std::max(bytes, costed.getFlops() / kOperationsPerByte);
    if (gathers > 0)
      bytes *= gathers;
    return static_cast<int64_t>(bytes / kTrafficPerByte);
  }

  /// Returns the cost of a byte if `op` is an all_gather along tensor axes, or
  /// along the axis of experts, that may be repeated. Otherwise, returns 0.
  double costOfGather(Operation *op) const {
    auto gathers = dyn_cast<AllGatherOp>(op);
    if (!gathers)
      return 0;
    auto axes = gathers.getAxes().getAsValueRange<StringAttr>();
    if (llvm::all_of(axes, isTensorAxis))
      return gather;
    auto isTokenAxis = [](StringRef axis) { return axis == kExpertAxis; };
    return llvm::all_of(axes, isTokenAxis) ? gatherTokens : 0;
  }

  /// True if `value` is derived from parameters through a collective that has
  /// no equal op in the backward phase.
  bool needsGather(Value value) const {
    Operation *op = value.getDefiningOp();
    SmallVector<Operation *> chain;
    while (op && forward.isFree(op)) {
      chain.push_back(op);
      op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
    }
    Value again;
    for (Operation *link : llvm::reverse(chain)) {
      if (!link->getNumOperands())
        return false;
      SmallVector<Value> operands(link->getOperands());
      operands[0] = again ? again : operands[0];
      Operation *twin =
          again || link == chain.back() ? twinOf(link, operands) : nullptr;
      if (!twin && isa<CollectiveOpInterface>(link))
        return true;
      again = twin ? twin->getResult(0) : Value();
    }
    return false;
  }

  void add(Operation *op) {
    int32_t node = nodeOfOp[op] = network.addNode();
    network.addEdge(source, node, costOf(op));
    for (Value operand : op->getOperands())
      if (auto it = nodeOf.find(operand); it != nodeOf.end())
        network.addEdge(it->second, node, Network::kUnlimited);
    for (Value result : op->getResults()) {
      int32_t value = nodeOf[result] = network.addNode();
      // Only the operand of a reshape can be kept; both share one buffer.
      int64_t bytes = isa<ReshapeOp>(op)               ? Network::kUnlimited
                      : forward.fixed.contains(result) ? 0
                                                       : sizeInBytes(result);
      network.addEdge(node, value, bytes);
      if (llvm::any_of(result.getUsers(), isBackward))
        network.addEdge(value, sink, Network::kUnlimited);
    }
  }

  const ForwardPhase &forward;
  double gather, gatherTokens;
  const Ops &keptJoins;
  Network network;
  int32_t source, sink;
  DenseMap<Operation *, int32_t> nodeOfOp;
  DenseMap<Value, int32_t> nodeOf;
  Ops neverRepeated;
  std::vector<bool> side; ///< Whether a node is on the side of the source.
};

} // namespace

DenseSet<Value> dpc::keepForSelective(const ForwardPhase &forward,
                                      double gather, double gatherTokens) {
  SelectiveCut::Ops joins;
  for (;;) {
    SelectiveCut cut(forward, gather, gatherTokens, joins);
    DenseSet<Value> kept = cut.keep();
    size_t before = joins.size();
    cut.addSecondJoins(joins);
    if (joins.size() == before)
      return kept;
  }
}
