//===- dpc-cases.cpp - Compiles and runs many small models ----------------===//
#include "tools/dpc-cases/Case.h"

#include <CLI/CLI.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>

using namespace dpc;

namespace {

struct WorkerOptions {
  int64_t ranks = 1;
  int64_t jobs = 2;
  int64_t seconds = 60;
  bool gradients = false;
};

struct Worker {
  const Case *one;
  int pipe;
};

/// The forked process.
[[noreturn]] void work(const CaseRunner &runner, const Case &one,
                       const WorkerOptions &options, int pipe) {
  alarm(static_cast<unsigned>(options.seconds));
  std::string why =
      options.gradients ? runner.differentiate(one) : runner.run(one);
  // The pipe must have room for the whole line.
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

std::string verdict(int status, const std::string &said) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM
               ? "does not end"
               : std::string("crashes: ") + strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 || !said.empty() ? said : "ends silently";
}

} // namespace

/// Runs each case in a forked process, so that a crash ends only that case.
/// Then calls `report` in this process with "", or with one line that says why
/// the case has no outputs.
static void
runCases(const std::vector<Case> &cases, const WorkerOptions &options,
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
      report(one, std::string("cannot start a process: ") + strerror(errno));
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

int main(int argc, char **argv) {
  CLI::App app(
      "Compiles small ONNX models and runs each once, in forks of this "
      "process. Prints one line per case: the name, a tab, and the "
      "reason if there are no outputs.");
  app.name("dpc-cases");
  std::string list;
  WorkerOptions options;
  app.add_option(
      "list", list,
      "One case per line: name, model.onnx and folder, separated by tabs; "
      "reads FOLDER/in/*.npy, writes FOLDER/out/*.npy");
  app.add_option("--ranks", options.ranks,
                 "Ranks that split dimension 0 of inputs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "Cases that run at the same time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Seconds until a case is killed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--gradients", options.gradients,
               "Differentiate cases instead: write FOLDER/gradient/*.npy, "
               "FOLDER/numeric/*.npy (finite differences) and FOLDER/ops.txt");
  bool lists = false;
  app.add_flag("--list-differentiable", lists,
               "Print the ops that have a gradient");
  CLI11_PARSE(app, argc, argv);
  if (lists) {
    for (const std::string &op : CaseRunner(1).listDifferentiable())
      std::puts(op.c_str());
    return 0;
  }
  std::string error;
  std::vector<Case> cases = readCases(list, error);
  if (!error.empty()) {
    std::cerr << "dpc-cases: error: " << error << "\n";
    return 1;
  }
  runCases(cases, options, [](const Case &one, const std::string &why) {
    std::printf("%s\t%s\n", one.name.c_str(), why.c_str());
    std::fflush(stdout);
  });
  return 0;
}
