//===- Inputs.cpp - Inputs, weights and their files -----------------------===//
#include "tools/driver/Inputs.h"

#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/shard/Passes.h"
#include "runtime/io/WeightMatch.h"

#include "llvm/ADT/StringSet.h"

#include <filesystem>

namespace fs = std::filesystem;

using namespace mlir;
using namespace dpc;

/// Returns the smallest number of rows or classes that `value` indexes,
/// directly or after data movement, or 0 if it is not an index.
static int64_t indexedSize(Value value) {
  int64_t limit = 0;
  auto note = [&](int64_t size) {
    if (size > 0)
      limit = limit ? std::min(limit, size) : size;
  };
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (auto embedding = dyn_cast<EmbeddingOp>(user); embedding && index == 1)
      note(shapeOf(embedding.getTable())[0]);
    else if (auto loss = dyn_cast<CrossEntropyOp>(user); loss && index == 1)
      note(shapeOf(loss.getLogits())[1]);
    else if (auto sums = dyn_cast<CrossEntropySumsOp>(user); sums && index == 2)
      note(shapeOf(sums.getLogits())[1]);
    else if (isa<ReshapeOp, TransposeOp, SliceOp, ConvertOp, BroadcastOp>(user))
      note(indexedSize(user->getResult(0)));
  }
  return limit;
}

void dpc::setInputLimits(func::FuncOp program, rt::Plan &plan) {
  for (BlockArgument arg : program.getArguments()) {
    auto name =
        program.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kName);
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!name || !type || !type.getElementType().isInteger())
      continue;
    for (rt::Port &port : plan.inputs)
      if (port.name == name.getValue())
        port.limit = indexedSize(arg);
  }
}

std::string dpc::absoluteFile(const std::string &file) {
  std::error_code code;
  fs::path path = fs::absolute(file, code);
  return code ? file : path.string();
}

void dpc::makeSourcesAbsolute(ModuleOp module) {
  Builder builder(module.getContext());
  for (auto func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      auto source = func.getArgAttrOfType<DictionaryAttr>(i, attr::kSource);
      auto file = source ? source.getAs<StringAttr>("file") : StringAttr();
      if (!file || file.empty())
        continue;
      NamedAttrList changed(source);
      changed.set(
          "file",
          builder.getStringAttr(
              fs::path(absoluteFile(file.str())).lexically_normal().string()));
      func.setArgAttr(i, attr::kSource,
                      changed.getDictionary(source.getContext()));
    }
}

void dpc::setUnreadWeights(ModuleOp program, rt::Plan &plan) {
  llvm::StringSet<> held;
  for (const rt::Tensor &tensor : plan.tensors)
    held.insert(tensor.name);
  auto add = [&](ArrayAttr names) {
    if (names)
      for (auto name : names.getAsRange<StringAttr>())
        plan.unreadWeights.push_back(name.str());
  };
  add(program->getAttrOfType<ArrayAttr>(attr::kUnreadWeights));
  func::FuncOp function = findProgram(program);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, attr::kName);
    if (!name || held.contains(name.getValue()))
      continue;
    plan.unreadWeights.push_back(name.str());
    add(function.getArgAttrOfType<ArrayAttr>(i, attr::kAliases));
  }
}

static void takeFrom(const rt::WeightFiles &files, rt::Tensor &tensor) {
  const rt::WeightFiles::Weight *weight = rt::findWeight(files, tensor);
  if (!weight || weight->entry.shape != tensor.globalShape)
    return; // matchWeights() reports it.
  tensor.source =
      rt::TensorSource{absoluteFile(weight->file.path()), weight->entry.offset,
                       weight->entry.bytes, weight->entry.dtype};
}

void dpc::setInitialValues(rt::Plan &plan, const rt::InitChoice &choice) {
  for (rt::Tensor &tensor : plan.tensors) {
    // A file replaces the values of all weights and optimizer states, even
    // those from the model. Other choices only fill weights without values.
    bool isFile = choice.kind == rt::InitChoice::Kind::File;
    bool isState = tensor.role == rt::TensorRole::State;
    if ((tensor.source || isState) && !isFile)
      continue;
    switch (choice.kind) {
    case rt::InitChoice::Kind::None:
      break;
    case rt::InitChoice::Kind::Zeros:
      tensor.init = rt::InitKind::Zeros;
      break;
    case rt::InitChoice::Kind::Random:
      tensor.init = rt::InitKind::Random;
      tensor.seed = static_cast<int64_t>(choice.seed);
      break;
    case rt::InitChoice::Kind::File:
      takeFrom(*choice.file, tensor);
      break;
    }
  }
}
