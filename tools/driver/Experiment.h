//===- Experiment.h - Runs whose inputs differ a little --------*- C++ -*-===//
#pragma once

#include "tools/driver/SmallModel.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc {

/// The name of a result for one of the comparisons, such as "scores0". A small
/// model has the results "scores" and "labels" of each, "losses" of cross
/// entropies, and "loss".
std::string resultName(const char *kind, size_t comparison);

/// Returns the largest absolute value among the finite elements, or 0.
double largestFinite(const rt::HostTensor &tensor);

/// An element of the input number `input`.
struct Element {
  size_t input;
  int64_t index;
};

/// A row of scores, or one number, and its label or target if that is an
/// element of an input.
struct Row {
  std::optional<Element> label;
};

/// Inputs for runs of a small model, and the comparison of their results.
class Experiment {
public:
  explicit Experiment(SmallModel &model) : model(model), ports(model.inputs()) {
    for (const rt::Port &port : ports)
      base[port.name] = random(port, 0);
  }

  const std::vector<rt::Port> &inputs() const { return ports; }
  NamedTensors &start() { return base; }

  /// Runs the model once for each of `inputs`. Returns false if a run fails.
  bool run(const std::vector<NamedTensors> &inputs) {
    results = model.run(inputs);
    return !results.empty();
  }
  const NamedTensors &result(size_t run) const { return results[run]; }

  /// Finds the label of each row of scores: the element of an input that equals
  /// it in many runs with random inputs. Returns false if a run fails.
  bool findLabels();
  const std::vector<Row> &rows() const { return all; }
  size_t comparisons() const { return rowsOf.size(); }

  /// Returns the rows whose scores differ between two runs.
  std::vector<size_t> changed(size_t runA, size_t runB) const;

  /// Whether the scores of two runs have equal sums, and equal sums of squares,
  /// over all rows, as rows have that changed places.
  bool haveEqualSums(size_t runA, size_t runB) const;

  /// Whether the samples of the batch may be the classes of a cross entropy.
  bool comparesSamples() const;

  /// Whether the scores of the first sample in `runA` differ from those of the
  /// last sample in `runB`, in which the two have changed places. Compares rows
  /// that have a label in both.
  bool dependsOnPlace(size_t runA, size_t runB) const;

  /// Returns random values that the input accepts as data.
  static rt::HostTensor random(const rt::Port &port, uint64_t seed);
  static void fill(rt::HostTensor &tensor, double value);
  /// Changes a position of the first sample: a token to another that the input
  /// accepts, or all of its numbers.
  static void change(const rt::Port &port, rt::HostTensor &tensor,
                     int64_t position);

private:
  int64_t classesOf(size_t comparison) const;

  SmallModel &model;
  std::vector<rt::Port> ports; ///< a copy: the model may be compiled again
  NamedTensors base;
  std::vector<NamedTensors> results;
  std::vector<Row> all;
  std::vector<int64_t> rowsOf; ///< by comparison
};

} // namespace dpc
