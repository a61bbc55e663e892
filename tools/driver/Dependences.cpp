//===- Dependences.cpp - What scores depend on ----------------------------===//
#include "tools/driver/Dependences.h"

#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/shard/Passes.h"
#include "runtime/facts/IndexCheck.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Experiment.h"
#include "tools/driver/InputReads.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/LossMeasurement.h"
#include "tools/driver/MixingOps.h"
#include "tools/driver/Session.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

namespace {

/// Whether an input is a sequence for each sample: ids [B, T], or rows of
/// numbers [B, T, C].
bool isSequence(const rt::Port &port) {
  const bool areIds =
      port.use == rt::InputUse::Ids || port.use == rt::InputUse::IdsAndLabels;
  const bool areRows = rt::isFloat(port.dtype) &&
                       port.use != rt::InputUse::Unread &&
                       port.globalShape.size() == 3;
  return (areRows || (areIds && port.globalShape.size() == 2)) &&
         port.batchDim == 0 && port.globalShape[1] > 1;
}

/// The elements of one position of a sequence.
int64_t elementsOf(const rt::Port &sequence) {
  return rt::numElements(sequence.globalShape) /
         (sequence.globalShape[0] * sequence.globalShape[1]);
}

/// Whether `port` has a number for each position of `tokens`, such as [B, T] or
/// [B, 1, 1, T].
bool isFor(const rt::Port &port, const rt::Port &tokens) {
  return !port.globalShape.empty() &&
         port.globalShape.front() == tokens.globalShape[0] &&
         port.globalShape.back() == tokens.globalShape[1] &&
         rt::numElements(port.globalShape) ==
             tokens.globalShape[0] * tokens.globalShape[1];
}

bool hasNameOfMask(const rt::Port &port) {
  return StringRef(port.name).contains_insensitive("mask");
}

InputShapes inputShapes(func::FuncOp forward) {
  InputShapes shapes;
  for (BlockArgument argument : forward.getArguments())
    if (auto name = forward.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), attr::kName))
      shapes[name] = shapeOf(argument).vec();
  return shapes;
}

/// Measures dependences, one after the other.
class Measurement {
public:
  Measurement(Experiment &experiment,
              const std::map<TokenPair, int64_t> &predicted, InputShapes shapes,
              const SmallModel &model)
      : experiment(experiment), ports(experiment.inputs()),
        predicted(predicted), shapes(std::move(shapes)), model(model) {}

  void masks();
  void positions();
  void samples();

  Dependences dependences;
  /// The labels and tokens of which a position reads the one that it predicts.
  std::optional<TokenPair> leak;
  bool mixesSamples = false;

private:
  Experiment &experiment;
  const std::vector<rt::Port> &ports;
  const std::map<TokenPair, int64_t> &predicted;
  InputShapes shapes; ///< of the inputs of the whole model
  const SmallModel &model;

  bool hasPairs(const rt::Port &tokens) const;
  bool isFlag(const rt::Port &port) const;
  bool isHiddenBy(const rt::Port &mask, double hidden, double shown);
  std::optional<int64_t> hiddenBy(const rt::Port &mask);
  bool isReadByScores(const rt::Port &mask);
  void positionsOf(const rt::Port &tokens);
  std::set<int64_t> labelsOf(const std::vector<size_t> &rows,
                             const rt::Port &tokens) const;
  bool ignoresOrder(const rt::Port &tokens);
  void note(size_t tokens, int64_t position, const std::vector<size_t> &rows);
  std::optional<int64_t> inFirst(size_t row) const;
};

/// Whether an input has a number for each token, such as a mask.
bool Measurement::isFlag(const rt::Port &port) const {
  return !rt::isIndex(port) && port.use != rt::InputUse::Unread &&
         llvm::any_of(ports, [&](const rt::Port &other) {
           return &other != &port && isSequence(other) && isFor(port, other);
         });
}

/// Whether fewer scores depend on a token where the mask is `hidden` than where
/// it is `shown`.
bool Measurement::isHiddenBy(const rt::Port &mask, double hidden,
                             double shown) {
  for (const rt::Port &tokens : ports)
    for (int64_t place : {int64_t(0), mask.globalShape.back() - 1}) {
      if (&tokens == &mask || !isSequence(tokens) || !isFor(mask, tokens))
        continue;
      std::vector<NamedTensors> runs(4, experiment.start());
      for (size_t i = 0; i < runs.size(); ++i) {
        Experiment::fill(runs[i][mask.name], shown);
        if (i >= 2)
          runs[i][mask.name].set(place, hidden);
        if (i % 2 == 1)
          Experiment::change(tokens, runs[i][tokens.name], place);
      }
      if (experiment.run(runs) &&
          experiment.changed(0, 1).size() > experiment.changed(2, 3).size())
        return true;
    }
  return false;
}

/// Whether scores differ between a mask of 0 and a mask of 1.
bool Measurement::isReadByScores(const rt::Port &mask) {
  std::vector<NamedTensors> runs(2, experiment.start());
  const int64_t half = mask.globalShape.back() / 2;
  for (int64_t k = 0; k < half; ++k)
    runs[1][mask.name].set(k, 1 - runs[1][mask.name].at(k));
  return experiment.run(runs) && !experiment.changed(0, 1).empty();
}

/// Returns the value of a mask that hides tokens, if one of two does.
std::optional<int64_t> Measurement::hiddenBy(const rt::Port &mask) {
  const bool zero = isHiddenBy(mask, 0, 1), one = isHiddenBy(mask, 1, 0);
  if (zero != one)
    return one ? 1 : 0;
  // Next to so large a number, fp32 loses whatever is added, such as the row of
  // a token, so that other inputs seem to hide tokens, too.
  if (!zero && rt::isFloat(mask.dtype) && hasNameOfMask(mask) &&
      isHiddenBy(mask, static_cast<double>(rt::kAddedMask), 0))
    return rt::kAddedMask;
  return std::nullopt;
}

void Measurement::masks() {
  for (const rt::Port &port : ports) {
    if (!isFlag(port))
      continue;
    rt::HostTensor &flags = experiment.start()[port.name];
    Experiment::fill(flags, 1);
    std::optional<int64_t> hidden = hiddenBy(port);
    if (!hidden && hasNameOfMask(port) && isReadByScores(port))
      dependences.mistakes.push_back(
          "the scores depend on tokens where '" + port.name +
          "' is 0 and on those where it is 1; a mask should hide one of the "
          "two: does a mean over positions include padding?");
    if (!hidden)
      continue;
    dependences.inputs[port.name].hidden = hidden;
    Experiment::fill(flags, *hidden == 0 ? 1 : 0);
    if (*hidden == rt::kAddedMask)
      continue;
    std::string hides = "input '" + port.name + "' hides tokens where it is " +
                        std::to_string(*hidden);
    if (StringRef(port.name).contains("attention_mask") && *hidden == 1)
      dependences.mistakes.push_back(
          hides + "; a mask of this name usually hides those where it is 0");
    if (StringRef(port.name).contains("token_type"))
      dependences.mistakes.push_back(
          hides + ": is it swapped with the attention mask?");
  }
}

/// Adds what the scores of `rows`, which depend on `position` of the first
/// sample, mean for the labels of these rows.
void Measurement::note(size_t tokens, int64_t position,
                       const std::vector<size_t> &rows) {
  const rt::Port &read = ports[tokens];
  const int64_t size = elementsOf(read);
  for (size_t row : rows) {
    const std::optional<Element> &label = experiment.rows()[row].label;
    if (!label || ports[label->input].globalShape != read.globalShape ||
        label->index >= read.globalShape[1] * size)
      continue;
    const TokenPair pair = {ports[label->input].name, read.name};
    int64_t ahead = position - label->index / size;
    bool isPredicted = predicted.count(pair) > 0;
    if (isPredicted && ahead == 0)
      leak = pair;
    if (isPredicted || label->input == tokens)
      continue;
    int64_t &most = dependences.inputs[pair.labels]
                        .lookahead.try_emplace(read.name, ahead)
                        .first->second;
    most = std::max(most, ahead);
  }
}

/// Returns the positions of the labels, in the first sample of `tokens`, whose
/// scores `rows` are.
std::set<int64_t> Measurement::labelsOf(const std::vector<size_t> &rows,
                                        const rt::Port &tokens) const {
  std::set<int64_t> labels;
  for (size_t row : rows)
    if (std::optional<int64_t> index = inFirst(row)) {
      const rt::Port &port = ports[experiment.rows()[row].label->input];
      const int64_t perSample =
          rt::numElements(port.globalShape) / port.globalShape[0];
      labels.insert(*index * tokens.globalShape[1] / perSample);
    }
  return labels;
}

/// Whether each of `positions` attends to all of them.
static bool attendsToItself(func::FuncOp forward, int64_t positions) {
  return forward
      .walk([&](Operation *op) {
        ArrayRef<int64_t> scores;
        if (auto softmax = dyn_cast<SoftmaxOp>(op))
          scores = shapeOf(softmax.getX());
        auto attention = dyn_cast<AttentionOp>(op);
        const bool isOwn =
            attention ? shapeOf(attention.getQ())[2] == positions &&
                            shapeOf(attention.getK())[2] == positions
                      : scores.size() > 2 && scores.back() == positions &&
                            scores[scores.size() - 2] == positions;
        return isOwn ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Reverses the ids of the first sample, for several draws. Scores of single
/// positions may change places, too.
bool Measurement::ignoresOrder(const rt::Port &tokens) {
  constexpr size_t kDraws = 3;
  const int64_t positions = tokens.globalShape[1];
  if (!rt::isIndex(tokens) || !attendsToItself(model.forward(), positions))
    return false;
  std::vector<NamedTensors> runs(2 * kDraws, experiment.start());
  for (size_t i = 0; i < runs.size(); ++i) {
    const rt::HostTensor ids = Experiment::random(tokens, i / 2);
    rt::HostTensor &own = runs[i][tokens.name];
    own = ids;
    for (int64_t k = 0; i % 2 == 1 && k < positions; ++k)
      own.set(k, ids.at(positions - 1 - k));
  }
  if (!experiment.run(runs))
    return false;
  for (size_t i = 0; i < runs.size(); i += 2)
    if (!experiment.haveEqualSums(i, i + 1))
      return false;
  return true;
}

void Measurement::positionsOf(const rt::Port &tokens) {
  // For some tokens, a relu cuts off what depends on them.
  constexpr size_t kDraws = 4;
  const int64_t positions = tokens.globalShape[1], half = positions / 2;
  const size_t input = &tokens - ports.data();
  if (half < 2)
    return;
  const std::array places = {positions - 1, half - 1, int64_t(0)};
  constexpr size_t perDraw = 1 + places.size();
  std::vector<NamedTensors> runs(kDraws * perDraw, experiment.start());
  for (size_t i = 0; i < runs.size(); ++i) {
    rt::HostTensor &ids = runs[i][tokens.name];
    ids = Experiment::random(tokens, i / perDraw);
    if (i % perDraw > 0)
      Experiment::change(tokens, ids, places[i % perDraw - 1]);
  }
  if (!experiment.run(runs))
    return;
  std::vector<std::set<int64_t>> readers(places.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i % perDraw == 0)
      continue;
    std::vector<size_t> rows = experiment.changed(i - i % perDraw, i);
    const size_t place = i % perDraw - 1;
    // A prefix may read all of itself, so the last position decides.
    if (place == 0)
      note(input, places[place], rows);
    readers[place].merge(labelsOf(rows, tokens));
  }
  if (readers[0].empty() && readers[1].empty() && !readers[2].empty())
    dependences.mistakes.push_back(
        "the scores depend on the first position of '" + tokens.name +
        "', but not on those in the middle or at the end");
  if (!readers[0].empty() && ignoresOrder(tokens))
    dependences.mistakes.push_back(
        "the scores do not depend on the order of '" + tokens.name +
        "': attention does not know the positions of what it reads; is a table "
        "of positions missing?");
}

/// Whether an input that is no target has a number for each pair of positions
/// of `tokens`, such as a mask [B, T, T]. Which numbers hide a position is not
/// known.
bool Measurement::hasPairs(const rt::Port &tokens) const {
  for (const rt::Port &port : ports) {
    const std::vector<int64_t> shape = shapes.lookup(port.name),
                               own = shapes.lookup(tokens.name);
    if (port.use != rt::InputUse::Unread && !rt::isIndex(port) &&
        port.name != tokens.name && shape.size() >= 2 && own.size() >= 2 &&
        shape.back() == own[1] && shape[shape.size() - 2] == own[1] &&
        llvm::none_of(experiment.rows(), [&](const Row &row) {
          return row.label && ports[row.label->input].name == port.name;
        }))
      return true;
  }
  return false;
}

/// Measures nothing of tokens whose mask may be an input.
void Measurement::positions() {
  for (const rt::Port &port : ports)
    if (isSequence(port) && !hasPairs(port))
      positionsOf(port);
}

/// Returns the index of an element of the first sample, or nullopt for other
/// samples and for rows without a label.
std::optional<int64_t> Measurement::inFirst(size_t row) const {
  const std::optional<Element> &label = experiment.rows()[row].label;
  if (!label)
    return std::nullopt;
  const rt::Port &port = ports[label->input];
  int64_t perSample = rt::numElements(port.globalShape) / port.globalShape[0];
  return label->index < perSample ? std::optional(label->index) : std::nullopt;
}

/// Changes the last sample (run 1), and exchanges the first and the last sample
/// (run 2).
void Measurement::samples() {
  std::vector<NamedTensors> runs(3, experiment.start());
  for (const rt::Port &port : ports) {
    if (port.batchDim != 0 || port.globalShape[0] < 2)
      return;
    rt::HostTensor &tensor = runs[1][port.name], &swapped = runs[2][port.name];
    const rt::HostTensor other = Experiment::random(port, 1);
    const int64_t count = tensor.elements(),
                  last = count - count / port.globalShape[0];
    for (int64_t k = last; k < count; ++k) {
      swapped.set(k, tensor.at(k - last));
      swapped.set(k - last, tensor.at(k));
      tensor.set(k, other.at(k));
    }
  }
  if (!experiment.run(runs) || experiment.comparesSamples())
    return;
  mixesSamples = llvm::any_of(experiment.changed(0, 1), [&](size_t row) {
    return inFirst(row).has_value();
  });
  if (mixesSamples)
    dependences.mistakes.push_back(
        "the scores of a sample depend on the other samples of its batch: "
        "does a reshape or a dimension mix them?");
  else if (experiment.dependsOnPlace(0, 2))
    dependences.mistakes.push_back(
        "the scores of a sample depend on its place in the batch: is a table "
        "of positions added along the batch?");
}

std::string leakText(SmallModel &model, const rt::Port &tokens, int64_t ahead,
                     const NamedTensors &inputs) {
  std::string text = mixingText(model, tokens, inputs);
  bool hasCausal = llvm::any_of(model.forward().getOps<AttentionOp>(),
                                [](AttentionOp op) { return op.getCausal(); });
  return (text.empty() ? "the scores mix positions" : text) +
         ", but the loss compares the scores of position t with token t + " +
         std::to_string(ahead) + " of '" + tokens.name +
         "': each position reads the token that it predicts" +
         (hasCausal ? "; an autoencoder of text does so on purpose" : "");
}

std::map<std::string, Value> resultsOf(func::FuncOp forward) {
  std::map<std::string, Value> results = {{"loss", lossOf(forward)}};
  for (auto [i, comparison] : llvm::enumerate(comparisonsOf(forward))) {
    results[resultName("scores", i)] = comparison.scores;
    results[resultName("labels", i)] = comparison.labels;
    if (comparison.losses)
      results[resultName("losses", i)] = comparison.losses;
  }
  return results;
}

/// Whether ops couple the samples of a batch on purpose: capacity limits
/// (top-k, cumulative sums) or batch statistics.
bool sharesBatch(func::FuncOp forward) {
  bool shares = false;
  forward.walk(
      [&](Operation *op) { shares |= isa<TopKOp, CumSumOp, BatchNormOp>(op); });
  return shares;
}

/// Adds the ranges of the scores that targets are compared with.
void addRanges(func::FuncOp forward, Dependences &dependences) {
  for (const Comparison &comparison : comparisonsOf(forward)) {
    auto input = dyn_cast<BlockArgument>(comparison.labels);
    auto name = input ? forward.getArgAttrOfType<StringAttr>(
                            input.getArgNumber(), attr::kName)
                      : nullptr;
    if (!name || !comparison.lowest)
      continue;
    rt::Dependence &found = dependences.inputs[name.str()];
    found.lowest = comparison.lowest;
    found.highest = comparison.highest;
  }
}

/// Measures the sign of a loss without comparisons that looks numbers up by
/// labels, as a hand-written likelihood does.
Dependences measureSign(SmallModel &model) {
  if (!model.isValid() || !model.compile(resultsOf) ||
      llvm::none_of(model.inputs(), [](const rt::Port &port) {
        return rt::isIndex(port) && (port.use == rt::InputUse::Labels ||
                                     port.use == rt::InputUse::Data);
      }))
    return {};
  Experiment experiment(model);
  Dependences dependences;
  LossMeasurement(experiment, {}, dependences).measureSign();
  return dependences;
}

std::optional<Dependences> measure(SmallModel &model,
                                   const InputShapes &shapes) {
  Experiment experiment(model);
  if (!experiment.findLabels())
    return std::nullopt;
  const std::map<TokenPair, int64_t> predicted =
      predictedTokens(model.forward());
  Measurement measurement(experiment, predicted, shapes, model);
  measurement.masks();
  if (!sharesBatch(model.forward()))
    measurement.samples();
  measurement.positions();
  LossMeasurement(experiment, shapes, measurement.dependences).measure();
  if (measurement.leak) {
    const auto tokens =
        llvm::find_if(experiment.inputs(), [&](const rt::Port &port) {
          return port.name == measurement.leak->tokens;
        });
    measurement.dependences.mistakes.push_back(leakText(
        model, *tokens, predicted.at(*measurement.leak), experiment.start()));
  }
  return std::move(measurement.dependences);
}

} // namespace

static Dependences measured(ModuleOp fused, const PlanSettings &settings,
                            const fs::path &dir) {
  // More would take seconds.
  constexpr double kMostFlops = 2e8;
  SilencedErrors errors(fused.getContext());
  SmallModel model(fused, settings, dir);
  if (comparisonsOf(findProgram(fused)).empty())
    return model.isValid() && model.flops() <= kMostFlops ? measureSign(model)
                                                          : Dependences();
  if (model.isValid() && model.flops() > kMostFlops)
    return {.inputs = {},
            .mistakes = {},
            .failure = "the small version of the model is too large"};
  std::optional<Dependences> dependences;
  if (model.isValid() && model.compile(resultsOf))
    dependences = measure(model, inputShapes(findProgram(fused)));
  if (dependences)
    addRanges(findProgram(fused), *dependences);
  return dependences ? std::move(*dependences)
                     : Dependences{.inputs = {},
                                   .mistakes = {},
                                   .failure = errors.text()};
}

Dependences dependencesOf(ModuleOp fused, const PlanSettings &settings,
                          const fs::path &dir) {
  Dependences dependences = measured(fused, settings, dir);
  addReads(findProgram(fused), dependences.inputs);
  return dependences;
}

} // namespace dpc
