#include "passes/graph/GraphHash.h"

#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/StopGradient.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace dpc {

namespace {

class Hasher {
public:
  Hasher(bool withScalars, bool skipsStops)
      : withScalars(withScalars), skipsStops(skipsStops) {}

  uint64_t operator()(ValueRange results);

private:
  uint64_t hashArgument(BlockArgument argument);
  uint64_t hashOp(Operation *op);
  std::string contentsOf(ElementsAttr value);

  bool withScalars, skipsStops;
  DenseMap<Value, uint64_t> known;
};

} // namespace

static uint64_t combine(StringRef text, ArrayRef<uint64_t> parts) {
  std::string all = text.str();
  all.append(reinterpret_cast<const char *>(parts.data()),
             parts.size() * sizeof(uint64_t));
  return llvm::xxh3_64bits(all);
}

static std::string textOf(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

uint64_t Hasher::hashArgument(BlockArgument argument) {
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  unsigned index = argument.getArgNumber();
  std::string text = "argument";
  for (StringRef name : {StringRef(attr::kRole), StringRef(attr::kName)})
    if (Attribute value = func.getArgAttr(index, name))
      text += " " + textOf(value);
  auto role = func.getArgAttrOfType<StringAttr>(index, attr::kRole);
  bool isWeight = role && (role.getValue() == role::kParameter ||
                           role.getValue() == role::kBuffer);
  Type type = argument.getType();
  text += " " + textOf(isWeight ? type : getElementTypeOrSelf(type));
  return combine(text, {});
}

/// Returns a text that two constants share if they have the same elements. The
/// shape of a constant of one value may depend on the batch size.
std::string Hasher::contentsOf(ElementsAttr value) {
  ArrayRef<char> bytes;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      bytes = blob->getData();
  } else if (value.isSplat()) {
    return withScalars ? textOf(value.getSplatValue<Attribute>()) : "scalar";
  } else if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    bytes = dense.getRawData();
  }
  return textOf(value.getType()) + " " +
         std::to_string(
             llvm::xxh3_64bits(StringRef(bytes.data(), bytes.size())));
}

uint64_t Hasher::hashOp(Operation *op) {
  std::string text = op->getName().getStringRef().str();
  // Without discardable attributes, which are notes of the compiler.
  if (auto constant = dyn_cast<ConstantOp>(op))
    text += " " + contentsOf(constant.getValue());
  else if (Attribute properties = op->getPropertiesAsAttribute())
    text += " " + textOf(properties);
  for (Type type : op->getResultTypes())
    text += " " + textOf(getElementTypeOrSelf(type));
  SmallVector<uint64_t> parts;
  for (Value operand : op->getOperands())
    parts.push_back(known.lookup(operand));
  return combine(text, parts);
}

uint64_t Hasher::operator()(ValueRange results) {
  // A value is hashed after its operands. The stack replaces recursion, because
  // a graph may be as deep as it has ops.
  SmallVector<Value> stack(results.begin(), results.end());
  while (!stack.empty()) {
    Value value = stack.back();
    if (known.count(value)) {
      stack.pop_back();
      continue;
    }
    Operation *op = value.getDefiningOp();
    size_t before = stack.size();
    for (Value operand : op ? ValueRange(op->getOperands()) : ValueRange())
      if (!known.count(operand))
        stack.push_back(operand);
    if (stack.size() > before)
      continue;
    stack.pop_back();
    if (skipsStops && stopsGradient(op)) {
      known[value] = known.lookup(op->getOperand(0));
      continue;
    }
    if (!op) {
      known[value] = hashArgument(cast<BlockArgument>(value));
      continue;
    }
    uint64_t hash = hashOp(op);
    for (OpResult result : op->getResults())
      known[result] = combine("", {hash, result.getResultNumber()});
  }
  SmallVector<uint64_t> parts;
  for (Value result : results)
    parts.push_back(known.lookup(result));
  return combine("results", parts);
}

GraphHash hashGraph(ValueRange results, bool trains) {
  return {Hasher(/*withScalars=*/false, !trains)(results),
          Hasher(/*withScalars=*/true, !trains)(results)};
}

} // namespace dpc
