#include "runtime/job/Supervisor.h"

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/job/Child.h"
#include "runtime/job/Elastic.h"
#include "runtime/job/StopSignal.h"
#include "runtime/observe/FlightRecord.h"
#include "runtime/observe/NumberGuard.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

namespace dpc {

std::vector<std::string> wordsOfRun(const RunOptions &options, int argc,
                                    char **argv) {
  // The value of an option follows "=" or is the next word.
  const char *ours[] = {"--max-restarts", "--hang-seconds", "--launcher",
                        "--resume",       "--elastic",      "--elastic-wait",
                        "--ranks-file",   "--new-data"};
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    std::string word = argv[i];
    auto it = std::find_if(
        std::begin(ours), std::end(ours), [&](const std::string &name) {
          return word == name || word.rfind(name + "=", 0) == 0;
        });
    if (it == std::end(ours)) {
      words.push_back(word);
      continue;
    }
    bool hasNext = word == *it && word != "--new-data";
    if (word == "--resume")
      hasNext = i + 1 < argc && options.resume && !options.resume->empty() &&
                *options.resume == argv[i + 1];
    i += hasNext ? 1 : 0;
  }
  return words;
}

/// Returns the newest checkpoint. If the last start completed no step
/// (`wasUseless`), a damaged checkpoint may be the reason, so renames damaged
/// checkpoints and returns the newest intact one.
static std::optional<int64_t> newestWhole(const rt::CheckpointFolder &folder,
                                          bool wasUseless) {
  std::vector<int64_t> steps = folder.steps();
  for (; !steps.empty(); steps.pop_back()) {
    if (!wasUseless)
      return steps.back();
    auto reader = rt::CheckpointReader::open(folder.checkpoint(steps.back()));
    Status status = reader ? (*reader)->verify() : reader.status();
    if (status.ok())
      return steps.back();
    std::fprintf(stderr, "dpc-run: warning: %s; the checkpoint is renamed\n",
                 status.message().c_str());
    if (!folder.setAside(steps.back()).ok())
      return std::nullopt;
  }
  return std::nullopt;
}

struct StartPoint {
  std::optional<std::string> resume; ///< see RunOptions::resume
  bool newData = false;
};

static std::vector<std::string> commandOf(const RunOptions &options,
                                          const std::vector<std::string> &words,
                                          const Elastic::Start &start,
                                          const StartPoint &from) {
  std::vector<std::string> command = wordsFor(options.launcher, start.ranks);
  command.insert(command.end(), words.begin(), words.end());
  if (start.plan != options.plan)
    command.push_back("--plan=" + start.plan);
  if (from.resume)
    command.push_back(from.resume->empty() ? "--resume"
                                           : "--resume=" + *from.resume);
  if (from.newData)
    command.push_back("--new-data");
  return command;
}

namespace {

/// The flight records are in the folder of --flight-record or, without this
/// option, in a temporary folder. A run without a folder has no records.
class FlightRecords {
public:
  explicit FlightRecords(const std::string &asked) : folder(asked) {
    std::error_code code;
    std::string made =
        std::filesystem::temp_directory_path(code).string() + "/dpc-run-XXXXXX";
    if (asked.empty() && !code && mkdtemp(made.data()))
      folder = own = made;
  }
  ~FlightRecords() {
    std::error_code code;
    if (!own.empty())
      std::filesystem::remove_all(own, code);
  }
  FlightRecords(const FlightRecords &) = delete;
  FlightRecords &operator=(const FlightRecords &) = delete;

  /// Returns the option for the temporary folder, or "" if there is none.
  std::string word() const {
    return own.empty() ? "" : "--flight-record=" + own;
  }
  void clear() {
    lines.clear();
    if (!folder.empty())
      rt::removeRecords(folder);
  }
  void look() {
    if (!folder.empty())
      lines = rt::lastInstructions(folder);
  }
  /// Prints the lost ranks. Calls look() first unless it has found some.
  void tell() {
    if (lines.empty())
      look();
    for (const std::string &line : lines)
      std::fprintf(stderr, "dpc-run: %s\n", line.c_str());
  }

private:
  std::string folder, own;
  std::vector<std::string> lines;
};

class Supervisor {
public:
  Supervisor(const RunOptions &options, const std::vector<std::string> &words,
             Elastic elastic)
      : options(options), words(words), elastic(std::move(elastic)),
        folder(options.checkpoint), from{options.resume, options.newData},
        records(options.flightRecord) {
    if (std::vector<int64_t> steps = folder.steps(); !steps.empty())
      newestBefore = steps.back();
  }

  int run();

private:
  std::optional<Ending> startOnce();
  bool isFinal(const Ending &ending) const;
  bool prepareRestart(const Ending &ending);

  const RunOptions &options;
  const std::vector<std::string> &words;
  Elastic elastic;
  rt::CheckpointFolder folder;
  int64_t newestBefore = -1; ///< newest checkpoint before this run
  StartPoint from;
  FlightRecords records;
  int64_t restarts = 0;
  int exitCode = 0; ///< valid if startOnce() returns nullopt
};

} // namespace

/// Runs the command once. Returns nullopt if the run ends with `exitCode`.
std::optional<Ending> Supervisor::startOnce() {
  Expected<Elastic::Start> start = elastic.next();
  if (!start) {
    std::fprintf(stderr, "dpc-run: error: %s\n",
                 start.status().message().c_str());
    exitCode = 1;
    return std::nullopt;
  }
  if (start->plan.empty()) {
    exitCode = 128 + stopSignal();
    return std::nullopt;
  }
  std::vector<std::string> command = commandOf(options, words, *start, from);
  if (!records.word().empty())
    command.push_back(records.word());
  records.clear();
  Child child;
  if (!child.start(command)) {
    std::fprintf(stderr, "dpc-run: error: no process can be started: %s\n",
                 std::strerror(errno));
    exitCode = 1;
    return std::nullopt;
  }
  Child::Watch how;
  how.hangSeconds = options.hangSeconds;
  how.askedBy = askedBy(wordsFor(options.launcher, start->ranks));
  how.shouldLeave = [this] { return elastic.wantsOther(); };
  how.onLine = [](const std::string &line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  how.onHang = [this] { records.look(); };
  Ending ending = child.watch(how);
  if (!ending.isSuccess() && !stopSignal())
    records.tell();
  return ending;
}

/// A restart would not help with wrong options, wrong plans, NaN or indices out
/// of range.
bool Supervisor::isFinal(const Ending &ending) const {
  bool hasExited = WIFEXITED(ending.status) && !ending.isHung;
  bool isRefused = ending.lastStep < 0 && restarts == 0 && hasExited;
  bool hasBadNumbers =
      hasExited && WEXITSTATUS(ending.status) == kExitBadNumbers;
  bool isDone = ending.isSuccess() && (!ending.isAsked || ending.isAtEnd);
  return isDone || stopSignal() || isRefused || hasBadNumbers;
}

/// Returns false if no restart is left.
bool Supervisor::prepareRestart(const Ending &ending) {
  bool isUseless = ending.lastStep < 0;
  bool hasLeft = ending.isAsked && ending.hasLeft();
  std::string why = hasLeft ? "the number of available ranks has changed"
                            : ending.text(options.hangSeconds);
  if (!hasLeft && restarts == options.maxRestarts) {
    std::fprintf(stderr, "dpc-run: error: %s, and %s restarts are used up\n",
                 why.c_str(), std::to_string(restarts).c_str());
    return false;
  }
  std::optional<int64_t> newest = newestWhole(folder, isUseless);
  if (newest)
    from.resume = ""; // "" selects the newest checkpoint
  // Checkpoints of this run already have a position in the new data.
  from.newData = options.newData && newest.value_or(-1) <= newestBefore;
  if (hasLeft)
    elastic.leave();
  else
    elastic.lose(!isUseless);
  restarts += hasLeft ? 0 : 1;
  std::string count = hasLeft ? ""
                              : "restart " + std::to_string(restarts) + " of " +
                                    std::to_string(options.maxRestarts) + ": ";
  std::string next = newest
                         ? "resuming after step " + std::to_string(*newest)
                         : "there is no checkpoint yet: restarting at step 1";
  std::fprintf(stderr, "dpc-run: %s%s; %s\n", count.c_str(), why.c_str(),
               next.c_str());
  return true;
}

int Supervisor::run() {
  while (true) {
    std::optional<Ending> ending = startOnce();
    if (!ending)
      return exitCode;
    if (mustStopAtOnce())
      return 128 + stopSignal();
    if (isFinal(*ending))
      return stopSignal() && ending->hasLeft() && !ending->isAtEnd
                 ? 128 + stopSignal()
                 : ending->code();
    if (!prepareRestart(*ending))
      return 1;
  }
}

int supervise(const RunOptions &options,
              const std::vector<std::string> &words) {
  // A launcher does not pass SIGINT on; otherwise the run announces its end.
  catchStopSignals(/*announces=*/!options.launcher.empty());
  Expected<Elastic> elastic = Elastic::open(options);
  if (!elastic) {
    std::fprintf(stderr, "dpc-run: error: %s\n",
                 elastic.status().message().c_str());
    return 1;
  }
  return Supervisor(options, words, std::move(*elastic)).run();
}

} // namespace dpc
