//===- StrategyGraph.cpp - From a program to an optimization problem ------===//
#include "passes/shard/StrategyGraph.h"

#include "cost-model/solve/Solvers.h"
#include "ir/TensorUtils.h"
#include "passes/cost/OpTime.h"
#include "passes/shard/ExpertRows.h"
#include "passes/shard/Experts.h"

#include <array>
#include <map>

using namespace mlir;
using namespace dpc;

/// The cost of a choice that is taken only if there is no alternative.
static constexpr double kLastResort = 1e4;
/// The cost of a choice that contradicts the user. It exceeds all rules.
static constexpr double kNotAsked = 1e9;
/// A cost that only decides ties.
static constexpr double kTieBreak = 1e-12;

namespace {

/// For each option of a node, the state of one value.
using States = SmallVector<AxisState>;

/// The inputs of the problem of one axis, and caches.
struct AxisProblem {
  /// `done` has the choices for earlier axes and does not include `axis`.
  AxisProblem(const ProgramFacts &facts, const cost::Cluster &cluster,
              const LoweringSpec &spec, const MeshAxis &axis,
              const ShardChoices &done, const Experts &experts,
              const DenseSet<Value> &tiledRows)
      : facts(facts), cluster(cluster), spec(spec),
        device(cluster.slowestDevice(cost::DType::F32)), axis(axis), done(done),
        group(cost::placeGroup(cluster, rankOrder(spec), {axis.name})),
        gradientGroup(cost::placeGroup(cluster, rankOrder(spec),
                                       {"dp", "dpi", "ep", "cp"})),
        dataRanks(spec.dp / expertDataRanks(spec)), experts(experts),
        tiledRows(tiledRows),
        laterSequence(axis.role == AxisRole::tensor ? spec.cp : 1) {}

  const ProgramFacts &facts;
  const cost::Cluster &cluster;
  const LoweringSpec &spec;
  const cost::Device &device;
  const MeshAxis &axis;
  const ShardChoices &done;
  cost::GroupPlacement group, gradientGroup;
  int64_t dataRanks; ///< Ranks of the data axes, which split the batch.
  /// The experts that tensor axes must split; may be empty.
  const Experts &experts;
  /// Rows that dpc-tile-experts computes only for the experts of a rank.
  const DenseSet<Value> &tiledRows;
  /// Ranks of the sequence axis if it is solved after this axis, otherwise 1.
  int64_t laterSequence;

  /// Caches updateSeconds by bytes.
  mutable std::map<double, double> updates;
  /// Caches moveSeconds by kind and bytes per micro-batch.
  mutable std::map<std::pair<cost::Collective, double>, double> moves;
};

struct Graph {
  cost::Problem problem;
  /// The node and the options of each op; the nodes of arguments and copies.
  DenseMap<Operation *, std::pair<cost::NodeId, SmallVector<AxisChoice>>> ops;
  DenseMap<Value, cost::NodeId> arguments, copies;
  std::map<std::tuple<std::vector<AxisState>, std::vector<AxisState>, double,
                      bool, bool, bool, bool>,
           cost::MatrixId>
      matrices;
};

} // namespace

// Shares of one rank after the splits of earlier axes.

/// Returns the fraction of the elements in the largest of `ranks` shards.
static double largestShare(int64_t size, int64_t ranks) {
  return static_cast<double>(ceilDiv(size, ranks)) / size;
}

/// Returns the size of a factor after the splits of the first `count` axes.
static int64_t sizeBefore(const AxisProblem &in, Operation *op,
                          IterFactor factor, std::optional<size_t> count = {}) {
  int64_t size = in.facts.factors.factors(op, factor.dim)[factor.factor];
  auto found = in.done.ops.find(op);
  size_t end = count.value_or(in.done.axes.size());
  for (size_t k = 0; found != in.done.ops.end() && k < end; ++k) {
    const AxisChoice &choice = found->second[k];
    if (choice.kind == AxisChoice::split && choice.factor == factor)
      size = ceilDiv(size, in.done.axes[k].size);
  }
  return size;
}

static int64_t sizeBefore(const AxisProblem &in, Value argument,
                          int64_t factor) {
  int64_t size = in.facts.factors.factorSize(argument, factor);
  auto found = in.done.arguments.find(argument);
  if (found != in.done.arguments.end())
    for (auto [state, earlier] : llvm::zip(found->second, in.done.axes))
      if (state == axis::firstSplit + factor)
        size = ceilDiv(size, earlier.size);
  return size;
}

/// The fraction of the work of `op` on one rank.
static double shareBefore(const AxisProblem &in, Operation *op) {
  auto found = in.done.ops.find(op);
  double share = 1;
  for (size_t k = 0; k < in.done.axes.size() && found != in.done.ops.end(); ++k)
    if (const AxisChoice &choice = found->second[k];
        choice.kind == AxisChoice::split)
      share *= largestShare(sizeBefore(in, op, choice.factor, k),
                            in.done.axes[k].size);
  return share;
}

/// The fraction of the elements of `value` on one rank.
static double shareBefore(const AxisProblem &in, Value value) {
  const FactorAnalysis &factors = in.facts.factors;
  double share = 1;
  for (size_t k = 0; k < in.done.axes.size(); ++k) {
    AxisState state = axis::replicated;
    auto result = dyn_cast<OpResult>(value);
    if (!result) {
      auto found = in.done.arguments.find(value);
      if (found != in.done.arguments.end())
        state = found->second[k];
    } else if (auto found = in.done.ops.find(result.getOwner());
               found != in.done.ops.end()) {
      state = resultState(factors, result.getOwner(), found->second[k],
                          result.getResultNumber());
    }
    if (state >= axis::firstSplit)
      share *= largestShare(factors.factorSize(value, state - axis::firstSplit),
                            in.done.axes[k].size);
  }
  return share;
}

/// Returns the bytes of `value` per step on one rank, without this axis.
static double bytesPerRank(const AxisProblem &in, Value value) {
  double share = shareBefore(in, value);
  if (in.facts.hasBatch(value))
    share /= in.dataRanks;
  if (in.laterSequence > 1 && in.facts.hasSequence(value))
    share /= in.laterSequence;
  return sizeInBytes(value) * share;
}

/// Returns the seconds of `op` per step if only the data axes, and a sequence
/// axis that is solved later, split it.
static double opShareSeconds(const AxisProblem &in, Operation *op) {
  auto any = [&](auto has) {
    return llvm::any_of(op->getResults(), has) ||
           llvm::any_of(op->getOperands(), has);
  };
  double share = 1;
  if (any([&](Value value) { return in.facts.hasBatch(value); }))
    share /= in.dataRanks;
  if (in.laterSequence > 1 &&
      any([&](Value value) { return in.facts.hasSequence(value); }))
    share /= in.laterSequence;
  if (isContraction(op))
    return opSeconds(op, in.device) * share;
  if (isa<ReshapeOp, ConstantOp, IotaOp>(op))
    return 0;
  if (any([&](Value value) { return in.tiledRows.contains(value); }))
    share /= static_cast<double>(in.spec.ep);
  // Chains of ops are fused, so about twice the bytes of the result move.
  double bytes = 2.0 * sizeInBytes(op->getResults());
  return cost::streamSeconds(in.device, bytes * share) -
         in.device.launchSeconds;
}

/// Returns the seconds of `op` and its gradients per step, without this axis.
static double unsplitSeconds(const AxisProblem &in, Operation *op) {
  double seconds = opShareSeconds(in, op);
  auto gradients = in.facts.gradientOps.find(op);
  if (gradients != in.facts.gradientOps.end())
    for (Operation *gradient : gradients->second)
      seconds += opShareSeconds(in, gradient);
  return seconds * shareBefore(in, op);
}

/// Returns the seconds per step of a collective over this axis. If the value is
/// `batched`, the collective runs once per micro-batch.
static double moveSeconds(const AxisProblem &in, AxisTransition::Move move,
                          double bytes, bool batched) {
  if (move == AxisTransition::none)
    return 0;
  if (move == AxisTransition::impossible)
    return cost::forbidden;
  constexpr cost::Collective kKinds[] = {
      cost::Collective::AllReduce, cost::Collective::ReduceScatter,
      cost::Collective::AllGather, cost::Collective::AllToAll};
  cost::Collective kind = kKinds[move - AxisTransition::allReduce];
  if (move == AxisTransition::allToAll)
    bytes /= in.axis.size;
  double times = batched ? in.spec.numMicroBatches : 1;
  auto [it, isNew] = in.moves.try_emplace({kind, bytes / times}, 0.0);
  if (isNew)
    it->second =
        cost::estimateCollective(in.cluster, kind, bytes / times, in.group)
            .seconds;
  return times * it->second;
}

/// Rules (R4) and (R5) of StrategyGraph.h.
static double sequencePenalty(const AxisProblem &in, Operation *op,
                              const AxisChoice &choice) {
  const ProgramFacts &facts = in.facts;
  bool isSplit = choice.kind == AxisChoice::split;
  if (isa<AttentionOp>(op) && in.spec.cpKind == cost::CpKind::Ulysses)
    return isSplit && !facts.isSequence(op, choice.factor) ? 0 : kLastResort;
  auto splits = [&](const llvm::DenseSet<int64_t> &classes) {
    return llvm::any_of(facts.factors.splittable(op), [&](IterFactor factor) {
      return classes.contains(facts.factors.classOf(op, factor));
    });
  };
  const llvm::DenseSet<int64_t> &classes =
      splits(facts.ringClasses) ? facts.ringClasses : facts.sequenceClasses;
  if (!splits(classes))
    return 0;
  return isSplit && classes.contains(facts.factors.classOf(op, choice.factor))
             ? 0
             : kLastResort;
}

/// True if `value` has batch, sequence and at least one more dimension.
static bool isHiddenActivation(const ProgramFacts &facts, Value value) {
  bool batch = false, sequence = false, other = false;
  for (int64_t i = 0, e = facts.factors.numFactors(value); i < e; ++i) {
    int64_t cls = facts.factors.classOf(value, i);
    bool &found = cls == facts.batchClass               ? batch
                  : facts.sequenceClasses.contains(cls) ? sequence
                                                        : other;
    found = true;
  }
  return batch && sequence && other;
}

/// Rules (R2), (R3), (R5) and (R6) of StrategyGraph.h.
static double tensorPenalty(const AxisProblem &in, Operation *op,
                            const AxisChoice &choice) {
  const ProgramFacts &facts = in.facts;
  bool isSplit = choice.kind == AxisChoice::split;
  bool along = isSplit && facts.isSequence(op, choice.factor);
  // (R5)
  if (along && op->hasAttr(attr::kRing))
    return kLastResort;
  // (R6)
  if (auto expert = in.experts.ops.find(op); expert != in.experts.ops.end())
    return choice == expert->second ? 0 : kLastResort;
  Value result = op->getResult(0);
  if (!facts.active.contains(result))
    return 0;
  // (R3)
  if (isSplit && facts.hasBatch(result) &&
      !isa<MatmulOp, ExpertMatmulOp, ConvOp, EmbeddingOp, AttentionOp>(op) &&
      facts.hiddenClasses.contains(facts.factors.classOf(op, choice.factor)))
    return kLastResort;
  // (R2)
  if (!in.spec.sp)
    return along ? kLastResort : 0;
  bool replicated = choice.kind == AxisChoice::replicate ||
                    choice.kind == AxisChoice::gradPartial;
  return replicated && isa<NormOp, BinaryOp, UnaryOp, SelectOp>(op) &&
                 isHiddenActivation(facts, result)
             ? kLastResort
             : 0;
}

/// `seconds` is the result of unsplitSeconds.
static double choiceCost(const AxisProblem &in, Operation *op,
                         const AxisChoice &choice, double seconds) {
  if (choice.kind == AxisChoice::split)
    seconds *= largestShare(sizeBefore(in, op, choice.factor), in.axis.size);
  // A result of the function must not be partial.
  for (OpResult result : op->getResults())
    if (llvm::any_of(result.getUsers(), llvm::IsaPred<func::ReturnOp>) &&
        resultState(in.facts.factors, op, choice, result.getResultNumber()) ==
            axis::partial)
      seconds +=
          moveSeconds(in, AxisTransition::allReduce, bytesPerRank(in, result),
                      in.facts.hasBatch(result));
  return seconds + (in.axis.role == AxisRole::sequence
                        ? sequencePenalty(in, op, choice)
                        : tensorPenalty(in, op, choice));
}

/// Returns the seconds of reducing the gradients of parameters with `bytes`
/// bytes over data-parallel ranks, and of updating the parameters.
static double updateSeconds(const AxisProblem &in, double bytes) {
  auto [it, isNew] = in.updates.try_emplace(bytes, 0.0);
  if (isNew)
    // AdamW reads p, m, v and g, and writes p, m and v.
    it->second =
        cost::estimateCollective(in.cluster, cost::Collective::AllReduce, bytes,
                                 in.gradientGroup)
            .seconds +
        (cost::streamSeconds(in.device, 7 * bytes) - in.device.launchSeconds);
  return it->second;
}

/// Rule (R7). Returns false if the user's sharding of an argument
/// (attr::kUserSplit) excludes `state` over `axis`. Checks only tensor axes.
static bool isAsked(const ProgramFacts &facts, BlockArgument argument,
                    const MeshAxis &axis, AxisState state) {
  func::FuncOp func = facts.func;
  auto dims = func.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(),
                                                       attr::kUserSplit);
  if (!dims || axis.role != AxisRole::tensor)
    return true;
  if (state < axis::firstSplit)
    return dims.empty();
  int64_t factor = state - axis::firstSplit;
  int64_t dim = 0;
  while (facts.factors.numFactors(argument, dim + 1) <= factor)
    ++dim;
  return llvm::is_contained(dims.asArrayRef(), dim);
}

static Status checkAsked(const ProgramFacts &facts,
                         const ShardChoices &choices) {
  const MeshAxis &axis = choices.axes.back();
  func::FuncOp func = facts.func;
  for (BlockArgument argument : func.getArguments()) {
    auto found = choices.arguments.find(argument);
    if (found == choices.arguments.end() ||
        isAsked(facts, argument, axis, found->second.back()))
      continue;
    auto name =
        func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kName);
    return Error{"the model's sharding of '" +
                 (name ? name.getValue().str() : "an argument") +
                 "' cannot be kept over " + axis.name + "=" +
                 std::to_string(axis.size) +
                 "; remove it, or split another dimension"};
  }
  return Status();
}

/// Includes rule (R1).
static double stateCost(const AxisProblem &in, Value argument,
                        AxisState state) {
  const ProgramFacts &facts = in.facts;
  double bytes = sizeInBytes(argument) * shareBefore(in, argument);
  bool split = state >= axis::firstSplit;
  if (split)
    bytes *= largestShare(sizeBefore(in, argument, state - axis::firstSplit),
                          in.axis.size);
  double seconds =
      facts.active.contains(argument) ? updateSeconds(in, bytes) : 0;
  if (in.axis.role == AxisRole::sequence) {
    bool isStored = facts.stored.contains(argument);
    // On ties, inputs are split, because shards take less memory.
    double memory = split || isStored ? 0 : kTieBreak;
    return seconds + (split && isStored ? kLastResort : memory);
  }
  if (auto expert = in.experts.parameters.find(argument);
      expert != in.experts.parameters.end())
    return seconds +
           (state == axis::firstSplit + expert->second ? 0 : kLastResort);
  if (!split && facts.weights.contains(argument))
    seconds += kLastResort;
  return seconds;
}

/// Returns the states: replicated, a partial sum of the gradient or the value,
/// and a split of each factor that is not of the batch class.
static States allStates(const ProgramFacts &facts, Value value) {
  States states = {axis::replicated, axis::gradPartial, axis::partial};
  if (mayBeRouted(value))
    states.push_back(axis::routed);
  for (int64_t i = 0, e = facts.factors.numFactors(value); i < e; ++i)
    if (facts.factors.classOf(value, i) != facts.batchClass)
      states.push_back(axis::firstSplit + i);
  return states;
}

static States argumentStates(const ProgramFacts &facts, Value argument) {
  States states = allStates(facts, argument);
  llvm::erase(states, axis::gradPartial);
  llvm::erase(states, axis::partial);
  return states;
}

static void addArgument(Graph &graph, const AxisProblem &in,
                        BlockArgument arg) {
  if (!isa<RankedTensorType>(arg.getType()))
    return;
  std::vector<double> costs;
  for (AxisState state : argumentStates(in.facts, arg))
    costs.push_back(stateCost(in, arg, state) +
                    (isAsked(in.facts, arg, in.axis, state) ? 0 : kNotAsked));
  graph.arguments[arg] = graph.problem.addNode(
      "argument " + std::to_string(arg.getArgNumber()), std::move(costs));
}

static void addOp(Graph &graph, const AxisProblem &in, Operation *op) {
  const ProgramFacts &facts = in.facts;
  SmallVector<AxisChoice> choices;
  std::vector<double> costs;
  bool hasGradient = facts.active.contains(op->getResult(0));
  double seconds = unsplitSeconds(in, op);
  for (const AxisChoice &choice : choicesOf(facts.factors, op, hasGradient)) {
    // Data axes already split the batch. Factors with one element stay whole.
    if (choice.kind == AxisChoice::split &&
        (facts.factors.classOf(op, choice.factor) == facts.batchClass ||
         sizeBefore(in, op, choice.factor) == 1))
      continue;
    choices.push_back(choice);
    costs.push_back(choiceCost(in, op, choice, seconds));
  }
  cost::NodeId node = graph.problem.addNode(op->getName().getStringRef().str(),
                                            std::move(costs));
  graph.ops[op] = {node, std::move(choices)};
}

static bool hasSeveralReaders(const Graph &graph, Value value) {
  Operation *first = nullptr;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user == first || !graph.ops.count(user))
      return false;
    return std::exchange(first, user) != nullptr;
  });
}

/// Returns the states of `value` in the order of the producer's options.
static States producerStates(const Graph &graph, const ProgramFacts &facts,
                             Value value) {
  if (isa<BlockArgument>(value))
    return argumentStates(facts, value);
  auto result = cast<OpResult>(value);
  return llvm::map_to_vector<6>(
      graph.ops.find(result.getOwner())->second.second,
      [&](const AxisChoice &choice) {
        return resultState(facts.factors, result.getOwner(), choice,
                           result.getResultNumber());
      });
}

static cost::MatrixId matrixFor(Graph &graph, const AxisProblem &in,
                                const States &from, const States &to,
                                Value value) {
  bool gradient = in.facts.active.contains(value);
  bool parameter =
      in.facts.weights.contains(value) || in.facts.stored.contains(value);
  bool batched = in.facts.hasBatch(value);
  bool tiled = in.tiledRows.contains(value);
  double bytes = bytesPerRank(in, value);
  auto key = std::make_tuple(std::vector<AxisState>(from.begin(), from.end()),
                             std::vector<AxisState>(to.begin(), to.end()),
                             bytes, gradient, parameter, batched, tiled);
  auto [it, isNew] = graph.matrices.try_emplace(key, 0);
  if (!isNew)
    return it->second;
  cost::CostMatrix matrix;
  matrix.rows = from.size();
  matrix.columns = to.size();
  // Many pairs of states need the same moves.
  std::array<std::optional<double>, AxisTransition::kNumMoves> known;
  auto secondsOf = [&](AxisTransition::Move move) {
    if (!known[move])
      known[move] = moveSeconds(in, move, bytes, batched);
    return *known[move];
  };
  for (AxisState a : from)
    for (AxisState b : to) {
      AxisTransition moves = transition(a, b, gradient);
      double seconds = secondsOf(moves.forward) + secondsOf(moves.backward);
      if (parameter && moves.forward != AxisTransition::none)
        seconds += kLastResort; // (R1)
      if (tiled && (moves.forward != AxisTransition::none ||
                    moves.backward != AxisTransition::none))
        seconds += kLastResort; // (R8)
      matrix.values.push_back(seconds);
    }
  return it->second = graph.problem.addMatrix(std::move(matrix));
}

static void addEdges(Graph &graph, const AxisProblem &in, Operation *op) {
  auto addEdge = [&](cost::NodeId from, const States &fromStates,
                     cost::NodeId to, const States &toStates, Value value) {
    graph.problem.addEdge(from, to,
                          matrixFor(graph, in, fromStates, toStates, value));
  };
  auto &[node, choices] = graph.ops.find(op)->second;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    cost::NodeId from;
    if (auto arg = dyn_cast<BlockArgument>(operand))
      from = graph.arguments.find(arg)->second;
    else
      from = graph.ops.find(operand.getDefiningOp())->second.first;
    States states;
    for (const AxisChoice &choice : choices)
      states.push_back(operandState(in.facts.factors, op, choice, i));
    States produced = producerStates(graph, in.facts, operand);
    if (!hasSeveralReaders(graph, operand)) {
      addEdge(from, produced, node, states, operand);
      continue;
    }
    States copied = allStates(in.facts, operand);
    auto [copy, isNew] = graph.copies.try_emplace(operand, 0);
    if (isNew) {
      copy->second =
          graph.problem.addNode("copy", std::vector<double>(copied.size(), 0));
      addEdge(from, produced, copy->second, copied, operand);
    }
    addEdge(copy->second, copied, node, states, operand);
  }
}

static Status solveAxis(const AxisProblem &in, ShardChoices &choices) {
  Graph graph;
  Block &block = in.facts.func->getRegion(0).front();
  for (BlockArgument arg : block.getArguments())
    addArgument(graph, in, arg);
  for (Operation &op : block)
    if (in.facts.isForward(&op))
      addOp(graph, in, &op);
  for (Operation &op : block)
    if (graph.ops.count(&op))
      addEdges(graph, in, &op);
  Expected<cost::Solution> solution = cost::solveByElimination(graph.problem);
  if (!solution)
    return Error{"axis " + in.axis.name + ": " + solution.message()};
  for (auto &[op, entry] : graph.ops)
    choices.ops[op].push_back(entry.second[solution->choice[entry.first]]);
  for (auto &[arg, node] : graph.arguments)
    choices.arguments[arg].push_back(
        argumentStates(in.facts, arg)[solution->choice[node]]);
  choices.axes.push_back(in.axis);
  return checkAsked(in.facts, choices);
}

Expected<ShardChoices> dpc::chooseShards(const ProgramFacts &facts,
                                         const cost::Cluster &cluster,
                                         const LoweringSpec &spec) {
  ShardChoices choices;
  std::vector<MeshAxis> axes = axesOf(spec);
  Experts experts, forTensor;
  if (spec.cp > 1 && facts.sequenceClasses.empty())
    return Error{
        "cp=" + std::to_string(spec.cp) +
        ": the model has no sequence to split; expected token ids with "
        "positions, or attention"};
  if (spec.ep > 1) {
    experts = findExperts(facts, spec.ep);
    if (experts.parameters.empty())
      return Error{
          "ep=" + std::to_string(spec.ep) +
          ": the model has no experts to shard; expected weights of three "
          "dimensions, one of which counts the experts, and a TopK or Softmax "
          "over as many elements"};
    if (isExpertTensor(spec))
      forTensor = experts;
    for (const MeshAxis &axis : axes)
      if (axis.role == AxisRole::expert)
        chooseExperts(facts, experts, axis, choices);
  }
  DenseSet<Value> tiledRows;
  if (spec.ep > 1 && spec.tilesExperts)
    tiledRows = rowsOfExperts(llvm::to_vector(
        llvm::make_pointer_range(facts.func->getRegion(0).front())));
  for (AxisRole role : {AxisRole::tensor, AxisRole::sequence})
    for (const MeshAxis &axis : axes) {
      if (axis.role != role)
        continue;
      ShardChoices done = choices;
      AxisProblem problem(facts, cluster, spec, axis, done, forTensor,
                          tiledRows);
      if (Status status = solveAxis(problem, choices); !status)
        return Error{status.message()};
    }
  return choices;
}
