//===- Score.cpp - Errors of predictions ----------------------------------===//
#include "tools/replay/Score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace dpc::validate {

/// Equal values get the mean of their ranks.
static std::vector<double> ranksOf(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]])
      ++end;
    for (size_t j = i; j < end; ++j)
      ranks[order[j]] = 0.5 * static_cast<double>(i + 1 + end);
    i = end;
  }
  return ranks;
}

double rankCorrelation(const std::vector<std::pair<double, double>> &pairs) {
  std::vector<double> a(pairs.size()), b(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i)
    std::tie(a[i], b[i]) = pairs[i];
  a = ranksOf(a);
  b = ranksOf(b);
  double mean = 0.5 * (static_cast<double>(pairs.size()) + 1);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0.0;
}

/// A user would try this many of the best predictions.
static constexpr size_t kFirst = 3;

static bool findsBest(const std::vector<Prediction> &runs) {
  auto best = std::ranges::min_element(runs, {}, &Prediction::measuredSeconds);
  auto ahead = std::ranges::count_if(runs, [&](const Prediction &run) {
    return run.predictedSeconds < best->predictedSeconds;
  });
  return static_cast<size_t>(ahead) < kFirst;
}

namespace {

struct Sum {
  Score score;
  std::vector<std::pair<double, double>> seconds;
  std::map<std::string, std::vector<Prediction>> sweeps;

  static void add(Errors &errors, double error) {
    error = std::abs(error);
    ++errors.rows;
    errors.mean += error;
    errors.max = std::max(errors.max, error);
  }
  void add(const Prediction &p) {
    if (p.measuredSeconds > 0) {
      add(score.time, p.timeError());
      seconds.emplace_back(p.measuredSeconds, p.predictedSeconds);
      sweeps[p.sweep].push_back(p);
    }
    if (p.measuredMemoryBytes > 0) {
      add(score.memory, p.memoryError());
      add(score.planMemory, p.planMemoryError());
    }
  }
  void addSweep(const std::vector<Prediction> &runs) {
    ++score.sweeps;
    score.bestFound += findsBest(runs);
    std::vector<std::pair<double, double>> pairs;
    pairs.reserve(runs.size());
    for (const Prediction &run : runs)
      pairs.emplace_back(run.measuredSeconds, run.predictedSeconds);
    double rank = rankCorrelation(pairs);
    score.wellRanked += rank >= kGoodRank;
    if (score.worstSweep.empty() || rank < score.worstRank) {
      score.worstRank = rank;
      score.worstSweep = runs.front().id;
    }
  }
  Score finish() {
    for (Errors *errors : {&score.time, &score.memory, &score.planMemory})
      if (errors->rows > 0)
        errors->mean /= static_cast<double>(errors->rows);
    score.rank = rankCorrelation(seconds);
    for (const auto &[key, runs] : sweeps)
      if (runs.size() > kFirst)
        addSweep(runs);
    return score;
  }
};

} // namespace

std::vector<Score> scoresOf(const std::vector<Prediction> &predictions) {
  std::vector<Sum> sums;
  Sum all;
  all.score.source = "overall";
  for (const Prediction &p : predictions) {
    auto found = std::ranges::find(
        sums, p.source, [](const Sum &sum) { return sum.score.source; });
    if (found == sums.end()) {
      sums.emplace_back();
      found = sums.end() - 1;
      found->score.source = p.source;
    }
    found->add(p);
    all.add(p);
  }
  std::vector<Score> scores;
  scores.reserve(sums.size() + 1);
  for (Sum &sum : sums)
    scores.push_back(sum.finish());
  scores.push_back(all.finish());
  return scores;
}

std::vector<cost::MeasuredError>
errorsOf(const std::vector<Prediction> &predictions) {
  std::vector<cost::MeasuredError> errors;
  for (const Prediction &p : predictions) {
    cost::MeasuredError error{p.source, p.situation, {}, {}};
    if (p.measuredSeconds > 0 && p.predictedSeconds > 0)
      error.time = std::log(p.measuredSeconds / p.predictedSeconds);
    if (p.measuredMemoryBytes > 0 && p.memory.total() > 0)
      error.memory = std::log(p.measuredMemoryBytes / p.memory.total());
    errors.push_back(std::move(error));
  }
  return errors;
}

} // namespace dpc::validate
