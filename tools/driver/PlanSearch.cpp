//===- PlanSearch.cpp - The search of a compilation -----------------------===//
#include "tools/driver/PlanSearch.h"

#include "cost-model/machine/Headroom.h"
#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/report/Report.h"
#include "cost-model/search/SearchSpace.h"
#include "ir/Attributes.h"
#include "passes/shard/Passes.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/LegalEvaluator.h"
#include "tools/driver/ModelShape.h"
#include "tools/driver/Remarks.h"

using namespace mlir;

namespace dpc {

static constexpr int64_t kEvaluatedOps = 100000;

/// The most strategies that a search evaluates on a part of the cluster with
/// more than cost::kManyDevices devices.
static constexpr int64_t kEvaluationsOnMany = 64;

/// The most blocks of a deep model that a search measures.
static constexpr int64_t kBlocks = 96;

std::unique_ptr<cost::Evaluator>
PlanSearch::evaluatorFor(const cost::Cluster &part) const {
  // Targets cannot express an order of the groups of nodes.
  bool keepsGroups = isArranged || accepts;
  auto evaluator = program.evaluator(part, keepsGroups, commonSpec(options));
  if (accepts)
    return std::make_unique<LegalEvaluator>(std::move(evaluator), accepts);
  return evaluator;
}

cost::Objective PlanSearch::objective() const {
  auto objective = cost::symbolizeObjective(options.objective);
  assert(objective && "the options are checked");
  return *objective;
}

/// Fails if the command line contradicts the model's own shardings.
static Status keepUserDegrees(ModuleOp program, const std::string &strategy,
                              int64_t devices, cost::StrategyRequest &request) {
  auto degrees = program->getAttrOfType<DictionaryAttr>(attr::kUserDegrees);
  if (!degrees)
    return Status();
  using Number = std::optional<int64_t>;
  struct Asked {
    Number given;
    int64_t value;
    std::function<void(int64_t)> set;
  };
  std::vector<Asked> all;
  std::string mesh = "the model's shardings are over a mesh of ";
  int64_t ranks = 1;
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    using Value = typename std::decay_t<decltype(field(request))>::value_type;
    constexpr bool isCount = std::is_same_v<Value, int64_t> ||
                             std::is_same_v<Value, cost::TensorDegree>;
    static constexpr std::string_view kAccepted[] = {"dp", "tp", "cp", "pp",
                                                     "vpp"};
    if constexpr (isCount) {
      if (!llvm::is_contained(kAccepted, key.name))
        return;
      auto asked = degrees.getAs<IntegerAttr>(StringRef(key.name));
      if (!asked)
        return;
      mesh += (all.empty() ? "" : ", ") + std::string(key.name) + "=" +
              std::to_string(asked.getInt());
      auto &wanted = field(request);
      Number given;
      if (wanted)
        given = static_cast<int64_t>(*wanted);
      all.push_back({given, asked.getInt(),
                     [&wanted](int64_t value) { wanted = Value(value); }});
      // Capped to avoid overflow: no larger degree can divide `devices`.
      if (asked.getInt() >= 1 && key.name != "vpp")
        ranks = std::min(ranks * std::min(asked.getInt(), devices + 1),
                         devices + 1);
    }
  });
  for (const Asked &asked : all)
    if (asked.value < 1)
      return Error{mesh + "; expected whole numbers from 1 on"};
  if (devices % ranks)
    return Error{mesh + "; its size does not divide the " +
                 std::to_string(devices) + " devices"};
  for (const Asked &asked : all) {
    if (asked.given && *asked.given != asked.value)
      return Error{"--strategy=" + strategy + ": " + mesh +
                   "; give these, or export the model without them"};
    if (!asked.given) // it may be a grid
      asked.set(asked.value);
  }
  return Status();
}

Expected<cost::StrategyRequest> PlanSearch::request() const {
  auto request = cost::parseStrategy(options.strategy, cluster.numDevices());
  if (!request)
    return request;
  if (Status kept = keepUserDegrees(program.sample(), options.strategy,
                                    cluster.numDevices(), *request);
      !kept)
    return Error{kept.message()};
  if (options.chunks.each > 0 && request->pp && !request->vpp)
    if (int64_t layers = modelShapeOf(findProgram(program.source())).layers)
      request->vpp =
          exports::chunksPerStage(options.chunks, layers, *request->pp);
  if (options.microBatch && request->microBatch &&
      options.microBatch != *request->microBatch)
    return Error{"--micro-batch=" + std::to_string(options.microBatch) +
                 " and --strategy=" + options.strategy +
                 " differ; give one of them"};
  if (options.microBatch)
    request->microBatch = options.microBatch;
  if (isArranged)
    request->ranks = cluster.numDevices();
  request->accepts = accepts;
  // GPipe is only for targets without 1F1B, which is never worse.
  if (accepts && !request->schedule)
    request->accepts = [accepts = accepts](const cost::Strategy &strategy) {
      cost::Strategy other = strategy;
      other.schedule = cost::ScheduleKind::OneFOneB;
      bool isGPipe =
          strategy.pp > 1 && strategy.schedule == cost::ScheduleKind::GPipe;
      return accepts(strategy) && !(isGPipe && accepts(other));
    };
  return request;
}

cost::SearchOptions
PlanSearch::optionsFor(cost::Evaluator &evaluator, const cost::Cluster &part,
                       const cost::StrategyRequest &request) const {
  cost::SearchOptions search;
  search.request = request;
  search.space = cost::spaceFor(evaluator.totals(), part);
  search.space.sequencesOfGrids = objective() == cost::Objective::Memory;
  search.top = options.top;
  // The time of an evaluation is 10 to 100 us per op and order of heterogeneous
  // groups. For a deep model, it is the time for a few layers.
  int64_t ops =
      findProgram(program.sample()).getBody().front().getOperations().size();
  int64_t orders = isArranged ? 1 : cost::groupOrders(part).size();
  search.maxEvaluations = std::max<int64_t>(4, kEvaluatedOps / (ops * orders));
  if (part.numDevices() > cost::kManyDevices)
    search.maxEvaluations = std::min(search.maxEvaluations, kEvaluationsOnMany);
  if (program.isDeep())
    search.maxEvaluations = kBlocks;
  // The whole winner is evaluated, because its numbers are written to files.
  search.confirmsWinner = true;
  search.objective = objective();
  // ZeRO 2 is hardly better than ZeRO 1, but some targets have only ZeRO 2.
  if (accepts && search.space.zeros.size() > 1)
    search.space.zeros = {0, 1, 2, 3};
  if (accepts)
    search.space.schedules.push_back(cost::ScheduleKind::GPipe);
  return search;
}

static std::string progressText(const cost::SearchProgress &progress,
                                cost::Objective objective, double seconds) {
  std::string text = "searching: " + std::to_string(progress.done) + " of " +
                     std::to_string(progress.considered) + " candidates, ";
  if (!std::isfinite(progress.best))
    text += "nothing fits yet";
  else if (objective == cost::Objective::Memory)
    text += "best " + cost::formatBytes(progress.best);
  else
    text += "best " + cost::formatSeconds(progress.best) + " a step";
  return text + ", " + std::to_string(std::llround(seconds)) + " s";
}

static std::function<void(const cost::SearchProgress &)>
showingOn(ProgressView *progress, cost::Objective objective) {
  if (!progress)
    return nullptr;
  auto begin = std::chrono::steady_clock::now();
  return [progress, objective, begin](const cost::SearchProgress &state) {
    std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - begin;
    progress->show(progressText(state, objective, passed.count()));
  };
}

/// Searches on all groups of nodes. On a heterogeneous cluster, also searches
/// without some groups, so that adding a slow group never makes a plan slower.
Expected<cost::PartResult>
PlanSearch::searchGroups(const cost::StrategyRequest &request,
                         const cost::PartProblem &problem) const {
  auto found = cost::searchParts(cluster, request, problem);
  if (!found || request.namesRanks())
    return found;
  bool ofMemory = objective() == cost::Objective::Memory;
  auto worth = [&](const cost::SearchResult &result) {
    const cost::Evaluation &winner = result.candidates.front().evaluation;
    return ofMemory ? winner.memory.total() : winner.stepSeconds;
  };
  cost::SearchCounts counts;
  counts.add(found->search);
  for (const std::vector<int64_t> &groups : cost::someGroups(cluster)) {
    cost::Cluster some = *cost::arrangeGroups(cluster, groups);
    auto next = cost::searchParts(some, request, problem);
    if (!next)
      continue;
    counts.add(next->search);
    if (!next->search.hasWinner())
      continue;
    std::string why = "with the others nothing fits";
    if (found->search.hasWinner()) {
      double more = worth(found->search) - worth(next->search);
      if (more <= 0)
        continue;
      why = "with the others it takes " +
            (ofMemory ? cost::formatBytes(more) + " more memory"
                      : cost::formatSeconds(more) + " longer");
    }
    found = std::move(next);
    found->search.idle = why;
  }
  counts.writeTo(found->search);
  return found;
}

Expected<cost::PartResult>
PlanSearch::runWithHeadroom(double share,
                            std::vector<std::string> &remarks) const {
  cost::Cluster limited = cost::withHeadroom(cluster, share);
  auto found = PlanSearch{options,  limited, program,  isArranged,
                          progress, accepts, baselines}
                   .runAll(remarks);
  if (found)
    found->search.headroom = share;
  return found;
}

/// The share of the usable memory that the plan leaves free on the fullest
/// device.
static double leftFree(const cost::SearchResult &result) {
  const cost::Evaluation &winner = result.candidates.front().evaluation;
  double limit = winner.memoryLimitBytes > 0 ? winner.memoryLimitBytes
                                             : result.memoryLimitBytes;
  return 1 - winner.memory.total() / limit;
}

Expected<cost::PartResult>
PlanSearch::run(std::vector<std::string> &remarks) const {
  if (options.objective == "robust")
    return runRobust(remarks);
  double share = options.headroom.value_or(cost::kDefaultHeadroom);
  std::vector<std::string> said;
  auto found = runWithHeadroom(share, said);
  auto asked = request();
  bool mayUseAll = !options.headroom || (asked && asked->isFixed());
  if (found && share > 0 && mayUseAll && !found->search.hasWinner()) {
    said.clear();
    found = runWithHeadroom(0, said);
    if (found && found->search.hasWinner())
      said.push_back("the plan leaves " +
                     cost::formatShare(leftFree(found->search)) +
                     " of the memory free, less than the headroom of " +
                     cost::formatShare(share) + " (--headroom)");
  }
  llvm::append_range(remarks, said);
  return found;
}

Expected<cost::PartResult>
PlanSearch::runAll(std::vector<std::string> &remarks) const {
  auto asked = request();
  if (!asked)
    return Error{asked.message()};
  Status countable = cost::checkMicroBatches(
      *asked, evaluatorFor(cluster)->totals().globalBatch,
      cluster.numDevices());
  if (!countable)
    return Error{countable.message()};
  std::string why =
      asked->microBatch ? "" : whyOneMicroBatch(findProgram(program.sample()));
  if (!why.empty())
    remarks.push_back("micro-batches were not searched: " + why);
  auto showProgress = showingOn(progress, objective());
  cost::PartProblem problem;
  problem.evaluator = [&](const cost::Cluster &part) {
    return evaluatorFor(part);
  };
  problem.options = [&](cost::Evaluator &evaluator, const cost::Cluster &part) {
    cost::SearchOptions search = optionsFor(evaluator, part, *asked);
    search.progress = showProgress;
    search.baselines &= baselines;
    search.freesBaselines =
        asked->isFixed() && options.microBatch == 0 && why.empty();
    if (!why.empty()) // one micro-batch per rank
      search.request.microBatch = search.space.globalBatch;
    return search;
  };
  auto found = searchGroups(*asked, problem);
  if (progress)
    progress->clear();
  if (found && !found->search.splitsRejected.empty())
    remarks.push_back("no strategy with several micro-batches can be "
                      "compiled: " +
                      found->search.splitsRejected);
  if (found && found->search.hasWinner()) {
    const cost::Candidate &winner = found->search.candidates.front();
    if (const std::string &why = winner.evaluation.whyEven;
        winner.strategy.batchShares.isAuto && !why.empty())
      remarks.push_back("the batch is shared evenly among faster and slower "
                        "devices: " +
                        why);
    llvm::append_range(remarks, remarksOn(options.strategy, winner.strategy,
                                          found->search.totals.globalBatch,
                                          cluster.software));
  }
  return found;
}

} // namespace dpc
