//===- Inputs.cpp - Inputs, weights and their files -----------------------===//
#include "tools/driver/Inputs.h"

#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/shard/Passes.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"

#include "llvm/ADT/StringSet.h"

#include <filesystem>

namespace fs = std::filesystem;

using namespace mlir;
using namespace dpc;

namespace {

/// The values that all uses of an index accept.
struct IndexUses {
  int64_t limit = 0; ///< smallest number of rows or classes; 0: not an index
  std::optional<int64_t> ignored; ///< if every use ignores it

  void add(const IndexUses &use) {
    if (use.limit <= 0)
      return;
    ignored = limit == 0 || ignored == use.ignored ? use.ignored : std::nullopt;
    limit = limit ? std::min(limit, use.limit) : use.limit;
  }
};

} // namespace

/// Returns the label that the loss of `op` ignores.
static std::optional<int64_t> ignoredOf(Operation *op) {
  if (auto loss = dyn_cast<CrossEntropyOp>(op);
      loss && !loss->hasAttr(attr::kBounded))
    return static_cast<int64_t>(loss.getIgnoreIndex());
  if (auto label = op->getAttrOfType<IntegerAttr>(attr::kIgnored))
    return label.getInt();
  return std::nullopt;
}

/// Returns how many indices, from 0, the operand `use` accepts; 0 if it is not
/// an index. A comparison with kBounded accepts the positions of its iota.
static int64_t limitOf(OpOperand &use) {
  Operation *user = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (auto embedding = dyn_cast<EmbeddingOp>(user))
    return index == 1 ? shapeOf(embedding.getTable())[0] : 0;
  if (auto loss = dyn_cast<CrossEntropyOp>(user))
    return index == 1 ? shapeOf(loss.getLogits())[1] : 0;
  if (auto sums = dyn_cast<CrossEntropySumsOp>(user))
    return index == 2 ? shapeOf(sums.getLogits())[1] : 0;
  auto hit = dyn_cast<CompareOp>(user);
  if (!hit || !hit->hasAttr(attr::kBounded) || index != 1)
    return 0;
  auto positions = hit.getA().getDefiningOp<IotaOp>();
  return positions ? shapeOf(positions)[positions.getDim()] : 0;
}

/// Returns the uses of `value` as an index, directly or after data movement. A
/// value that is computed from `value`, such as by a clamp, has other bounds.
static IndexUses indexUses(Value value) {
  IndexUses uses;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    uses.add({limitOf(use), ignoredOf(user)});
    if (isa<ReshapeOp, TransposeOp, SliceOp, ConvertOp, BroadcastOp>(user))
      uses.add(indexUses(user->getResult(0)));
  }
  return uses;
}

void dpc::setInputLimits(func::FuncOp program, rt::Plan &plan) {
  for (BlockArgument arg : program.getArguments()) {
    auto name =
        program.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kName);
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!name || !type || !type.getElementType().isInteger())
      continue;
    for (rt::Port &port : plan.inputs)
      if (port.name == name.getValue()) {
        IndexUses uses = indexUses(arg);
        port.limit = uses.limit;
        port.ignored = uses.ignored;
      }
  }
}

std::string dpc::absoluteFile(const std::string &file) {
  std::error_code code;
  fs::path path = fs::absolute(file, code);
  return code ? file : path.string();
}

/// Calls `visit` for each `dpc.source`, with the function, the argument and the
/// file.
static void forEachSource(
    ModuleOp module,
    llvm::function_ref<void(func::FuncOp, unsigned, std::string)> visit) {
  for (auto func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      auto source = func.getArgAttrOfType<DictionaryAttr>(i, attr::kSource);
      auto file = source ? source.getAs<StringAttr>("file") : StringAttr();
      if (file && !file.empty())
        visit(func, i, file.str());
    }
}

void dpc::makeSourcesAbsolute(ModuleOp module) {
  Builder builder(module.getContext());
  forEachSource(module, [&](func::FuncOp func, unsigned i, std::string file) {
    auto source = func.getArgAttrOfType<DictionaryAttr>(i, attr::kSource);
    NamedAttrList changed(source);
    changed.set("file",
                builder.getStringAttr(
                    fs::path(absoluteFile(file)).lexically_normal().string()));
    func.setArgAttr(i, attr::kSource,
                    changed.getDictionary(source.getContext()));
  });
}

std::set<std::string> dpc::removeMissingSources(ModuleOp module) {
  std::set<std::string> missing;
  forEachSource(module, [&](func::FuncOp func, unsigned i, std::string file) {
    std::error_code code;
    if (fs::exists(file, code) || code)
      return;
    func.removeArgAttr(i, attr::kSource);
    missing.insert(std::move(file));
  });
  return missing;
}

Expected<std::vector<rt::SourceFile>>
dpc::describeSources(ModuleOp module, const rt::InitChoice &choice) {
  std::map<std::string, rt::MappedFile> files;
  if (choice.file)
    for (const auto &[path, file] : choice.file->files())
      files.emplace(absoluteFile(path), file);
  std::set<std::string> names;
  forEachSource(module, [&](func::FuncOp, unsigned, std::string file) {
    names.insert(std::move(file));
  });
  for (const std::string &name : names) {
    DPC_ASSIGN(rt::MappedFile file, rt::MappedFile::open(name));
    files.emplace(name, file);
  }
  std::vector<rt::SourceFile> described;
  described.reserve(files.size());
  for (const auto &[name, file] : files)
    described.push_back(rt::describeSourceFile(name, file));
  return described;
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
      if (tensor.init == rt::InitKind::Value) // a scale or bias of a norm
        break;
      tensor.init = rt::InitKind::Random;
      tensor.seed = static_cast<int64_t>(choice.seed);
      break;
    case rt::InitChoice::Kind::File:
      takeFrom(*choice.file, tensor);
      break;
    }
  }
}
