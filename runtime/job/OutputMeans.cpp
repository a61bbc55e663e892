#include "runtime/job/OutputMeans.h"

#include "runtime/job/RankZero.h"
#include "runtime/job/Samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace dpc {

using namespace rt;

/// The most steps that tell() computes at once, and in the whole run. An
/// output that never depends on labels, such as a balance loss, needs them all.
static constexpr size_t kMostSteps = 4;
static constexpr int64_t kMostTries = 8;

CountedLabels::CountedLabels(const RunOptions &options, const Plan &plan) {
  std::optional<IgnoredLabels> labels = labelsToIgnore(options, plan);
  for (size_t i = 0; labels && i < plan.inputs.size(); ++i)
    // Other ids change all losses.
    if (const Port &input = plan.inputs[i];
        input.name == labels->input && input.use != InputUse::IdsAndLabels &&
        (input.ignored || !options.ignoredLabel.empty())) {
      index = i;
      port = input;
      ignored = static_cast<double>(labels->value);
    }
  if (!index)
    return;
  bool isShifted = port.use == InputUse::ShiftedLabels;
  for (int64_t k = 0; k < numElements(port.globalShape); ++k)
    if (!isShifted || k % port.globalShape.back() != 0)
      read.push_back(k);
}

HostTensor CountedLabels::of(const std::vector<const void *> &arrays) const {
  HostTensor labels = HostTensor::zeros(port.dtype, port.globalShape);
  std::memcpy(labels.data.data(), arrays[*index], labels.data.size());
  return labels;
}

std::vector<int64_t> CountedLabels::counted(const HostTensor &labels) const {
  std::vector<int64_t> found = read;
  std::erase_if(found, [&](int64_t k) { return labels.at(k) == ignored; });
  return found;
}

HostTensor CountedLabels::only(const HostTensor &labels,
                               const std::vector<int64_t> &positions) const {
  HostTensor made = labels;
  for (int64_t k = 0; k < made.elements(); ++k)
    if (!std::binary_search(positions.begin(), positions.end(), k))
      made.set(k, ignored);
  return made;
}

HostTensor CountedLabels::varied(HostTensor labels) const {
  auto count = static_cast<int64_t>(read.size());
  int64_t classes = this->classes();
  int64_t stride = std::max<int64_t>(classes / std::max<int64_t>(count, 1), 1);
  for (int64_t i = 0; i < count && classes > 1; ++i) {
    if (i % 2 == 0 && labels.at(read[i]) != ignored)
      continue;
    int64_t label = i / 2 * stride % classes;
    if (static_cast<double>(port.first + label) == ignored)
      label = (label + 1) % classes;
    labels.set(read[i], static_cast<double>(port.first + label));
  }
  return labels;
}

OutputMeans::OutputMeans(const RunOptions &options, const Plan &plan,
                         const std::vector<StepOutput> &others,
                         std::string remedy)
    : plan(plan), remedy(std::move(remedy)), labels(options, plan),
      outputs(1 + others.size()), triesLeft(kMostTries) {
  for (size_t i = 0; i < others.size(); ++i)
    if (others[i].isPerSample)
      outputs[1 + i].over = Over::Samples;
}

void OutputMeans::restart() {
  for (Output &output : outputs)
    output.bySamples = output.byLabels = WeightedMean();
  hasIgnored = false;
  mixed.clear();
  full.clear();
  few.clear();
}

size_t OutputMeans::look(int64_t step,
                         const std::vector<const void *> &arrays) {
  if (!labels.exist())
    return 0;
  size_t counted = labels.counted(labels.of(arrays)).size();
  bool isMixed = counted < labels.positions().size();
  hasIgnored |= isMixed;
  bool isUsable = counted >= 2 || labels.hasClasses() || labels.isSingle();
  std::vector<int64_t> &steps = counted < 2 ? few : isMixed ? mixed : full;
  if (isUsable && steps.size() < kMostSteps)
    steps.push_back(step);
  return counted;
}

/// The number of an output: of the loss, then of the others.
static double numberOf(const StepNumbers &numbers, size_t output) {
  return output == 0 ? numbers.loss : numbers.others[output - 1];
}

void OutputMeans::add(int64_t step, const std::vector<const void *> &arrays,
                      int64_t samples, const StepNumbers &numbers) {
  auto counted = static_cast<int64_t>(look(step, arrays));
  for (size_t i = 0; i < outputs.size(); ++i) {
    double number = numberOf(numbers, i);
    outputs[i].bySamples.add(number, samples);
    outputs[i].byLabels.add(number, counted);
  }
}

/// Without ignored labels, both means are the same, if the loss is a mean.
bool OutputMeans::areKnown() const {
  auto isKnown = [](const Output &output) {
    return output.over != Over::Unknown;
  };
  return hasIgnored ? std::all_of(outputs.begin(), outputs.end(), isKnown)
                    : remedy.empty() || isKnown(outputs.front());
}

std::vector<int64_t> OutputMeans::stepsToTell() const {
  if (areKnown())
    return {};
  std::vector<int64_t> steps = mixed;
  steps.insert(steps.end(), full.begin(), full.end());
  steps.insert(steps.end(), few.begin(), few.end());
  steps.resize(
      std::min({steps.size(), kMostSteps,
                static_cast<size_t>(std::max<int64_t>(triesLeft, 0))}));
  return steps;
}

Status OutputMeans::tell(const std::vector<int64_t> &steps,
                         const LoadStep &load, const NumbersOfStep &numbersOf) {
  for (int64_t step : steps) {
    if (areKnown())
      break;
    --triesLeft;
    DPC_ASSIGN(std::vector<const void *> arrays, load(step));
    DPC_TRY(tellBy(arrays, [&](const std::vector<const void *> &tried) {
      return numbersOf(step, tried);
    }));
  }
  return Status::success();
}

Status OutputMeans::tell(Session &session, const LoadStep &load,
                         const NumbersOfStep &numbersOf) {
  DPC_ASSIGN(std::vector<int64_t> steps,
             listOfRankZero(session, stepsToTell()));
  return tell(steps, load, numbersOf);
}

/// Returns whether the numbers of two halves of the labels differ by more than
/// the rounding of sums in another order.
static bool dependsOnLabels(double first, double second) {
  constexpr double kRounding = 0x1p-20;
  return std::abs(first - second) >
         kRounding * std::max(std::abs(first), std::abs(second));
}

/// The numbers of a step with some of its labels.
class LabelParts {
public:
  LabelParts(std::vector<const void *> arrays, const CountedLabels &counted,
             HostTensor labels, const NumbersOf &numbersOf)
      : arrays(std::move(arrays)), counted(counted), labels(std::move(labels)),
        numbersOf(numbersOf), places(counted.counted(this->labels)) {}

  /// The positions of all labels, in ascending order.
  const std::vector<int64_t> &positions() const { return places; }
  Expected<StepNumbers> with(std::vector<int64_t> positions) const {
    std::sort(positions.begin(), positions.end());
    HostTensor made = counted.only(labels, positions);
    std::vector<const void *> inputs = arrays;
    inputs[counted.input()] = made.data.data();
    return numbersOf(inputs);
  }
  /// The same with the labels of samples [begin, end).
  Expected<StepNumbers> withSamples(int64_t begin, int64_t end) const {
    int64_t each = labels.elements() / counted.samples();
    std::vector<int64_t> some = places;
    std::erase_if(
        some, [&](int64_t k) { return k / each < begin || k / each >= end; });
    return with(some);
  }
  std::vector<std::vector<int64_t>> orders() const;

private:
  std::vector<const void *> arrays;
  const CountedLabels &counted;
  HostTensor labels;
  const NumbersOf &numbersOf;
  std::vector<int64_t> places;
};

/// Returns four orders of the positions, whose first halves have other labels
/// than their second halves: as they lie, every second one, every second pair,
/// and by class.
std::vector<std::vector<int64_t>> LabelParts::orders() const {
  std::vector<std::vector<int64_t>> orders{places};
  for (size_t run : {1, 2}) {
    std::vector<int64_t> first, second;
    for (size_t i = 0; i < places.size(); ++i)
      (i / run % 2 == 0 ? first : second).push_back(places[i]);
    first.insert(first.end(), second.begin(), second.end());
    orders.push_back(std::move(first));
  }
  std::vector<int64_t> &byClass = orders.emplace_back(places);
  std::sort(byClass.begin(), byClass.end(), [&](int64_t a, int64_t b) {
    return std::pair(labels.at(a), a) < std::pair(labels.at(b), b);
  });
  return orders;
}

/// Returns whether the loss is a mean over the samples with labels, or a sum of
/// terms of samples. Samples are divided into three groups, a, b and c.
static Expected<bool> isOverSamples(const LabelParts &parts, double all,
                                    int64_t samples, double rounding) {
  if (samples < 2)
    return true;
  int64_t a = std::max<int64_t>(samples / 3, 1);
  int64_t b = samples > 2 ? samples - a : a;
  DPC_ASSIGN(StepNumbers ofA, parts.withSamples(0, a));
  DPC_ASSIGN(StepNumbers ofBc, parts.withSamples(a, samples));
  double share = static_cast<double>(a) / static_cast<double>(samples);
  if (isMeanOf(all, share, ofA.loss, ofBc.loss, rounding))
    return true;
  if (samples == 2)
    return isMeanOf(all, 0.5, 2 * ofA.loss, 2 * ofBc.loss, rounding);
  // A constant term cancels.
  DPC_ASSIGN(StepNumbers ofAb, parts.withSamples(0, b));
  DPC_ASSIGN(StepNumbers ofC, parts.withSamples(b, samples));
  return isMeanOf(0, 0.5, ofA.loss + ofBc.loss, -(ofAb.loss + ofC.loss),
                  rounding);
}

Status OutputMeans::tellBy(const std::vector<const void *> &arrays,
                           const NumbersOf &numbersOf) {
  HostTensor own = labels.of(arrays);
  if (labels.isSingle())
    return tellByNone(LabelParts(arrays, labels, own, numbersOf));
  // A model may give some classes no probability.
  for (const HostTensor &tried : {labels.varied(own), own}) {
    LabelParts parts(arrays, labels, tried, numbersOf);
    if (parts.positions().size() < 2)
      continue;
    DPC_ASSIGN(StepNumbers all, parts.with(parts.positions()));
    if (std::isfinite(all.loss))
      return tellByParts(parts, all);
  }
  return Status::success();
}

Status OutputMeans::tellByNone(const LabelParts &parts) {
  DPC_ASSIGN(StepNumbers none, parts.with({}));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (Over &over = outputs[i].over; over == Over::Unknown)
      over = std::isnan(numberOf(none, i)) ? Over::Labels : Over::Samples;
  return Status::success();
}

Status OutputMeans::tellByParts(const LabelParts &parts,
                                const StepNumbers &all) {
  size_t count = parts.positions().size(), half = count / 2;
  double share = static_cast<double>(half) / static_cast<double>(count);
  double rounding = roundingOf(plan, static_cast<int64_t>(count));
  std::vector<bool> areMeans(outputs.size(), true);
  std::vector<bool> depend(outputs.size(), false);
  for (const std::vector<int64_t> &order : parts.orders()) {
    auto middle = order.begin() + static_cast<int64_t>(half);
    DPC_ASSIGN(StepNumbers first, parts.with({order.begin(), middle}));
    DPC_ASSIGN(StepNumbers second, parts.with({middle, order.end()}));
    for (size_t i = 0; i < outputs.size(); ++i) {
      double one = numberOf(first, i), other = numberOf(second, i);
      areMeans[i] = areMeans[i] &&
                    isMeanOf(numberOf(all, i), share, one, other, rounding);
      depend[i] = depend[i] || dependsOnLabels(one, other);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (Over &over = outputs[i].over;
        over == Over::Unknown && std::isfinite(numberOf(all, i)))
      over = !areMeans[i] ? Over::Samples
             : depend[i]  ? Over::Labels
                          : Over::Unknown;
  if (areMeans[0] || remedy.empty())
    return Status::success();
  DPC_ASSIGN(bool overSamples,
             isOverSamples(parts, all.loss, labels.samples(), rounding));
  return overSamples
             ? Status::success()
             : Status::invalid(
                   "the loss is a mean neither over the labels of '",
                   plan.inputs[labels.input()].name,
                   "' nor over samples (it may weigh classes), so that the "
                   "losses of steps with different numbers of labels have no "
                   "mean; ",
                   remedy);
}

/// Returns the inputs with `half` samples from `from` on also from `to` on.
static std::vector<HostTensor>
withHalfTwice(const Plan &plan, const std::vector<const void *> &arrays,
              int64_t half, int64_t from, int64_t to) {
  std::vector<HostTensor> made;
  made.reserve(plan.inputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Port &input = plan.inputs[i];
    HostTensor &tensor =
        made.emplace_back(HostTensor::zeros(input.dtype, input.globalShape));
    std::memcpy(tensor.data.data(), arrays[i], tensor.data.size());
    size_t sample = tensor.data.size() / input.globalShape.front();
    std::memcpy(tensor.data.data() + to * sample,
                tensor.data.data() + from * sample, half * sample);
  }
  return made;
}

Expected<std::vector<bool>>
OutputMeans::dependOnSteps(const std::vector<const void *> &arrays,
                           const NumbersOf &numbersOf) const {
  const int64_t samples = plan.inputs.front().globalShape.front();
  const int64_t half = samples / 2;
  DPC_ASSIGN(StepNumbers all, numbersOf(arrays));
  std::array<StepNumbers, 2> parts;      // (a, a, c) and (b, b, c)
  std::array<double, 2> counts = {1, 1}; // of labels
  for (size_t part : {0, 1}) {
    std::vector<HostTensor> made = withHalfTwice(
        plan, arrays, half, part == 0 ? 0 : half, part == 0 ? half : 0);
    std::vector<const void *> inputs;
    inputs.reserve(made.size());
    for (const HostTensor &tensor : made)
      inputs.push_back(tensor.data.data());
    DPC_ASSIGN(parts[part], numbersOf(inputs));
    if (labels.exist())
      counts[part] =
          static_cast<double>(labels.counted(labels.of(inputs)).size());
  }
  double rounding = roundingOf(plan, samples);
  std::vector<bool> depend;
  for (size_t i = 0; i < outputs.size(); ++i) {
    double whole = numberOf(all, i), first = numberOf(parts[0], i),
           second = numberOf(parts[1], i);
    double share =
        isOverLabels(outputs[i]) ? counts[0] / (counts[0] + counts[1]) : 0.5;
    depend.push_back(std::isfinite(whole + first + second) &&
                     !isMeanOf(whole, share, first, second, rounding));
  }
  return depend;
}

} // namespace dpc
