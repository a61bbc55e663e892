//===- Inputs.cpp - Inputs, weights and their files -----------------------===//
#include "tools/driver/Inputs.h"

#include "ir/IndexUse.h"
#include "passes/shard/Passes.h"
#include "runtime/io/InputSource.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightMatch.h"

#include "llvm/ADT/StringSet.h"

#include <filesystem>
#include <limits>
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
  bool isLogged = false;      ///< its logarithm is taken

  bool isIndex() const { return limit > first; }

  void add(const IndexUses &use) {
    isProbability |= use.isProbability;
    isLogged |= use.isLogged;
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

} // namespace

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

/// Returns the use of `from` by one op as an index or as targets.
static IndexUses indexUse(OpOperand &use, const MovedIndices &from) {
  IndexUses uses;
  Operation *user = use.getOwner();
  auto targets = user->getAttrOfType<IntegerAttr>(attr::kTargets);
  uses.isProbability = targets && targets.getInt() == use.getOperandNumber();
  auto unary = dyn_cast<UnaryOp>(user);
  uses.isLogged = unary && unary.getKind() == UnaryKind::log;
  std::optional<AcceptedIndices> accepted = acceptedBy(use);
  if (!accepted)
    return uses;
  int64_t count = accepted->count;
  uses.first = (from.wraps == count ? -count : 0) - from.added;
  uses.limit = count - from.added;
  if (accepted->ignored)
    uses.ignored = *accepted->ignored - from.added;
  if (auto embedding = dyn_cast<EmbeddingOp>(user))
    uses.tokens.rows = {{embedding, from.ahead}};
  else if (isa<CrossEntropyOp, CrossEntropySumsOp>(user))
    uses.tokens.labels = {from.ahead - aheadOfScores(user->getOperand(0))};
  else if (uses.ignored)
    uses.tokens.labels = {from.ahead};
  return uses;
}

static IndexUses indexUses(const MovedIndices &from) {
  IndexUses uses;
  for (OpOperand &use : from.value.getUses()) {
    uses.add(indexUse(use, from));
    if (MovedIndices moved = from; moveThrough(use, moved))
      uses.add(indexUses(moved));
  }
  return uses;
}

TokenUses dpc::tokenUses(BlockArgument input) {
  return indexUses({.value = input}).tokens;
}

/// Returns how many positions before its scores the loss has a token that
/// `rows` read at the position of the scores or earlier. From 1 on, the token
/// is predicted. Both have uses.
static int64_t aheadOf(const TokenUses &labels, const TokenUses &rows) {
  int64_t read = std::numeric_limits<int64_t>::min();
  for (int64_t ahead : llvm::make_second_range(rows.rows))
    read = std::max(read, ahead);
  return *labels.labels.begin() - read;
}

namespace {
struct TokenInput {
  std::string name;
  Type type;
  TokenUses uses;
};
} // namespace

static std::vector<TokenInput> tokenInputs(func::FuncOp forward) {
  std::vector<TokenInput> inputs;
  for (BlockArgument argument : forward.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    auto name = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                     attr::kName);
    if (name && type && type.getRank() == 2 &&
        type.getElementType().isInteger() && roleOf(argument) == role::kInput)
      inputs.push_back({name.str(), type, tokenUses(argument)});
  }
  return inputs;
}

/// Returns the input whose tokens `labels` are: itself if the model reads it,
/// and otherwise the only other input of this type that reads rows of tables.
static const TokenInput *readAs(const TokenInput &labels,
                                const std::vector<TokenInput> &inputs) {
  if (!labels.uses.rows.empty())
    return &labels;
  const TokenInput *found = nullptr;
  for (const TokenInput &input : inputs) {
    if (input.uses.rows.empty() || input.type != labels.type)
      continue;
    if (found)
      return nullptr;
    found = &input;
  }
  return found;
}

std::map<TokenPair, int64_t> dpc::predictedTokens(func::FuncOp forward) {
  std::map<TokenPair, int64_t> pairs;
  std::vector<TokenInput> inputs = tokenInputs(forward);
  for (const TokenInput &labels : inputs) {
    const TokenInput *read = readAs(labels, inputs);
    if (labels.uses.labels.empty() || !read)
      continue;
    if (int64_t ahead = aheadOf(labels.uses, read->uses); ahead >= 1)
      pairs[{labels.name, read->name}] = ahead;
  }
  return pairs;
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
    else if (uses.isLogged)
      port.use = rt::InputUse::Positive;
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
