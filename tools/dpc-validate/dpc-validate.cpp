//===- dpc-validate.cpp - The cost model against measured runs ------------===//
#include "tools/cli/CommandLine.h"
#include "tools/replay/Replay.h"
#include "tools/replay/Score.h"

#include "llvm/Support/GlobPattern.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

using namespace dpc;
using namespace dpc::validate;

namespace {

/// The largest number of patterns that the braces of a glob may produce.
constexpr size_t kMaxPatterns = 64;

/// Only two, because each thread keeps a program of up to 400 MiB.
constexpr int kThreads = 2;

struct Options {
  std::vector<std::string> files;
  std::string plot, errors, rows = "*";
  int64_t every = 1;
  bool details = false, json = false;
};

struct Outcome {
  std::vector<Prediction> predictions;
  std::map<std::string, std::vector<std::string>> skipped; ///< Ids by reason.
};

int fail(const std::string &message) {
  return dpc::fail("dpc-validate", message);
}

/// Returns the runs of rows whose id matches `glob`. For each source, returns
/// only the first of every `every` runs.
std::vector<PublishedRun> chooseRuns(const std::vector<Row> &rows,
                                     const llvm::GlobPattern &glob,
                                     int64_t every, Outcome &outcome) {
  std::vector<PublishedRun> runs;
  std::map<std::string, int64_t> seen;
  for (const Row &row : rows) {
    if (!glob.match(row.at("id")))
      continue;
    Expected<PublishedRun> run = runOf(row);
    if (!run)
      outcome.skipped[run.message()].push_back(row.at("id"));
    else if (seen[run->source]++ % every == 0)
      runs.push_back(std::move(*run));
  }
  return runs;
}

class Progress {
public:
  explicit Progress(size_t rows) : rows(rows), shows(isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (shows)
      std::fprintf(stderr, "\r%30s\r", "");
  }
  void next() {
    size_t row = ++done;
    if (shows)
      std::fprintf(stderr, "\rrow %zu of %zu", row, rows);
  }

private:
  size_t rows;
  std::atomic<size_t> done = 0;
  bool shows;
};

/// Groups of runs with the same program, in the order of their first rows.
std::vector<std::vector<size_t>>
groupRuns(const std::vector<PublishedRun> &runs) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto [place, isNew] =
        places.try_emplace(runs[i].programKey(), groups.size());
    if (isNew)
      groups.emplace_back();
    groups[place->second].push_back(i);
  }
  return groups;
}

/// Predicts a run. If its memory was measured, also predicts the memory with
/// the buffers of dpc's plan.
Expected<Prediction> predict(Replay &replay, const PublishedRun &run) {
  Expected<cost::Evaluation> evaluation = replay.evaluate(run);
  if (!evaluation)
    return Error{evaluation.message()};
  Prediction prediction = {.id = run.id,
                           .source = run.source,
                           .strategy = cost::stringifyStrategy(run.strategy),
                           .sweep = run.sweepKey(),
                           .measuredSeconds = run.measuredSeconds,
                           .predictedSeconds = evaluation->stepSeconds,
                           .measuredMemoryBytes = run.measuredMemoryBytes,
                           .memory = evaluation->memory,
                           .planMemory = evaluation->memory,
                           .software = run.cluster.software.name,
                           .situation = situationOf(run)};
  if (run.measuredMemoryBytes <= 0 || !run.cluster.software.keepsMemory)
    return prediction;
  Expected<cost::Evaluation> own = replay.evaluate(withOwnMemory(run));
  if (!own)
    return Error{own.message()};
  prediction.planMemory = own->memory;
  return prediction;
}

void replay(const std::vector<PublishedRun> &runs, Outcome &outcome) {
  std::vector<std::vector<size_t>> groups = groupRuns(runs);
  std::vector<std::optional<Expected<Prediction>>> found(runs.size());
  std::atomic<size_t> next = 0;
  Progress progress(runs.size());
  auto work = [&] {
    Replay replay;
    for (size_t group = next++; group < groups.size(); group = next++)
      for (size_t i : groups[group]) {
        progress.next();
        found[i] = predict(replay, runs[i]);
      }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 1; i < kThreads; ++i)
      workers.emplace_back(work);
    work();
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (*found[i])
      outcome.predictions.push_back(std::move(**found[i]));
    else
      outcome.skipped["rejected: " + found[i]->message()].push_back(runs[i].id);
  }
}

void printDetails(const std::vector<Prediction> &predictions) {
  std::printf("%-20s %10s %10s %8s %8s %8s %7s %8s %7s  %s\n", "id", "measured",
              "predicted", "error", "GiB", "pred.", "error", "plan's", "error",
              "strategy");
  for (const Prediction &p : predictions) {
    std::printf("%-20s ", p.id.c_str());
    if (p.measuredSeconds > 0)
      std::printf("%10.4g %10.4g %+7.1f%% ", p.measuredSeconds,
                  p.predictedSeconds, 100 * p.timeError());
    else
      std::printf("%10s %10.4g %8s ", "", p.predictedSeconds, "");
    double gib = 1.0 / (1 << 30);
    if (p.measuredMemoryBytes > 0)
      std::printf("%8.1f %8.1f %+6.1f%% %8.1f %+6.1f%% ",
                  p.measuredMemoryBytes * gib, p.memory.total() * gib,
                  100 * p.memoryError(), p.planMemory.total() * gib,
                  100 * p.planMemoryError());
    else
      std::printf("%8s %8.1f %7s %8s %7s ", "", p.memory.total() * gib, "", "",
                  "");
    std::printf(" %s, %s\n", p.strategy.c_str(), p.software.c_str());
  }
  std::printf("\n");
}

void printSoftware(const std::vector<Prediction> &predictions) {
  std::map<std::string, std::map<std::string, int64_t>> rows;
  for (const Prediction &p : predictions)
    ++rows[p.software][p.source];
  for (const auto &[software, sources] : rows) {
    std::string text;
    for (const auto &[source, count] : sources)
      text +=
          (text.empty() ? "" : ", ") + std::to_string(count) + " of " + source;
    std::printf("%s: %s\n", software.c_str(), text.c_str());
  }
}

void printSweeps(const Score &score) {
  auto ofSweeps = [&](int64_t count) {
    return score.sweeps == 0
               ? ""
               : std::to_string(count) + " of " + std::to_string(score.sweeps);
  };
  std::string worst;
  if (score.sweeps > 0) {
    std::array<char, 8> rank{};
    std::snprintf(rank.data(), rank.size(), "%.2f", score.worstRank);
    worst = rank.data() + (" " + score.worstSweep);
  }
  std::printf("%13s %12s %21s ", ofSweeps(score.bestFound).c_str(),
              ofSweeps(score.wellRanked).c_str(), worst.c_str());
}

/// Returns the first ids only; --json prints all.
std::string listIds(const std::vector<std::string> &ids) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, ids.size()); ++i)
    text += (i > 0 ? ", " : "") + ids[i];
  return ids.size() > kShown ? text + ", ..." : text;
}

/// The sources in a file are few if only some rows were replayed.
void printCoverage(const std::vector<Prediction> &predictions) {
  std::vector<cost::MeasuredError> errors = errorsOf(predictions);
  for (auto [quantity, name] : {std::pair(cost::Quantity::Time, "time"),
                                std::pair(cost::Quantity::Memory, "memory")}) {
    cost::Coverage coverage =
        cost::ErrorDistribution(errors, quantity).leaveSourcesOut();
    if (coverage.rows > 0)
      std::printf("90 %% intervals of %s, without the runs of the same source: "
                  "%.1f %% of %lld rows inside, mean high / low %.2f\n",
                  name, 100 * coverage.share(),
                  static_cast<long long>(coverage.rows), coverage.width);
  }
}

void printScores(const Outcome &outcome, const std::vector<Score> &scores) {
  std::printf("%-14s %5s %11s %6s %11s %13s %12s %21s %12s %11s %9s\n",
              "source", "rows", "mean error", "max", "rank corr.",
              "best in top 3", "sweeps>=0.95", "worst, with row", "memory rows",
              "software's", "plan's");
  for (const Score &score : scores) {
    if (score.source == "overall")
      continue;
    std::printf("%-14s %5lld ", score.source.c_str(),
                static_cast<long long>(score.time.rows));
    if (score.time.rows > 0)
      std::printf("%9.1f %% %4.0f %% %11.3f ", 100 * score.time.mean,
                  100 * score.time.max, score.rank);
    else
      std::printf("%11s %6s %11s ", "", "", "");
    printSweeps(score);
    if (score.memory.rows > 0)
      std::printf("%12lld %9.1f %% %7.1f %%",
                  static_cast<long long>(score.memory.rows),
                  100 * score.memory.mean, 100 * score.planMemory.mean);
    std::printf("\n");
  }
  const Score &all = scores.back();
  std::printf("overall: %lld rows", static_cast<long long>(all.time.rows));
  if (all.time.rows > 0)
    std::printf(", mean %.1f %%", 100 * all.time.mean);
  if (all.memory.rows > 0)
    std::printf("; memory: %lld rows, mean %.1f %% as the software keeps it, "
                "%.1f %% of the plan's own",
                static_cast<long long>(all.memory.rows), 100 * all.memory.mean,
                100 * all.planMemory.mean);
  std::printf("\n");
  printCoverage(outcome.predictions);
  printSoftware(outcome.predictions);
  for (const auto &[why, ids] : outcome.skipped)
    std::printf("skipped %zu: %s (%s)\n", ids.size(), why.c_str(),
                listIds(ids).c_str());
}

nlohmann::ordered_json categoriesOf(const cost::MemoryBreakdown &memory) {
  nlohmann::ordered_json categories;
  for (int i = 0; i < cost::numMemoryCategories; ++i)
    categories[std::string(cost::stringifyMemoryCategory(
        static_cast<cost::MemoryCategory>(i)))] = memory.bytes[i];
  return categories;
}

nlohmann::ordered_json toJson(const Outcome &outcome,
                              const std::vector<Score> &scores) {
  nlohmann::ordered_json json;
  auto errors = [](const Errors &e) {
    return nlohmann::ordered_json{
        {"rows", e.rows}, {"mean", e.mean}, {"max", e.max}};
  };
  json["sources"] = nlohmann::ordered_json::array();
  for (const Score &score : scores) {
    nlohmann::ordered_json one = {{"source", score.source},
                                  {"time", errors(score.time)},
                                  {"rank_correlation", score.rank},
                                  {"sweeps", score.sweeps},
                                  {"best_in_top_3", score.bestFound},
                                  {"well_ranked_sweeps", score.wellRanked},
                                  {"worst_sweep",
                                   {{"rank_correlation", score.worstRank},
                                    {"first_row", score.worstSweep}}},
                                  {"memory", errors(score.memory)},
                                  {"plan_memory", errors(score.planMemory)}};
    if (score.source == "overall")
      json["overall"] = one;
    else
      json["sources"].push_back(one);
  }
  json["skipped"] = nlohmann::ordered_json::object();
  for (const auto &[why, ids] : outcome.skipped)
    json["skipped"][why] = ids;
  json["rows"] = nlohmann::ordered_json::array();
  for (const Prediction &p : outcome.predictions) {
    nlohmann::ordered_json row = {
        {"id", p.id},
        {"strategy", p.strategy},
        {"software", p.software},
        {"measured_seconds", p.measuredSeconds},
        {"predicted_seconds", p.predictedSeconds},
        {"measured_memory_bytes", p.measuredMemoryBytes},
        {"predicted_memory_bytes", p.memory.total()},
        {"memory_bytes", categoriesOf(p.memory)}};
    if (p.measuredMemoryBytes > 0)
      row["plan_memory_bytes"] = categoriesOf(p.planMemory);
    json["rows"].push_back(std::move(row));
  }
  return json;
}

/// Predicts the rows of a file. Returns "" or a one-line error.
std::string validateFile(const Options &options, const std::string &file,
                         const llvm::GlobPattern &glob, Outcome &outcome) {
  Expected<std::vector<Row>> rows = readTable(file, runColumns());
  if (!rows)
    return rows.message();
  std::vector<PublishedRun> runs =
      chooseRuns(*rows, glob, options.every, outcome);
  replay(runs, outcome);
  return "";
}

/// Writes the errors from which intervals follow.
bool writeErrors(const Options &options, const Outcome &outcome) {
  constexpr size_t kMostOfSource = 40;
  nlohmann::ordered_json json = cost::errorsToJson(
      cost::thinned(errorsOf(outcome.predictions), kMostOfSource));
  std::ofstream file(options.errors);
  file << "{\"version\": " << json["version"]
       << ",\n \"columns\": " << json["columns"] << ",\n \"rows\": [";
  const char *separator = "\n  ";
  for (const auto &row : json["rows"]) {
    file << separator << row;
    separator = ",\n  ";
  }
  file << "\n]}\n";
  file.close();
  return static_cast<bool>(file);
}

int run(const Options &options) {
  llvm::Expected<llvm::GlobPattern> glob =
      llvm::GlobPattern::create(options.rows, kMaxPatterns);
  if (!glob) {
    llvm::consumeError(glob.takeError());
    return fail("--rows=" + options.rows + ": not a valid glob");
  }
  Outcome outcome;
  for (const std::string &file : options.files)
    if (std::string error = validateFile(options, file, *glob, outcome);
        !error.empty())
      return fail(error);
  if (outcome.predictions.empty() && outcome.skipped.empty())
    return fail(options.files.back() + ": no row has an id like '" +
                options.rows + "'");
  std::vector<Score> scores = scoresOf(outcome.predictions);
  if (options.json) {
    std::cout << toJson(outcome, scores).dump(2) << "\n";
  } else {
    if (options.details)
      printDetails(outcome.predictions);
    printScores(outcome, scores);
  }
  if (!options.errors.empty() && !writeErrors(options, outcome))
    return fail(options.errors + ": cannot be written");
  if (options.plot.empty())
    return 0;
  std::ofstream plot(options.plot);
  plot << scatterPlot(outcome.predictions);
  plot.close();
  return plot ? 0 : fail(options.plot + ": cannot be written");
}

} // namespace

int main(int argc, char **argv) {
  Options o;
  CLI::App app("Compares predictions with measured training runs: builds the "
               "model of each row from its dims and evaluates it with the "
               "row's strategy on its cluster.");
  app.footer("The file is a CSV with the columns of "
             "bench/data/published-runs.csv; rows whose notes do not begin "
             "with spec=full are skipped and counted.");
  app.name("dpc-validate");
  app.add_option("FILE", o.files, "Measured runs (.csv), one or several");
  app.add_option("--rows", o.rows,
                 "Only rows whose id matches this glob, such as {bloom,mpt}-*");
  app.add_option("--every", o.every, "Only every Nth row of each source")
      ->check(aboveZero());
  app.add_option("--plot", o.plot, "Write a scatter plot (SVG) here");
  app.add_option("--errors", o.errors,
                 "Write the errors, at most 40 of each source, from which "
                 "dpc-opt's intervals follow (cost-model/measured/runs.json)");
  app.add_flag("--details", o.details, "Print a line per row");
  app.add_flag("--json", o.json, "Print JSON instead of tables");
  return dpc::runProgram(app, argc, argv, [&] {
    if (o.files.empty())
      throw CLI::RequiredError("FILE");
    if (!o.errors.empty() && (o.rows != "*" || o.every > 1))
      throw CLI::ValidationError(
          "--errors needs all rows; it is accepted without --rows and --every");
    return run(o);
  });
}
