//===- Child.h - a command that is watched ----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_CHILD_H
#define DPC_RUNTIME_JOB_CHILD_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <sys/wait.h>

namespace dpc {

/// How a child ended.
struct Ending {
  int status = 0;        ///< of waitpid
  int64_t lastStep = -1; ///< that it reported; -1: none
  bool isHung = false;
  bool isAsked = false; ///< it was asked to leave
  bool isAtEnd = false; ///< it reported its last step

  bool isSuccess() const { return WIFEXITED(status) && !WEXITSTATUS(status); }
  int code() const {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text(double hangSeconds) const;
};

/// One start of a command, in a process group of its own so that all of it can
/// be ended. What it prints comes here, line by line.
class Child {
public:
  struct Watch {
    double hangSeconds = 0; ///< without a step; 0: it may take its time
    /// Of a launcher: it is asked to leave by SIGUSR1, which launchers pass on;
    /// they answer a SIGTERM by killing.
    bool isLauncher = false;
    /// Looked at between steps: shall it save and leave?
    std::function<bool()> shallLeave;
    std::function<void(const std::string &)> onLine;
    /// Before a run that hangs is ended, which wakes what was stopped.
    std::function<void()> onHang;
  };

  bool start(const std::vector<std::string> &words);
  /// Until it ends. A signal that stops this program is passed on.
  Ending watch(const Watch &how);

private:
  using Clock = std::chrono::steady_clock;

  bool readSome(const Watch &how);
  void takeLine(const std::string &line, const Watch &how);
  void passOn(const Watch &how, Ending &ending);
  void end(Ending &ending);
  void drain(const Watch &how, bool isOpen);
  bool reap(Ending &ending) {
    return waitpid(pid, &ending.status, WNOHANG) == pid;
  }

  pid_t pid = -1;
  int out = -1;
  std::string pending; ///< the beginning of a line
  int64_t lastStep = -1;
  bool isAtEnd = false;
  bool isTold = false;
  Clock::time_point lastSign = Clock::now();
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_CHILD_H
