#include "runtime/job/StopSignal.h"

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <unistd.h>

namespace dpc {

static volatile std::sig_atomic_t came = 0;
static volatile std::sig_atomic_t speaks = 0;
static volatile std::sig_atomic_t holds = 0, isSecond = 0;
static volatile std::sig_atomic_t terms = 0, interrupts = 0;

/// write() is one of the few functions that a signal handler may call.
static void promiseToStop() {
  constexpr char text[] =
      "\ndpc-run: stopping after the current step; a second "
      "Ctrl-C stops at once and saves nothing\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
    return; // stderr is closed
}

/// Counts SIGTERM and SIGINT separately, as a launcher may turn a Ctrl-C into
/// a SIGTERM for a process that has also got SIGINT. Returns whether the
/// signal came before.
static bool cameBefore(int signal) {
  volatile std::sig_atomic_t &count = signal == SIGINT ? interrupts : terms;
  if (signal == SIGUSR1)
    return false;
  bool before = count != 0;
  count = 1;
  return before;
}

/// The signal ends the process after its handler, which blocks it.
static void endBy(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

void catchStopSignals(bool announces) {
  speaks = announces ? 1 : 0;
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    int kept = errno; // of the interrupted code
    if (cameBefore(signal)) {
      isSecond = 1;
      if (holds == 0)
        endBy(signal);
      errno = kept;
      return;
    }
    if (signal != SIGUSR1 || came == 0)
      came = signal;
    if (signal == SIGINT && speaks != 0)
      promiseToStop();
    errno = kept;
  };
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGTERM, SIGINT})
    sigaction(signal, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

int stopSignal() { return came; }

void holdSecondSignal(bool isHeld) { holds = isHeld ? 1 : 0; }

bool mustStopAtOnce() { return isSecond != 0; }

} // namespace dpc
