//===- dpc-cases.cpp - Compiles and runs many small models ----------------===//
#include "tools/dpc-cases/Workers.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>

using namespace dpc;

int main(int argc, char **argv) {
  CLI::App app("Compiles small ONNX models and runs each once, in one process "
               "and its forks. Prints a line per case: its name, a tab, and "
               "nothing or why it has no outputs.");
  app.name("dpc-cases");
  std::string list;
  WorkerOptions options;
  app.add_option("list", list,
                 "A case a line: name, model.onnx and folder between tabs; "
                 "reads FOLDER/in/*.npy, writes FOLDER/out/*.npy");
  app.add_option("--ranks", options.ranks,
                 "Ranks over which dimension 0 of inputs is split")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "Cases at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "After which a case is killed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--gradients", options.gradients,
               "Differentiate instead: writes FOLDER/gradient/*.npy, "
               "FOLDER/numeric/*.npy (finite differences) and FOLDER/ops.txt");
  bool lists = false;
  app.add_flag("--list-differentiable", lists,
               "Print the ops that have a gradient, and end");
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
