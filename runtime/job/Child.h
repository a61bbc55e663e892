//===- Child.h - a supervised command ---------------------------*- C++ -*-===//
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
  int status = 0;        ///< from waitpid
  int64_t lastStep = -1; ///< the last step that the child reported; -1: none
  bool isHung = false;
  bool isAsked = false; ///< whether the child was asked to leave
  bool isAtEnd = false; ///< whether the child reported the last step of the run

  bool isSuccess() const { return WIFEXITED(status) && !WEXITSTATUS(status); }
  int code() const {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text(double hangSeconds) const;
};

/// One start of a command. The command gets a new process group, so that all of
/// its processes can be ended. Its output is received line by line.
class Child {
public:
  struct Watch {
    double hangSeconds = 0; ///< limit without a step; 0: no limit
    /// Whether the command is a launcher. A launcher is asked to leave by
    /// SIGUSR1, which it forwards to its processes; on SIGTERM, it would kill
    /// them.
    bool isLauncher = false;
    /// Whether the command should save and leave; called repeatedly.
    std::function<bool()> shouldLeave;
    std::function<void(const std::string &)> onLine;
    /// Called before a hanging run is ended, because ending the run wakes
    /// stopped processes.
    std::function<void()> onHang;
  };

  bool start(const std::vector<std::string> &words);
  /// Watches the command until it ends. Forwards stopSignal().
  Ending watch(const Watch &how);

private:
  using Clock = std::chrono::steady_clock;

  bool readSome(const Watch &how);
  void takeLine(const std::string &line, const Watch &how);
  void forwardSignal(const Watch &how, Ending &ending);
  void end(Ending &ending);
  void drain(const Watch &how, bool isOpen);
  bool reap(Ending &ending) {
    return waitpid(pid, &ending.status, WNOHANG) == pid;
  }

  pid_t pid = -1;
  int out = -1;
  std::string pending; ///< an incomplete line
  int64_t lastStep = -1;
  bool isAtEnd = false;
  bool wasAsked = false;
  Clock::time_point lastSign = Clock::now();
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_CHILD_H
