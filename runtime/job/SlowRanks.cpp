#include "runtime/job/SlowRanks.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

namespace dpc::rt {

Expected<std::vector<double>> ownSeconds(const Plan &plan, Session &session) {
  std::ostringstream mine;
  for (const auto &executor : session.ranksHere())
    mine << executor->rank() << ' ' << executor->takeOwnSeconds() << '\n';
  DPC_ASSIGN(std::vector<std::string> texts, session.collectTexts(mine.str()));
  std::vector<double> seconds(plan.ranks());
  for (const std::string &text : texts) {
    std::istringstream lines(text);
    int64_t rank = 0;
    for (double own = 0; lines >> rank >> own;)
      seconds[rank] = own;
  }
  return seconds;
}

std::vector<std::string> slowRanks(const Plan &plan,
                                   const std::vector<double> &seconds,
                                   int64_t steps, double factor) {
  std::map<int64_t, std::vector<double>> byStage;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    byStage[plan.mesh.stageOf(rank)].push_back(seconds[rank]);
  for (auto &[stage, own] : byStage)
    std::sort(own.begin(), own.end());
  std::vector<std::string> lines;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank) {
    const std::vector<double> &own = byStage.at(plan.mesh.stageOf(rank));
    double median = own[(own.size() - 1) / 2];
    if (median <= 0 || seconds[rank] <= factor * median)
      continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "rank %lld computes %.3g ms a step, %.3g times the median "
                  "of the ranks of its stage",
                  static_cast<long long>(rank),
                  seconds[rank] * 1e3 / static_cast<double>(steps),
                  seconds[rank] / median);
    lines.emplace_back(text);
  }
  return lines;
}

} // namespace dpc::rt
