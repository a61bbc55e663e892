//===- OutputMeans.h - the means of outputs over many steps -----*- C++ -*-===//
#pragma once

#include "runtime/job/MaskCheck.h"
#include "runtime/job/RunOptions.h"

#include <optional>

namespace dpc {

/// The labels that the loss of a plan counts: those of the input that the loss
/// ignores by itself, or those of --ignored-label.
class CountedLabels {
public:
  CountedLabels(const RunOptions &options, const rt::Plan &plan);

  bool exist() const { return index.has_value(); }
  size_t input() const { return *index; }
  int64_t samples() const { return port.globalShape.front(); }
  rt::HostTensor of(const std::vector<const void *> &arrays) const;
  /// Returns the positions whose labels the loss reads, in ascending order. A
  /// loss that shifts its labels does not read the first one of a row.
  const std::vector<int64_t> &positions() const { return read; }
  /// Whether a step has one label at most.
  bool isSingle() const { return read.size() < 2; }
  /// Whether varied() has several labels to choose from.
  bool hasClasses() const { return classes() > 1; }
  /// Returns the positions of the labels that count.
  std::vector<int64_t> counted(const rt::HostTensor &labels) const;
  /// Returns `labels` with only those at `positions`, which are sorted.
  rt::HostTensor only(const rt::HostTensor &labels,
                      const std::vector<int64_t> &positions) const;
  /// Gives every position a label. Every second one is a class of the whole
  /// range, so that a loss that weighs classes sees different ones.
  rt::HostTensor varied(rt::HostTensor labels) const;

private:
  int64_t classes() const { return port.limit - port.first; }

  std::optional<size_t> index; ///< of the input with the labels
  rt::Port port;
  double ignored = 0;
  std::vector<int64_t> read;
};

/// A mean of numbers. A number without weight, which may be NaN, does not
/// enter it.
class WeightedMean {
public:
  void add(double number, int64_t weight) {
    if (weight > 0)
      sum += number * static_cast<double>(weight);
    weights += weight;
  }
  int64_t weight() const { return weights; }
  /// NaN without any weight.
  double value() const { return sum / static_cast<double>(weights); }

private:
  double sum = 0;
  int64_t weights = 0;
};

/// The means of the loss and of other outputs over the steps of an evaluation.
/// A step weighs as many labels as it has if the output is a mean over labels,
/// otherwise as many samples. Only then the mean does not depend on how samples
/// are divided into steps.
///
/// Both means are kept of every output, so that one pass over the data
/// suffices: tell(), before or after it, finds out which of the two is right.
class OutputMeans {
public:
  using LoadStep =
      std::function<Expected<std::vector<const void *>>(int64_t step)>;
  using NumbersOfStep = std::function<Expected<StepNumbers>(
      int64_t step, const std::vector<const void *> &arrays)>;

  /// `others` are the outputs whose numbers StepNumbers::others has. `plan`
  /// must outlive this. `remedy` ends the message about a loss without a mean.
  /// Without it, there is only one step, whose loss is the mean.
  OutputMeans(const RunOptions &options, const rt::Plan &plan,
              const std::vector<StepOutput> &others, std::string remedy);

  /// Forgets all steps, but not what outputs are means over.
  void restart();
  /// Adds a step of which `samples` samples count.
  void add(int64_t step, const std::vector<const void *> &arrays,
           int64_t samples, const StepNumbers &numbers);
  /// Returns the steps to tell() by, a few at most.
  std::vector<int64_t> stepsToTell() const;
  /// Notes whether tell() can use a step, and returns how many of its labels
  /// count. add() does so as well.
  size_t look(int64_t step, const std::vector<const void *> &arrays);
  /// Computes each of `steps` with halves of its labels, in several divisions,
  /// until all outputs are known. Labels count for an output from now on if it
  /// depends on them and is always the mean of its halves, weighted by their
  /// numbers of labels. Refuses a loss that is a mean over samples neither: a
  /// mean that weighs classes has no such weight. The numbers must be those of
  /// all processes.
  Status tell(const std::vector<int64_t> &steps, const LoadStep &load,
              const NumbersOfStep &numbersOf);
  /// The same by stepsToTell() of rank 0, in all processes.
  Status tell(rt::Session &session, const LoadStep &load,
              const NumbersOfStep &numbersOf);

  /// Returns by output, the loss first, whether its mean depends on how samples
  /// are divided into steps, as that of a ratio of sums over a step does. Let
  /// the samples of a step be a, b and c, where a and b have the same size: the
  /// number of (a, b, c) must be the mean of those of (a, a, c) and (b, b, c).
  Expected<std::vector<bool>>
  dependOnSteps(const std::vector<const void *> &arrays,
                const NumbersOf &numbersOf) const;

  const WeightedMean &loss() const { return meanOf(outputs.front()); }
  const WeightedMean &other(size_t i) const { return meanOf(outputs[1 + i]); }
  /// Whether the loss is known to count the label that steps may ignore.
  bool ignoresNoLabel() const {
    return hasIgnored && outputs.front().over == Over::Samples;
  }
  /// "labels" or "samples": the unit of the weight of the loss. Without ignored
  /// labels, both give the same mean, and samples count.
  const char *unit() const {
    return isOverLabels(outputs.front()) ? "labels" : "samples";
  }

private:
  enum class Over { Unknown, Samples, Labels };
  struct Output {
    Over over = Over::Unknown;
    WeightedMean bySamples, byLabels;
  };
  bool isOverLabels(const Output &output) const {
    return hasIgnored && output.over == Over::Labels;
  }
  const WeightedMean &meanOf(const Output &output) const {
    return isOverLabels(output) ? output.byLabels : output.bySamples;
  }

  bool areKnown() const;
  Status tellBy(const std::vector<const void *> &arrays,
                const NumbersOf &numbersOf);
  /// Tells the outputs of a step of one label by their numbers without it. A
  /// mean over labels has no value then.
  Status tellByNone(const class LabelParts &parts);
  Status tellByParts(const class LabelParts &parts, const StepNumbers &all);

  const rt::Plan &plan;
  std::string remedy;
  CountedLabels labels;
  std::vector<Output> outputs; ///< the loss, then the others
  bool hasIgnored = false;     ///< whether a step has ignored labels
  /// The first steps with two or more labels, with and without ignored ones.
  std::vector<int64_t> mixed, full;
  /// The first steps with fewer labels, which varied() labels may replace.
  std::vector<int64_t> few;
  int64_t triesLeft; ///< of tell(), in the whole run
};

} // namespace dpc
