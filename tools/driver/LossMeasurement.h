//===- LossMeasurement.h - What a loss does with its rows -------*- C++ -*-===//
//
// Private to Dependences.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/driver/Dependences.h"
#include "tools/driver/Experiment.h"

#include "llvm/ADT/StringMap.h"

namespace dpc {

/// The shapes of the inputs of the whole model, by name.
using InputShapes = llvm::StringMap<std::vector<int64_t>>;

/// Measures how the loss of a small model follows from the losses of its rows,
/// and adds what it finds to `dependences`.
class LossMeasurement {
public:
  LossMeasurement(Experiment &experiment, InputShapes shapes,
                  Dependences &dependences)
      : experiment(experiment), ports(experiment.inputs()),
        shapes(std::move(shapes)), dependences(dependences) {}

  /// Call it after Experiment::findLabels().
  void measure();
  /// Says that the loss is negative for random inputs, if the numbers that
  /// weight it are 1.
  void measureSign();

private:
  void findTargets();
  void measureZeros();
  void measureMean();
  void measureWeights();
  double factorOf(size_t run) const;
  bool isTarget(const rt::Port &port) const;
  std::vector<std::vector<double>> rowLosses(size_t run) const;
  bool dividesByAll(size_t run, int64_t counted, double times) const;

  Experiment &experiment;
  const std::vector<rt::Port> &ports;
  InputShapes shapes;
  Dependences &dependences;
};

} // namespace dpc
