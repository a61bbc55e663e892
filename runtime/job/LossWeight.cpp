#include "runtime/job/LossWeight.h"

#include "runtime/data/Dataset.h"
#include "runtime/job/Samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace dpc {

using namespace rt;

LossWeight::LossWeight(const RunOptions &options, const Plan &plan)
    : plan(plan) {
  std::optional<IgnoredLabels> labels = labelsToIgnore(options, plan);
  for (size_t i = 0; labels && i < plan.inputs.size(); ++i)
    // Other ids change all losses.
    if (const Port &input = plan.inputs[i];
        input.name == labels->input && input.use != InputUse::IdsAndLabels &&
        (input.ignored || !options.ignoredLabel.empty())) {
      index = i;
      ignored = labels->value;
    }
}

const Port &LossWeight::port() const { return plan.inputs[*index]; }

static HostTensor labelsOf(const Port &port, const void *array) {
  HostTensor labels = HostTensor::zeros(port.dtype, port.globalShape);
  std::memcpy(labels.data.data(), array, labels.data.size());
  return labels;
}

std::vector<int64_t> LossWeight::positions() const {
  bool isShifted = port().use == InputUse::ShiftedLabels;
  int64_t each = isShifted ? port().globalShape.back() : 0;
  std::vector<int64_t> found;
  for (int64_t k = 0; k < numElements(port().globalShape); ++k)
    if (!isShifted || k % each != 0)
      found.push_back(k);
  return found;
}

std::vector<int64_t> LossWeight::counted(const HostTensor &labels) const {
  std::vector<int64_t> found = positions();
  std::erase_if(found, [&](int64_t k) {
    return labels.at(k) == static_cast<double>(ignored);
  });
  return found;
}

bool LossWeight::canTell(const std::vector<const void *> &arrays) const {
  if (!index)
    return false;
  size_t labels = counted(labelsOf(port(), arrays[*index])).size();
  return labels >= 2 && labels < positions().size();
}

/// Gives every position a label. Every second one is a class of the whole
/// range, so that a loss that weighs classes sees different ones.
HostTensor LossWeight::varied(const HostTensor &own) const {
  HostTensor labels = own;
  std::vector<int64_t> all = positions();
  auto count = static_cast<int64_t>(all.size());
  int64_t classes = port().limit - port().first;
  int64_t stride = std::max<int64_t>(classes / std::max<int64_t>(count, 1), 1);
  for (int64_t i = 0; i < count && classes > 1; ++i) {
    if (i % 2 == 0 && own.at(all[i]) != static_cast<double>(ignored))
      continue;
    int64_t value = port().first + i / 2 * stride % classes;
    if (value == ignored)
      value = port().first + (value - port().first + 1) % classes;
    labels.set(all[i], static_cast<double>(value));
  }
  return labels;
}

namespace {

/// Computes the loss with some of the labels of a step.
class LossOfPart {
public:
  LossOfPart(std::vector<const void *> arrays, size_t index, HostTensor labels,
             int64_t ignored, const NumbersOf &numbersOf)
      : arrays(std::move(arrays)), index(index), labels(std::move(labels)),
        ignored(static_cast<double>(ignored)), numbersOf(numbersOf) {}

  /// Labels at positions for which `has` is false are ignored.
  Expected<double> operator()(const std::function<bool(int64_t)> &has) const {
    HostTensor made = labels;
    for (int64_t k = 0; k < made.elements(); ++k)
      if (!has(k))
        made.set(k, ignored);
    std::vector<const void *> inputs = arrays;
    inputs[index] = made.data.data();
    DPC_ASSIGN(StepNumbers numbers, numbersOf(inputs));
    return numbers.loss;
  }

private:
  std::vector<const void *> arrays;
  size_t index;
  HostTensor labels;
  double ignored;
  const NumbersOf &numbersOf;
};

} // namespace

/// Returns four orders of `positions`, whose first halves have other labels
/// than their second halves: as they lie, every second one, every second pair,
/// and by class.
static std::vector<std::vector<int64_t>>
ordersOf(const std::vector<int64_t> &positions, const HostTensor &labels) {
  std::vector<std::vector<int64_t>> orders{positions};
  for (size_t run : {1, 2}) {
    std::vector<int64_t> first, second;
    for (size_t i = 0; i < positions.size(); ++i)
      (i / run % 2 == 0 ? first : second).push_back(positions[i]);
    first.insert(first.end(), second.begin(), second.end());
    orders.push_back(std::move(first));
  }
  std::vector<int64_t> &byClass = orders.emplace_back(positions);
  std::sort(byClass.begin(), byClass.end(), [&](int64_t a, int64_t b) {
    return std::pair(labels.at(a), a) < std::pair(labels.at(b), b);
  });
  return orders;
}

/// Returns whether the loss is the mean over the labels at `positions`, by the
/// first and the second halves of several orders.
static Expected<bool> isOverLabels(const LossOfPart &lossOf, double all,
                                   const std::vector<int64_t> &positions,
                                   const HostTensor &labels, double rounding) {
  for (const std::vector<int64_t> &order : ordersOf(positions, labels)) {
    auto half = static_cast<int64_t>(order.size() / 2);
    std::vector<int64_t> first(order.begin(), order.begin() + half);
    std::sort(first.begin(), first.end());
    auto isFirst = [&](int64_t k) {
      return std::binary_search(first.begin(), first.end(), k);
    };
    auto isSecond = [&](int64_t k) {
      return !isFirst(k) &&
             std::binary_search(positions.begin(), positions.end(), k);
    };
    DPC_ASSIGN(double part, lossOf(isFirst));
    DPC_ASSIGN(double rest, lossOf(isSecond));
    double share =
        static_cast<double>(half) / static_cast<double>(positions.size());
    if (!isMeanOf(all, share, part, rest, rounding))
      return false;
  }
  return true;
}

/// Returns whether the loss is a mean over the samples with labels, or a sum of
/// terms of samples. Samples are divided into three groups, a, b and c.
static Expected<bool> isOverSamples(const LossOfPart &lossOf, double all,
                                    int64_t samples, int64_t each,
                                    double rounding) {
  if (samples < 2)
    return true;
  auto lossIn = [&](int64_t begin, int64_t end) {
    return lossOf(
        [=](int64_t k) { return k / each >= begin && k / each < end; });
  };
  int64_t a = std::max<int64_t>(samples / 3, 1);
  int64_t b = samples > 2 ? samples - a : a;
  DPC_ASSIGN(double lossA, lossIn(0, a));
  DPC_ASSIGN(double lossBc, lossIn(a, samples));
  double share = static_cast<double>(a) / static_cast<double>(samples);
  if (isMeanOf(all, share, lossA, lossBc, rounding))
    return true;
  if (samples == 2)
    return isMeanOf(all, 0.5, 2 * lossA, 2 * lossBc, rounding);
  // A constant term cancels.
  DPC_ASSIGN(double lossAb, lossIn(0, b));
  DPC_ASSIGN(double lossC, lossIn(b, samples));
  return isMeanOf(0, 0.5, lossA + lossBc, -(lossAb + lossC), rounding);
}

Status LossWeight::tell(const std::vector<const void *> &arrays,
                        const NumbersOf &numbersOf, const std::string &remedy) {
  HostTensor own = labelsOf(port(), arrays[*index]);
  int64_t samples = port().globalShape.front();
  int64_t each = own.elements() / std::max<int64_t>(samples, 1);
  // A model may give some classes no probability.
  for (const HostTensor &labels : {varied(own), own}) {
    std::vector<int64_t> places = counted(labels);
    LossOfPart lossOf(arrays, *index, labels, ignored, numbersOf);
    DPC_ASSIGN(double all, lossOf([](int64_t) { return true; }));
    if (!std::isfinite(all))
      continue;
    double rounding = roundingOf(plan, static_cast<int64_t>(places.size()));
    DPC_ASSIGN(overLabels, isOverLabels(lossOf, all, places, labels, rounding));
    if (overLabels)
      return Status::success();
    DPC_ASSIGN(bool overSamples,
               isOverSamples(lossOf, all, samples, each, rounding));
    if (overSamples || remedy.empty())
      return Status::success();
    return Status::invalid(
        "the loss is a mean neither over the labels other than ", ignored,
        " in '", port().name,
        "' nor over samples (it may weigh classes), so that the losses of "
        "steps with different numbers of labels have no mean; ",
        remedy);
  }
  return Status::success();
}

int64_t LossWeight::of(const std::vector<const void *> &arrays,
                       int64_t samples) const {
  return overLabels ? static_cast<int64_t>(
                          counted(labelsOf(port(), arrays[*index])).size())
                    : samples;
}

} // namespace dpc
