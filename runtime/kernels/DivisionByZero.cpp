#include "runtime/kernels/DivisionByZero.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace dpc::rt {

/// The kernel that the thread runs.
static thread_local const std::string *running = nullptr;

/// Only functions that a signal handler may call.
static void print(const char *text, size_t length) {
  if (write(STDERR_FILENO, text, length) < 0)
    return; // stderr is closed
}

[[noreturn]] static void endProcess(int) {
  constexpr char before[] = ": error: kernel '";
  constexpr char after[] =
      "': an integer is divided by 0 for these inputs (dpc-opt's verification "
      "draws inputs at random; --verify=off skips it)\n";
  print(program_invocation_short_name, strlen(program_invocation_short_name));
  print(before, sizeof before - 1);
  if (running)
    print(running->data(), running->size());
  print(after, sizeof after - 1);
  _exit(1);
}

DivisionGuard::DivisionGuard(const std::string &kernel) : outer(running) {
  static const bool isInstalled = [] {
    struct sigaction action = {};
    action.sa_handler = endProcess;
    return sigaction(SIGFPE, &action, nullptr) == 0;
  }();
  static_cast<void>(isInstalled);
  running = &kernel;
}

DivisionGuard::~DivisionGuard() { running = outer; }

} // namespace dpc::rt
