//===- Roles.cpp - Roles of initializers ----------------------------------===//
#include "frontends/onnx/Roles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using ::onnx::TensorProto;

namespace dpc::frontend {

namespace {

constexpr int64_t kMaxConstantElements = int64_t(4) << 20;
/// Every nonzero element of an additive mask is at most this number.
constexpr double kMaskValue = -1e3;

const llvm::StringSet<> &movementOps() {
  static const llvm::StringSet<> ops = {
      "Identity",  "Cast",      "CastLike", "Reshape", "Squeeze",
      "Unsqueeze", "Flatten",   "Slice",    "Expand",  "Concat",
      "Split",     "Transpose", "Gather",   "Tile"};
  return ops;
}

const llvm::StringSet<> &gradientFreeOps() {
  static const llvm::StringSet<> ops = {
      "Equal", "Less",  "LessOrEqual", "Greater", "GreaterOrEqual",
      "Not",   "Shape", "Size",        "Range",   "Sign",
      "Floor", "Ceil",  "Round",       "IsNaN",   "IsInf"};
  return ops;
}

/// The first input that describes a shape or a way of resampling, by operator.
/// The inputs after it are of the same kind.
const llvm::StringMap<int> &firstShapeInputs() {
  static const llvm::StringMap<int> inputs = {
      {"Reshape", 1},   {"Expand", 1},          {"Tile", 1},  {"Slice", 1},
      {"Pad", 1},       {"Resize", 1},          {"Split", 1}, {"Upsample", 1},
      {"TopK", 1},      {"ConstantOfShape", 0}, {"Range", 0}, {"Squeeze", 1},
      {"Unsqueeze", 1},
  };
  return inputs;
}

/// Whether `name` is a path that frameworks give to weights, such as
/// "blocks.0.gate". Exporters name literals differently: "val_3",
/// "/mul/Constant_output_0", "const_0.5".
bool isModulePath(llvm::StringRef name) {
  if (!name.contains('.') || name.contains('/') || name.contains(':'))
    return false;
  llvm::StringRef member = name.rsplit('.').second;
  if (member.empty() || llvm::isDigit(member.front()))
    return false;
  for (llvm::StringRef literal : {"const", "lifted_tensor", "_tensor_constant"})
    if (member.starts_with_insensitive(literal))
      return false;
  return true;
}

/// Whether `name` can be a member of the outermost module, such as
/// "logit_scale". Names invented by exporters end with a number.
bool looksLikeMember(llvm::StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         !llvm::isDigit(name.back()) && llvm::all_of(name, [](char c) {
           return llvm::isAlnum(c) || c == '_';
         });
}

/// The metadata with a JSON list of the weights that training does not change.
/// examples/export_torch.py writes it.
constexpr llvm::StringLiteral kBuffers = "dpc.buffers";

class Classifier {
public:
  Classifier(const ModelFile &file, llvm::ArrayRef<FlatNode> nodes)
      : file(file) {
    for (const FlatNode &node : nodes)
      collectReads(node.proto, [&](llvm::StringRef name) {
        auto &list = users[name];
        if (list.empty() || list.back() != &node.proto)
          list.push_back(&node.proto);
      });
    for (const auto &output : file.model().graph().output())
      results.insert(output.name());
    for (const auto &entry : file.model().metadata_props())
      if (entry.key() == kBuffers)
        nameBuffers(entry.value());
  }

  /// `text` is a JSON list. Ignores others, which another program wrote.
  void nameBuffers(const std::string &text) {
    auto list = llvm::json::parse(text);
    if (!list)
      return llvm::consumeError(list.takeError());
    if (const llvm::json::Array *names = list->getAsArray())
      for (const llvm::json::Value &name : *names)
        if (auto word = name.getAsString())
          buffers.insert(*word);
  }

  bool isRead(llvm::StringRef name) const {
    return users.contains(name) || results.contains(name);
  }

  llvm::Expected<WeightRole> defaultRole(const Weight &weight,
                                         MLIRContext *context) const {
    llvm::StringRef name = weight.tensor->name();
    if (weight.type.getRank() == 0 && weight.hasData && !isModulePath(name)) {
      if (looksLikeMember(name) && feedsArithmetic(name))
        emitRemark(UnknownLoc::get(context))
            << "'" << name << "' is a constant, like all scalars whose names "
            << "are not paths such as blocks.0.gate; --trainable=" << name
            << " trains it";
      return WeightRole::Constant;
    }
    if (feedsOnly(name, isStatistics, isMovement))
      return WeightRole::Buffer;
    if (weight.hasData && isSmall(weight) &&
        feedsOnly(name, isShape, [](const Node &) { return true; }))
      return WeightRole::Constant;
    if (feedsOnly(name, isGradientFree, isMovement))
      return weight.hasData && isSmall(weight) ? WeightRole::Constant
                                               : WeightRole::Buffer;
    // Only vectors are frequencies; a matrix that feeds Sin is a trained layer.
    bool isVector = llvm::count_if(weight.type.getShape(),
                                   [](int64_t d) { return d != 1; }) <= 1;
    if (isVector && feedsOnly(name, isCosOrSin, isMovementOrProduct))
      return WeightRole::Buffer;
    if (weight.hasData && isSmall(weight) &&
        feedsOnly(name, isMasking, isMovement)) {
      auto values = file.decode(*weight.tensor, context);
      if (!values)
        return values.takeError();
      if (looksLikeMask(*values))
        return WeightRole::Constant;
    }
    return buffers.contains(name) ? WeightRole::Buffer : WeightRole::Parameter;
  }

  static bool isSmall(const Weight &weight) {
    return weight.type.getNumElements() <= kMaxConstantElements;
  }

private:
  using Node = ::onnx::NodeProto;

  /// Whether an arithmetic op reads `name`. If not, a scalar is never trained.
  bool feedsArithmetic(llvm::StringRef name) const {
    auto found = users.find(name);
    return found != users.end() &&
           llvm::any_of(found->second, [](const Node *node) {
             llvm::StringRef op = node->op_type();
             return op == "Mul" || op == "Add" || op == "Sub" || op == "Div" ||
                    op == "Exp" || op == "Sigmoid" || op == "Tanh";
           });
  }
  static bool isStatistics(const Node &node, llvm::StringRef name) {
    return node.op_type() == "BatchNormalization" && node.input_size() >= 5 &&
           (node.input(3) == name || node.input(4) == name);
  }
  static bool isShape(const Node &node, llvm::StringRef name) {
    auto first = firstShapeInputs().find(node.op_type());
    if (first == firstShapeInputs().end())
      return false;
    auto others = llvm::make_range(
        node.input().begin(),
        node.input().begin() + std::min(first->second, node.input_size()));
    return !llvm::is_contained(others, name);
  }
  static bool isGradientFree(const Node &node, llvm::StringRef) {
    return gradientFreeOps().contains(node.op_type());
  }
  static bool isCosOrSin(const Node &node, llvm::StringRef) {
    return node.op_type() == "Cos" || node.op_type() == "Sin";
  }
  static bool isMasking(const Node &node, llvm::StringRef) {
    return node.op_type() == "Add" || node.op_type() == "Where";
  }

  static bool isMovement(const Node &node) {
    return movementOps().contains(node.op_type());
  }
  static bool isMovementOrProduct(const Node &node) {
    llvm::StringRef op = node.op_type();
    return isMovement(node) || op == "Mul" || op == "MatMul" || op == "Einsum";
  }

  /// Whether all uses of `name`, also through nodes that `follows` accepts, end
  /// at nodes that `accept` accepts.
  template <typename Accept, typename Follows>
  bool feedsOnly(llvm::StringRef name, Accept accept, Follows follows) const {
    llvm::SmallVector<std::string> work = {name.str()};
    llvm::StringSet<> seen;
    while (!work.empty()) {
      std::string value = work.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      auto found = users.find(value);
      if (found == users.end() || results.contains(value))
        return false;
      for (const Node *node : found->second) {
        if (accept(*node, value))
          continue;
        if (!follows(*node))
          return false;
        work.append(node->output().begin(), node->output().end());
      }
    }
    return true;
  }

  static bool looksLikeMask(const ConstTensor &values) {
    bool masks = false;
    for (int64_t n = 0; n < values.size(); ++n) {
      double v = values.at(n).f;
      if (v != 0.0 && !(v <= kMaskValue))
        return false;
      masks |= v != 0.0;
    }
    return masks;
  }

  const ModelFile &file;
  llvm::StringMap<llvm::SmallVector<const Node *>> users;
  llvm::StringSet<> results;
  llvm::StringSet<> buffers; ///< named by kBuffers
};

bool elementIsFloat(const TensorProto &t) {
  return t.data_type() == TensorProto::FLOAT ||
         t.data_type() == TensorProto::FLOAT16 ||
         t.data_type() == TensorProto::BFLOAT16 ||
         t.data_type() == TensorProto::DOUBLE;
}

llvm::Expected<NameFilter> makeFilter(llvm::StringRef option,
                                      const std::vector<std::string> &patterns,
                                      const ModelFile &file) {
  std::vector<std::string> names, examples;
  if (!patterns.empty())
    for (const TensorProto &t : file.model().graph().initializer()) {
      names.push_back(t.name());
      if (elementIsFloat(t))
        examples.push_back(t.name());
    }
  return NameFilter::create(option, patterns, file.path(), "initializer", names,
                            examples);
}

/// Returns the role of `weight`, and sets `isFrozen`.
llvm::Expected<WeightRole> roleOf(Weight &weight, const Classifier &classifier,
                                  const NameFilter &frozen,
                                  const NameFilter &trainable,
                                  MLIRContext *context) {
  llvm::StringRef name = weight.tensor->name();
  // 8-bit floats are quantized, so they are not trained.
  Type element = weight.type.getElementType();
  if (!isa<FloatType>(element) || element.getIntOrFloatBitWidth() < 16)
    return weight.hasData && Classifier::isSmall(weight) ? WeightRole::Constant
                                                         : WeightRole::Buffer;
  if (trainable.matches(name))
    return WeightRole::Parameter;
  auto role = classifier.defaultRole(weight, context);
  if (!role || !frozen.matches(name))
    return role;
  weight.isFrozen = *role == WeightRole::Parameter;
  return WeightRole::Buffer;
}

/// Says which patterns of --frozen change nothing. They are no mistake, because
/// a user may not know which initializers would be trained.
void remarkOnIdle(const NameFilter &frozen, llvm::ArrayRef<Weight> weights,
                  MLIRContext *context) {
  std::vector<std::string> names;
  for (const Weight &weight : weights)
    if (weight.isFrozen || weight.role == WeightRole::Parameter)
      names.push_back(weight.tensor->name());
  std::vector<std::string> idle = frozen.matchingNone(names);
  if (!idle.empty())
    emitRemark(UnknownLoc::get(context))
        << "--frozen=" << llvm::join(idle, ",")
        << " changes nothing: the initializers are not trained anyway";
}

/// Sets `hasData`, and the location if the data is external.
llvm::Error findData(const ModelFile &file, int index, Weight &weight) {
  weight.hasData = true;
  if (weight.tensor->data_location() != TensorProto::EXTERNAL)
    return llvm::Error::success();
  auto data = file.locateInitializer(index, weight.type.getElementType());
  if (!data)
    return data.takeError();
  weight.data = *data;
  weight.hasData = data->has_value();
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<Weight>>
classifyWeights(const ModelFile &file, llvm::ArrayRef<FlatNode> nodes,
                const ImportOptions &options, MLIRContext *context) {
  auto frozen = makeFilter("--frozen", options.frozen, file);
  if (!frozen)
    return frozen.takeError();
  auto trainable = makeFilter("--trainable", options.trainable, file);
  if (!trainable)
    return trainable.takeError();

  Classifier classifier(file, nodes);
  std::vector<Weight> weights;
  const auto &graph = file.model().graph();
  for (int i = 0; i < graph.initializer_size(); ++i) {
    Weight weight;
    weight.tensor = &graph.initializer(i);
    if (!classifier.isRead(weight.tensor->name()))
      continue;
    Type element = elementTypeOf(weight.tensor->data_type(), context);
    if (!element)
      return makeError("{0}: initializer '{1}' has elements of {2}, which is "
                       "not supported; accepted: floats, integers and booleans",
                       file.path(), weight.tensor->name(),
                       onnxTypeName(weight.tensor->data_type()));
    if (llvm::Error error = checkDims(*weight.tensor))
      return makeError("{0}: {1}", file.path(),
                       llvm::toString(std::move(error)));
    weight.type = RankedTensorType::get(
        Shape(weight.tensor->dims().begin(), weight.tensor->dims().end()),
        element);
    if (llvm::Error error = findData(file, i, weight))
      return std::move(error);
    if (auto role = roleOf(weight, classifier, *frozen, *trainable, context))
      weight.role = *role;
    else
      return role.takeError();
    llvm::StringRef name = weight.tensor->name();
    weight.isUnsaved = weight.role == WeightRole::Buffer &&
                       !isModulePath(name) && !looksLikeMember(name) &&
                       !frozen->matches(name);
    if (weight.role != WeightRole::Constant && weight.hasData && !weight.data) {
      auto data = file.locateInitializer(i, element);
      if (!data)
        return data.takeError();
      weight.data = *data;
    }
    weights.push_back(std::move(weight));
  }
  remarkOnIdle(*frozen, weights, context);
  return weights;
}

} // namespace dpc::frontend
