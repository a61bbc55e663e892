#include "runtime/job/Child.h"

#include "runtime/job/StopSignal.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string_view>

#include <poll.h>
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

/// Asks the command to save and exit, if necessary. Sends SIGUSR1 only after a
/// first step, because earlier the command may not handle it.
void Child::forwardSignal(const Watch &how, Ending &ending) {
  if (wasAsked)
    return;
  bool knows = lastStep >= 0;
  if (stopSignal()) {
    wasAsked = true;
    if (how.isLauncher && knows)
      kill(pid, SIGUSR1);
    else
      kill(-pid, stopSignal() == SIGINT ? SIGINT : SIGTERM);
  } else if (knows && how.shouldLeave && how.shouldLeave()) {
    wasAsked = ending.isAsked = true;
    kill(pid, SIGUSR1);
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
  while (!reap(ending)) {
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
  ending.lastStep = lastStep;
  ending.isAtEnd = isAtEnd;
  return ending;
}

} // namespace dpc
