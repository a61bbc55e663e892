//===- Forward.cpp - Construction of the function @forward ----------------===//
#include "frontends/emit/Forward.h"

#include "frontends/emit/Loss.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/Path.h"

using namespace mlir;

namespace dpc::frontend {

llvm::StringRef dtypeName(Type element) {
  if (element.isF32())
    return "f32";
  if (element.isF16())
    return "f16";
  if (element.isBF16())
    return "bf16";
  if (element.isF64())
    return "f64";
  if (element.isInteger(1))
    return "bool";
  if (auto type = dyn_cast<IntegerType>(element)) {
    static constexpr llvm::StringRef names[][2] = {
        {"i8", "u8"}, {"i16", "u16"}, {"i32", "u32"}, {"i64", "u64"}};
    if (type.getWidth() >= 8)
      return names[llvm::Log2_32(type.getWidth()) - 3][type.isUnsigned()];
  }
  // Weights with fewer than 8 bits per element become constants.
  llvm_unreachable("no element type of weights");
}

int64_t elementBytes(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

static ArrayAttr strings(llvm::ArrayRef<std::string> texts, MLIRContext *c) {
  llvm::SmallVector<llvm::StringRef> refs(texts.begin(), texts.end());
  return Builder(c).getStrArrayAttr(refs);
}

static DictionaryAttr attrsOf(const WeightArgument &weight, MLIRContext *c) {
  Builder b(c);
  NamedAttrList attrs;
  attrs.append(attr::kName, b.getStringAttr(weight.name));
  attrs.append(
      attr::kRole,
      b.getStringAttr(weight.isParameter ? role::kParameter : role::kBuffer));
  if (weight.data) {
    NamedAttrList source;
    source.append("file", b.getStringAttr(weight.data->file));
    source.append("offset", b.getI64IntegerAttr(weight.data->offset));
    source.append("bytes", b.getI64IntegerAttr(weight.data->bytes));
    source.append("dtype",
                  b.getStringAttr(dtypeName(weight.type.getElementType())));
    attrs.append(attr::kSource, source.getDictionary(c));
  }
  if (!weight.aliases.empty())
    attrs.append(attr::kAliases, strings(weight.aliases, c));
  if (weight.isUnsaved)
    attrs.append(attr::kUnsaved, b.getUnitAttr());
  if (weight.isFrozen)
    attrs.append(attr::kFrozen, b.getUnitAttr());
  return attrs.getDictionary(c);
}

static DictionaryAttr attrsOf(const BoundInput &input, MLIRContext *c) {
  Builder b(c);
  NamedAttrList attrs;
  attrs.append(attr::kName, b.getStringAttr(input.name));
  attrs.append(attr::kRole, b.getStringAttr(role::kInput));
  if (input.batchDim)
    attrs.append(attr::kBatchDim, b.getI64IntegerAttr(*input.batchDim));
  return attrs.getDictionary(c);
}

void Forward::makeModule(llvm::ArrayRef<std::string> constants) {
  // The location is a file position, not a name: the compiler derives names
  // from named locations, and derived names must not contain the model's path.
  Location loc = FileLineColLoc::get(context, file, 0, 0);
  module = ModuleOp::create(loc);
  (*module)->setAttr(attr::kModel,
                     StringAttr::get(context, llvm::sys::path::stem(file)));
  if (!constants.empty())
    (*module)->setAttr(attr::kConstants, strings(constants, context));
  emit.loc = loc;
}

void Forward::noteUnread(llvm::ArrayRef<std::string> names) {
  if (!names.empty())
    (*module)->setAttr(attr::kUnreadWeights, strings(names, context));
}

llvm::StringMap<Val> Forward::begin(llvm::ArrayRef<WeightArgument> weights,
                                    llvm::ArrayRef<BoundInput> inputs,
                                    llvm::ArrayRef<std::string> constants) {
  llvm::SmallVector<Type> types;
  llvm::SmallVector<DictionaryAttr> attrs;
  llvm::SmallVector<std::string> names;
  for (bool parameters : {true, false})
    for (const WeightArgument &weight : weights) {
      if (weight.isParameter != parameters)
        continue;
      types.push_back(weight.type);
      attrs.push_back(attrsOf(weight, context));
      names.push_back(weight.name);
    }
  llvm::StringMap<Val> values;
  for (const BoundInput &input : inputs) {
    // An input without elements has a known value.
    if (input.type.getNumElements() == 0) {
      values[input.name] = Val(ConstTensor::dense(input.type.getElementType(),
                                                  input.type.getShape(), {}));
      continue;
    }
    if (input.value) {
      Scalar number;
      number.i = *input.value;
      Type element = input.type.getElementType();
      values[input.name] = Val(ConstTensor::splat(
          element, input.type.getShape(), coerce(number, element)));
      continue;
    }
    types.push_back(input.type);
    attrs.push_back(attrsOf(input, context));
    names.push_back(input.name);
  }
  makeModule(constants);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  function = func::FuncOp::create(builder, emit.loc, "forward",
                                  builder.getFunctionType(types, {}));
  Block *body = function.addEntryBlock();
  function.setAllArgAttrs(attrs);
  emit.builder.setInsertionPointToEnd(body);
  for (auto [name, argument] : llvm::zip(names, body->getArguments()))
    values[name] = Val(argument);
  return values;
}

/// Appends the next values of updated buffers, such as running statistics.
void Forward::addUpdates(llvm::SmallVectorImpl<Value> &results,
                         llvm::SmallVectorImpl<DictionaryAttr> &attrs) {
  Builder b(context);
  for (auto [argument, value] : emit.updates) {
    unsigned index = argument.getArgNumber();
    auto role = function.getArgAttrOfType<StringAttr>(index, attr::kRole);
    if (role.getValue() != role::kBuffer)
      continue;
    results.push_back(value);
    attrs.push_back(b.getDictionaryAttr(
        {b.getNamedAttr(attr::kName, function.getArgAttr(index, attr::kName)),
         b.getNamedAttr(attr::kTies, b.getI64IntegerAttr(index))}));
  }
}

/// Says how the model differs from the file, or "".
static std::string evaluationText(const Emitter &emit) {
  std::string text = emit.leftOutDropout ? "dropout off" : "";
  if (emit.usedRunningStatistics)
    text += std::string(text.empty() ? "" : ", ") +
            "batch norm by running statistics";
  return text;
}

/// Says which ops are in evaluation mode, or "" if one is in training mode:
/// then the model was exported for training, with parts of it frozen.
static std::string modesText(const Emitter::Modes &modes) {
  std::string text;
  auto add = [&](llvm::StringRef what, int64_t count) {
    if (count > 0 && modes.dropoutsOn + modes.batchStatistics == 0)
      text += formatted("{0}{1} ({2} {3})", text.empty() ? "" : ", ", what,
                        count, count == 1 ? "op" : "ops");
  };
  add("dropout is off", modes.dropoutsOff);
  add("batch normalization uses running statistics", modes.runningStatistics);
  return text;
}

/// Says that some of the dropouts or batch norms are in evaluation mode, but
/// not all of this kind.
static void remarkOnMixedModes(const Emitter &emit) {
  auto say = [&](llvm::StringRef kind, int64_t off, int64_t on,
                 llvm::StringRef what) {
    if (off > 0 && on > 0 && !emit.evaluates)
      emitRemark(UnknownLoc::get(emit.builder.getContext()))
          << off << " of " << off + on << " " << kind << " " << what
          << ", as after .eval(), and the others are in training mode";
  };
  const Emitter::Modes &modes = emit.modes;
  say("dropouts", modes.dropoutsOff, modes.dropoutsOn,
      modes.dropoutsOff == 1 ? "is off" : "are off");
  say("batch norms", modes.runningStatistics, modes.batchStatistics,
      modes.runningStatistics == 1 ? "uses running statistics"
                                   : "use running statistics");
}

llvm::Expected<OwningOpRef<ModuleOp>>
Forward::finish(llvm::ArrayRef<NamedResult> named, llvm::StringRef loss) {
  llvm::SmallVector<Value> results;
  llvm::SmallVector<Type> types;
  llvm::SmallVector<DictionaryAttr> attrs;
  Builder b(context);
  for (const auto &[name, value] : named) {
    if (!value)
      return makeError("{0}: output '{1}' is not defined by any supported node",
                       file, name);
    if (value.parts)
      return makeError("{0}: output '{1}' is a sequence; accepted: tensors",
                       file, name);
    results.push_back(emit.materialize(value));
    attrs.push_back(b.getDictionaryAttr(
        b.getNamedAttr(attr::kName, b.getStringAttr(name))));
  }
  addUpdates(results, attrs);
  if (std::string text = evaluationText(emit); !text.empty())
    (*module)->setAttr(attr::kEvaluation, b.getStringAttr(text));
  remarkOnMixedModes(emit);
  if (std::string text = modesText(emit.modes); !text.empty())
    (*module)->setAttr(attr::kEvaluationMode, b.getStringAttr(text));
  for (Value result : results)
    types.push_back(result.getType());
  func::ReturnOp::create(emit.builder, function.getLoc(), results);
  function.setFunctionType(
      b.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attrs);
  if (llvm::Error error = markLoss(function, loss, file))
    return std::move(error);
  return std::move(module);
}

FailureOr<OwningOpRef<ModuleOp>>
verified(llvm::Expected<OwningOpRef<ModuleOp>> module, llvm::StringRef file,
         MLIRContext &context) {
  if (!module) {
    // A damaged file can contain any byte, but the message must stay one line.
    std::string message = llvm::toString(module.takeError());
    for (char &c : message)
      if (static_cast<unsigned char>(c) < ' ')
        c = '?';
    emitError(NameLoc::get(StringAttr::get(&context, file))) << message;
    return failure();
  }
  if (failed(mlir::verify(**module)))
    return failure();
  return std::move(*module);
}

} // namespace dpc::frontend
