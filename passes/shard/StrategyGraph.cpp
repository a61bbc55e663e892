//===- StrategyGraph.cpp - From a program to an optimization problem ------===//
#include "passes/shard/StrategyGraph.h"

#include "cost-model/solve/Solvers.h"
#include "passes/cost/OpTime.h"
#include "passes/shard/Experts.h"
#include "passes/shard/UserSplits.h"

#include <array>
#include <map>

using namespace mlir;
using namespace dpc;

namespace {

/// Seconds that make a choice the last resort without forbidding it.
constexpr double kLastResort = 1e4;
/// What the user asked for comes before all rules.
constexpr double kNotAsked = 1e9;
/// Seconds that matter between equals only.
constexpr double kTieBreak = 1e-12;

/// A node's options as states of one value, for building edges.
using States = SmallVector<AxisState>;

/// Builds and solves the problem of one axis.
class ProblemBuilder {
public:
  /// `axis` is none of `done`'s, which have been solved for before.
  ProblemBuilder(const ProgramFacts &facts, const cost::Cluster &cluster,
                 const LoweringSpec &degrees, const MeshAxis &axis,
                 const ShardChoices &done, const Experts &experts);

  /// Appends this axis to `choices`; the error names what made it fail.
  Status solve(ShardChoices &choices);

private:
  const ProgramFacts &facts;
  const cost::Cluster &cluster;
  const LoweringSpec &degrees;
  const cost::Device &device;
  const MeshAxis &axis;
  const ShardChoices &done;
  cost::GroupPlacement group, gradientGroup;
  /// Ranks of data axes, which split the batch in every op.
  int64_t dataRanks;
  /// What tensor axes must split; empty where they need not.
  const Experts &experts;
  /// Ranks of a sequence axis that is solved for after this one.
  int64_t laterSequence = 1;
  cost::Problem problem;

  /// Node and options of each op; node of each argument and copied value.
  DenseMap<Operation *, std::pair<cost::NodeId, SmallVector<AxisChoice>>>
      opNodes;
  DenseMap<Value, cost::NodeId> argumentNodes, copyNodes;
  std::map<std::tuple<std::vector<AxisState>, std::vector<AxisState>, double,
                      bool, bool, bool>,
           cost::MatrixId>
      matrices;
  std::map<double, double> updates; ///< See updateSeconds, by bytes.
  /// Seconds over the axis, by bytes of a micro-batch.
  std::map<std::pair<cost::Collective, double>, double> moveTimes;

  void addArgument(BlockArgument arg);
  void addOp(Operation *op);
  void addEdges(Operation *op);
  void addEdge(cost::NodeId from, const States &fromStates, cost::NodeId to,
               const States &toStates, Value value);
  cost::MatrixId matrixFor(const States &from, const States &to, Value value);

  States allStates(Value value) const;
  States producerStates(Value value) const;
  bool hasSeveralReaders(Value value) const;
  double opShareSeconds(Operation *op) const;
  double shareBefore(Operation *op) const;
  double shareBefore(Value value) const;
  double share(Value value) const;
  int64_t sizeBefore(Operation *op, IterFactor factor, size_t count) const;
  int64_t sizeBefore(Operation *op, IterFactor factor) const;
  int64_t sizeBefore(Value argument, int64_t factor) const;
  double fraction(int64_t size) const;
  double unsplitSeconds(Operation *op) const;
  double choiceCost(Operation *op, const AxisChoice &choice, double seconds);
  double tensorPenalty(Operation *op, const AxisChoice &choice) const;
  double sequencePenalty(Operation *op, const AxisChoice &choice) const;
  double updateSeconds(double bytes);
  double stateCost(Value argument, AxisState state);
  double moveSeconds(AxisTransition::Move move, double bytes, bool batched);
  double bytesPerRank(Value value) const;
};

} // namespace

ProblemBuilder::ProblemBuilder(const ProgramFacts &facts,
                               const cost::Cluster &cluster,
                               const LoweringSpec &degrees,
                               const MeshAxis &axis, const ShardChoices &done,
                               const Experts &experts)
    : facts(facts), cluster(cluster), degrees(degrees),
      device(cluster.slowestDevice(cost::DType::F32)), axis(axis), done(done),
      group(cost::placeGroup(cluster, rankOrder(degrees), {axis.name})),
      gradientGroup(cost::placeGroup(cluster, rankOrder(degrees),
                                     {"dp", "dpi", "ep", "cp"})),
      dataRanks(degrees.dp / expertDataRanks(degrees)), experts(experts) {
  if (axis.role == AxisRole::tensor)
    laterSequence = degrees.cp;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Share of the work of the fullest rank when a factor is split.
double ProblemBuilder::fraction(int64_t size) const {
  return static_cast<double>(ceilDiv(size, axis.size)) / size;
}

/// What the first `count` of the earlier axes have left of a factor.
int64_t ProblemBuilder::sizeBefore(Operation *op, IterFactor factor,
                                   size_t count) const {
  int64_t size = facts.factors.factors(op, factor.dim)[factor.factor];
  auto found = done.ops.find(op);
  if (found == done.ops.end())
    return size;
  for (size_t k = 0; k < count; ++k) {
    const AxisChoice &choice = found->second[k];
    if (choice.kind == AxisChoice::split && choice.factor == factor)
      size = ceilDiv(size, done.axes[k].size);
  }
  return size;
}

int64_t ProblemBuilder::sizeBefore(Operation *op, IterFactor factor) const {
  return sizeBefore(op, factor, done.axes.size());
}

int64_t ProblemBuilder::sizeBefore(Value argument, int64_t factor) const {
  int64_t size = facts.factors.factorSize(argument, factor);
  auto found = done.arguments.find(argument);
  if (found != done.arguments.end())
    for (auto [state, earlier] : llvm::zip(found->second, done.axes))
      if (state == axis::firstSplit + factor)
        size = ceilDiv(size, earlier.size);
  return size;
}

/// Share of an op's work that earlier axes leave to one rank.
double ProblemBuilder::shareBefore(Operation *op) const {
  auto found = done.ops.find(op);
  double share = 1;
  for (size_t k = 0; k < done.axes.size() && found != done.ops.end(); ++k) {
    const AxisChoice &choice = found->second[k];
    if (choice.kind != AxisChoice::split)
      continue;
    int64_t size = sizeBefore(op, choice.factor, k);
    share *= static_cast<double>(ceilDiv(size, done.axes[k].size)) / size;
  }
  return share;
}

/// Share of a value's elements that earlier axes leave to one rank.
double ProblemBuilder::shareBefore(Value value) const {
  double share = 1;
  for (size_t k = 0; k < done.axes.size(); ++k) {
    AxisState state = axis::replicated;
    auto result = dyn_cast<OpResult>(value);
    if (!result) {
      auto found = done.arguments.find(value);
      if (found != done.arguments.end())
        state = found->second[k];
    } else if (auto found = done.ops.find(result.getOwner());
               found != done.ops.end()) {
      state = resultState(facts.factors, result.getOwner(), found->second[k],
                          result.getResultNumber());
    }
    if (state < axis::firstSplit)
      continue;
    int64_t size = facts.factors.factorSize(value, state - axis::firstSplit);
    share *= static_cast<double>(ceilDiv(size, done.axes[k].size)) / size;
  }
  return share;
}

/// Share of a value's elements on one rank before this axis.
double ProblemBuilder::share(Value value) const {
  double share = shareBefore(value);
  if (facts.hasBatch(value))
    share /= dataRanks;
  if (laterSequence > 1 && facts.hasSequence(value))
    share /= laterSequence;
  return share;
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Bytes of `value` on one rank before this axis, per step.
double ProblemBuilder::bytesPerRank(Value value) const {
  return sizeInBytes(cast<RankedTensorType>(value.getType())) * share(value);
}

/// Seconds per step of the op on one data-parallel rank, shared over the
/// sequence axis but not yet over tensor axes.
double ProblemBuilder::opShareSeconds(Operation *op) const {
  auto any = [&](auto has) {
    return llvm::any_of(op->getResults(), has) ||
           llvm::any_of(op->getOperands(), has);
  };
  double share = 1;
  if (any([&](Value value) { return facts.hasBatch(value); }))
    share /= dataRanks;
  if (laterSequence > 1 &&
      any([&](Value value) { return facts.hasSequence(value); }))
    share /= laterSequence;
  if (isa<MatmulOp, ConvOp, ConvGradInputOp, ConvGradFilterOp, AttentionOp,
          AttentionGradOp>(op))
    return opSeconds(op, device) * share;
  if (isa<ReshapeOp, ConstantOp, IotaOp>(op))
    return 0;
  // Chains are fused: what counts is about the result.
  double bytes = 0;
  for (Value result : op->getResults())
    bytes += 2.0 * sizeInBytes(cast<RankedTensorType>(result.getType()));
  return cost::streamSeconds(device, bytes * share) - device.launchSeconds;
}

/// Of the op and its gradients, where this axis splits nothing.
double ProblemBuilder::unsplitSeconds(Operation *op) const {
  double seconds = opShareSeconds(op);
  auto gradients = facts.gradientOps.find(op);
  if (gradients != facts.gradientOps.end())
    for (Operation *gradient : gradients->second)
      seconds += opShareSeconds(gradient);
  return seconds * shareBefore(op);
}

/// `seconds`: those of `unsplitSeconds`.
double ProblemBuilder::choiceCost(Operation *op, const AxisChoice &choice,
                                  double seconds) {
  if (choice.kind == AxisChoice::split)
    seconds *= fraction(sizeBefore(op, choice.factor));
  // What the function returns must not be partial.
  for (OpResult result : op->getResults())
    if (llvm::any_of(result.getUsers(), llvm::IsaPred<func::ReturnOp>) &&
        resultState(facts.factors, op, choice, result.getResultNumber()) ==
            axis::partial)
      seconds += moveSeconds(AxisTransition::allReduce, bytesPerRank(result),
                             facts.hasBatch(result));
  return seconds + (axis.role == AxisRole::sequence
                        ? sequencePenalty(op, choice)
                        : tensorPenalty(op, choice));
}

/// (R4) and (R5) of the header.
double ProblemBuilder::sequencePenalty(Operation *op,
                                       const AxisChoice &choice) const {
  bool along =
      choice.kind == AxisChoice::split && facts.isSequence(op, choice.factor);
  if (isa<AttentionOp>(op) && degrees.cpKind == cost::CpKind::Ulysses)
    return choice.kind == AxisChoice::split && !along ? 0 : kLastResort;
  auto splits = [&](const llvm::DenseSet<int64_t> &classes) {
    return llvm::any_of(facts.factors.splittable(op), [&](IterFactor factor) {
      return classes.contains(facts.factors.classOf(op, factor));
    });
  };
  const llvm::DenseSet<int64_t> &classes =
      splits(facts.ringClasses) ? facts.ringClasses : facts.sequenceClasses;
  if (!splits(classes))
    return 0;
  bool isRight = choice.kind == AxisChoice::split &&
                 classes.contains(facts.factors.classOf(op, choice.factor));
  return isRight ? 0 : kLastResort;
}

/// (R2), (R3), (R5) and (R6) of the header.
double ProblemBuilder::tensorPenalty(Operation *op,
                                     const AxisChoice &choice) const {
  bool along =
      choice.kind == AxisChoice::split && facts.isSequence(op, choice.factor);
  // (R5)
  if (along && op->hasAttr(attr::kRing))
    return kLastResort;
  // (R6)
  if (auto expert = experts.ops.find(op); expert != experts.ops.end())
    return choice.kind == AxisChoice::split && choice.factor == expert->second
               ? 0
               : kLastResort;
  Value result = op->getResult(0);
  if (!facts.active.contains(result))
    return 0;
  if (choice.kind == AxisChoice::split && facts.hasBatch(result) &&
      !isa<MatmulOp, ConvOp, EmbeddingOp, AttentionOp>(op) &&
      facts.hiddenClasses.contains(facts.factors.classOf(op, choice.factor)))
    return kLastResort;
  if (!degrees.sp)
    return along ? kLastResort : 0;
  bool replicated = choice.kind == AxisChoice::replicate ||
                    choice.kind == AxisChoice::gradPartial;
  if (!replicated || !isa<NormOp, BinaryOp, UnaryOp, SelectOp>(op))
    return 0;
  // Hidden activations: a batch, a sequence and something else.
  bool batch = false, sequence = false, other = false;
  for (int64_t i = 0, e = facts.factors.numFactors(result); i < e; ++i) {
    int64_t cls = facts.factors.classOf(result, i);
    if (cls == facts.batchClass)
      batch = true;
    else if (facts.sequenceClasses.contains(cls))
      sequence = true;
    else
      other = true;
  }
  return batch && sequence && other ? kLastResort : 0;
}

/// Data-parallel reduction and optimizer of so many bytes of parameters. Layers
/// are alike: asked once for each size.
double ProblemBuilder::updateSeconds(double bytes) {
  auto [it, isNew] = updates.try_emplace(bytes, 0.0);
  if (isNew)
    // AdamW reads p, m, v, g and writes p, m, v.
    it->second =
        cost::estimateCollective(cluster, cost::Collective::AllReduce, bytes,
                                 gradientGroup)
            .seconds +
        (cost::streamSeconds(device, 7 * bytes) - device.launchSeconds);
  return it->second;
}

/// Of a parameter in this state, (R1).
double ProblemBuilder::stateCost(Value argument, AxisState state) {
  double bytes = sizeInBytes(cast<RankedTensorType>(argument.getType())) *
                 shareBefore(argument);
  bool split = state >= axis::firstSplit;
  if (split)
    bytes *= fraction(sizeBefore(argument, state - axis::firstSplit));
  double seconds = facts.active.contains(argument) ? updateSeconds(bytes) : 0;
  if (axis.role == AxisRole::sequence) {
    bool isStored = facts.stored.contains(argument);
    // Of equals, inputs take the room of their part only.
    double room = split || isStored ? 0 : kTieBreak;
    return seconds + (split && isStored ? kLastResort : room);
  }
  if (auto expert = experts.parameters.find(argument);
      expert != experts.parameters.end())
    return seconds +
           (state == axis::firstSplit + expert->second ? 0 : kLastResort);
  if (!split && facts.weights.contains(argument))
    seconds += kLastResort;
  return seconds;
}

double ProblemBuilder::moveSeconds(AxisTransition::Move move, double bytes,
                                   bool batched) {
  cost::Collective kind;
  switch (move) {
  case AxisTransition::none:
    return 0;
  case AxisTransition::impossible:
    return cost::forbidden;
  case AxisTransition::allReduce:
    kind = cost::Collective::AllReduce;
    break;
  case AxisTransition::reduceScatter:
    kind = cost::Collective::ReduceScatter;
    break;
  case AxisTransition::allGather:
    kind = cost::Collective::AllGather;
    break;
  case AxisTransition::allToAll:
    kind = cost::Collective::AllToAll;
    bytes /= axis.size;
    break;
  }
  double times = batched ? degrees.numMicroBatches : 1;
  auto [it, isNew] = moveTimes.try_emplace({kind, bytes / times}, 0.0);
  if (isNew)
    it->second =
        cost::estimateCollective(cluster, kind, bytes / times, group).seconds;
  return times * it->second;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Replicated, the gradient states where they make sense, and all splits but
/// those of the batch.
States ProblemBuilder::allStates(Value value) const {
  States states = {axis::replicated, axis::gradPartial, axis::partial};
  for (int64_t i = 0, e = facts.factors.numFactors(value); i < e; ++i)
    if (facts.factors.classOf(value, i) != facts.batchClass)
      states.push_back(axis::firstSplit + i);
  return states;
}

/// Of `all` states those that an argument can have.
static States argumentStates(const States &all) {
  States states = {axis::replicated};
  for (AxisState state : all)
    if (state >= axis::firstSplit)
      states.push_back(state);
  return states;
}

bool ProblemBuilder::hasSeveralReaders(Value value) const {
  Operation *first = nullptr;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user == first || !opNodes.count(user))
      return false;
    return std::exchange(first, user) != nullptr;
  });
}

void ProblemBuilder::addArgument(BlockArgument arg) {
  if (!isa<RankedTensorType>(arg.getType()))
    return;
  std::vector<double> costs;
  for (AxisState state : argumentStates(allStates(arg)))
    costs.push_back(stateCost(arg, state) +
                    (isAsked(facts, arg, axis, state) ? 0 : kNotAsked));
  argumentNodes[arg] = problem.addNode(
      "argument " + std::to_string(arg.getArgNumber()), std::move(costs));
}

void ProblemBuilder::addOp(Operation *op) {
  SmallVector<AxisChoice> choices;
  std::vector<double> costs;
  bool hasGradient = facts.active.contains(op->getResult(0));
  double seconds = unsplitSeconds(op);
  for (const AxisChoice &choice : choicesOf(facts.factors, op, hasGradient)) {
    // The batch is split already; so may be the last element.
    if (choice.kind == AxisChoice::split &&
        (facts.factors.classOf(op, choice.factor) == facts.batchClass ||
         sizeBefore(op, choice.factor) == 1))
      continue;
    choices.push_back(choice);
    costs.push_back(choiceCost(op, choice, seconds));
  }
  cost::NodeId node =
      problem.addNode(op->getName().getStringRef().str(), std::move(costs));
  opNodes[op] = {node, std::move(choices)};
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

/// The states `value` can be left in, in the order of its producer's options.
States ProblemBuilder::producerStates(Value value) const {
  if (isa<BlockArgument>(value))
    return argumentStates(allStates(value));
  auto result = cast<OpResult>(value);
  States states;
  for (const AxisChoice &choice :
       opNodes.find(result.getOwner())->second.second)
    states.push_back(resultState(facts.factors, result.getOwner(), choice,
                                 result.getResultNumber()));
  return states;
}

cost::MatrixId ProblemBuilder::matrixFor(const States &from, const States &to,
                                         Value value) {
  bool gradient = facts.active.contains(value);
  bool parameter =
      facts.weights.contains(value) || facts.stored.contains(value);
  bool batched = facts.hasBatch(value);
  double bytes = bytesPerRank(value);
  auto key = std::make_tuple(std::vector<AxisState>(from.begin(), from.end()),
                             std::vector<AxisState>(to.begin(), to.end()),
                             bytes, gradient, parameter, batched);
  auto [it, isNew] = matrices.try_emplace(key, 0);
  if (!isNew)
    return it->second;
  cost::CostMatrix matrix;
  matrix.rows = from.size();
  matrix.columns = to.size();
  // There are more pairs of states than ways to move.
  std::array<std::optional<double>, AxisTransition::kNumMoves> known;
  auto secondsOf = [&](AxisTransition::Move move) {
    if (!known[move])
      known[move] = moveSeconds(move, bytes, batched);
    return *known[move];
  };
  for (AxisState a : from)
    for (AxisState b : to) {
      AxisTransition moves = transition(a, b, gradient);
      double seconds = secondsOf(moves.forward) + secondsOf(moves.backward);
      if (parameter && moves.forward != AxisTransition::none)
        seconds += kLastResort; // (R1)
      matrix.values.push_back(seconds);
    }
  return it->second = problem.addMatrix(std::move(matrix));
}

void ProblemBuilder::addEdge(cost::NodeId from, const States &fromStates,
                             cost::NodeId to, const States &toStates,
                             Value value) {
  problem.addEdge(from, to, matrixFor(fromStates, toStates, value));
}

void ProblemBuilder::addEdges(Operation *op) {
  auto &[node, choices] = opNodes.find(op)->second;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    cost::NodeId from;
    if (auto arg = dyn_cast<BlockArgument>(operand))
      from = argumentNodes.find(arg)->second;
    else
      from = opNodes.find(operand.getDefiningOp())->second.first;
    States states;
    for (const AxisChoice &choice : choices)
      states.push_back(operandState(facts.factors, op, choice, i));
    if (!hasSeveralReaders(operand)) {
      addEdge(from, producerStates(operand), node, states, operand);
      continue;
    }
    States copies = allStates(operand);
    auto [copy, isNew] = copyNodes.try_emplace(operand, 0);
    if (isNew) {
      copy->second =
          problem.addNode("copy", std::vector<double>(copies.size(), 0.0));
      addEdge(from, producerStates(operand), copy->second, copies, operand);
    }
    addEdge(copy->second, copies, node, states, operand);
  }
}

Status ProblemBuilder::solve(ShardChoices &choices) {
  for (BlockArgument arg : facts.func->getRegion(0).getArguments())
    addArgument(arg);
  Block &block = facts.func->getRegion(0).front();
  for (Operation &op : block)
    if (facts.isForward(&op))
      addOp(&op);
  for (Operation &op : block)
    if (opNodes.count(&op))
      addEdges(&op);
  Expected<cost::Solution> solution = cost::solveByElimination(problem);
  if (!solution)
    return Error{"axis " + axis.name + ": " + solution.message()};
  for (auto &[op, entry] : opNodes)
    choices.ops[op].push_back(entry.second[solution->choice[entry.first]]);
  for (auto &[arg, node] : argumentNodes)
    choices.arguments[arg].push_back(
        argumentStates(allStates(arg))[solution->choice[node]]);
  choices.axes.push_back(axis);
  return checkAsked(facts, choices);
}

Expected<ShardChoices> dpc::chooseShards(const ProgramFacts &facts,
                                         const cost::Cluster &cluster,
                                         const LoweringSpec &degrees) {
  ShardChoices choices;
  std::vector<MeshAxis> axes = axesOf(degrees);
  Experts experts, forTensor;
  if (degrees.cp > 1 && facts.sequenceClasses.empty())
    return Error{
        "cp=" + std::to_string(degrees.cp) +
        ": the model has no sequence to split; expected token ids with "
        "positions, or attention"};
  if (degrees.ep > 1) {
    experts = findExperts(facts, degrees.ep);
    if (experts.parameters.empty())
      return Error{
          "ep=" + std::to_string(degrees.ep) +
          ": the model has no experts to spread; expected weights of three "
          "dimensions, stacked over experts that a TopK or Softmax of as many "
          "elements chooses between"};
    if (isExpertTensor(degrees))
      forTensor = experts;
    for (const MeshAxis &axis : axes)
      if (axis.role == AxisRole::expert)
        chooseExperts(facts, experts, axis, choices);
  }
  for (AxisRole role : {AxisRole::tensor, AxisRole::sequence})
    for (const MeshAxis &axis : axes) {
      if (axis.role != role)
        continue;
      ShardChoices done = choices;
      if (Status status =
              ProblemBuilder(facts, cluster, degrees, axis, done, forTensor)
                  .solve(choices);
          !status)
        return Error{status.message()};
    }
  return choices;
}
