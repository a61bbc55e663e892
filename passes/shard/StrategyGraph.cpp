//===- StrategyGraph.cpp - From a program to an optimization problem ------===//
#include "passes/shard/StrategyGraph.h"

#include "cost-model/search/Solvers.h"
#include "passes/shard/OpTime.h"

using namespace mlir;
using namespace dpc;

namespace {

/// Seconds that make a choice the last resort without forbidding it.
constexpr double kLastResort = 1e4;

/// A node's options as states of one value, for building edges.
using States = SmallVector<TpState>;

class ProblemBuilder {
public:
  ProblemBuilder(const ProgramFacts &facts, const cost::Cluster &cluster,
                 const ShardDegrees &degrees);

  cost::Result<ShardChoices> solve();

private:
  const ProgramFacts &facts;
  const cost::Cluster &cluster;
  const ShardDegrees &degrees;
  const cost::Device &device;
  cost::GroupPlacement tpGroup, dpGroup;
  cost::Problem problem;

  /// Node and options of each op; node of each argument and copied value.
  DenseMap<Operation *, std::pair<cost::NodeId, SmallVector<TpChoice>>> opNodes;
  DenseMap<Value, cost::NodeId> argumentNodes, copyNodes;
  std::map<std::tuple<std::vector<TpState>, std::vector<TpState>, double, bool,
                      bool, bool>,
           cost::MatrixId>
      matrices;

  void addArgument(BlockArgument arg);
  void addOp(Operation *op);
  void addEdges(Operation *op);
  void addEdge(cost::NodeId from, const States &fromStates, cost::NodeId to,
               const States &toStates, Value value);
  cost::MatrixId matrixFor(const States &from, const States &to, Value value);

  States allStates(Value value) const;
  States producerStates(Value value) const;
  SmallVector<Operation *> readers(Value value) const;
  double opShareSeconds(Operation *op) const;
  double fraction(int64_t size) const;
  double choiceCost(Operation *op, const TpChoice &choice) const;
  double rulePenalty(Operation *op, const TpChoice &choice) const;
  double stateCost(Value argument, TpState state) const;
  double moveSeconds(TpTransition::Move move, double bytes, bool batched) const;
  double bytesPerRank(Value value) const;
};

} // namespace

ProblemBuilder::ProblemBuilder(const ProgramFacts &facts,
                               const cost::Cluster &cluster,
                               const ShardDegrees &degrees)
    : facts(facts), cluster(cluster), degrees(degrees),
      device(cluster.slowestDevice(cost::DType::F32)),
      tpGroup(cost::placeAxis(cluster, 1, degrees.tp)),
      dpGroup(cost::placeAxis(cluster, degrees.tp, degrees.dp)) {}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Bytes of `value` on one rank before tensor parallelism, per step.
double ProblemBuilder::bytesPerRank(Value value) const {
  double bytes = sizeInBytes(cast<RankedTensorType>(value.getType()));
  return facts.hasBatch(value) ? bytes / degrees.dp : bytes;
}

/// Share of the work of the fullest rank when a factor is split.
double ProblemBuilder::fraction(int64_t size) const {
  return static_cast<double>(ceilDiv(size, degrees.tp)) / size;
}

/// Seconds per step of the whole op on one data-parallel rank.
double ProblemBuilder::opShareSeconds(Operation *op) const {
  auto hasBatch = [&](Value value) { return facts.hasBatch(value); };
  bool batched = llvm::any_of(op->getResults(), hasBatch) ||
                 llvm::any_of(op->getOperands(), hasBatch);
  double share = batched ? 1.0 / degrees.dp : 1.0;
  if (isa<MatmulOp, AttentionOp, AttentionGradOp>(op))
    return opSeconds(op, device) * share;
  if (isa<ReshapeOp, ConstantOp, IotaOp>(op))
    return 0;
  // Chains are fused: what counts is about the result.
  double bytes = 0;
  for (Value result : op->getResults())
    bytes += 2.0 * sizeInBytes(cast<RankedTensorType>(result.getType()));
  return cost::streamSeconds(device, bytes * share) - device.launchSeconds;
}

double ProblemBuilder::choiceCost(Operation *op, const TpChoice &choice) const {
  double seconds = opShareSeconds(op);
  auto gradients = facts.gradientOps.find(op);
  if (gradients != facts.gradientOps.end())
    for (Operation *gradient : gradients->second)
      seconds += opShareSeconds(gradient);
  if (choice.kind == TpChoice::split)
    seconds *= fraction(
        facts.factors.factors(op, choice.factor.dim)[choice.factor.factor]);
  // What the function returns must not be partial.
  for (OpResult result : op->getResults())
    if (llvm::any_of(result.getUsers(), llvm::IsaPred<func::ReturnOp>) &&
        resultState(facts.factors, op, choice, result.getResultNumber()) ==
            tp::partial)
      seconds += moveSeconds(TpTransition::allReduce, bytesPerRank(result),
                             facts.hasBatch(result));
  return seconds + rulePenalty(op, choice);
}

/// (R2) and (R3) of the header.
double ProblemBuilder::rulePenalty(Operation *op,
                                   const TpChoice &choice) const {
  bool along =
      choice.kind == TpChoice::split && facts.isSequence(op, choice.factor);
  Value result = op->getResult(0);
  if (!facts.active.contains(result))
    return 0;
  if (choice.kind == TpChoice::split && facts.hasBatch(result) &&
      !isa<MatmulOp, EmbeddingOp, AttentionOp>(op) &&
      facts.hiddenClasses.contains(facts.factors.classOf(op, choice.factor)))
    return kLastResort;
  if (!degrees.sp)
    return along ? kLastResort : 0;
  bool replicated = choice.kind == TpChoice::replicate ||
                    choice.kind == TpChoice::gradPartial;
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

/// Data-parallel reduction and optimizer of a parameter, (R1).
double ProblemBuilder::stateCost(Value argument, TpState state) const {
  double bytes = sizeInBytes(cast<RankedTensorType>(argument.getType()));
  bool split = state >= tp::firstSplit;
  if (split)
    bytes *=
        fraction(facts.factors.factorSize(argument, state - tp::firstSplit));
  double seconds = 0;
  if (facts.active.contains(argument)) {
    seconds += cost::estimateCollective(cluster, cost::Collective::AllReduce,
                                        bytes, dpGroup)
                   .seconds;
    // AdamW reads p, m, v, g and writes p, m, v.
    seconds += cost::streamSeconds(device, 7 * bytes) - device.launchSeconds;
  }
  if (!split && facts.weights.contains(argument))
    seconds += kLastResort;
  return seconds;
}

double ProblemBuilder::moveSeconds(TpTransition::Move move, double bytes,
                                   bool batched) const {
  cost::Collective kind;
  switch (move) {
  case TpTransition::none:
    return 0;
  case TpTransition::impossible:
    return cost::forbidden;
  case TpTransition::allReduce:
    kind = cost::Collective::AllReduce;
    break;
  case TpTransition::reduceScatter:
    kind = cost::Collective::ReduceScatter;
    break;
  case TpTransition::allGather:
    kind = cost::Collective::AllGather;
    break;
  case TpTransition::allToAll:
    kind = cost::Collective::AllToAll;
    bytes /= degrees.tp;
    break;
  }
  double times = batched ? degrees.microBatches : 1;
  return times * cost::estimateCollective(cluster, kind, bytes / times, tpGroup)
                     .seconds;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Replicated, the gradient states where they make sense, and all splits but
/// those of the batch.
States ProblemBuilder::allStates(Value value) const {
  States states = {tp::replicated, tp::gradPartial, tp::partial};
  for (int64_t i = 0, e = facts.factors.numFactors(value); i < e; ++i)
    if (facts.factors.classOf(value, i) != facts.batchClass)
      states.push_back(tp::firstSplit + i);
  return states;
}

static States argumentStates(const States &all) {
  States states = {tp::replicated};
  for (TpState state : all)
    if (state >= tp::firstSplit)
      states.push_back(state);
  return states;
}

SmallVector<Operation *> ProblemBuilder::readers(Value value) const {
  llvm::SetVector<Operation *> result;
  for (Operation *user : value.getUsers())
    if (opNodes.count(user))
      result.insert(user);
  SmallVector<Operation *> ordered(result.begin(), result.end());
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

void ProblemBuilder::addArgument(BlockArgument arg) {
  if (!isa<RankedTensorType>(arg.getType()))
    return;
  std::vector<double> costs;
  for (TpState state : argumentStates(allStates(arg)))
    costs.push_back(stateCost(arg, state));
  argumentNodes[arg] = problem.addNode(
      "argument " + std::to_string(arg.getArgNumber()), std::move(costs));
}

void ProblemBuilder::addOp(Operation *op) {
  SmallVector<TpChoice> choices;
  std::vector<double> costs;
  bool hasGradient = facts.active.contains(op->getResult(0));
  for (const TpChoice &choice : choicesOf(facts.factors, op, hasGradient)) {
    if (choice.kind == TpChoice::split &&
        facts.factors.classOf(op, choice.factor) == facts.batchClass)
      continue;
    choices.push_back(choice);
    costs.push_back(choiceCost(op, choice));
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
  for (const TpChoice &choice : opNodes.find(result.getOwner())->second.second)
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
  auto key = std::make_tuple(std::vector<TpState>(from.begin(), from.end()),
                             std::vector<TpState>(to.begin(), to.end()), bytes,
                             gradient, parameter, batched);
  auto [it, isNew] = matrices.try_emplace(key, 0);
  if (!isNew)
    return it->second;
  cost::CostMatrix matrix;
  matrix.rows = from.size();
  matrix.columns = to.size();
  for (TpState a : from)
    for (TpState b : to) {
      TpTransition moves = transition(a, b, gradient);
      double seconds = moveSeconds(moves.forward, bytes, batched) +
                       moveSeconds(moves.backward, bytes, batched);
      if (parameter && moves.forward != TpTransition::none)
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
    for (const TpChoice &choice : choices)
      states.push_back(operandState(facts.factors, op, choice, i));
    if (readers(operand).size() < 2) {
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

cost::Result<ShardChoices> ProblemBuilder::solve() {
  for (BlockArgument arg : facts.func->getRegion(0).getArguments())
    addArgument(arg);
  Block &block = facts.func->getRegion(0).front();
  for (Operation &op : block)
    if (facts.isForward(&op))
      addOp(&op);
  for (Operation &op : block)
    if (opNodes.count(&op))
      addEdges(&op);
  cost::Result<cost::Solution> solution = cost::solveByElimination(problem);
  if (!solution)
    return cost::Error{solution.error()};
  ShardChoices choices;
  for (auto &[op, entry] : opNodes)
    choices.ops[op] = entry.second[solution->choice[entry.first]];
  for (auto &[arg, node] : argumentNodes)
    choices.arguments[arg] =
        argumentStates(allStates(arg))[solution->choice[node]];
  return choices;
}

cost::Result<ShardChoices> dpc::chooseShards(const ProgramFacts &facts,
                                             const cost::Cluster &cluster,
                                             const ShardDegrees &degrees) {
  if (degrees.tp == 1) {
    ShardChoices everythingReplicated;
    return everythingReplicated;
  }
  return ProblemBuilder(facts, cluster, degrees).solve();
}
