//===- LinkSpeeds.cpp - Programs for links of any speed -------------------===//
#include "passes/lower/LinkSpeeds.h"

#include "passes/lower/FirstError.h"
#include "passes/lower/Levels.h"
#include "passes/lower/Lower.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Stages.h"

#include <cmath>
#include <map>
#include <set>

using namespace mlir;
using namespace dpc;

cost::Cluster dpc::withLinkSpeed(const cost::Cluster &cluster,
                                 double bytesPerSecond) {
  cost::Cluster result = cluster;
  if (bytesPerSecond == 0)
    return result;
  double first = cluster.levels.front().bytesPerSecond;
  for (cost::Level &level : result.levels) {
    // Rounded, so that one factor on all levels does not change the ratio.
    auto ratio = static_cast<float>(level.bytesPerSecond / first);
    level.bytesPerSecond = bytesPerSecond * static_cast<double>(ratio);
  }
  return result;
}

/// Returns S of LinkSpeeds.h: a speed far below any link, a speed like links
/// between nodes, and a speed above the memory bandwidth. In 22 random cases,
/// 21 speeds between these found nothing better.
static std::vector<double> allSpeeds(const cost::Cluster &cluster) {
  double memory = cluster.slowestDevice(cost::DType::F32).memoryBytesPerSecond;
  std::vector<double> speeds;
  for (int power : {-16, -6, 4})
    speeds.push_back(std::ldexp(memory, power));
  return speeds;
}

namespace {

/// Encodes the solver's decisions at a link speed as numbers. If two speeds
/// have equal numbers, their programs differ at most in recomputation.
class Decisions {
public:
  Decisions(func::FuncOp func, const cost::Cluster &cluster,
            const LoweringSpec &spec)
      : facts(func), cluster(cluster), spec(spec) {}

  std::vector<double> at(double speed) const;

private:
  ProgramFacts facts;
  const cost::Cluster &cluster;
  const LoweringSpec &spec;

  void addShards(const cost::Cluster &links, std::vector<double> &result) const;
};

} // namespace

void Decisions::addShards(const cost::Cluster &links,
                          std::vector<double> &result) const {
  auto choices = chooseShards(facts, links, spec);
  if (!choices)
    return; // lowering reports the error
  Block &block = facts.func->getRegion(0).front();
  for (BlockArgument arg : block.getArguments())
    if (auto it = choices->arguments.find(arg); it != choices->arguments.end())
      result.insert(result.end(), it->second.begin(), it->second.end());
  for (Operation &op : block)
    if (auto it = choices->ops.find(&op); it != choices->ops.end())
      for (const AxisChoice &choice : it->second)
        for (int64_t number : {int64_t(choice.kind), int64_t(choice.factor.dim),
                               int64_t(choice.factor.factor), choice.group})
          result.push_back(static_cast<double>(number));
}

std::vector<double> Decisions::at(double speed) const {
  cost::Cluster links = withLinkSpeed(cluster, speed);
  std::vector<double> result;
  if (spec.stages() > 1) {
    StagedOps staged = findStagedOps(facts, links);
    if (staged.size() >= spec.stages())
      for (int64_t start :
           chooseStageStarts(staged, !facts.forwardOf.empty(), links, spec))
        result.push_back(static_cast<double>(start));
  }
  if (spec.tp > 1 || spec.cp > 1)
    addShards(links, result);
  return result;
}

std::vector<double> dpc::linkSpeedsToTry(ModuleOp program,
                                         const cost::Cluster &cluster,
                                         const LoweringSpec &asked) {
  if (cluster.levels.empty() ||
      (asked.tp == 1 && asked.cp == 1 && asked.stages() == 1))
    return {0};
  LoweringSpec spec = asked;
  spec.dataInside = dataRanksInside(cluster, asked);
  OwningOpRef<ModuleOp> clone(cast<ModuleOp>(program->clone()));
  func::FuncOp func = findProgram(*clone);
  FirstError quiet(*program.getContext()); // lowering reports the errors
  if (failed(prepareToShard(func, spec)))
    return {0};
  Decisions decisions(func, cluster, spec);
  std::vector<double> speeds = allSpeeds(cluster);
  // Try all speeds: even if two speeds give the same program, a speed between
  // them may give a different one.
  std::map<std::vector<double>, std::pair<size_t, size_t>> ranges;
  for (size_t i = 0; i < speeds.size(); ++i)
    ranges.try_emplace(decisions.at(speeds[i]), i, i).first->second.second = i;
  std::set<size_t> needed;
  for (const auto &[made, range] : ranges) {
    needed.insert(range.first);
    // Selective recomputation depends on the speed: it repeats fast gathers.
    if (spec.recompute == cost::Recompute::Selective && spec.tp > 1)
      needed.insert(range.second);
  }
  std::vector<double> result;
  result.reserve(needed.size());
  for (size_t i : needed)
    result.push_back(speeds[i]);
  return result;
}
