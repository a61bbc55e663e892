//===- SearchOptions.cpp - Options of the search --------------------------===//
#include "tools/dpc-opt/SearchOptions.h"

#include "codegen/export/Targets.h"

#include <algorithm>

namespace dpc {

namespace {

using Strings = std::vector<std::string>;

/// Returns the values of --for.
Strings plannedSoftware() {
  Strings names = {"dpc"};
  for (const exports::Target *target : exports::trainingTargets())
    names.emplace_back(target->name);
  return names;
}

/// Returns the share that "8%" or "2.5%" means, if it is a valid headroom.
std::optional<double> parseHeadroom(const std::string &word) {
  constexpr double kMost = 90;
  double percent = 0;
  bool isShare =
      word.ends_with("%") &&
      CLI::detail::lexical_cast(word.substr(0, word.size() - 1), percent) &&
      percent >= 0 && percent <= kMost;
  return isShare ? std::optional(percent / 100) : std::nullopt;
}

cost::Routing parseRouting(const std::string &word) {
  auto routing = cost::Routing::parse(word);
  if (!routing)
    throw CLI::ValidationError(routing.message());
  return *routing;
}

void addAssumptions(CLI::App &app, CompileOptions &o) {
  Strings software = plannedSoftware();
  std::string known = CLI::detail::join(software, ", ");
  app.add_option("--for", o.plansFor,
                 "Software that will run the plan: the search has only "
                 "strategies that it can express, with its times and memory, "
                 "and its configuration is written into exports/")
      ->check(words(
          CLI::detail::join(software, "|"),
          [software](const std::string &word) {
            return std::ranges::find(software, word) != software.end();
          },
          "software for which dpc can plan; accepted: " + known))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--headroom",
         [&o](const std::string &word) { o.headroom = parseHeadroom(word); },
         "Share of device memory that plans leave free (5%)")
      ->check(words(
          "N%",
          [](const std::string &word) {
            return parseHeadroom(word).has_value();
          },
          "a share from 0% to 90%, such as 8%"));
  app.add_option_function<std::string>(
         "--routing",
         [&o](const std::string &word) { o.routing = parseRouting(word); },
         "How often experts are chosen: balanced, zipf:S (the i-th most "
         "popular one in proportion to i^-S), or a JSON FILE with the tokens "
         "of each expert, by layer (balanced)")
      ->type_name("balanced|zipf:S|FILE");
}

} // namespace

void addSearchOptions(CLI::App &app, CompileOptions &o) {
  app.option_defaults()->group("Strategy");
  addAssumptions(app, o);
  app.add_flag("--print-pipeline", o.printPipeline,
               "Instead of writing: print the passes that lower the program "
               "for the chosen strategy, in the form of --pass-pipeline");
  app.add_option("--objective", o.objective,
                 "throughput or latency (for a fixed batch both mean the "
                 "shortest step), memory, or robust: the shortest step at the "
                 "upper end of its 90 % interval")
      ->check(CLI::IsMember({"throughput", "memory", "latency", "robust"}))
      ->capture_default_str();
  app.add_option("--top", o.top, "Candidates the report keeps")
      ->check(aboveZero())
      ->capture_default_str();
  app.add_option("--device-file", o.device,
                 "Calibrated device file for local:N (see --calibrate)");
  app.add_option("--calibrate", o.calibrate,
                 "Measure this machine and write a device file; with --links, "
                 "write the --cluster with measured levels; with a MODEL, also "
                 "use this file");
  app.add_option(
      "--device", o.calibrated,
      "For --calibrate: cpu (default), cuda (this machine's GPU), or "
      "the FILE that dpc-run --measure-device wrote");
  app.add_option("--links", o.links,
                 "For --calibrate: files that nccl-tests, or dpc-run "
                 "--measure-links, wrote on the cluster")
      ->delimiter(',');
}

} // namespace dpc
