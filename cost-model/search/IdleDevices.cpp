//===- IdleDevices.cpp - Plans that leave devices idle --------------------===//

#include "cost-model/search/IdleDevices.h"
#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/report/Report.h"

#include <algorithm>
#include <cassert>

namespace dpc::cost {

static int64_t mostPerNode(const Cluster &cluster) {
  int64_t most = 0;
  for (const NodeGroup &group : cluster.groups)
    most = std::max(most, group.devicesPerNode);
  return most;
}

static std::vector<NodeGroup> groupsOf(const Cluster &cluster,
                                       const ClusterPart &part) {
  std::vector<NodeGroup> groups;
  int64_t left = part.nodes;
  for (const NodeGroup &group : cluster.groups) {
    int64_t nodes = std::min(left, group.nodes);
    left -= nodes;
    if (nodes > 0)
      groups.push_back(
          {nodes, std::min(part.perNode, group.devicesPerNode), group.device});
  }
  return groups;
}

int64_t devicesOf(const Cluster &cluster, const ClusterPart &part) {
  int64_t devices = 0;
  for (const NodeGroup &group : groupsOf(cluster, part))
    devices += group.nodes * group.devicesPerNode;
  return devices;
}

bool isWhole(const Cluster &cluster, const ClusterPart &part) {
  return devicesOf(cluster, part) == cluster.numDevices();
}

Cluster partOf(const Cluster &cluster, const ClusterPart &part) {
  assert(part.nodes >= 1 && part.nodes <= cluster.numNodes() &&
         part.perNode >= 1 && part.perNode <= mostPerNode(cluster) &&
         "a part lies in its cluster");
  Cluster result = cluster;
  if (isWhole(cluster, part))
    return result;
  result.groups = groupsOf(cluster, part);
  int64_t before = cluster.devicesPerNode(), inside = result.devicesPerNode();
  int64_t devices = result.numDevices();
  for (Level &level : result.levels) {
    level.span = level.span <= before ? std::min(level.span, inside)
                                      : level.span / before * inside;
    level.span = std::min(level.span, devices);
  }
  result.levels.back().span = devices;
  return result;
}

/// Returns the largest number up to `limit` without a prime factor above 7.
static int64_t smoothUpTo(int64_t limit) {
  for (int64_t number = limit; number > 1; --number) {
    int64_t rest = number;
    for (int64_t prime : {2, 3, 5, 7})
      while (rest % prime == 0)
        rest /= prime;
    if (rest == 1)
      return number;
  }
  return 1;
}

/// (I3) of the header.
static std::vector<ClusterPart> roundParts(int64_t nodes, int64_t inside) {
  std::vector<ClusterPart> parts;
  auto add = [&](int64_t count) {
    if (count >= 1 && count < nodes)
      parts.push_back({count, inside});
  };
  add(smoothUpTo(nodes));
  for (int64_t power = 1; power < nodes; power *= 2) {
    add(power);
    add(3 * power);
  }
  for (int64_t power = 1; power < inside; power *= 2)
    parts.push_back({1, power});
  return parts;
}

/// True if `part` has the number of nodes to which (I3) rounds down.
static bool isRoundedDown(const Cluster &cluster, const ClusterPart &part) {
  return part.perNode == mostPerNode(cluster) &&
         part.nodes < cluster.numNodes() &&
         part.nodes == smoothUpTo(cluster.numNodes());
}

std::vector<ClusterPart> partsToTry(const Cluster &cluster) {
  int64_t nodes = cluster.numNodes(), inside = mostPerNode(cluster);
  std::vector<ClusterPart> parts;
  if (cluster.numDevices() > kFewDevices)
    parts = roundParts(nodes, inside);
  else
    for (int64_t count = 1; count <= nodes; ++count)
      for (int64_t perNode = 1; perNode <= inside; ++perNode)
        parts.push_back({count, perNode});
  std::erase_if(parts, [&](const ClusterPart &part) {
    // Without a node of `perNode` devices, `perNode` - 1 gives the same part.
    bool isOther = part.perNode > 1 &&
                   devicesOf(cluster, part) ==
                       devicesOf(cluster, {part.nodes, part.perNode - 1});
    return isOther || isWhole(cluster, part);
  });
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const ClusterPart &a, const ClusterPart &b) {
                     return devicesOf(cluster, a) > devicesOf(cluster, b);
                   });
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

std::vector<ClusterPart> partsOf(const Cluster &cluster, int64_t ranks) {
  int64_t nodes = cluster.numNodes(), inside = mostPerNode(cluster);
  if (ranks == cluster.numDevices())
    return {{nodes, inside}};
  std::vector<ClusterPart> parts;
  for (int64_t count = 1; count <= nodes; ++count)
    for (int64_t perNode = 1; perNode <= inside; ++perNode)
      if (devicesOf(cluster, {count, perNode}) == ranks) {
        parts.push_back({count, perNode});
        break;
      }
  return parts;
}

namespace {

class PartSearch {
public:
  PartSearch(const Cluster &cluster, const PartProblem &problem)
      : cluster(cluster), problem(problem) {}

  void searchAll(const std::vector<ClusterPart> &parts);
  void searchFewer();
  PartResult take();

private:
  /// The value of the best plan that a short search found on a part.
  struct FoundPart {
    ClusterPart part;
    double value = 0;
  };

  /// If `isThorough`, searches all strategies of the part, without (I5) and
  /// (I6). If `baselines`, also evaluates the baselines. A search that skips
  /// candidates then also evaluates their neighbours and finds better plans.
  SearchResult searchOne(const Cluster &part, bool isThorough, bool baselines);
  double secondsOfOne() const;
  bool mayWin(const ClusterPart &part) const;
  bool hasPlenty() const;
  void limitEffort(SearchOptions &options) const;
  bool endsParts(const SearchResult &result) const;
  bool isBetter(const SearchResult &result) const;
  void keepBetter(SearchResult result, Cluster used);
  void searchNear(std::vector<FoundPart> found, const SearchResult &whole);
  void insert(Candidate candidate, size_t count);
  void explain(SearchResult whole);

  const Cluster &cluster;
  const PartProblem &problem;
  std::optional<PartResult> best;
  Objective objective = Objective::Throughput;
  bool isExact = true; ///< The search of the whole cluster skipped nothing.
  mutable std::optional<double> oneSeconds; ///< Set by secondsOfOne.
  static constexpr int64_t kFewest = 4;
  int64_t numParts = 0;
  SearchCounts counts; ///< Of all searches.
  ParetoFront pareto;  ///< Of all searches.
};

} // namespace

/// (I5) of the header.
static void keepInside(StrategyRequest &request, const Strategy &strategy) {
  visitKeys([&](const KeyInfo &key, auto field) {
    if (key.isOfLayer)
      field(request) = field(strategy);
  });
}

SearchResult PartSearch::searchOne(const Cluster &part, bool isThorough,
                                   bool baselines) {
  std::unique_ptr<Evaluator> evaluator = problem.evaluator(part);
  SearchOptions options = problem.options(*evaluator, part);
  options.baselines = baselines;
  objective = options.objective;
  if (!isExact && !isThorough) {
    // With this limit, the searches of all parts together take about as long as
    // the search of the whole cluster.
    constexpr int64_t kLeast = 8;
    options.maxEvaluations =
        std::max(kLeast, options.maxEvaluations / std::max(kFewest, numParts));
    if (cluster.numDevices() > kManyDevices)
      keepInside(options.request, best->search.candidates.front().strategy);
    limitEffort(options);
  }
  if (auto tell = options.progress)
    options.progress = [this, tell](SearchProgress progress) {
      progress.considered += counts.considered;
      progress.done += counts.considered;
      if (best && best->search.hasWinner())
        progress.best =
            std::min(progress.best,
                     valueOf(objective, best->search.candidates[0].evaluation));
      tell(progress);
    };
  SearchResult result = searchStrategies(part, *evaluator, options);
  for (const ParetoPoint &point : result.pareto.points())
    pareto.add(point);
  counts.add(result);
  return result;
}

/// Returns about the fewest device-seconds of the step: the time of its ops on
/// one device with the whole batch, where the kernels are the largest. A plan
/// with a causal ring may take less, because it skips hidden scores. 0 if the
/// time is unknown.
double PartSearch::secondsOfOne() const {
  // Shards may fit the tiles of kernels better than the whole.
  constexpr double kTiles = 0.95;
  if (oneSeconds)
    return *oneSeconds;
  oneSeconds = 0;
  if (isHeterogeneous(cluster))
    return 0;
  Cluster one = partOf(cluster, {1, 1});
  std::unique_ptr<Evaluator> evaluator = problem.evaluator(one);
  Evaluation evaluation = evaluator->evaluate(Strategy());
  if (evaluation.rejected.empty())
    oneSeconds = kTiles * evaluation.computeSeconds;
  return *oneSeconds;
}

/// (I4) of the header.
bool PartSearch::mayWin(const ClusterPart &part) const {
  if (isExact)
    return true;
  if (!best->search.hasWinner() || objective == Objective::Memory)
    return false; // A plan on fewer devices needs more memory per device.
  const Candidate &winner = best->search.candidates.front();
  const ModelTotals &totals = best->search.totals;
  auto ranks = static_cast<double>(winner.strategy.ranks());
  double peak = 0;
  for (const NodeGroup &group : cluster.groups)
    peak = std::max(peak, group.device.peak(totals.computeType));
  double atPeak = totals.flopsPerStep / (ranks * peak);
  double computation = winner.evaluation.computeSeconds;
  // The best plans of a DiT on 64 devices and of an expert model on 8,192
  // devices reach 0.38 and 0.42 of the peak while they compute. Plans that
  // split one sample over many devices reach far less.
  constexpr double kBusy = 0.15;
  // Fewer devices run larger kernels, which are faster: a U-Net reaches 13 % of
  // the peak on 4 devices and 68 % on one.
  if (atPeak < kBusy * computation || cluster.numDevices() <= kManyDevices)
    computation = std::max(atPeak, secondsOfOne() / ranks);
  double fewer = static_cast<double>(devicesOf(cluster, part));
  return computation * ranks / fewer < winner.evaluation.stepSeconds;
}

/// Returns whether there are enough samples for every device. Otherwise, plans
/// for all devices split samples, and fewer devices may be far better.
bool PartSearch::hasPlenty() const {
  constexpr double kSamples = 8;
  return !isExact && best->search.hasWinner() &&
         cluster.numDevices() > kFewDevices &&
         static_cast<double>(best->search.totals.globalBatch) >=
             kSamples * static_cast<double>(cluster.numDevices());
}

/// (I6) of the header.
void PartSearch::limitEffort(SearchOptions &options) const {
  if (!best->search.hasWinner())
    return;
  double value = valueOf(objective, best->search.candidates.front().evaluation);
  options.valueToBeat = value;
  if (cluster.numDevices() <= kFewDevices)
    return;
  constexpr double kOff = 1.15; // More than the error of composed evaluations.
  constexpr double kOthers = 1.3; // Possible gain of other plans.
  options.closeLookUpTo = kOff * value;
  if (hasPlenty())
    options.goesOnUpTo = kOthers * value;
}

/// (I6) of the header.
bool PartSearch::endsParts(const SearchResult &result) const {
  constexpr double kHopeless = 2;
  return hasPlenty() && result.hasWinner() &&
         valueOf(objective, result.candidates.front().evaluation) >
             kHopeless *
                 valueOf(objective, best->search.candidates.front().evaluation);
}

bool PartSearch::isBetter(const SearchResult &result) const {
  if (!best)
    return true;
  if (!result.hasWinner() || !best->search.hasWinner())
    return result.hasWinner();
  // Parts with fewer devices come later and win ties.
  return valueOf(objective, result.candidates.front().evaluation) <=
         valueOf(objective, best->search.candidates.front().evaluation);
}

void PartSearch::searchAll(const std::vector<ClusterPart> &parts) {
  for (const ClusterPart &part : parts) {
    Cluster used = partOf(cluster, part);
    SearchResult result =
        searchOne(used, /*isThorough=*/true, /*baselines=*/true);
    keepBetter(std::move(result), std::move(used));
  }
}

void PartSearch::keepBetter(SearchResult result, Cluster used) {
  if (isBetter(result))
    best = {std::move(result), std::move(used)};
}

/// Fully searches the parts whose short search came close to the best plan, or
/// was better than `whole`, the best plan on all devices.
void PartSearch::searchNear(std::vector<FoundPart> found,
                            const SearchResult &whole) {
  constexpr double kNear = 1.1;
  constexpr size_t kMost = 3;
  if (!best->search.hasWinner())
    return;
  double limit =
      kNear * valueOf(objective, best->search.candidates.front().evaluation);
  if (whole.hasWinner())
    limit = std::max(limit,
                     valueOf(objective, whole.candidates.front().evaluation));
  std::erase_if(found,
                [&](const FoundPart &part) { return part.value > limit; });
  std::stable_sort(
      found.begin(), found.end(),
      [](const FoundPart &a, const FoundPart &b) { return a.value < b.value; });
  found.resize(std::min(found.size(), kMost));
  for (const FoundPart &near : found) {
    Cluster used = partOf(cluster, near.part);
    SearchResult result =
        searchOne(used, /*isThorough=*/true, /*baselines=*/true);
    keepBetter(std::move(result), std::move(used));
  }
}

/// Searches the smaller parts. The baselines still use all devices.
void PartSearch::searchFewer() {
  SearchResult whole = best->search;
  isExact = whole.skipped == 0;
  std::vector<ClusterPart> parts = partsToTry(cluster);
  std::erase_if(parts, [&](const ClusterPart &part) { return !mayWin(part); });
  numParts = static_cast<int64_t>(parts.size());
  std::vector<FoundPart> found;
  for (const ClusterPart &part : parts) {
    if (!mayWin(part))
      continue;
    Cluster used = partOf(cluster, part);
    bool isThorough = isRoundedDown(cluster, part);
    SearchResult result = searchOne(used, isThorough, /*baselines=*/isThorough);
    if (result.hasWinner() && !isThorough)
      found.push_back(
          {part, valueOf(objective, result.candidates.front().evaluation)});
    bool isLast = endsParts(result);
    keepBetter(std::move(result), std::move(used));
    if (isLast)
      break;
  }
  if (!isExact)
    searchNear(std::move(found), whole);
  if (best->used.numDevices() != cluster.numDevices())
    explain(std::move(whole));
}

PartResult PartSearch::take() {
  counts.writeTo(best->search);
  best->search.pareto = std::move(pareto);
  return std::move(*best);
}

/// "1.20 ms slower", or "1.50 GiB more memory"
static std::string worseBy(const Candidate &candidate, const Candidate &winner,
                           Objective objective) {
  double more = valueOf(objective, candidate.evaluation) -
                valueOf(objective, winner.evaluation);
  return objective == Objective::Memory ? formatBytes(more) + " more memory"
                                        : formatSeconds(more) + " slower";
}

/// Inserts `candidate`, which must fit, at its place by value. If there
/// are `count` better candidates, `candidate` replaces the last of them.
void PartSearch::insert(Candidate candidate, size_t count) {
  std::vector<Candidate> &all = best->search.candidates;
  count = std::max(all.size(), count);
  auto place = std::find_if(all.begin(), all.end(), [&](const Candidate &kept) {
    return !kept.fits || valueOf(objective, kept.evaluation) >
                             valueOf(objective, candidate.evaluation);
  });
  if (place == all.end() && all.size() == count && count > 1)
    --place;
  all.insert(place, std::move(candidate));
  if (all.size() > count && count > 1)
    all.resize(count);
}

/// Adds the best plan on all devices to the candidates. Compares this plan and
/// the baselines, which use all devices, with the winner.
void PartSearch::explain(SearchResult whole) {
  SearchResult &result = best->search;
  const Candidate winner = result.candidates.front();
  std::string all =
      "on all " + std::to_string(cluster.numDevices()) + " devices";
  result.idle = "nothing fits " + all;
  if (whole.hasWinner()) {
    Candidate &other = whole.candidates.front();
    other.why = worseBy(other, winner, objective) + " " + all;
    result.idle = "the best plan " + all + ", " +
                  stringifyStrategy(other.strategy) + ", is " +
                  worseBy(other, winner, objective);
    insert(std::move(other), whole.candidates.size());
  }
  for (Baseline &baseline : whole.baselines)
    if (baseline.candidate.fits && baseline.candidate.method != "formula" &&
        baseline.candidate.strategy != winner.strategy)
      baseline.candidate.why = worseBy(baseline.candidate, winner, objective);
  result.baselines = std::move(whole.baselines);
}

Expected<PartResult> searchParts(const Cluster &cluster,
                                 const StrategyRequest &request,
                                 const PartProblem &problem) {
  std::vector<ClusterPart> parts =
      partsOf(cluster, request.ranks.value_or(cluster.numDevices()));
  if (parts.empty())
    return Error{"--strategy: ranks=" + std::to_string(*request.ranks) +
                 " does not divide evenly over nodes; "
                 "expected 1 to " +
                 std::to_string(mostPerNode(cluster)) +
                 " ranks on each of 1 to " +
                 std::to_string(cluster.numNodes()) + " nodes" +
                 (mostPerNode(cluster) > cluster.devicesPerNode()
                      ? " (smaller nodes with all their devices)"
                      : "")};
  PartSearch search(cluster, problem);
  search.searchAll(parts);
  if (!request.namesRanks())
    search.searchFewer();
  return search.take();
}

} // namespace dpc::cost
