//===- Child.h - a supervised command ---------------------------*- C++ -*-===//
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>
#include <sys/wait.h>

namespace dpc {

struct Ending {
  int status = 0;        ///< from waitpid
  int64_t lastStep = -1; ///< the last reported step; -1: none
  bool isHung = false;
  bool isAsked = false; ///< whether shouldLeave() has ended the child
  /// Whether SIGTERM asked a launcher to end the run. The exit status of the
  /// launcher is then not 0, even if the run has saved its state.
  bool isTerminated = false;
  bool isAtEnd = false;

  bool isSuccess() const { return WIFEXITED(status) && !WEXITSTATUS(status); }
  /// Whether the run has ended because it was asked to.
  bool hasLeft() const { return isSuccess() || (isTerminated && !isHung); }
  int code() const {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text(double hangSeconds) const;
};

/// How the processes of a command learn that they should save and exit.
enum class AskedBy {
  OwnSignal,      ///< The command is dpc-run, which handles every signal.
  ForwardedUsr1,  ///< mpirun and srun forward SIGUSR1, but kill on SIGTERM.
  TermOfLauncher, ///< torchrun and others send SIGTERM to their processes when
                  ///< they receive it, and SIGUSR1 would kill them.
};

/// Returns how the processes of `launcher` are asked; dpc-run if it is empty.
AskedBy askedBy(const std::vector<std::string> &launcher);

/// A command in a new process group. All of its processes are killed together.
class Child {
public:
  struct Watch {
    double hangSeconds = 0; ///< longest time between two steps; 0: no limit
    AskedBy askedBy = AskedBy::OwnSignal;
    /// Called repeatedly; returns whether the command should save and exit.
    std::function<bool()> shouldLeave;
    std::function<void(const std::string &)> onLine;
    /// Called before a hanging command is killed.
    std::function<void()> onHang;
  };

  bool start(const std::vector<std::string> &words);
  /// Watches the command until it ends. Forwards the signals of stopSignal();
  /// a second one ends all processes of the command at once.
  Ending watch(const Watch &how);

private:
  using Clock = std::chrono::steady_clock;

  bool readSome(const Watch &how);
  void takeLine(const std::string &line, const Watch &how);
  void forwardSignal(const Watch &how, Ending &ending);
  void ask(const Watch &how, Ending &ending);
  void end(Ending &ending);
  void endAtOnce(const Watch &how, Ending &ending);
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
