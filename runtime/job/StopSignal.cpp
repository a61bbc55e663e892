#include "runtime/job/StopSignal.h"

#include <csignal>
#include <initializer_list>

namespace dpc {

static volatile std::sig_atomic_t came = 0;

void catchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    if (signal != SIGUSR1 || came == 0)
      came = signal;
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (int signal : {SIGTERM, SIGINT})
    sigaction(signal, &action, nullptr);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

int stopSignal() { return came; }

} // namespace dpc
