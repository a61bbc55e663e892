#include "runtime/job/Elastic.h"

#include "runtime/job/Child.h"
#include "runtime/job/StopSignal.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace dpc {

using namespace rt;

namespace fs = std::filesystem;

static std::string rankCount(int64_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

static void say(const std::string &text) {
  std::fprintf(stderr, "dpc-run: %s\n", text.c_str());
}

/// No cluster has more ranks.
static constexpr int64_t kMostRanks = 1 << 20;

/// Returns 0 unless `text` is a positive number.
static int64_t numberIn(std::string_view text) {
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  bool isAll = error == std::errc() && end == text.data() + text.size();
  return isAll && number <= kMostRanks ? std::max<int64_t>(number, 0) : 0;
}

std::vector<std::string> wordsFor(const std::string &text, int64_t ranks) {
  constexpr std::string_view kRanks = "{ranks}";
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    if (size_t at = word.find(kRanks); at != std::string::npos && ranks > 0)
      word.replace(at, kRanks.size(), std::to_string(ranks));
    words.push_back(word);
  }
  return words;
}

Expected<Elastic> Elastic::open(const RunOptions &options) {
  Elastic self;
  self.options = options;
  self.wait = options.elasticWait;
  if (options.elastic.empty()) {
    self.plans[0] = {options.plan, 0};
    return self;
  }
  std::string_view text = options.elastic;
  size_t colon = text.find(':');
  self.least = numberIn(text.substr(0, colon));
  if (colon != text.npos)
    self.most = numberIn(text.substr(colon + 1));
  if (self.least == 0 || self.most < self.least)
    return Status::invalid("--elastic=", options.elastic,
                           ": expected MIN:MAX with 1 <= MIN <= MAX");
  DPC_ASSIGN(Plan plan, readPlan(options.plan));
  int64_t own = plan.ranks();
  if (own < self.least || own > self.most)
    return Status::invalid("--elastic=", options.elastic, ": ", options.plan,
                           " is for ", rankCount(own));
  if (!options.launcher.empty() &&
      options.launcher.find("{ranks}") == std::string::npos)
    return Status::invalid("--launcher=", options.launcher,
                           ": with --elastic it needs the word {ranks}, such "
                           "as \"mpirun -np {ranks}\"");
  DPC_ASSIGN(self.command, readPlanCommand(options.plan).in("--elastic"));
  self.plans[own] = {options.plan, own};
  self.full = self.ranks = self.started = own;
  if (options.ranksFile.empty())
    return self;
  if (self.inFile() == 0)
    return Status::invalid("--ranks-file: ", options.ranksFile,
                           " contains no number of ranks");
  return self;
}

/// Returns the number in --ranks-file, at most `most`; 0 without a number.
int64_t Elastic::inFile() const {
  std::ifstream file(options.ranksFile);
  std::string word;
  return file >> word ? std::min(numberIn(word), most) : 0;
}

bool Elastic::wantsOther() {
  if (options.elastic.empty())
    return false;
  std::chrono::duration<double> passed = Clock::now() - lastLoss;
  if (options.ranksFile.empty())
    return started < full && passed.count() >= wait;
  constexpr std::chrono::milliseconds kBetweenLooks(500);
  if (Clock::now() - lastLook < kBetweenLooks)
    return false;
  lastLook = Clock::now();
  int64_t found = inFile();
  return found > 0 && found != started;
}

void Elastic::leave() {
  isTrying = options.ranksFile.empty();
  before = ranks;
  ranks = full;
}

void Elastic::lose(bool madeProgress) {
  if (options.elastic.empty())
    return;
  bool wasInVain = isTrying && !madeProgress;
  wait = wasInVain ? 2 * wait : options.elasticWait;
  ranks = wasInVain ? before : std::max(least, started - 1);
  isTrying = false;
  lastLoss = Clock::now();
}

/// Returns false after a signal.
bool Elastic::awaitRanks() {
  bool hasReported = false;
  while (!options.ranksFile.empty()) {
    if (int64_t found = inFile(); found > 0)
      ranks = found;
    if (ranks >= least)
      break;
    if (stopSignal())
      return false;
    if (!hasReported)
      say(options.ranksFile + ": " + rankCount(ranks) + ", waiting for " +
          std::to_string(least));
    hasReported = true;
    usleep(200000);
  }
  return true;
}

Expected<Elastic::Start> Elastic::next() {
  if (options.elastic.empty())
    return plans[0];
  if (!awaitRanks())
    return Start();
  started = ranks;
  for (int64_t count = ranks;; --count) {
    Expected<Start> start = planFor(count);
    if (start || stopSignal())
      return start ? start : Start();
    if (count <= least)
      return start;
    say("warning: " + start.status().message() + "; trying fewer");
  }
}

Expected<Elastic::Start> Elastic::planFor(int64_t count) {
  if (auto it = plans.find(count); it != plans.end())
    return it->second;
  std::string folder = options.checkpoint + "/plan-" + std::to_string(count);
  DPC_TRY(makePlan(count, folder));
  DPC_ASSIGN(Plan plan, readPlan(folder));
  return plans[count] = {folder, plan.ranks()};
}

/// dpc-opt is in the folder of this program.
static std::string compilerPath() {
  std::error_code code;
  fs::path self = fs::read_symlink("/proc/self/exe", code);
  return (self.parent_path() / "dpc-opt").string();
}

Status Elastic::makePlan(int64_t count, const std::string &folder) const {
  std::vector<std::string> words = rt::wordsFor(command, count);
  words.push_back("--output=" + folder);
  words.insert(words.begin(), compilerPath());
  say("searching for a plan for " + rankCount(count));
  Child child;
  if (!child.start(words))
    return Status::io(words.front(), ": cannot be started");
  std::string chosen;
  Child::Watch how;
  how.onLine = [&](const std::string &line) {
    if (line.rfind("chosen: ", 0) == 0)
      chosen = line.substr(8);
  };
  Ending ending = child.watch(how);
  if (!ending.isSuccess())
    return Status::invalid("no plan for ", rankCount(count), " was made");
  say(rankCount(count) + ": " + chosen);
  return Status::success();
}

} // namespace dpc
