//===- Inputs.cpp - Inputs, weights and their files -----------------------===//
#include "tools/driver/Inputs.h"

#include "ir/IndexRange.h"
#include "ir/NodeName.h"
#include "passes/shard/Passes.h"
#include "runtime/io/InputSource.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"

#include "llvm/ADT/StringSet.h"

#include <filesystem>
#include <tuple>

namespace fs = std::filesystem;

using namespace mlir;
using namespace dpc;

namespace {

/// What all uses of an input have in common.
struct IndexUses {
  int64_t first = 0; ///< smallest value
  /// The largest value + 1, from the smallest number of rows or classes. Equal
  /// to `first`: not an index.
  int64_t limit = 0;
  std::optional<int64_t> ignored; ///< if every use ignores it
  TokenUses tokens;
  bool isProbability = false; ///< of a binary cross entropy

  bool isIndex() const { return limit > first; }

  void add(const IndexUses &use) {
    isProbability |= use.isProbability;
    llvm::append_range(tokens.rows, use.tokens.rows);
    tokens.labels.insert(use.tokens.labels.begin(), use.tokens.labels.end());
    if (!use.isIndex())
      return;
    ignored = !isIndex() || ignored == use.ignored ? use.ignored : std::nullopt;
    int64_t low = isIndex() ? std::max(first, use.first) : use.first;
    int64_t high = isIndex() ? std::min(limit, use.limit) : use.limit;
    // If no value is right for both uses, any bound refuses all data.
    if (low < high)
      std::tie(first, limit) = std::pair(low, high);
  }

  rt::InputUse use() const {
    const std::set<int64_t> &ahead = tokens.labels;
    bool isShifted = ahead == std::set<int64_t>{1};
    if (!tokens.rows.empty())
      return ahead.empty() ? rt::InputUse::Ids : rt::InputUse::IdsAndLabels;
    return ahead == std::set<int64_t>{0} ? rt::InputUse::Labels
           : isShifted                   ? rt::InputUse::ShiftedLabels
           : isProbability               ? rt::InputUse::Probabilities
                                         : rt::InputUse::Data;
  }
};

/// A value that consists of elements of an input.
struct Moved {
  Value value;
  int64_t added = 0; ///< to each element
  int64_t wraps = 0; ///< then added to negative elements
  int64_t ahead = 0; ///< positions that were removed along dimension 1
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

/// Returns how many positions of the scores [batch, positions, ..] the loss
/// leaves out at the front.
static int64_t aheadOfScores(Value scores) {
  int64_t ahead = 0;
  while (Operation *op = scores.getDefiningOp()) {
    if (auto slice = dyn_cast<SliceOp>(op); slice && shapeOf(scores).size() > 2)
      ahead += slice.getOffsets()[1];
    if (!isa<SliceOp, ReshapeOp, TransposeOp, ConvertOp>(op))
      break;
    scores = op->getOperand(0);
  }
  return ahead;
}

/// Sets `from` to the result of the user of `use`, if its elements are those of
/// `from` after movement, after the addition of a constant, or after negative
/// indices wrap. A value that is
/// computed otherwise, such as by a clamp, has other bounds.
static bool moves(OpOperand &use, Moved &from) {
  Operation *user = use.getOwner();
  if (auto select = dyn_cast<SelectOp>(user)) {
    std::optional<int64_t> count = wrapOf(select);
    if (!count || from.wraps != 0 || use.getOperandNumber() != 2)
      return false;
    from.wraps = *count;
  } else if (auto binary = dyn_cast<BinaryOp>(user)) {
    bool adds = binary.getKind() == BinaryKind::add;
    unsigned index = use.getOperandNumber();
    std::optional<int64_t> other = splatInteger(user->getOperand(1 - index));
    // Sums beyond 32 bits could overflow.
    if (!other || std::abs(*other) > INT32_MAX || from.wraps != 0 ||
        !(adds || (binary.getKind() == BinaryKind::sub && index == 0)))
      return false;
    from.added += adds ? *other : -*other;
  } else if (auto slice = dyn_cast<SliceOp>(user)) {
    if (shapeOf(slice.getX()).size() > 1)
      from.ahead += slice.getOffsets()[1];
  } else if (auto concat = dyn_cast<ConcatOp>(user)) {
    if (concat.getDim() == 1)
      for (Value part : concat.getParts().take_front(use.getOperandNumber()))
        from.ahead -= shapeOf(part)[1];
  } else if (!isa<ReshapeOp, TransposeOp, ConvertOp, BroadcastOp>(user)) {
    return false;
  }
  from.value = user->getResult(0);
  return true;
}

/// Returns the use of `from` by one op as an index or as targets.
static IndexUses indexUse(OpOperand &use, const Moved &from) {
  IndexUses uses;
  Operation *user = use.getOwner();
  auto targets = user->getAttrOfType<IntegerAttr>(attr::kTargets);
  uses.isProbability = targets && targets.getInt() == use.getOperandNumber();
  int64_t count = limitOf(use);
  if (count <= 0)
    return uses;
  uses.first = (from.wraps == count ? -count : 0) - from.added;
  uses.limit = count - from.added;
  if (std::optional<int64_t> label = ignoredOf(user))
    uses.ignored = *label - from.added;
  if (auto embedding = dyn_cast<EmbeddingOp>(user))
    uses.tokens.rows = {{embedding, from.ahead}};
  else if (isa<CrossEntropyOp, CrossEntropySumsOp>(user))
    uses.tokens.labels = {from.ahead - aheadOfScores(user->getOperand(0))};
  else if (uses.ignored)
    uses.tokens.labels = {from.ahead};
  return uses;
}

static IndexUses indexUses(const Moved &from) {
  IndexUses uses;
  for (OpOperand &use : from.value.getUses()) {
    uses.add(indexUse(use, from));
    if (Moved moved = from; moves(use, moved))
      uses.add(indexUses(moved));
  }
  return uses;
}

TokenUses dpc::tokenUses(BlockArgument input) {
  return indexUses({.value = input}).tokens;
}

static void setUses(BlockArgument argument, rt::Port &port) {
  Type element = cast<RankedTensorType>(argument.getType()).getElementType();
  if (argument.use_empty()) {
    port.use = rt::InputUse::Unread;
    return;
  }
  IndexUses uses = indexUses({.value = argument});
  if (!element.isInteger()) {
    if (uses.isProbability)
      port.use = rt::InputUse::Probabilities;
    return;
  }
  port.first = element.isUnsignedInteger() ? std::max<int64_t>(uses.first, 0)
                                           : uses.first;
  port.limit = std::max(port.first, uses.limit);
  port.ignored = uses.ignored;
  port.use = uses.use();
}

void dpc::setInputUses(func::FuncOp program, rt::Plan &plan) {
  for (BlockArgument arg : program.getArguments()) {
    auto name =
        program.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kName);
    if (!name || !isa<RankedTensorType>(arg.getType()))
      continue;
    for (rt::Port &port : plan.inputs)
      if (port.name == name.getValue())
        setUses(arg, port);
  }
}

/// Says what an index that is out of range does.
static std::string effectOf(Operation *user) {
  if (isa<EmbeddingOp>(user))
    return "an index out of range reads zeros";
  if (isa<CompareOp>(user))
    return "an index out of range selects nothing";
  return "a label out of range has the score 0";
}

std::vector<std::string> dpc::computedIndices(func::FuncOp program) {
  std::vector<std::string> texts;
  program.walk([&](Operation *op) {
    for (OpOperand &use : op->getOpOperands()) {
      int64_t count = limitOf(use);
      if (count <= 0 || isInputOrConstant(use.get(), /*mayAdd=*/true) ||
          rangeOf(use.get()).isWithin(0, count - 1))
        continue;
      texts.push_back(
          std::string(isa<CrossEntropyOp>(op) ? "the labels" : "the indices") +
          " of " + nodeOf(op) + " are computed; they are not checked: " +
          effectOf(op) + " (accepted: 0 to " + std::to_string(count - 1) + ")");
    }
  });
  return texts;
}

static bool hasRole(func::FuncOp program, BlockArgument argument,
                    StringRef role) {
  auto own = program.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                  attr::kRole);
  return own && own.getValue() == role;
}

std::vector<std::string> dpc::unreadInputs(func::FuncOp program) {
  std::vector<std::string> texts;
  for (BlockArgument argument : program.getArguments()) {
    auto name = program.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                     attr::kName);
    if (!name || !argument.use_empty() ||
        !hasRole(program, argument, role::kInput))
      continue;
    bool hasTwin = llvm::any_of(program.getArguments(), [&](BlockArgument o) {
      return !o.use_empty() && o.getType() == argument.getType() &&
             hasRole(program, o, role::kInput);
    });
    texts.push_back(rt::unreadText(name.str(), hasTwin));
  }
  return texts;
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
    BlockArgument argument = function.getArgument(i);
    if (!name || held.contains(name.getValue()) ||
        hasRole(function, argument, role::kInput) ||
        hasRole(function, argument, role::kScalar))
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
