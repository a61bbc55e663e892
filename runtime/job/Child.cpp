#include "runtime/job/Child.h"

#include "runtime/job/StopSignal.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dpc {

/// A child that does not end within this time is killed.
static constexpr std::chrono::seconds kGrace(5);

static double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

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

AskedBy askedBy(const std::vector<std::string> &launcher) {
  // A word such as "env" may come before the name.
  constexpr std::string_view kForwarding[] = {"mpirun", "mpiexec", "orterun",
                                              "prterun", "srun"};
  for (std::string_view word : launcher) {
    word.remove_prefix(word.rfind('/') + 1);
    if (std::find(std::begin(kForwarding), std::end(kForwarding), word) !=
        std::end(kForwarding))
      return AskedBy::ForwardedUsr1;
  }
  return launcher.empty() ? AskedBy::OwnSignal : AskedBy::TermOfLauncher;
}

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
    signal(SIGPIPE, SIG_DFL); // catchStopSignals() ignores it
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

void Child::takeLine(const std::string &line, const Watch &how) {
  constexpr std::string_view kStep = "step "; // as Progress prints
  int64_t step = 0;
  std::string_view text(line);
  if (text.substr(0, kStep.size()) == kStep) {
    const char *end = text.data() + text.size();
    auto number = std::from_chars(text.data() + kStep.size(), end, step);
    if (number.ec == std::errc() && number.ptr != end && *number.ptr == '/') {
      lastStep = step;
      lastSign = Clock::now();
      int64_t last = 0;
      std::from_chars(number.ptr + 1, end, last);
      isAtEnd = step == last;
    }
  }
  how.onLine(line);
}

/// Returns false at the end of the output.
bool Child::readSome(const Watch &how) {
  char bytes[4096];
  ssize_t count = read(out, bytes, sizeof bytes);
  if (count < 0 && errno == EINTR)
    return true;
  if (count <= 0)
    return false;
  pending.append(bytes, count);
  for (size_t end; (end = pending.find('\n')) != std::string::npos;) {
    takeLine(pending.substr(0, end), how);
    pending.erase(0, end + 1);
  }
  return true;
}

void Child::end(Ending &ending) {
  kill(-pid, SIGTERM);
  kill(-pid, SIGCONT); // a stopped process would not end
  Clock::time_point begin = Clock::now();
  while (!reap(ending)) {
    if (secondsSince(begin) > static_cast<double>(kGrace.count()))
      kill(-pid, SIGKILL);
    usleep(20000);
  }
}

/// Returns handles of all processes that `root` has started, directly or not.
/// A handle does not refer to a later process with the same id.
static std::vector<int> descendantsOf(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  std::error_code code;
  for (const auto &entry : std::filesystem::directory_iterator("/proc", code)) {
    pid_t id = std::atoi(entry.path().filename().c_str());
    std::ifstream in(entry.path() / "stat");
    std::string text;
    if (id <= 0 || !std::getline(in, text, '\0'))
      continue;
    // "ID (NAME) STATE PARENT", where NAME may contain any character.
    pid_t parent = 0;
    char state = 0;
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    if (rest >> state >> parent)
      children.emplace(parent, id);
  }
  std::vector<pid_t> found{root};
  std::vector<int> handles;
  for (size_t i = 0; i < found.size(); ++i)
    for (auto [it, last] = children.equal_range(found[i]); it != last; ++it) {
      found.push_back(it->second);
      auto handle = static_cast<int>(syscall(SYS_pidfd_open, it->second, 0));
      if (handle >= 0)
        handles.push_back(handle);
    }
  return handles;
}

/// A launcher ends its processes on other machines when it gets SIGTERM. Its
/// processes on this machine may be in other process groups.
void Child::endAtOnce(const Watch &how, Ending &ending) {
  std::vector<int> handles = descendantsOf(pid);
  if (how.askedBy == AskedBy::OwnSignal)
    kill(-pid, SIGKILL);
  end(ending);
  for (int handle : handles) {
    syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
    close(handle);
  }
}

/// The ranks get one signal only, since a second SIGTERM would end them.
void Child::ask(const Watch &how, Ending &ending) {
  ending.isTerminated = how.askedBy == AskedBy::TermOfLauncher;
  kill(pid, ending.isTerminated ? SIGTERM : SIGUSR1);
}

/// Asks the command to save and exit, if necessary. Before the first step, the
/// ranks may not handle signals yet, and all processes get the signal.
void Child::forwardSignal(const Watch &how, Ending &ending) {
  if (wasAsked)
    return;
  bool knows = lastStep >= 0, isRun = how.askedBy == AskedBy::OwnSignal;
  if (stopSignal()) {
    wasAsked = true;
    if (knows && !isRun)
      ask(how, ending);
    else // The supervisor of a launcher has already announced the end.
      kill(-pid, isRun && stopSignal() == SIGINT ? SIGINT : SIGTERM);
  } else if (knows && how.shouldLeave && how.shouldLeave()) {
    wasAsked = ending.isAsked = true;
    ask(how, ending);
  }
}

/// Stops early: a process that outlives its launcher keeps the pipe open.
void Child::drain(const Watch &how, bool isOpen) {
  pollfd waits{out, POLLIN, 0};
  Clock::time_point begin = Clock::now();
  while (isOpen && secondsSince(begin) < static_cast<double>(kGrace.count()) &&
         poll(&waits, 1, 1000) > 0)
    isOpen = readSome(how);
}

Ending Child::watch(const Watch &how) {
  Ending ending;
  bool isOpen = true;
  holdSecondSignal(true);
  while (!reap(ending)) {
    if (mustStopAtOnce()) {
      endAtOnce(how, ending);
      break;
    }
    forwardSignal(how, ending);
    if (how.hangSeconds > 0 && secondsSince(lastSign) > how.hangSeconds) {
      ending.isHung = true;
      if (how.onHang)
        how.onHang();
      end(ending);
      break;
    }
    pollfd waits{out, POLLIN, 0};
    if (!isOpen)
      usleep(20000);
    else if (poll(&waits, 1, 100) > 0)
      isOpen = readSome(how);
  }
  kill(-pid, SIGKILL); // remaining processes of a launcher
  drain(how, isOpen && !ending.isHung);
  close(out);
  holdSecondSignal(false);
  ending.lastStep = lastStep;
  ending.isAtEnd = isAtEnd;
  return ending;
}

} // namespace dpc
