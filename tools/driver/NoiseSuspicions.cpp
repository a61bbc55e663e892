//===- NoiseSuspicions.cpp - Noise that is a constant of the graph --------===//
#include "ir/NodeName.h"
#include "passes/graph/Match.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include <cmath>

using namespace mlir;

namespace dpc {

namespace {

/// The numbers of a constant, without dimensions along which they repeat.
struct Numbers {
  SmallVector<int64_t> shape;
  std::vector<double> values;

  bool operator==(const Numbers &) const = default;
  bool isVector() const { return shape.size() < 2; }
};

/// Calls `visit` with each pair of positions that are neighbours along `dim`.
void visitNeighbours(ArrayRef<int64_t> shape, size_t dim,
                     llvm::function_ref<void(int64_t, int64_t)> visit) {
  int64_t step = 1, outer = 1;
  for (int64_t size : shape.drop_front(dim + 1))
    step *= size;
  for (int64_t size : shape.take_front(dim))
    outer *= size;
  for (int64_t block = 0; block < outer; ++block)
    for (int64_t i = 0; i + step < shape[dim] * step; ++i) {
      const int64_t at = block * shape[dim] * step + i;
      visit(at, at + step);
    }
}

/// Keeps only the first element along `dim`.
void dropDim(Numbers &numbers, size_t dim) {
  int64_t step = 1;
  for (int64_t size : ArrayRef(numbers.shape).drop_front(dim + 1))
    step *= size;
  const int64_t block = step * numbers.shape[dim];
  std::vector<double> kept;
  for (size_t i = 0; i < numbers.values.size(); ++i)
    if (static_cast<int64_t>(i) % block < step)
      kept.push_back(numbers.values[i]);
  numbers.values = std::move(kept);
  numbers.shape.erase(numbers.shape.begin() + dim);
}

/// Returns the numbers of a constant of floats that are not all equal.
std::optional<Numbers> variedNumbers(ConstantOp op) {
  auto dense = dyn_cast<DenseFPElementsAttr>(op.getValue());
  if (!dense || dense.isSplat())
    return std::nullopt;
  Numbers numbers{SmallVector<int64_t>(dense.getType().getShape()),
                  numbersOf(op)};
  for (size_t dim = numbers.shape.size(); dim-- > 0;) {
    bool repeats = true;
    visitNeighbours(numbers.shape, dim, [&](int64_t a, int64_t b) {
      repeats &= numbers.values[a] == numbers.values[b];
    });
    if (repeats)
      dropDim(numbers, dim);
  }
  return numbers;
}

/// Whether neighbours along each dimension are independent, as those of a table
/// of sines, a mask or an image are not.
bool haveIndependentNeighbours(const Numbers &numbers, double mean,
                               double variance) {
  constexpr double kDeviations = 4;
  for (size_t dim = 0; dim < numbers.shape.size(); ++dim) {
    double sum = 0;
    int64_t count = 0;
    visitNeighbours(numbers.shape, dim, [&](int64_t a, int64_t b) {
      sum += (numbers.values[a] - mean) * (numbers.values[b] - mean);
      ++count;
    });
    if (numbers.shape[dim] > 2 &&
        std::abs(sum) > kDeviations * variance * std::sqrt(count))
      return false;
  }
  return true;
}

/// Whether the numbers are as those of a normal distribution around 0, or of a
/// uniform one around 0 or from 0 to 1, drawn one by one.
bool isRandom(const Numbers &numbers) {
  constexpr size_t kFewest = 64;
  constexpr double kDeviations = 4;
  const auto count = static_cast<double>(numbers.values.size());
  if (numbers.values.size() < kFewest ||
      !llvm::all_of(numbers.values, [](double v) { return std::isfinite(v); }))
    return false;
  std::vector<double> distinct = numbers.values;
  llvm::sort(distinct);
  distinct.erase(llvm::unique(distinct), distinct.end());
  if (distinct.size() < 0.95 * count)
    return false;
  double mean = 0, variance = 0, fourth = 0;
  for (double value : numbers.values)
    mean += value / count;
  for (double value : numbers.values) {
    const double square = (value - mean) * (value - mean);
    variance += square / count;
    fourth += square * square / count;
  }
  const double tails = fourth / (variance * variance),
               error = std::sqrt(variance / count);
  const bool isShare = distinct.front() >= 0 && distinct.back() <= 1;
  return std::abs(mean - (isShare ? 0.5 : 0)) < kDeviations * error &&
         tails > 1.5 && tails < 3 + kDeviations * std::sqrt(24 / count) &&
         haveIndependentNeighbours(numbers, mean, variance);
}

/// An op that computes with a constant and a value of samples.
struct Meeting {
  enum Kind { Adds, Mixes, Compares } kind;
  BinaryOp op;
};

/// Whether ops compute `value` from elements of an input, without weights.
bool isOfInput(Value value, const Reach &reach) {
  return !reach.reachesWeights(value) &&
         llvm::any_of(dependencies({value}, worksOnElements),
                      [](Value one) { return roleOf(one) == role::kInput; });
}

/// Whether `value` is added to what depends on an input.
bool isAddedToSamples(Value value, const Reach &reach) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto sum = dyn_cast<BinaryOp>(user);
    if (!sum || sum.getKind() != BinaryKind::add)
      return isa<ReshapeOp, ConvertOp, BroadcastOp, TransposeOp>(user) &&
             isAddedToSamples(user->getResult(0), reach);
    return reach.readsInput(sum.getA() == value ? sum.getB() : sum.getA());
  });
}

/// Returns how `op` uses `constant`, which has more than one dimension unless
/// `isVector`.
std::optional<Meeting> meetingIn(BinaryOp op, Value constant, bool isVector,
                                 const Reach &reach) {
  Value other = op.getA() == constant ? op.getB() : op.getA();
  const BinaryKind kind = op.getKind();
  if (kind == BinaryKind::add && isOfInput(other, reach))
    return Meeting{Meeting::Adds, op};
  if (kind == BinaryKind::mul && reach.readsInput(other) &&
      (!isVector || unaryOf(skipMoves(other), UnaryKind::exp)) &&
      isAddedToSamples(op.getResult(), reach))
    return Meeting{Meeting::Mixes, op};
  if (kind == BinaryKind::sub && isSquaredOrAbsolute(op.getResult()) &&
      reach.reachesWeights(other) && reach.readsInput(other) &&
      repeatedSource(other).source == other)
    return Meeting{Meeting::Compares, op};
  return std::nullopt;
}

/// Adds the uses of `value`, which has the elements of a constant.
void findMeetings(Value value, bool isVector, const Reach &reach,
                  SmallVectorImpl<Meeting> &meetings) {
  for (Operation *user : value.getUsers()) {
    double factor = 1;
    auto binary = dyn_cast<BinaryOp>(user);
    if (isa<ReshapeOp, ConvertOp, BroadcastOp, TransposeOp>(user) ||
        (binary && scaledValue(binary.getResult(), factor) == value))
      findMeetings(user->getResult(0), isVector, reach, meetings);
    else if (std::optional<Meeting> meeting =
                 binary ? meetingIn(binary, value, isVector, reach)
                        : std::nullopt)
      meetings.push_back(*meeting);
  }
}

std::string textOn(const Meeting &meeting, const Numbers &numbers) {
  const char *verb = meeting.kind == Meeting::Adds ? " adds "
                     : meeting.kind == Meeting::Mixes
                         ? " multiplies by "
                         : " compares results with ";
  return nodeOf(meeting.op) + verb + std::to_string(numbers.values.size()) +
         " random numbers that are a constant of the model: noise that is "
         "drawn at export is the same in every step; make it an input";
}

/// Whether an op reads `use` where a weight stands.
bool isForWeight(OpOperand &use) {
  Operation *op = use.getOwner();
  return (isa<MatmulOp>(op) && use.getOperandNumber() < 2) ||
         (isa<ConvOp>(op) && use.getOperandNumber() == 1) ||
         (isa<EmbeddingOp>(op) && use.getOperandNumber() == 0);
}

/// Returns the first op that reads elements of `value` as a weight, or null.
Operation *readerAsWeight(Value value) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    Operation *found = isForWeight(use) ? user
                       : isa<ReshapeOp, ConvertOp, TransposeOp>(user)
                           ? readerAsWeight(user->getResult(0))
                           : nullptr;
    if (found)
      return found;
  }
  return nullptr;
}

} // namespace

std::string textOnConstantWeights(func::FuncOp forward) {
  Operation *first = nullptr;
  size_t size = 0, more = 0;
  for (ConstantOp op : forward.getOps<ConstantOp>()) {
    Operation *reader = readerAsWeight(op.getResult());
    std::optional<Numbers> numbers = reader ? variedNumbers(op) : std::nullopt;
    if (!numbers || numbers->isVector() || !isRandom(*numbers))
      continue;
    more += first ? 1 : 0;
    size = first ? size : numbers->values.size();
    first = first ? first : reader;
  }
  return first ? nodeOf(first) + " reads " + std::to_string(size) +
                     " random numbers where a weight stands" +
                     (more > 0 ? ", and so do " + std::to_string(more) +
                                     " other constants"
                               : "") +
                     ": constants of the model are not trained"
               : "";
}

std::string textOnNoise(func::FuncOp forward, const Reach &reach) {
  SmallVector<Numbers> targets;
  SmallVector<std::pair<Meeting, Numbers>> added;
  for (ConstantOp op : forward.getOps<ConstantOp>()) {
    SmallVector<Meeting> meetings;
    findMeetings(op.getResult(), /*isVector=*/false, reach, meetings);
    std::optional<Numbers> numbers =
        meetings.empty() ? std::nullopt : variedNumbers(op);
    meetings.clear();
    if (numbers)
      findMeetings(op.getResult(), numbers->isVector(), reach, meetings);
    for (const Meeting &meeting : meetings) {
      if (meeting.kind == Meeting::Adds)
        added.emplace_back(meeting, *numbers);
      if (meeting.kind == Meeting::Compares)
        targets.push_back(*numbers);
      // The means of features, which are added to them, also are a vector.
      if ((meeting.kind != Meeting::Adds || !numbers->isVector()) &&
          isRandom(*numbers))
        return textOn(meeting, *numbers);
    }
  }
  for (const auto &[meeting, numbers] : added)
    if (llvm::is_contained(targets, numbers))
      return textOn(meeting, numbers);
  return "";
}

} // namespace dpc
