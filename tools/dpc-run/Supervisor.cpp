#include "tools/dpc-run/Supervisor.h"

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/CheckpointReader.h"
#include "tools/dpc-run/NumberGuard.h"
#include "tools/dpc-run/StopSignal.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dpc {

using Clock = std::chrono::steady_clock;

/// How long a child that is told to end has before it is killed.
static constexpr std::chrono::seconds kGrace(5);

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

namespace {

/// How a child ended.
struct Ending {
  int status = 0;        ///< of waitpid
  int64_t lastStep = -1; ///< that it reported; -1: none
  bool isHung = false;

  bool isSuccess() const { return WIFEXITED(status) && !WEXITSTATUS(status); }
  int code() const {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text(double hangSeconds) const;
};

/// One start of the run.
class Child {
public:
  bool start(const std::vector<std::string> &words);
  Ending watch(double hangSeconds);

private:
  bool readSome();
  void takeLine(const std::string &line);
  void end(Ending &ending);
  bool reap(Ending &ending) {
    return waitpid(pid, &ending.status, WNOHANG) == pid;
  }

  pid_t pid = -1;
  int out = -1;
  std::string pending; ///< the beginning of a line
  int64_t lastStep = -1;
  Clock::time_point lastSign = Clock::now();
};

} // namespace

std::string Ending::text(double hangSeconds) const {
  std::ostringstream text;
  if (isHung)
    text << "no step ended for " << hangSeconds << " s";
  else if (WIFSIGNALED(status))
    text << "the run was ended by signal " << WTERMSIG(status) << " ("
         << strsignal(WTERMSIG(status)) << ")";
  else
    text << "the run failed with exit status " << WEXITSTATUS(status);
  if (lastStep >= 0)
    text << " after step " << lastStep;
  return text.str();
}

/// In a process group of its own, so that all of it can be ended.
bool Child::start(const std::vector<std::string> &words) {
  int ends[2];
  if (pipe(ends) != 0)
    return false;
  std::fflush(stdout);
  pid = fork();
  if (pid < 0)
    return false;
  if (pid == 0) {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::vector<char *> argv;
    argv.reserve(words.size() + 1);
    for (const std::string &word : words)
      argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    std::fprintf(stderr, "dpc-run: error: --launcher: %s: %s\n", argv[0],
                 std::strerror(errno));
    _exit(127);
  }
  setpgid(pid, pid);
  close(ends[1]);
  out = ends[0];
  return true;
}

void Child::takeLine(const std::string &line) {
  constexpr std::string_view kStep = "step "; // as Progress prints it
  int64_t step = 0;
  std::string_view text(line);
  if (text.substr(0, kStep.size()) == kStep) {
    const char *end = text.data() + text.size();
    auto number = std::from_chars(text.data() + kStep.size(), end, step);
    if (number.ec == std::errc() && number.ptr != end && *number.ptr == '/') {
      lastStep = step;
      lastSign = Clock::now();
    }
  }
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// False at the end of what the child prints.
bool Child::readSome() {
  char bytes[4096];
  ssize_t count = read(out, bytes, sizeof bytes);
  if (count < 0 && errno == EINTR)
    return true;
  if (count <= 0)
    return false;
  pending.append(bytes, count);
  for (size_t end; (end = pending.find('\n')) != std::string::npos;) {
    takeLine(pending.substr(0, end));
    pending.erase(0, end + 1);
  }
  return true;
}

void Child::end(Ending &ending) {
  kill(-pid, SIGTERM);
  kill(-pid, SIGCONT); // a stopped one could not even die
  Clock::time_point begin = Clock::now();
  while (!reap(ending)) {
    if (secondsSince(begin) > static_cast<double>(kGrace.count()))
      kill(-pid, SIGKILL);
    usleep(20000);
  }
}

Ending Child::watch(double hangSeconds) {
  Ending ending;
  bool isOpen = true, isTold = false;
  while (!reap(ending)) {
    if (stopSignal() && !isTold) {
      isTold = true;
      kill(-pid, SIGTERM); // it saves and leaves
    }
    if (secondsSince(lastSign) > hangSeconds) {
      ending.isHung = true;
      end(ending);
      break;
    }
    pollfd waits{out, POLLIN, 0};
    if (!isOpen)
      usleep(20000);
    else if (poll(&waits, 1, 100) > 0)
      isOpen = readSome();
  }
  while (isOpen && !ending.isHung && readSome())
    ;
  kill(-pid, SIGKILL); // what the launcher left behind
  close(out);
  ending.lastStep = lastStep;
  return ending;
}

std::vector<std::string> wordsOfRun(const RunOptions &options, int argc,
                                    char **argv) {
  // With a value of their own, or in the next word.
  const char *ours[] = {"--max-restarts", "--hang-seconds", "--launcher",
                        "--resume"};
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
    bool hasNext = word == *it;
    if (word == "--resume")
      hasNext = i + 1 < argc && options.resume && !options.resume->empty() &&
                *options.resume == argv[i + 1];
    i += hasNext ? 1 : 0;
  }
  return words;
}

/// The newest checkpoint that can be read. Where the last start came to no step
/// one that is damaged may be why: it is set aside.
static std::optional<int64_t> newestWhole(const rt::CheckpointFolder &folder,
                                          bool wasUseless) {
  std::vector<int64_t> steps = folder.steps();
  for (; !steps.empty(); steps.pop_back()) {
    if (!wasUseless)
      return steps.back();
    auto reader = rt::CheckpointReader::open(folder.checkpoint(steps.back()));
    rt::Status status = reader ? (*reader)->verify() : reader.status();
    if (status.ok())
      return steps.back();
    std::fprintf(stderr, "dpc-run: warning: %s; it is renamed\n",
                 status.message().c_str());
    if (!folder.setAside(steps.back()).ok())
      return std::nullopt;
  }
  return std::nullopt;
}

/// The command of one start.
static std::vector<std::string>
commandOf(const RunOptions &options, const std::vector<std::string> &words,
          const std::optional<std::string> &resume) {
  std::vector<std::string> command;
  std::istringstream launcher(options.launcher);
  for (std::string word; launcher >> word;)
    command.push_back(word);
  command.insert(command.end(), words.begin(), words.end());
  if (resume)
    command.push_back(resume->empty() ? "--resume" : "--resume=" + *resume);
  return command;
}

int supervise(const RunOptions &options,
              const std::vector<std::string> &words) {
  catchStopSignals();
  rt::CheckpointFolder folder(options.checkpoint);
  std::optional<std::string> resume = options.resume;
  for (int64_t restarts = 0;; ++restarts) {
    Child child;
    if (!child.start(commandOf(options, words, resume))) {
      std::fprintf(stderr, "dpc-run: error: no process can be started: %s\n",
                   std::strerror(errno));
      return 1;
    }
    Ending ending = child.watch(options.hangSeconds);
    bool isUseless = ending.lastStep < 0;
    // A wrong option or plan is wrong again the next time.
    bool isRefused = isUseless && restarts == 0 && WIFEXITED(ending.status) &&
                     !ending.isHung;
    bool isNotFinite = WIFEXITED(ending.status) && !ending.isHung &&
                       WEXITSTATUS(ending.status) == kExitNotFinite;
    if (ending.isSuccess() || stopSignal() || isRefused || isNotFinite)
      return ending.code();
    std::string why = ending.text(options.hangSeconds);
    if (restarts == options.maxRestarts) {
      std::fprintf(stderr, "dpc-run: error: %s, and %s restarts are used up\n",
                   why.c_str(), std::to_string(restarts).c_str());
      return 1;
    }
    std::optional<int64_t> newest = newestWhole(folder, isUseless);
    if (newest)
      resume = ""; // the newest one
    std::string next = newest ? "going on after step " + std::to_string(*newest)
                              : "starting again";
    std::fprintf(stderr, "dpc-run: restart %s of %s: %s; %s\n",
                 std::to_string(restarts + 1).c_str(),
                 std::to_string(options.maxRestarts).c_str(), why.c_str(),
                 next.c_str());
  }
}

} // namespace dpc
