//===- JobOptions.cpp - Options of the whole job --------------------------===//
#include "tools/dpc-opt/JobOptions.h"

#include "cost-model/report/JobCost.h"
#include "tools/driver/Exports.h"

namespace dpc {

namespace {

/// Adds an option whose words `parse` reads.
template <typename Target>
CLI::Option *addParsed(CLI::App &app, const char *name, Target &target,
                       std::optional<double> (*parse)(const std::string &),
                       const std::string &type, const std::string &accepted,
                       const std::string &help) {
  return app
      .add_option_function<std::string>(
          name,
          [&target, parse](const std::string &word) {
            double value = parse(word).value_or(0); // the check accepts it
            target = value;
          },
          help)
      ->check(words(
          type,
          [parse](const std::string &word) { return parse(word).has_value(); },
          accepted));
}

} // namespace

void addJobOptions(CLI::App &app, CompileOptions &o,
                   std::vector<double> &prices) {
  app.option_defaults()->group("The whole job");
  auto addDuration = [&](const char *name, auto &target, const char *help) {
    addParsed(app, name, target, cost::parseDuration, "DURATION",
              "a duration such as 90s, 10m, 12h or 30d", help);
  };
  addParsed(app, "--tokens", o.job.tokens, cost::parseAmount, "N",
            "an amount above 0, such as 15T, 300B or 1e9",
            "Tokens of the whole job (samples, for models without "
            "sequences), such as 15T: the report has its days, device-hours, "
            "energy and, with --price, its price");
  app.add_option("--price", prices,
                 "Price of a device and hour, in any currency; with several "
                 "clusters, one for all or one for each")
      ->delimiter(',')
      ->check(numbers<double>(
          "PRICE", [](double value) { return value > 0 && value < 1e9; },
          "a price above 0"));
  addDuration("--deadline", o.deadlineSeconds,
              "Search the smallest number of nodes that process --tokens in "
              "this time, such as 30d");
  addDuration("--mtbf", o.job.deviceFailureSeconds,
              "Mean time between failures of one device, with its share of "
              "host and network (50700h, from Llama 3's report)");
  addDuration("--checkpoint-time", o.job.checkpointSeconds,
              "Time that a checkpoint stops the training (all devices write "
              "their parts with 0.12 GB/s each, as in Llama 3's report)");
  addDuration("--restart-time", o.job.restartSeconds,
              "Time from a failure to the next step, without lost work (10m)");
}

void finishClusters(CompileOptions &o, const std::vector<std::string> &clusters,
                    const std::vector<double> &prices) {
  if (prices.size() > 1 && prices.size() != clusters.size())
    throw CLI::ValidationError("--price has " + std::to_string(prices.size()) +
                               " values, and --cluster has " +
                               std::to_string(clusters.size()) +
                               "; accepted: one price for all or one for each");
  auto priceOf = [&](size_t cluster) {
    return prices.empty()
               ? std::nullopt
               : std::optional(prices[prices.size() == 1 ? 0 : cluster]);
  };
  o.job.pricePerHour = priceOf(0);
  for (size_t i = 0; i < clusters.size(); ++i) {
    if (std::find(clusters.begin(), clusters.begin() + i, clusters[i]) !=
        clusters.begin() + i)
      throw CLI::ValidationError("--cluster=" + clusters[i] +
                                 " is given twice");
    if (i == 0)
      o.cluster = clusters[i];
    else
      o.otherClusters.push_back({clusters[i], priceOf(i)});
  }
}

void finishJob(const CompileOptions &o) {
  const char *ofReport = !o.otherClusters.empty() ? "--cluster with several"
                         : o.job.tokens > 0       ? "--tokens"
                                                  : nullptr;
  if (ofReport && !writesReport(o))
    throw CLI::ValidationError(std::string(ofReport) +
                               " is for the report; it is accepted with plan, "
                               "report or an export in --emit");
  if (o.job.tokens > 0)
    return;
  const cost::JobTerms defaults;
  const char *ofTokens =
      o.job.pricePerHour        ? "--price"
      : o.deadlineSeconds > 0   ? "--deadline"
      : o.job.checkpointSeconds ? "--checkpoint-time"
      : o.job.deviceFailureSeconds != defaults.deviceFailureSeconds ? "--mtbf"
      : o.job.restartSeconds != defaults.restartSeconds ? "--restart-time"
                                                        : nullptr;
  if (ofTokens)
    throw CLI::ValidationError(std::string(ofTokens) +
                               " needs --tokens, the amount of the whole job, "
                               "such as --tokens=15T");
}

} // namespace dpc
