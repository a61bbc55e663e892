//===- Stages.cpp - Pipeline stages of ops --------------------------------===//
#include "passes/shard/Stages.h"

#include "cost-model/machine/HeterogeneousCluster.h"
#include "ir/TensorUtils.h"
#include "passes/cost/OpTime.h"
#include "passes/shard/ExpertRows.h"

#include <numeric>
#include <unordered_map>

using namespace mlir;
using namespace dpc;

std::vector<int64_t> dpc::goodCuts(ArrayRef<double> cutSeconds,
                                   int64_t wanted) {
  constexpr size_t kFew = 64;
  std::vector<int64_t> good, all;
  for (int64_t i = 0, e = cutSeconds.size(); i < e; ++i) {
    all.push_back(i);
    bool left = i == 0 || cutSeconds[i] <= cutSeconds[i - 1];
    bool right = i + 1 == e || cutSeconds[i] <= cutSeconds[i + 1];
    if (left && right)
      good.push_back(i);
  }
  return all.size() <= kFew || static_cast<int64_t>(good.size()) < wanted
             ? all
             : good;
}

/// Returns the first op of every stage except the first. Stage s that ends at
/// boundary b begins at boundary from[s][b].
static std::vector<int64_t>
startsBehind(const std::vector<std::vector<int64_t>> &from,
             const std::vector<int64_t> &starts) {
  std::vector<int64_t> result;
  for (int64_t s = from.size() - 1, b = starts.size() - 1; s > 0; --s)
    result.push_back(starts[b = from[s][b]]);
  std::reverse(result.begin(), result.end());
  return result;
}

std::vector<int64_t> dpc::balanceStages(ArrayRef<double> seconds,
                                        ArrayRef<double> cutSeconds,
                                        int64_t stages) {
  StageProblem problem;
  problem.seconds.push_back(seconds.vec());
  problem.cutSeconds = cutSeconds.vec();
  problem.kinds.assign(stages, 0);
  return balanceStages(problem);
}

namespace {

/// The dynamic program of Stages.h.
class StageBalance {
public:
  explicit StageBalance(const StageProblem &problem)
      : problem(problem), stages(problem.kinds.size()) {
    int64_t ops = problem.seconds.front().size();
    assert(stages >= 1 && stages <= ops && "every stage has an op");
    for (const std::vector<double> &seconds : problem.seconds) {
      std::vector<double> &sums = before.emplace_back(ops + 1, 0);
      for (int64_t i = 0; i < ops; ++i)
        sums[i + 1] = sums[i] + seconds[i];
    }
    ArrayRef<double> cuts = problem.cutSeconds;
    for (int64_t cut : goodCuts(cuts.take_front(ops - 1), stages - 1))
      starts.push_back(cut + 1);
    starts.push_back(ops);
    last = starts.size() - 1;
  }

  /// Returns nullopt if the memory of the stages is too small.
  std::optional<std::vector<int64_t>> run(ArrayRef<double> room) {
    // best[b]: seconds of the slowest stage if stages 0..s end at boundary b.
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::vector<double> best(last + 1, kInfinity);
    best[0] = 0;
    std::vector<std::vector<int64_t>> from(stages,
                                           std::vector<int64_t>(last + 1, -1));
    // least[b]: the minimum of best[b], best[b + 1], ...; ascending.
    std::vector<double> least(last + 1);
    // The time of a known solution bounds the slowest stage. A boundary is
    // excluded if the stages before it, or those after it, cannot do their work
    // within this time.
    constexpr double kRounding = 1 + 1e-9;
    double known =
        room.empty() && before.size() == 1 ? kRounding * nearBest() : kInfinity;
    auto isOnWay = [&](int64_t s, int64_t to) {
      return known == kInfinity ||
             (work(0, 0, to) <= known * static_cast<double>(s + 1) &&
              work(0, to, last) <= known * static_cast<double>(stages - 1 - s));
    };
    for (int64_t s = 0; s < stages; ++s) {
      size_t kind = problem.kinds[s];
      std::vector<double> next(last + 1, kInfinity);
      double lowest = kInfinity;
      for (int64_t b = last; b >= 0; --b)
        least[b] = lowest = std::min(lowest, best[b]);
      auto fits = [&](int64_t b, int64_t to) {
        return room.empty() || work(0, b, to) <= room[s];
      };
      for (int64_t to = s + 1; to <= last; ++to) {
        if (!isOnWay(s, to))
          continue;
        // For the end to - 1, the best start was from[s][to - 1]. With the same
        // start for the end `to`, the slowest stage takes `bound` seconds.
        // Starts that certainly lead to a slower stage are skipped.
        double bound = kInfinity;
        if (int64_t b = from[s][to - 1]; b >= 0 && fits(b, to))
          bound = std::max(best[b], stageSeconds(kind, b, to));
        int64_t end =
            std::upper_bound(least.begin(), least.begin() + to, bound) -
            least.begin();
        // A stage that starts earlier takes longer. The earliest cut wins ties.
        for (int64_t b = end - 1; b >= s; --b) {
          if (work(kind, b, to) > next[to] || !fits(b, to))
            break;
          double slowest = std::max(best[b], stageSeconds(kind, b, to));
          if (slowest <= next[to] && slowest < kInfinity) {
            next[to] = slowest;
            from[s][to] = b;
          }
        }
      }
      best = std::move(next);
    }
    if (best[last] == kInfinity)
      return std::nullopt;
    return startsBehind(from, starts);
  }

private:
  const StageProblem &problem;
  int64_t stages, last;
  /// By kind, the seconds of all ops before each op.
  std::vector<std::vector<double>> before;
  /// Boundary b is before op starts[b]. The first and the last send nothing.
  std::vector<int64_t> starts = {0};

  double work(size_t kind, int64_t from, int64_t to) const {
    return before[kind][starts[to]] - before[kind][starts[from]];
  }
  double message(int64_t b) const {
    return b == 0 || b == last ? 0 : problem.cutSeconds[starts[b] - 1];
  }
  double stageSeconds(size_t kind, int64_t from, int64_t to) const {
    return work(kind, from, to) + message(from) + message(to);
  }
  /// Fills stages of kind 0 one after the other, up to `most` seconds. Returns
  /// the seconds of the slowest stage, or infinity if ops remain.
  double cutWithin(double most) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::vector<double> &sums = before.front();
    double slowest = 0;
    int64_t from = 0;
    for (int64_t s = 0; s < stages; ++s) {
      int64_t to = last - (stages - 1 - s); // each later stage needs a boundary
      auto isWithin = [&](int64_t start) {
        return sums[start] - sums[starts[from]] <= most;
      };
      auto begin = starts.begin();
      to = std::partition_point(begin + from + 1, begin + to + 1, isWithin) -
           begin - 1;
      while (to > from && stageSeconds(0, from, to) > most)
        --to;
      if (to == from)
        return kInfinity;
      slowest = std::max(slowest, stageSeconds(0, from, to));
      from = to;
    }
    return from == last ? slowest : kInfinity;
  }

  /// Returns an upper bound of the optimum, found by bisection with
  /// `cutWithin`. The bound may be infinity.
  double nearBest() const {
    constexpr int kHalvings = 16;
    double least = work(0, 0, last) / static_cast<double>(stages);
    double most = 2 * least, best = cutWithin(most);
    for (int i = 0; i < kHalvings; ++i) {
      double middle = (least + most) / 2, found = cutWithin(middle);
      (found <= middle ? most : least) = middle;
      best = std::min(best, found);
    }
    return best;
  }
};

} // namespace

std::vector<int64_t> dpc::balanceStages(const StageProblem &problem) {
  StageBalance balance(problem);
  auto starts = balance.run(problem.room);
  if (!starts)
    starts = balance.run({});
  assert(starts && "without rooms there is always a way");
  return *starts;
}

/// Returns true if an op is too expensive to be repeated on several stages.
static bool isHeavy(Operation *op) {
  auto costed = dyn_cast<CostOpInterface>(op);
  double elements = 0;
  for (Value result : op->getResults())
    elements += tensorType(result).getNumElements();
  // Only contractions do more operations per element of the result.
  constexpr double kElementwise = 64;
  return costed && costed.getFlops() > kElementwise * elements;
}

static SmallVector<Operation *> stagedOps(const ProgramFacts &facts) {
  SmallVector<Operation *> staged;
  DenseSet<Value> downstream;
  auto isStored = [&](Value value) { return facts.stored.contains(value); };
  for (Operation &op : facts.func->getRegion(0).front()) {
    if (!facts.isForward(&op) || llvm::all_of(op.getResults(), isStored))
      continue;
    bool reads = llvm::any_of(op.getOperands(), [&](Value value) {
      return downstream.contains(value) || isStored(value);
    });
    if (!reads && !isHeavy(&op))
      continue;
    staged.push_back(&op);
    downstream.insert(op.result_begin(), op.result_end());
  }
  return staged;
}

/// Balances layers instead of seconds (see Software::equalStages). If the
/// number of layers is a multiple of the number of stages, the embeddings (ops
/// before the first GEMM) and the head (from the last GEMM on) have no weight.
/// If the number of layers plus two is a multiple, the embeddings and the head
/// each weigh as much as one layer. The costs of cuts only break
/// ties.
static void weighLayersOnly(const StagedOps &ops, int64_t stages,
                            std::vector<double> &seconds,
                            std::vector<double> &cutSeconds) {
  auto isMatmul = [](StringRef name) {
    return name == MatmulOp::getOperationName();
  };
  int64_t layers = llvm::count(ops.names, AttentionOp::getOperationName());
  if (layers == 0 || (layers % stages != 0 && (layers + 2) % stages != 0))
    return;
  int64_t first = 0, last = ops.size();
  for (int64_t i = 0; i < ops.size(); ++i)
    if (isMatmul(ops.names[i]))
      last = i;
  while (first < last && !isMatmul(ops.names[first]))
    ++first;
  double sum =
      std::accumulate(seconds.begin() + first, seconds.begin() + last, 0.0);
  double end = layers % stages == 0 ? 0 : sum / static_cast<double>(layers);
  for (int64_t i = 0; i < first; ++i)
    seconds[i] = end / static_cast<double>(first);
  for (int64_t i = last; i < ops.size(); ++i)
    seconds[i] = end / static_cast<double>(ops.size() - last);
  for (double &cut : cutSeconds)
    cut *= 1e-6;
}

/// Returns the seconds of each op and its gradients, for the whole batch.
static std::vector<double> secondsOf(const ProgramFacts &facts,
                                     ArrayRef<Operation *> staged,
                                     const cost::Device &device) {
  std::vector<double> seconds;
  for (Operation *op : staged) {
    double sum = opSeconds(op, device);
    auto gradients = facts.gradientOps.find(op);
    if (gradients != facts.gradientOps.end())
      for (Operation *gradient : gradients->second)
        sum += opSeconds(gradient, device);
    seconds.push_back(sum);
  }
  return seconds;
}

/// Returns whether `op` adds gradients or passes one on.
static bool passesOn(Operation *op) {
  return isa<ConvertOp, BinaryOp, TransposeOp, ReshapeOp>(op);
}

/// Returns the values that become gradients of parameters, which the update
/// reads: perhaps after they are added to other ones or converted.
static DenseSet<Value> gradientsOfParameters(func::FuncOp func) {
  DenseSet<Value> found;
  SmallVector<Value> open;
  for (Operation &op : func.getBody().front())
    if (phaseOf(&op) == Phase::update)
      llvm::append_range(open, op.getOperands());
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op && found.insert(value).second && passesOn(op))
      llvm::append_range(open, op->getOperands());
  }
  return found;
}

/// Sets StagedOps::sums.
static void addSums(const ProgramFacts &facts, ArrayRef<Operation *> staged,
                    double bytesPerSecond, StagedOps &ops) {
  // A gradient is converted to f32, if it has another type, and then added.
  constexpr double kSumBytes = 4;
  auto bytesToAdd = [](Value gradient) {
    double elements = tensorType(gradient).getNumElements();
    bool isSum = tensorType(gradient).getElementType().isF32();
    return 3 * kSumBytes * elements +
           (isSum ? 0 : sizeInBytes(gradient) + kSumBytes * elements);
  };
  DenseSet<Value> ofParameters = gradientsOfParameters(facts.func);
  for (Operation *op : staged) {
    StagedOps::Sums &sums = ops.sums.emplace_back();
    auto gradients = facts.gradientOps.find(op);
    if (gradients != facts.gradientOps.end())
      for (Operation *gradient : gradients->second)
        for (Value value : gradient->getResults())
          if (ofParameters.contains(value) && !passesOn(gradient)) {
            sums.addSeconds += bytesToAdd(value) / bytesPerSecond;
            if (!isHeavy(gradient))
              sums.writeSeconds += sizeInBytes(value) / bytesPerSecond;
          }
  }
}

/// Returns the bytes that cross the cut after each op. Bytes of rows of experts
/// count a thousand times, so that no cut falls between them: if axes split the
/// experts, a rank has the rows of its whole group, and dpc-tile-experts needs
/// all ops on them on one stage.
static std::vector<double> crossingBytes(ArrayRef<Operation *> staged) {
  constexpr double kRowsOfExperts = 1000;
  DenseSet<Value> rows = rowsOfExperts(staged);
  DenseMap<Operation *, int64_t> position;
  for (auto [i, op] : llvm::enumerate(staged))
    position[op] = i;
  std::vector<double> bytes(staged.size(), 0);
  for (auto [i, op] : llvm::enumerate(staged))
    for (Value result : op->getResults()) {
      int64_t last = i;
      for (Operation *user : result.getUsers())
        if (auto it = position.find(user); it != position.end())
          last = std::max(last, it->second);
      double size = static_cast<double>(sizeInBytes(result)) *
                    (rows.contains(result) ? kRowsOfExperts : 1);
      bytes[i] += size;
      bytes[last] -= size;
    }
  for (size_t i = 1; i < bytes.size(); ++i)
    bytes[i] += bytes[i - 1];
  return bytes;
}

StagedOps dpc::findStagedOps(const ProgramFacts &facts,
                             const cost::Cluster &cluster) {
  SmallVector<Operation *> staged = stagedOps(facts);
  StagedOps ops;
  ops.seconds =
      secondsOf(facts, staged, cluster.slowestDevice(cost::DType::F32));
  addSums(facts, staged,
          cost::achievableBandwidth(cluster.slowestDevice(cost::DType::F32)),
          ops);
  ops.crossingBytes = crossingBytes(staged);
  if (cost::isHeterogeneous(cluster))
    for (const cost::NodeGroup &group : cluster.groups)
      ops.secondsOfGroup.push_back(secondsOf(facts, staged, group.device));
  for (Operation *op : staged)
    ops.names.push_back(op->getName().getStringRef());
  return ops;
}

static void mark(Operation *op, int64_t stage) {
  op->setAttr(attr::kStage, Builder(op->getContext()).getI64IntegerAttr(stage));
}

/// Marks gradient ops with the stage of their forward op. Sums of gradients,
/// and gradients of ops without a stage, get the earliest stage that computes
/// one of their operands, so that gradients are only sent backwards.
static void markGradients(const ProgramFacts &facts) {
  for (Operation &op : facts.func->getRegion(0).front()) {
    if (phaseOf(&op) != Phase::backward)
      continue;
    Operation *forward = facts.forwardOf.lookup(&op);
    std::optional<int64_t> first = forward ? stageOf(forward) : std::nullopt;
    for (Value operand : op.getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || (forward && stageOf(forward)))
        continue;
      std::optional<int64_t> stage = stageOf(producer);
      if (stage && phaseOf(producer) == Phase::backward)
        first = std::min(first.value_or(*stage), *stage);
    }
    // Other ops, such as the constant that starts the backward pass, have no
    // stage. They are repeated on every stage that reads their results.
    if (first)
      mark(&op, *first);
  }
}

LogicalResult dpc::markStages(const ProgramFacts &facts,
                              const cost::Cluster &cluster,
                              const LoweringSpec &spec) {
  int64_t stages = spec.stages();
  if (stages == 1)
    return success();
  SmallVector<Operation *> staged = stagedOps(facts);
  func::FuncOp func = facts.func;
  if (static_cast<int64_t>(staged.size()) < stages)
    return func.emitError("pp = ")
           << spec.pp << ", vpp = " << spec.vpp << " makes " << stages
           << " stages, but only " << staged.size()
           << " ops can be placed on a stage";
  std::vector<int64_t> starts = spec.stageStarts;
  if (starts.empty())
    starts = chooseStageStarts(findStagedOps(facts, cluster),
                               !facts.forwardOf.empty(), cluster, spec);
  int64_t stage = 0;
  for (auto [i, op] : llvm::enumerate(staged)) {
    if (stage < static_cast<int64_t>(starts.size()) &&
        starts[stage] == static_cast<int64_t>(i))
      ++stage;
    mark(op, stage);
  }
  markGradients(facts);
  return success();
}

/// Returns the fraction of the work that one rank does per micro-batch.
static double rankShare(const LoweringSpec &spec) {
  int64_t ranksPerStage = numRanks(spec) / spec.pp;
  return 1.0 / (static_cast<double>(ranksPerStage) * spec.numMicroBatches);
}

std::vector<double> StagedOps::secondsFor(const LoweringSpec &spec) const {
  std::vector<double> result = seconds;
  if (spec.ep > 1)
    return result;
  // tp splits gradients, and ZeRO 2 and 3 split their sums.
  const int64_t copies = numRanks(spec) / spec.pp / spec.tp;
  const int64_t shards = isHybrid(spec) ? spec.hybridShard : copies;
  const double others = spec.numMicroBatches - 1;
  for (auto [seconds, one] : llvm::zip_equal(result, sums))
    seconds +=
        others * (copies * one.writeSeconds +
                  (spec.zero >= 2 ? copies / shards : copies) * one.addSeconds);
  return result;
}

/// Balances stages on devices of different speeds, with `stageRoom`.
static std::vector<int64_t> balanceHeterogeneous(const StagedOps &ops,
                                                 std::vector<double> cuts,
                                                 const cost::Cluster &cluster,
                                                 const LoweringSpec &spec) {
  double share = rankShare(spec);
  StageProblem problem;
  problem.cutSeconds = std::move(cuts);
  problem.seconds.push_back(ops.secondsFor(spec));
  for (const std::vector<double> &seconds : ops.secondsOfGroup) {
    std::vector<double> &ofKind = problem.seconds.emplace_back(seconds);
    for (int64_t i = 0; i < ops.size(); ++i)
      ofKind[i] += problem.seconds.front()[i] - ops.seconds[i];
  }
  for (std::vector<double> &seconds : problem.seconds)
    for (double &one : seconds)
      one *= share;
  double all = llvm::sum_of(problem.seconds.front());
  cost::RankOrder order = rankOrder(spec);
  for (int64_t v = 0; v < spec.stages(); ++v) {
    int64_t stage = v % spec.pp;
    problem.kinds.push_back(
        1 +
        cost::devicesOfStage(cluster, order, stage, cost::DType::F32).group);
    if (!spec.stageRoom.empty())
      problem.room.push_back(spec.stageRoom[stage] * all / spec.vpp);
  }
  return balanceStages(problem);
}

/// Returns the seconds of the slowest rank, over all its chunks.
static double slowestRank(ArrayRef<int64_t> starts, ArrayRef<double> seconds,
                          ArrayRef<double> cuts, const LoweringSpec &spec) {
  std::vector<double> ranks(spec.pp);
  for (int64_t v = 0; v < spec.stages(); ++v) {
    int64_t begin = v == 0 ? 0 : starts[v - 1];
    int64_t end = v + 1 == spec.stages() ? seconds.size() : starts[v];
    double &rank = ranks[v % spec.pp];
    for (int64_t i = begin; i < end; ++i)
      rank += seconds[i];
    rank += (begin > 0 ? cuts[begin - 1] : 0) +
            (end < static_cast<int64_t>(seconds.size()) ? cuts[end - 1] : 0);
  }
  return *llvm::max_element(ranks);
}

std::vector<int64_t> dpc::chooseStageStarts(const StagedOps &ops, bool trains,
                                            const cost::Cluster &cluster,
                                            const LoweringSpec &spec) {
  double share = rankShare(spec);
  std::vector<double> seconds = ops.secondsFor(spec);
  for (double &one : seconds)
    one *= share;
  cost::GroupPlacement group = cost::placeAxis(
      cluster, cost::strideOf(rankOrder(spec), kPipelineAxis.str()), 2);
  share = 1.0 /
          (spec.dp * spec.cp * spec.numMicroBatches * (spec.sp ? spec.tp : 1));
  // With overlap, a stage waits only for the first message.
  double times = cluster.software.overlap ? spec.numMicroBatches : 1;
  std::vector<double> cuts;
  cuts.reserve(ops.size());
  std::unordered_map<double, double> messages; // seconds by bytes
  for (int64_t i = 0; i + 1 < ops.size(); ++i) {
    // Activations are sent in one direction and their gradients in the other.
    auto [message, isNew] = messages.try_emplace(ops.crossingBytes[i], 0.0);
    if (isNew) // layers repeat, so few sizes occur
      message->second =
          cost::estimateCollective(cluster, cost::Collective::SendRecv,
                                   ops.crossingBytes[i] * share, group)
              .seconds;
    cuts.push_back((trains ? 2 * message->second : message->second) / times);
  }
  if (cluster.software.equalStages)
    weighLayersOnly(ops, spec.stages(), seconds, cuts);
  if (!ops.secondsOfGroup.empty())
    return balanceHeterogeneous(ops, std::move(cuts), cluster, spec);
  std::vector<int64_t> starts = balanceStages(seconds, cuts, spec.stages());
  if (spec.vpp == 1)
    return starts;
  // The chunks of one rank may compensate for each other, which balanceStages
  // ignores. With the full cost of messages, stages are cut where fewer bytes
  // cross; without sums of gradients, at other places. The fastest of the three
  // solutions is used.
  std::vector<double> whole(cuts), withoutSums(ops.seconds);
  for (double &cut : whole)
    cut *= times;
  for (double &one : withoutSums)
    one *= rankShare(spec);
  for (const std::vector<int64_t> &others :
       {balanceStages(seconds, whole, spec.stages()),
        balanceStages(withoutSums, cuts, spec.stages())})
    if (slowestRank(others, seconds, cuts, spec) <
        slowestRank(starts, seconds, cuts, spec))
      starts = others;
  return starts;
}
