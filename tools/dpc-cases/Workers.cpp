//===- Workers.cpp - Many cases, a process each ---------------------------===//
#include "tools/dpc-cases/Workers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>

namespace dpc {

namespace {

/// A case that is being run, and the pipe on which its process says why it
/// failed.
struct Worker {
  const Case *one;
  int pipe;
};

/// The forked process: never returns.
[[noreturn]] void work(const CaseRunner &runner, const Case &one,
                       const WorkerOptions &options, int pipe) {
  alarm(static_cast<unsigned>(options.seconds));
  std::string why =
      options.gradients ? runner.differentiate(one) : runner.run(one);
  // A line always fits into a pipe.
  why.resize(std::min<size_t>(why.size(), 2000));
  bool told =
      write(pipe, why.data(), why.size()) == static_cast<ssize_t>(why.size());
  // Destructors would wait for threads of the parent.
  _exit(told && why.empty() ? 0 : 1);
}

std::string readAll(int pipe) {
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(pipe, buffer, sizeof buffer)) > 0;)
    text.append(buffer, n);
  close(pipe);
  return text;
}

/// Why a process that ended with `status` has no outputs, or "".
std::string verdict(int status, const std::string &said) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM
               ? "does not end"
               : std::string("crashes: ") + strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 || !said.empty() ? said : "ends silently";
}

} // namespace

void runCases(const std::vector<Case> &cases, const WorkerOptions &options,
              const std::function<void(const Case &, std::string)> &report) {
  CaseRunner runner(options.ranks);
  std::map<pid_t, Worker> workers;
  auto collect = [&] {
    int status = 0;
    pid_t pid = wait(&status);
    auto worker = workers.find(pid);
    if (worker == workers.end())
      return;
    report(*worker->second.one, verdict(status, readAll(worker->second.pipe)));
    workers.erase(worker);
  };
  for (const Case &one : cases) {
    if (static_cast<int64_t>(workers.size()) >= options.jobs)
      collect();
    int ends[2];
    pid_t pid = pipe(ends) == 0 ? fork() : -1;
    if (pid < 0) {
      report(one, std::string("no process can be made: ") + strerror(errno));
      continue;
    }
    if (pid == 0)
      work(runner, one, options, ends[1]);
    close(ends[1]);
    workers[pid] = {&one, ends[0]};
  }
  while (!workers.empty())
    collect();
}

} // namespace dpc
