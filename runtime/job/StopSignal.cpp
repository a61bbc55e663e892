#include "runtime/job/StopSignal.h"

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <unistd.h>

namespace dpc {

static volatile std::sig_atomic_t came = 0;
static volatile std::sig_atomic_t speaks = 0;

/// write() is one of the few functions that a signal handler may call.
static void promiseToStop() {
  constexpr char text[] =
      "\ndpc-run: stopping after the current step; a second "
      "Ctrl-C stops at once and saves nothing\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
    return; // stderr is closed
}

void catchStopSignals(bool announces) {
  speaks = announces ? 1 : 0;
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    int kept = errno; // of the interrupted code
    if (signal != SIGUSR1 || came == 0)
      came = signal;
    if (signal == SIGINT && speaks != 0)
      promiseToStop();
    errno = kept;
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (int signal : {SIGTERM, SIGINT})
    sigaction(signal, &action, nullptr);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

int stopSignal() { return came; }

} // namespace dpc
