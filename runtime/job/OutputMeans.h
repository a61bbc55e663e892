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
  /// The number of labels of a step, ignored ones included.
  int64_t all() const { return rt::numElements(port.globalShape); }
  /// Returns the positions of the labels that count.
  std::vector<int64_t> in(const std::vector<const void *> &arrays) const;
  /// Returns the labels of a step in which only positions[begin, end) count.
  rt::HostTensor part(const std::vector<const void *> &arrays,
                      const std::vector<int64_t> &positions, size_t begin,
                      size_t end) const;
  size_t input() const { return *index; }

private:
  rt::HostTensor labelsOf(const std::vector<const void *> &arrays) const;

  std::optional<size_t> index; ///< of the input with the labels
  rt::Port port;
  int64_t ignored = 0;
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
/// suffices: tell() follows it and finds out which of the two is the right one.
class OutputMeans {
public:
  using LoadStep =
      std::function<Expected<std::vector<const void *>>(int64_t step)>;
  using NumbersOfStep = std::function<Expected<StepNumbers>(
      int64_t step, const std::vector<const void *> &arrays)>;

  /// `others` are the outputs whose numbers StepNumbers::others has.
  OutputMeans(const RunOptions &options, const rt::Plan &plan,
              const std::vector<StepOutput> &others = {});

  /// Forgets all steps, but not what outputs are means over.
  void restart();
  /// Adds a step of which `samples` samples count.
  void add(int64_t step, const std::vector<const void *> &arrays,
           int64_t samples, const StepNumbers &numbers);
  /// Returns the steps to tell() by, a few at most. There are none if the steps
  /// have no ignored labels, because both means are the same then.
  std::vector<int64_t> stepsToTell() const;
  /// Computes each of `steps` with the first and with the second half of its
  /// labels, until all outputs are known. Labels count for an output from now
  /// on if it depends on them and is the mean of its halves, weighted by their
  /// numbers of labels. The numbers must be those of all processes.
  Status tell(const std::vector<int64_t> &steps, const LoadStep &load,
              const NumbersOfStep &numbersOf);
  /// The same by stepsToTell() of rank 0, in all processes.
  Status tell(rt::Session &session, const LoadStep &load,
              const NumbersOfStep &numbersOf);

  const WeightedMean &loss() const { return outputs.front().mean(); }
  const WeightedMean &other(size_t i) const { return outputs[1 + i].mean(); }
  /// "labels" or "samples": the unit of the weight of the loss.
  const char *unit() const {
    return outputs.front().over == Over::Labels ? "labels" : "samples";
  }

private:
  enum class Over { Unknown, Samples, Labels };
  struct Output {
    Over over = Over::Unknown;
    WeightedMean bySamples, byLabels;
    const WeightedMean &mean() const {
      return over == Over::Labels ? byLabels : bySamples;
    }
  };

  bool areKnown() const;
  Status tellBy(const std::vector<const void *> &arrays,
                const NumbersOf &numbersOf);

  CountedLabels labels;
  std::vector<Output> outputs; ///< the loss, then the others
  bool hasIgnored = false;     ///< whether a step has ignored labels
  /// The first steps with two or more labels, with and without ignored ones.
  std::vector<int64_t> mixed, full;
  int64_t triesLeft; ///< of tell(), in the whole run
};

} // namespace dpc
