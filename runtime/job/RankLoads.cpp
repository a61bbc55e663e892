#include "runtime/job/RankLoads.h"

#include <algorithm>
#include <sstream>

namespace dpc::rt {

Status addRankLoads(const Plan &plan, Session &session, StepReport &report) {
  if (opsOf<ExpertTilesOp>(plan).empty())
    return Status::success();
  std::ostringstream mine;
  for (const auto &executor : session.ranksHere()) {
    ExpertCounts counts = executor->takeExpertCounts();
    mine << counts.rows << ' ' << counts.tiles << '\n';
  }
  DPC_ASSIGN(std::vector<std::string> texts, session.collectTexts(mine.str()));
  ExpertCounts most;
  int64_t rows = 0, ranks = 0;
  for (const std::string &text : texts) {
    std::istringstream lines(text);
    for (ExpertCounts counts; lines >> counts.rows >> counts.tiles; ++ranks) {
      rows += counts.rows;
      most.rows = std::max(most.rows, counts.rows);
      most.tiles = std::max(most.tiles, counts.tiles);
    }
  }
  if (rows == 0)
    return Status::success();
  report.outputs.emplace_back("fullest_rank", static_cast<double>(most.rows) *
                                                  static_cast<double>(ranks) /
                                                  static_cast<double>(rows));
  report.outputs.emplace_back("expert_tiles", static_cast<double>(most.tiles));
  return Status::success();
}

} // namespace dpc::rt
