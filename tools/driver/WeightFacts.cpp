//===- WeightFacts.cpp - Facts about the weights of @forward --------------===//
#include "tools/driver/WeightFacts.h"

#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/StopGradient.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Match.h"
#include "runtime/base/DType.h"
#include "runtime/io/MappedFile.h"

#include <cstdio>
#include <cstring>
#include <optional>

using namespace mlir;

namespace dpc {

static bool isWeight(BlockArgument argument) {
  StringRef role = roleOf(argument);
  return role == role::kParameter || role == role::kBuffer;
}

std::string nameOf(BlockArgument argument) {
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name =
      func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kName);
  return name ? name.str() : "";
}

bool isFrozen(BlockArgument argument) {
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return func.getArgAttr(argument.getArgNumber(), attr::kFrozen) != nullptr;
}

bool isTrained(BlockArgument argument) {
  return roleOf(argument) == role::kParameter && !isFrozen(argument);
}

std::vector<double> numbersOf(ConstantOp constant) {
  auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue());
  std::vector<double> numbers;
  if (elements)
    for (const APFloat &element : elements.getValues<APFloat>())
      numbers.push_back(element.convertToDouble());
  return numbers;
}

Reach::Reach(func::FuncOp forward) {
  for (BlockArgument argument : forward.getArguments()) {
    if (roleOf(argument) == role::kInput)
      inputs.insert(argument);
    if (isTrained(argument))
      weights.insert(argument);
  }
  for (Operation &op : forward.front())
    for (auto *values : {&inputs, &weights})
      if ((values == &inputs || !passesNoGradient(&op)) &&
          llvm::any_of(op.getOperands(),
                       [&](Value value) { return values->contains(value); }))
        values->insert_range(op.getResults());
}

namespace {
/// The bytes of a weight in the file of the model.
struct StoredBytes {
  std::string type;
  std::vector<char> bytes;
};
} // namespace

/// Returns the bytes of the first `most` elements, or no bytes if they cannot
/// be read.
static StoredBytes bytesInFile(BlockArgument argument, int64_t most) {
  auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto source = func ? func.getArgAttrOfType<DictionaryAttr>(
                           argument.getArgNumber(), attr::kSource)
                     : DictionaryAttr();
  if (!source)
    return {};
  auto name = source.getAs<StringAttr>("file");
  auto type = source.getAs<StringAttr>("dtype");
  auto offset = source.getAs<IntegerAttr>("offset");
  auto bytes = source.getAs<IntegerAttr>("bytes");
  if (!name || !type || !offset || !bytes)
    return {};
  auto file = rt::MappedFile::open(name.str());
  if (!file || offset.getInt() < 0 || bytes.getInt() < 0 ||
      offset.getInt() + bytes.getInt() > file->size())
    return {};
  const auto *data =
      reinterpret_cast<const char *>(file->data()) + offset.getInt();
  const int64_t all = tensorType(argument).getNumElements();
  const int64_t count =
      most < all ? most * (bytes.getInt() / all) : bytes.getInt();
  return {type.str(), std::vector<char>(data, data + count)};
}

std::vector<float> valuesInFile(BlockArgument argument, int64_t most) {
  StoredBytes stored = bytesInFile(argument, most);
  const int64_t count = std::min(most, tensorType(argument).getNumElements());
  if (stored.type != "f32" || stored.bytes.size() % sizeof(float) != 0 ||
      static_cast<int64_t>(stored.bytes.size() / sizeof(float)) != count)
    return {};
  std::vector<float> values(count);
  std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
  return values;
}

DenseElementsAttr elementsInFile(BlockArgument argument) {
  RankedTensorType type = tensorType(argument);
  StoredBytes stored = bytesInFile(argument, type.getNumElements());
  std::optional<rt::DType> dtype = rt::parseDType(stored.type);
  if (!dtype || stored.bytes.empty() ||
      static_cast<int64_t>(stored.bytes.size()) !=
          type.getNumElements() * rt::sizeOf(*dtype))
    return {};
  auto valueAt = [&](int64_t i) {
    return rt::loadAsDouble(stored.bytes.data(), *dtype, i);
  };
  const int64_t count = type.getNumElements();
  if (auto element = dyn_cast<FloatType>(type.getElementType())) {
    SmallVector<APFloat> values;
    for (int64_t i = 0; i < count; ++i) {
      bool losesInfo = false;
      values.emplace_back(valueAt(i));
      values.back().convert(element.getFloatSemantics(),
                            APFloat::rmNearestTiesToEven, &losesInfo);
    }
    return DenseElementsAttr::get(type, values);
  }
  SmallVector<APInt> values;
  const unsigned bits = type.getElementTypeBitWidth();
  for (int64_t i = 0; i < count; ++i)
    values.emplace_back(bits, static_cast<int64_t>(valueAt(i)),
                        /*isSigned=*/false, /*implicitTrunc=*/true);
  return DenseElementsAttr::get(type, values);
}

/// Returns the value with which the norm `user` starts if `operand` is its
/// scale or bias, otherwise nullopt.
static std::optional<double> startOf(OpOperand &operand) {
  auto in = [&](Value scale, Value bias) -> std::optional<double> {
    if (operand.get() == scale)
      return 1.0;
    if (operand.get() == bias)
      return 0.0;
    return std::nullopt;
  };
  if (auto norm = dyn_cast<NormOp>(operand.getOwner()))
    return in(norm.getScale(), norm.getBias());
  if (auto norm = dyn_cast<BatchNormOp>(operand.getOwner()))
    return in(norm.getScale(), norm.getBias());
  return std::nullopt;
}

void markNormWeights(func::FuncOp forward) {
  for (BlockArgument argument : forward.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!isWeight(argument) || argument.use_empty())
      continue;
    std::optional<double> start = startOf(*argument.use_begin());
    bool isSame = llvm::all_of(argument.getUses(), [&](OpOperand &use) {
      return startOf(use) == start;
    });
    if (start && isSame)
      forward.setArgAttr(index, attr::kInit,
                         Builder(forward.getContext()).getF64FloatAttr(*start));
  }
}

/// Returns "3.1 M" for 3100000.
static std::string rounded(int64_t count) {
  const char *units[] = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  auto value = static_cast<double>(count);
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.1f%s", value,
                units[unit]);
  return text;
}

/// Returns `name` without its digits.
static std::string withoutNumbers(StringRef name) {
  std::string text;
  llvm::copy_if(name, std::back_inserter(text),
                [](char c) { return !llvm::isDigit(c); });
  return text;
}

std::string remarkOnRepeatedModules(func::FuncOp forward) {
  int64_t count = 0;
  std::string first;
  for (BlockArgument argument : forward.getArguments()) {
    const std::string name = nameOf(argument);
    auto aliases = forward.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(),
                                                       attr::kAliases);
    if (!aliases || roleOf(argument) != role::kParameter)
      continue;
    for (auto alias : aliases.getAsRange<StringAttr>())
      if (withoutNumbers(alias) == withoutNumbers(name)) {
        first = first.empty() ? "'" + name + "' is also '" + alias.str() + "'"
                              : first;
        ++count;
        break;
      }
  }
  if (count == 0)
    return "";
  return std::to_string(count) +
         (count == 1 ? " weight is that" : " weights are those") +
         " of several modules of a list (" + first +
         "): is one module repeated, instead of copies?";
}

std::string remarkOnFrozen(func::FuncOp forward) {
  int64_t frozen = 0, all = 0, frozenElements = 0, allElements = 0;
  std::string tied;
  for (BlockArgument argument : forward.getArguments()) {
    unsigned index = argument.getArgNumber();
    const bool isKept = isFrozen(argument);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || (!isKept && roleOf(argument) != role::kParameter))
      continue;
    ++all;
    allElements += type.getNumElements();
    frozen += isKept ? 1 : 0;
    frozenElements += isKept ? type.getNumElements() : 0;
    auto name = forward.getArgAttrOfType<StringAttr>(index, attr::kName);
    auto aliases = forward.getArgAttrOfType<ArrayAttr>(index, attr::kAliases);
    if (isKept && name && aliases)
      for (auto alias : aliases.getAsRange<StringAttr>())
        tied += "; '" + name.str() + "' is also '" + alias.str() + "'";
  }
  if (frozen == 0)
    return "";
  return "frozen: " + std::to_string(frozen) + " of " + std::to_string(all) +
         " weights (" + rounded(frozenElements) + " of " +
         rounded(allElements) + " parameters)" + tied;
}

/// Returns the trained weight whose elements `value` repeats, or null.
static BlockArgument trainedIn(Value value) {
  auto weight = dyn_cast<BlockArgument>(skipMoves(value));
  return weight && isTrained(weight) ? weight : BlockArgument();
}

/// Returns the weight that is subtracted from an input to get `value`, or null.
static BlockArgument shiftOf(Value value) {
  BinaryOp shift = binaryOf(skipMoves(value), BinaryKind::sub);
  return shift && roleOf(skipMoves(shift.getA())) == role::kInput
             ? trainedIn(shift.getB())
             : BlockArgument();
}

/// Whether a weight is only subtracted from an input, or divides it, as the
/// mean and the deviation of the data do. A learned scale multiplies.
static bool standardizesInput(Value weight) {
  return !weight.use_empty() &&
         llvm::all_of(weight.getUsers(), [&](Operation *user) {
           if (isa<ReshapeOp, ConvertOp, BroadcastOp>(user))
             return standardizesInput(user->getResult(0));
           auto binary = dyn_cast<BinaryOp>(user);
           return binary &&
                  (binary.getKind() == BinaryKind::sub ||
                   binary.getKind() == BinaryKind::div) &&
                  skipMoves(binary.getB()) == skipMoves(weight) &&
                  (roleOf(skipMoves(binary.getA())) == role::kInput ||
                   shiftOf(binary.getA()));
         });
}

/// Whether the values are those of a table of positions: sines and cosines, of
/// which the first row has 0 and 1.
static bool isSineTable(BlockArgument weight) {
  ArrayRef<int64_t> shape = tensorType(weight).getShape();
  if (shape.size() < 2 || shape[shape.size() - 2] < 2)
    return false;
  auto isOne = [](float value) { return value == 1; };
  auto isBit = [](float value) { return value == 0 || value == 1; };
  const std::vector<float> row = valuesInFile(weight, shape.back());
  if (!llvm::all_of(row, isBit) || !llvm::any_of(row, isOne) ||
      llvm::all_of(row, isOne))
    return false;
  const std::vector<float> all = valuesInFile(weight);
  return !llvm::all_of(all, isBit) &&
         llvm::all_of(all, [](float v) { return v >= -1 && v <= 1; });
}

/// Whether the file has another value than `number` for an element of `weight`.
static bool startsElsewhere(BlockArgument weight, float number) {
  return llvm::any_of(valuesInFile(weight),
                      [&](float value) { return value != number; });
}

/// Adds each pair of weights of which one is subtracted from an input and the
/// other divides the difference, unless one starts as a learned shift or scale.
static void addStandardizers(func::FuncOp forward,
                             llvm::DenseSet<BlockArgument> &found) {
  for (BinaryOp op : forward.getOps<BinaryOp>()) {
    if (op.getKind() != BinaryKind::div)
      continue;
    BlockArgument mean = shiftOf(op.getA()), deviation = trainedIn(op.getB());
    if (mean && deviation && startsElsewhere(mean, 0) &&
        startsElsewhere(deviation, 1))
      found.insert_range(ArrayRef<BlockArgument>{mean, deviation});
  }
}

std::string remarkOnLikelyConstants(func::FuncOp forward, bool hasBuffers) {
  llvm::DenseSet<BlockArgument> pairs;
  addStandardizers(forward, pairs);
  std::string names, pattern;
  for (BlockArgument argument : forward.getArguments()) {
    const std::string name = nameOf(argument);
    if (name.empty() || !isTrained(argument))
      continue;
    const bool isScale =
        hasBuffers ? pairs.contains(argument) : standardizesInput(argument);
    const char *what = isScale ? "it scales or shifts an input"
                       : !hasBuffers && isSineTable(argument)
                           ? "it is a table of sines"
                           : nullptr;
    if (!what)
      continue;
    names += (names.empty() ? "'" : ", '") + name + "' (" + what + ")";
    pattern = name;
  }
  return names.empty() ? ""
                       : "trained, although probably constants: " + names +
                             (hasBuffers ? "; register_buffer or "
                                         : "; ONNX does not say which weights "
                                           "are buffers; ") +
                             "--frozen=" + pattern + " keeps one constant";
}

std::string remarkOnNarrowWeights(func::FuncOp forward) {
  int64_t narrow = 0, all = 0;
  Type found;
  for (BlockArgument argument : forward.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !isWeight(argument) || !isa<FloatType>(type.getElementType()))
      continue;
    ++all;
    if (type.getElementType().isBF16() || type.getElementType().isF16()) {
      ++narrow;
      found = type.getElementType();
    }
  }
  if (narrow == 0)
    return "";
  std::string name = found.isBF16() ? "bf16" : "f16";
  return "--precision=fp32 does not widen the model: " +
         std::to_string(narrow) + " of " + std::to_string(all) +
         " float weights have type " + name +
         " in the file, and ops on them compute in it; convert the model to "
         "fp32 before its export (model.float())";
}

} // namespace dpc
