//===- Reactions.cpp - How a model reacts to its inputs -------------------===//
#include "tools/driver/Reactions.h"

#include "ir/Dialect.h"
#include "ir/NodeName.h"
#include "ir/TensorUtils.h"
#include "passes/shard/Passes.h"
#include "runtime/base/Random.h"
#include "runtime/io/IndexCheck.h"
#include "runtime/io/InputSource.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/SmallModel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

namespace {

/// Longer sequences, which a model may fix, take too long.
constexpr int64_t kMostTokens = 4096;

std::string resultName(const char *kind, size_t loss) {
  return kind + std::to_string(loss);
}

/// An element of the input number `input`.
struct Element {
  size_t input;
  int64_t index;
};

/// A row of scores, and its label if that is an element of an input.
struct Row {
  std::optional<Element> label;
};

/// Inputs for runs of a small model, and the comparison of their results.
class Experiment {
public:
  explicit Experiment(const SmallModel &model)
      : model(model), ports(model.inputs()) {
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
  /// it in many runs with random labels. Returns false if a run fails.
  bool findLabels();
  const std::vector<Row> &rows() const { return all; }
  size_t losses() const { return rowsOf.size(); }

  /// Returns the rows whose scores differ between two runs.
  std::vector<size_t> changed(size_t runA, size_t runB) const;

  /// Whether the scores of the first sample in `runA` differ from those of the
  /// last sample in `runB`, in which the two have changed places. Compares rows
  /// that have a label in both.
  bool dependsOnPlace(size_t runA, size_t runB) const;

  /// Returns random values that the input accepts as data.
  static rt::HostTensor random(const rt::Port &port, uint64_t seed) {
    rt::HostTensor tensor = rt::HostTensor::zeros(port.dtype, port.globalShape);
    rt::fillInput(tensor, rt::RandomStream(seed + 1, port.name), port);
    return tensor;
  }
  /// Changes a token to another that the input accepts.
  static void change(const rt::Port &port, rt::HostTensor &tensor,
                     int64_t index) {
    int64_t range = port.limit - port.first;
    double next = tensor.at(index) + 1;
    tensor.set(index, next < static_cast<double>(port.limit)
                          ? next
                          : next - static_cast<double>(range));
  }

private:
  const SmallModel &model;
  const std::vector<rt::Port> &ports;
  NamedTensors base;
  std::vector<NamedTensors> results;
  std::vector<Row> all;
  std::vector<int64_t> rowsOf; ///< by loss
};

bool Experiment::findLabels() {
  constexpr int kRuns = 16;
  std::vector<NamedTensors> runs(kRuns, base);
  for (int i = 0; i < kRuns; ++i)
    for (const rt::Port &port : ports)
      if (rt::isIndex(port))
        runs[i][port.name] = random(port, i);
  if (!run(runs))
    return false;
  auto column = [&](auto &&valueIn) {
    std::vector<double> values;
    for (int i = 0; i < kRuns; ++i)
      values.push_back(valueIn(i));
    return values;
  };
  std::map<std::vector<double>, Element> places;
  for (size_t input = 0; input < ports.size(); ++input)
    for (int64_t k = 0, e = rt::isIndex(ports[input])
                                ? base[ports[input].name].elements()
                                : 0;
         k < e; ++k)
      places.insert(
          {column([&](int i) { return runs[i][ports[input].name].at(k); }),
           {input, k}});
  for (size_t loss = 0; results[0].count(resultName("labels", loss)); ++loss) {
    int64_t count = results[0].at(resultName("labels", loss)).elements();
    rowsOf.push_back(count);
    for (int64_t row = 0; row < count; ++row) {
      auto found = places.find(column([&](int i) {
        return results[i].at(resultName("labels", loss)).at(row);
      }));
      all.push_back(found == places.end() ? Row() : Row{found->second});
    }
  }
  return true;
}

std::vector<size_t> Experiment::changed(size_t runA, size_t runB) const {
  // Far above the rounding of fp32, far below the effect of one token.
  constexpr double kNoise = 1e-5;
  std::vector<size_t> rows;
  size_t first = 0;
  for (size_t loss = 0; loss < rowsOf.size(); ++loss) {
    const rt::HostTensor &a = results[runA].at(resultName("scores", loss)),
                         &b = results[runB].at(resultName("scores", loss));
    double scale = 0;
    for (int64_t i = 0; i < a.elements(); ++i)
      scale =
          std::isfinite(a.at(i)) ? std::max(scale, std::abs(a.at(i))) : scale;
    const int64_t classes = a.shape.back();
    for (int64_t row = 0; row < rowsOf[loss]; ++row)
      for (int64_t i = row * classes; i < (row + 1) * classes; ++i)
        if (std::abs(a.at(i) - b.at(i)) > kNoise * scale) {
          rows.push_back(first + row);
          break;
        }
    first += rowsOf[loss];
  }
  return rows;
}

bool Experiment::dependsOnPlace(size_t runA, size_t runB) const {
  constexpr double kNoise = 1e-4;
  std::map<std::tuple<size_t, size_t, int64_t>, size_t> rowOf;
  size_t first = 0;
  auto keyOf = [&](size_t loss, size_t row) {
    const std::optional<Element> &label = all[row].label;
    return label ? std::tuple(loss, label->input, label->index)
                 : std::tuple(loss, SIZE_MAX, int64_t(0));
  };
  for (size_t loss = 0; loss < rowsOf.size(); first += rowsOf[loss++])
    for (int64_t row = 0; row < rowsOf[loss]; ++row)
      rowOf[keyOf(loss, first + row)] = row;
  for (const auto &[key, row] : rowOf) {
    auto [loss, input, index] = key;
    if (input == SIZE_MAX)
      continue;
    const std::vector<int64_t> &shape = ports[input].globalShape;
    const int64_t last = rt::numElements(shape) / shape[0] * (shape[0] - 1);
    auto other = rowOf.find({loss, input, index + last});
    if (other == rowOf.end())
      continue;
    const rt::HostTensor &a = results[runA].at(resultName("scores", loss)),
                         &b = results[runB].at(resultName("scores", loss));
    const int64_t classes = a.shape.back();
    for (int64_t i = 0; i < classes; ++i)
      if (std::abs(a.at(row * classes + i) -
                   b.at(other->second * classes + i)) > kNoise)
        return true;
  }
  return false;
}

bool isTokens(const rt::Port &port) {
  return (port.use == rt::InputUse::Ids ||
          port.use == rt::InputUse::IdsAndLabels) &&
         port.globalShape.size() == 2 && port.globalShape[1] > 1;
}

/// Whether `port` has a number for each of `tokens`, such as [B, T] or [B, 1,
/// 1, T].
bool isFor(const rt::Port &port, const rt::Port &tokens) {
  return !port.globalShape.empty() &&
         port.globalShape.front() == tokens.globalShape.front() &&
         port.globalShape.back() == tokens.globalShape.back() &&
         rt::numElements(port.globalShape) ==
             rt::numElements(tokens.globalShape);
}

bool areLabels(const rt::Port &port) {
  return port.use == rt::InputUse::Labels ||
         port.use == rt::InputUse::ShiftedLabels ||
         port.use == rt::InputUse::IdsAndLabels;
}

/// Measures reactions, one after the other.
class Measurement {
public:
  Measurement(Experiment &experiment, const std::set<TokenPair> &predicted)
      : experiment(experiment), ports(experiment.inputs()),
        predicted(predicted) {}

  void masks();
  void positions();
  void samples();
  void ignoredLabels();

  Reactions reactions;
  /// The tokens of which a position reads the one that it predicts.
  std::optional<rt::Port> leak;
  bool mixesSamples = false;

private:
  Experiment &experiment;
  const std::vector<rt::Port> &ports;
  const std::set<TokenPair> &predicted;

  bool isFlag(const rt::Port &port) const;
  static void fillFlags(rt::HostTensor &flags, double value);
  bool isHiddenBy(const rt::Port &mask, double hidden, double shown);
  std::optional<int64_t> hiddenBy(const rt::Port &mask);
  bool isReadByScores(const rt::Port &mask);
  void positionsOf(const rt::Port &tokens);
  std::set<int64_t> labelsOf(const std::vector<size_t> &rows,
                             int64_t positions) const;
  void note(size_t tokens, int64_t position, const std::vector<size_t> &rows);
  std::optional<int64_t> inFirst(size_t row) const;
  bool isProportional(size_t run, double &factor) const;
};

/// Whether an input has a number for each token, such as a mask.
bool Measurement::isFlag(const rt::Port &port) const {
  return !rt::isIndex(port) && port.use != rt::InputUse::Unread &&
         llvm::any_of(ports, [&](const rt::Port &other) {
           return isTokens(other) && isFor(port, other);
         });
}

void Measurement::fillFlags(rt::HostTensor &flags, double value) {
  for (int64_t k = 0; k < flags.elements(); ++k)
    flags.set(k, value);
}

/// Whether fewer scores depend on a token where the mask is `hidden` than where
/// it is `shown`.
bool Measurement::isHiddenBy(const rt::Port &mask, double hidden,
                             double shown) {
  for (const rt::Port &tokens : ports)
    for (int64_t place : {int64_t(0), mask.globalShape.back() - 1}) {
      if (!isTokens(tokens) || !isFor(mask, tokens))
        continue;
      std::vector<NamedTensors> runs(4, experiment.start());
      for (size_t i = 0; i < runs.size(); ++i) {
        fillFlags(runs[i][mask.name], shown);
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
  if (!zero && rt::isFloat(mask.dtype) &&
      isHiddenBy(mask, static_cast<double>(rt::kAddedMask), 0))
    return rt::kAddedMask;
  return std::nullopt;
}

void Measurement::masks() {
  for (const rt::Port &port : ports) {
    if (!isFlag(port))
      continue;
    rt::HostTensor &flags = experiment.start()[port.name];
    fillFlags(flags, 1);
    std::optional<int64_t> hidden = hiddenBy(port);
    const bool isMask = StringRef(port.name).contains_insensitive("mask") ||
                        port.dtype == rt::DType::Bool;
    if (!hidden && isMask && isReadByScores(port))
      reactions.mistakes.push_back(
          "the scores depend on tokens where '" + port.name +
          "' is 0 and on those where it is 1; a mask hides one of them, also "
          "from a mean over positions");
    if (!hidden)
      continue;
    reactions.inputs[port.name].hidden = hidden;
    fillFlags(flags, *hidden == 0 ? 1 : 0);
    if (*hidden == rt::kAddedMask)
      continue;
    std::string hides = "input '" + port.name + "' hides tokens where it is " +
                        std::to_string(*hidden);
    if (StringRef(port.name).contains("attention_mask") && *hidden == 1)
      reactions.mistakes.push_back(
          hides + "; a mask of this name usually hides those where it is 0");
    if (StringRef(port.name).contains("token_type"))
      reactions.mistakes.push_back(hides +
                                   ": is it swapped with the attention mask?");
  }
}

/// Adds what the scores of `rows`, which depend on the token at `position` of
/// the first sample, mean for the labels of these rows.
void Measurement::note(size_t tokens, int64_t position,
                       const std::vector<size_t> &rows) {
  const std::string &name = ports[tokens].name;
  for (size_t row : rows) {
    const std::optional<Element> &label = experiment.rows()[row].label;
    if (!label || !areLabels(ports[label->input]) ||
        ports[label->input].globalShape != ports[tokens].globalShape ||
        label->index >= ports[tokens].globalShape[1])
      continue;
    const std::string &labels = ports[label->input].name;
    int64_t ahead = position - label->index;
    bool isPredicted = predicted.count({labels, name}) > 0;
    if (isPredicted && ahead == 0)
      leak = ports[tokens];
    if (isPredicted || label->input == tokens)
      continue;
    auto [place, isNew] =
        reactions.inputs[labels].ahead.try_emplace(name, ahead);
    place->second = std::max(place->second, ahead);
  }
}

/// Returns the positions of the labels, in the first sample, whose scores
/// `rows` are.
std::set<int64_t> Measurement::labelsOf(const std::vector<size_t> &rows,
                                        int64_t positions) const {
  std::set<int64_t> labels;
  for (size_t row : rows)
    if (const std::optional<Element> &label = experiment.rows()[row].label;
        label && label->index < positions)
      labels.insert(label->index);
  return labels;
}

/// Whether the position after the first one that reads a token reads it, too.
static bool isReadByNext(const std::set<int64_t> &readers) {
  return !readers.empty() && readers.count(*readers.begin() + 1) > 0;
}

void Measurement::positionsOf(const rt::Port &tokens) {
  // For some tokens, a relu cuts off what depends on them.
  constexpr size_t kDraws = 4;
  const int64_t positions = tokens.globalShape[1], half = positions / 2;
  const size_t input = &tokens - ports.data();
  if (half < 2)
    return;
  const std::array places = {positions - 1, half - 1, half - 2, int64_t(0)};
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
    readers[place].merge(labelsOf(rows, positions));
  }
  if (readers[0].empty() && readers[1].empty() && readers[2].empty() &&
      !readers[3].empty())
    reactions.mistakes.push_back(
        "the scores depend on the first token of '" + tokens.name +
        "', but not on those in the middle or at the end");
  if (isReadByNext(readers[2]) && !isReadByNext(readers[1]) && !mixesSamples)
    reactions.mistakes.push_back(
        "halfway through '" + tokens.name +
        "', a position does not read the one before it, although earlier "
        "positions do: are heads split by a reshape without a transpose?");
}

void Measurement::positions() {
  for (const rt::Port &port : ports)
    if (isTokens(port))
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

/// Changes all inputs of the last sample that are not only labels (run 1), and
/// exchanges the first and the last sample (run 2).
void Measurement::samples() {
  std::vector<NamedTensors> runs(3, experiment.start());
  for (const rt::Port &port : ports) {
    if (port.batchDim != 0)
      return;
    rt::HostTensor &tensor = runs[1][port.name], &swapped = runs[2][port.name];
    const rt::HostTensor other = Experiment::random(port, 1);
    const int64_t count = tensor.elements(),
                  last = count - count / port.globalShape[0];
    for (int64_t k = last; k < count; ++k) {
      swapped.set(k, tensor.at(k - last));
      swapped.set(k - last, tensor.at(k));
      if (!areLabels(port) || port.use == rt::InputUse::IdsAndLabels)
        tensor.set(k, other.at(k));
    }
  }
  if (!experiment.run(runs))
    return;
  mixesSamples = llvm::any_of(experiment.changed(0, 1), [&](size_t row) {
    return inFirst(row).has_value();
  });
  if (mixesSamples)
    reactions.mistakes.push_back(
        "the scores of a sample depend on the other samples of its batch: "
        "does a reshape or a dimension mix them?");
  else if (experiment.dependsOnPlace(0, 2))
    reactions.mistakes.push_back(
        "the scores of a sample depend on its place in the batch: is a table "
        "of positions added along the batch?");
}

/// Whether the loss is a multiple of the sum of the rows' losses.
bool Measurement::isProportional(size_t run, double &factor) const {
  const rt::HostTensor &rows =
      experiment.result(run).at(resultName("losses", 0));
  double sum = 0;
  for (int64_t i = 0; i < rows.elements(); ++i)
    sum += rows.at(i);
  factor = experiment.result(run).at("loss").at(0) / sum;
  return std::isfinite(factor);
}

void Measurement::ignoredLabels() {
  constexpr double kEqual = 1e-4;
  if (experiment.losses() != 1 || !experiment.rows().front().label)
    return;
  const rt::Port &port = ports[experiment.rows().front().label->input];
  if (!port.ignored)
    return;
  std::vector<NamedTensors> runs(3, experiment.start());
  runs[1][port.name] = Experiment::random(port, 1);
  rt::HostTensor &few = runs[2][port.name];
  for (int64_t k = 0; 2 * k < few.elements(); ++k)
    few.set(k, static_cast<double>(*port.ignored));
  double start = 0, other = 0, less = 0;
  if (!experiment.run(runs) || !isProportional(0, start) ||
      !isProportional(1, other) || !isProportional(2, less))
    return;
  auto equals = [&](double factor) {
    return std::abs(factor / start - 1) < kEqual;
  };
  // A sum has no number of labels.
  reactions.inputs[port.name].countsIgnored =
      start < 1 - kEqual && equals(other) && equals(less);
}

template <typename... Ops>
Operation *firstOf(const llvm::SetVector<Operation *> &chain) {
  auto found = llvm::find_if(chain, llvm::IsaPred<Ops...>);
  return found == chain.end() ? nullptr : *found;
}

/// Says which op of `chain` lets positions read later ones.
std::string mixingText(const llvm::SetVector<Operation *> &chain) {
  for (Operation *op : chain)
    if (auto attention = dyn_cast<AttentionOp>(op);
        attention && !attention.getCausal())
      return nodeOf(op) + (attention.getMask()
                               ? " has a mask that is not causal"
                               : " has no causal mask");
  if (Operation *attention = firstOf<AttentionOp>(chain))
    return nodeOf(attention) + " is causal, but its heads mix positions: are "
                               "they split by a reshape without a transpose?";
  if (Operation *softmax = firstOf<SoftmaxOp>(chain))
    return nodeOf(softmax) +
           " reads later positions: is a causal mask missing, or is it over "
           "another dimension than the keys?";
  if (Operation *conv = firstOf<ConvOp>(chain))
    return nodeOf(conv) + " reads later positions: a causal convolution is "
                          "padded at the front only";
  if (Operation *norm = firstOf<NormOp, BatchNormOp>(chain))
    return nodeOf(norm) + " normalizes over positions";
  Operation *reduce = firstOf<ReduceOp>(chain);
  return nodeOf(reduce ? reduce : chain.front()) + " mixes positions";
}

/// Returns the ops between `value` and the values of `known`, last one first.
llvm::SetVector<Operation *> opsBetween(Value value,
                                        const llvm::DenseSet<Value> &known) {
  llvm::SetVector<Operation *> chain;
  chain.insert(value.getDefiningOp());
  for (size_t i = 0; i < chain.size(); ++i)
    for (Value operand : chain[i]->getOperands())
      if (Operation *op = operand.getDefiningOp();
          op && !known.contains(operand))
        chain.insert(op);
  return chain;
}

/// A value of which each position should read no later token.
struct Watched {
  std::string text; ///< which op mixes positions, if any does
  int64_t positions;
};

/// Compiles `model` for the values [samples, positions, size] of all ops. The
/// model may leave out the last of `positions`. Returns nothing on failure.
std::vector<Watched> watchPositions(SmallModel &model, int64_t samples,
                                    int64_t positions) {
  std::vector<Watched> watched;
  bool isDone = model.compile([&](func::FuncOp forward) {
    llvm::DenseSet<Value> known;
    std::map<std::string, Value> results;
    for (Operation &op : forward.front())
      for (Value value : op.getResults()) {
        auto type = dyn_cast<RankedTensorType>(value.getType());
        if (!type || !isFloatTensor(type) || type.getRank() != 3 ||
            type.getDimSize(0) != samples || type.getDimSize(1) > positions ||
            type.getDimSize(1) < positions - 1)
          continue;
        results[resultName("value", watched.size())] = value;
        watched.push_back(
            {mixingText(opsBetween(value, known)), type.getDimSize(1)});
        known.insert(value);
      }
    return results;
  });
  return isDone ? watched : std::vector<Watched>();
}

/// Says which op lets positions of `tokens` read later ones, or "".
std::string mixingText(SmallModel &model, const rt::Port &tokens,
                       const NamedTensors &inputs) {
  constexpr double kNoise = 1e-5;
  const int64_t positions = tokens.globalShape[1];
  std::vector<Watched> watched =
      watchPositions(model, tokens.globalShape[0], positions);
  // Run 1 changes the last token, and run 2 the one before.
  std::vector<NamedTensors> runs(3, inputs);
  Experiment::change(tokens, runs[1][tokens.name], positions - 1);
  Experiment::change(tokens, runs[2][tokens.name], positions - 2);
  std::vector<NamedTensors> results;
  if (!watched.empty())
    results = model.run(runs);
  for (size_t i = 0; i < watched.size() && !results.empty(); ++i) {
    const int64_t run = 1 + positions - watched[i].positions;
    const rt::HostTensor &a = results[0].at(resultName("value", i)),
                         &b = results[run].at(resultName("value", i));
    const int64_t changed = watched[i].positions - 1, size = a.shape[2];
    for (int64_t k = 0; k < changed * size; ++k)
      // In a matrix of scores, the column of the token may change.
      if (k % size != changed && std::abs(a.at(k) - b.at(k)) > kNoise)
        return watched[i].text;
  }
  return "";
}

std::string leakText(SmallModel &model, const rt::Port &tokens,
                     const NamedTensors &inputs, func::FuncOp forward) {
  std::string text = mixingText(model, tokens, inputs);
  bool hasCausal = llvm::any_of(forward.getOps<AttentionOp>(),
                                [](AttentionOp op) { return op.getCausal(); });
  return (text.empty() ? "the scores mix positions" : text) +
         ", but the loss compares the scores of position t with token t + 1 of "
         "'" +
         tokens.name + "': each position reads the token that it predicts" +
         (hasCausal ? "; an autoencoder of text does so on purpose" : "");
}

std::map<std::string, Value> scoresOf(func::FuncOp forward) {
  std::map<std::string, Value> results;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (forward.getResultAttr(i, attr::kLoss))
      results["loss"] = forward.front().getTerminator()->getOperand(i);
  size_t count = 0;
  for (CrossEntropyOp op : forward.getOps<CrossEntropyOp>()) {
    results[resultName("scores", count)] = op.getLogits();
    results[resultName("labels", count)] = op.getLabels();
    results[resultName("losses", count)] = op.getLoss();
    ++count;
  }
  return results;
}

bool hasOnlyShortSequences(const SmallModel &model) {
  return llvm::all_of(model.inputs(), [](const rt::Port &port) {
    return !rt::isIndex(port) ||
           rt::numElements(port.globalShape) <= kMostTokens;
  });
}

/// Whether samples may share what a batch has room for, or its statistics.
bool sharesBatch(func::FuncOp forward) {
  bool shares = false;
  forward.walk(
      [&](Operation *op) { shares |= isa<TopKOp, CumSumOp, BatchNormOp>(op); });
  return shares;
}

} // namespace

Reactions reactionsOf(ModuleOp fused, const PlanSettings &settings,
                      const fs::path &dir) {
  func::FuncOp forward = findProgram(fused);
  if (forward.getOps<CrossEntropyOp>().empty())
    return {};
  ScopedDiagnosticHandler quiet(fused.getContext(),
                                [](Diagnostic &) { return success(); });
  SmallModel model(fused, settings, dir);
  if (!model.isValid() || !model.compile(scoresOf) ||
      !hasOnlyShortSequences(model))
    return {};
  Experiment experiment(model);
  if (!experiment.findLabels())
    return {};
  const std::set<TokenPair> predicted = predictedTokens(forward);
  Measurement measurement(experiment, predicted);
  measurement.masks();
  if (!sharesBatch(forward))
    measurement.samples();
  measurement.positions();
  measurement.ignoredLabels();
  if (measurement.leak)
    measurement.reactions.mistakes.push_back(
        leakText(model, *measurement.leak, experiment.start(), forward));
  return std::move(measurement.reactions);
}

} // namespace dpc
