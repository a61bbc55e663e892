#include "tools/driver/LossMeasurement.h"

#include "runtime/facts/IndexCheck.h"

#include <algorithm>
#include <cmath>

namespace dpc {

void LossMeasurement::measure() {
  measureMean();
  measureWeights();
  findTargets();
  measureZeros();
  measureSign();
}

/// Returns the loss of a run, divided by the sum of the rows' losses, or NaN.
double LossMeasurement::factorOf(size_t run) const {
  const NamedTensors &results = experiment.result(run);
  const rt::HostTensor &rows = results.at(resultName("losses", 0));
  double sum = 0;
  for (int64_t i = 0; i < rows.elements(); ++i)
    sum += rows.at(i);
  const double factor = results.at("loss").at(0) / sum;
  return std::isfinite(factor) ? factor : std::nan("");
}

/// Compares the loss with those of its rows, for two draws of labels (runs 0
/// and 1) and with ignored labels (run 2).
void LossMeasurement::measureMean() {
  constexpr double kEqual = 1e-4;
  if (experiment.comparisons() != 1 || experiment.rows().empty() ||
      !experiment.rows().front().label)
    return;
  const rt::Port &port = ports[experiment.rows().front().label->input];
  if (!rt::isIndex(port))
    return;
  std::vector<NamedTensors> runs(3, experiment.start());
  runs[1][port.name] = Experiment::random(port, 1);
  rt::HostTensor &few = runs[2][port.name];
  for (int64_t k = 0; port.ignored && 2 * k < few.elements(); ++k)
    few.set(k, static_cast<double>(*port.ignored));
  if (!experiment.run(runs))
    return;
  auto isNear = [](double a, double b) { return std::abs(a / b - 1) < kEqual; };
  const double all = factorOf(0);
  if (!isNear(factorOf(1), all))
    return;
  const bool isWhole =
      isNear(all * static_cast<double>(experiment.rows().size()), 1);
  const bool isEqual = isNear(factorOf(2), all);
  rt::Dependence &found = dependences.inputs[port.name];
  // A sum has no number of labels.
  found.countsIgnored = port.ignored && all < 1 - kEqual && isEqual;
  found.isMean = isWhole && (!port.ignored || !isEqual);
}

/// Returns the losses of the rows of the only comparison: those of a cross
/// entropy, or else the squared errors and, as another choice, the absolute
/// ones.
std::vector<std::vector<double>> LossMeasurement::rowLosses(size_t run) const {
  const NamedTensors &results = experiment.result(run);
  const rt::HostTensor &scores = results.at(resultName("scores", 0)),
                       &labels = results.at(resultName("labels", 0));
  auto found = results.find(resultName("losses", 0));
  std::vector<std::vector<double>> losses(found == results.end() ? 2 : 1);
  for (int64_t i = 0; losses.size() == 1 && i < found->second.elements(); ++i)
    losses[0].push_back(found->second.at(i));
  for (int64_t i = 0; losses.size() == 2 && i < labels.elements(); ++i) {
    const double error = scores.at(i) - labels.at(i);
    losses[0].push_back(error * error);
    losses[1].push_back(std::abs(error));
  }
  return losses;
}

/// Whether the loss of a run is the sum of the losses of the first `counted`
/// rows, divided by the number of all rows of the small model, or by that of
/// the whole one, which has `times` as many.
bool LossMeasurement::dividesByAll(size_t run, int64_t counted,
                                   double times) const {
  constexpr double kEqual = 1e-4;
  const double loss = experiment.result(run).at("loss").at(0);
  return llvm::any_of(rowLosses(run), [&](const std::vector<double> &rows) {
    const auto count = static_cast<double>(rows.size());
    double sum = 0;
    for (int64_t i = 0; i < counted; ++i)
      sum += rows[i];
    const double share = loss * count / sum;
    return sum != 0 && (std::abs(share - 1) < kEqual ||
                        std::abs(share * times - 1) < kEqual);
  });
}

/// Sets each input that may be a mask of the loss to 1 (run 0), and about the
/// second half of it to 0 (run 1).
void LossMeasurement::measureWeights() {
  if (experiment.comparisons() != 1 || experiment.rows().empty() ||
      !experiment.rows().front().label)
    return;
  const rt::Port &target = ports[experiment.rows().front().label->input];
  const double times =
      static_cast<double>(rt::numElements(shapes.lookup(target.name))) /
      static_cast<double>(rt::numElements(target.globalShape));
  for (const rt::Port &port : ports) {
    const auto rows = static_cast<int64_t>(experiment.rows().size());
    const int64_t count = rt::numElements(port.globalShape);
    if (rt::isIndex(port) || port.use != rt::InputUse::Data || count < 2 ||
        rows % count != 0 || isTarget(port))
      continue;
    std::vector<NamedTensors> runs(2, experiment.start());
    Experiment::fill(runs[0][port.name], 1);
    Experiment::fill(runs[1][port.name], 1);
    const int64_t kept = (count + 1) / 2;
    for (int64_t k = kept; k < count; ++k)
      runs[1][port.name].set(k, 0);
    if (!experiment.run(runs) || !experiment.changed(0, 1).empty())
      continue;
    rt::Dependence &found = dependences.inputs[port.name];
    found.weighsLoss = experiment.result(0).at("loss").at(0) !=
                       experiment.result(1).at("loss").at(0);
    found.scalesLoss = dividesByAll(0, rows, times) &&
                       dividesByAll(1, rows / count * kept, times);
  }
}

/// Whether a row of the comparisons has its label in the input.
bool LossMeasurement::isTarget(const rt::Port &port) const {
  return llvm::any_of(experiment.rows(), [&](const Row &row) {
    return row.label && &ports[row.label->input] == &port;
  });
}

void LossMeasurement::measureSign() {
  constexpr int kRuns = 6; // a few may be negative by chance
  std::vector<NamedTensors> runs(kRuns, experiment.start());
  for (int i = 0; i < kRuns; ++i)
    for (const rt::Port &port : ports) {
      auto known = dependences.inputs.find(port.name);
      if (known != dependences.inputs.end() && known->second.weighsLoss)
        Experiment::fill(runs[i][port.name], 1);
      else if (known == dependences.inputs.end() || !known->second.hidden)
        runs[i][port.name] = Experiment::random(port, i);
    }
  if (!experiment.run(runs))
    return;
  for (int i = 0; i < kRuns; ++i)
    if (!(experiment.result(i).at("loss").at(0) < 0))
      return;
  dependences.mistakes.emplace_back(
      "the loss is negative for random inputs: has it the wrong sign, or does "
      "a likelihood lack its logarithm?");
}

/// Whether `loss`, the sum or the mean of `count` equal losses, is that of a
/// margin of 0: 1 for hinge and exponential losses, log(2) for logistic ones. A
/// mean may divide by the number of all losses of the whole model, which are
/// `times` as many.
static bool isLossOfNoMargin(double loss, double count, double times) {
  constexpr double kEqual = 1e-5;
  for (double each : {1.0, std::log(2.0)})
    for (double all : {each, each * count, each / times})
      if (std::abs(loss / all - 1) < kEqual)
        return true;
  return false;
}

/// Sets each target to 0 (runs 0 and 1) and to 1 (runs 2 and 3), with two draws
/// of the other inputs.
void LossMeasurement::measureZeros() {
  for (const rt::Port &port : ports) {
    if (!isTarget(port) || !rt::isFloat(port.dtype))
      continue;
    std::vector<NamedTensors> runs(4, experiment.start());
    for (size_t i = 0; i < runs.size(); ++i) {
      for (const rt::Port &other : ports)
        if (!rt::isIndex(other))
          runs[i][other.name] = Experiment::random(other, i % 2);
      Experiment::fill(runs[i][port.name], i < 2 ? 0 : 1);
    }
    if (!experiment.run(runs))
      continue;
    auto loss = [&](size_t run) {
      return experiment.result(run).at("loss").at(0);
    };
    const auto count = static_cast<double>(rt::numElements(port.globalShape));
    const auto whole =
        static_cast<double>(rt::numElements(shapes.lookup(port.name)));
    dependences.inputs[port.name].ignoresZero =
        loss(0) == loss(1) && loss(2) != loss(3) &&
        isLossOfNoMargin(loss(0), count, whole / count);
  }
}

void LossMeasurement::findTargets() {
  for (const rt::Port &port : ports)
    if (isTarget(port))
      dependences.inputs[port.name].isTarget = true;
}

} // namespace dpc
