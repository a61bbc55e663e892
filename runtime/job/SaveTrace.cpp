#include "runtime/job/SaveTrace.h"

#include "runtime/job/RankZero.h"
#include "runtime/observe/Profile.h"
#include "runtime/observe/Trace.h"

#include <cstdio>

namespace dpc {

using namespace rt;

/// Returns a message if the trace does not have all `steps`, otherwise "".
static std::string untracedSteps(const Plan &plan, int64_t steps) {
  int64_t kept = stepsToTrace(plan);
  return steps <= kept
             ? ""
             : "the first " + std::to_string(kept) + " of " +
                   std::to_string(steps) +
                   " steps: a longer trace would be too large to load";
}

Status saveTrace(const RunOptions &options, const Plan &plan, Session &session,
                 int64_t steps) {
  if (options.trace.empty() && !options.profile)
    return Status::success();
  DPC_ASSIGN(std::vector<std::string> texts,
             session.collectTexts(session.traceEvents()));
  return onRankZero(session, [&]() -> Status {
    std::string untraced = untracedSteps(plan, steps), all;
    if (!untraced.empty())
      std::printf("%s has %s\n", options.profile ? "the profile" : "the trace",
                  untraced.c_str());
    for (const std::string &text : texts)
      all += (all.empty() || text.empty() ? "" : ",\n") + text;
    if (!options.trace.empty())
      DPC_TRY(writeTrace(options.trace, all, untraced));
    return options.profile ? writeProfile(options.plan, all)
                           : Status::success();
  });
}

} // namespace dpc
