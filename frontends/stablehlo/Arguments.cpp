//===- Arguments.cpp - Roles of the arguments of a function ---------------===//
#include "frontends/stablehlo/Arguments.h"

#include "frontends/stablehlo/Call.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend::hlo {

static constexpr llvm::StringLiteral kAliasing = "tf.aliasing_output",
                                     kDonor = "jax.buffer_donor",
                                     kResultInfo = "jax.result_info";

/// Splits "params['w'][0].b" into {"params", "w", "0", "b"}.
static llvm::SmallVector<llvm::StringRef> componentsOf(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> components;
  while (!path.empty()) {
    size_t end = path.find_first_of("[]'\".");
    llvm::StringRef component = path.substr(0, end);
    if (!component.empty())
      components.push_back(component);
    path = path.drop_front(std::min(path.size(), component.size() + 1));
  }
  return components;
}

namespace {

struct Path {
  llvm::SmallVector<llvm::StringRef> components;

  llvm::StringRef root() const {
    return components.empty() ? llvm::StringRef() : components.front();
  }
  bool isContainer() const { return components.size() > 1; }
  /// Returns the path without its root, which is the argument.
  llvm::ArrayRef<llvm::StringRef> inner() const {
    return llvm::ArrayRef(components).drop_front(components.empty() ? 0 : 1);
  }
  bool endsWith(llvm::ArrayRef<llvm::StringRef> tail) const {
    llvm::ArrayRef<llvm::StringRef> own = inner();
    return own.size() >= tail.size() && own.take_back(tail.size()) == tail;
  }
};

class SignatureReader {
public:
  SignatureReader(func::FuncOp function, llvm::StringRef file,
                  const ImportOptions &options)
      : function(function), file(file), options(options) {}

  llvm::Expected<Signature> run();

private:
  /// An argument, and the result that is its next value.
  using Tie = std::pair<unsigned, unsigned>;

  llvm::Error readTypes();
  llvm::Error readDonations();
  void readNames();
  std::string unique(std::string name);
  bool fits(unsigned argument, unsigned result);
  void tie(unsigned argument, unsigned result);
  SmallVector<unsigned> donatedLike(unsigned argument, bool isByPath);
  SmallVector<unsigned> resultsLike(unsigned argument, bool isByPath);
  SmallVector<Tie> namedAmong(ArrayRef<unsigned> arguments,
                              ArrayRef<unsigned> results);
  void tieByPath();
  void tieByAttribute();
  llvm::Error tieByOrder();
  void adoptPaths();
  void assignStep();
  void assignForward();
  llvm::Error filter();

  func::FuncOp function;
  llvm::StringRef file;
  const ImportOptions &options;
  Signature signature;
  std::vector<Path> paths, resultPaths;
  std::vector<std::string> texts; ///< text of the paths
  llvm::StringSet<> used;
  std::vector<bool> donated; ///< by argument
  std::vector<bool> taken;   ///< by result
  /// By argument: the result that tf.aliasing_output names.
  std::vector<std::optional<unsigned>> aliases;
};

} // namespace

/// Returns the Python expression in `loc`, or "".
static std::string nameIn(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string name = nameIn(part); !name.empty())
        return name;
  return "";
}

std::string SignatureReader::unique(std::string name) {
  while (!used.insert(name).second)
    name += "_";
  return name;
}

static std::string joined(const Path &path) {
  return llvm::join(path.components, ".");
}

llvm::Error SignatureReader::readTypes() {
  for (Type type : function.getArgumentTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !isSupported(tensor.getElementType())) {
      std::string text;
      llvm::raw_string_ostream(text) << type;
      return makeError("{0}: argument {1} of @{2} is {3}; accepted: tensors of "
                       "static shape with elements of f16, bf16, f32, f64, i1 "
                       "and integers of 8 to 64 bits",
                       file, signature.arguments.size(), function.getName(),
                       text);
    }
    Argument argument;
    argument.type = tensor;
    signature.arguments.push_back(std::move(argument));
  }
  return llvm::Error::success();
}

llvm::Error SignatureReader::readDonations() {
  unsigned results = function.getNumResults();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    Attribute aliasing = function.getArgAttr(i, kAliasing);
    donated.push_back(aliasing || function.getArgAttr(i, kDonor));
    aliases.emplace_back();
    if (!aliasing)
      continue;
    auto number = dyn_cast<IntegerAttr>(aliasing);
    if (!number || number.getValue().isNegative() ||
        number.getValue().uge(results)) {
      std::string text;
      llvm::raw_string_ostream(text) << aliasing;
      return makeError("{0}: {1} of argument '{2}' is {3}; accepted: the "
                       "number of a result, less than {4}",
                       file, kAliasing, signature.arguments[i].name, text,
                       results);
    }
    aliases.back() = static_cast<unsigned>(number.getValue().getZExtValue());
  }
  signature.isStep = llvm::is_contained(donated, true);
  return llvm::Error::success();
}

void SignatureReader::readNames() {
  unsigned count = function.getNumArguments();
  texts.reserve(count + function.getNumResults());
  for (unsigned i = 0; i < count; ++i) {
    texts.push_back(nameIn(function.getArgument(i).getLoc()));
    paths.push_back({componentsOf(texts.back())});
    std::string name = joined(paths.back());
    signature.arguments[i].name =
        unique(name.empty() ? "arg" + std::to_string(i) : name);
  }
  used.clear();
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto info = function.getResultAttrOfType<StringAttr>(i, kResultInfo);
    texts.push_back(info ? info.getValue().str() : "");
    Path path{componentsOf(texts.back())};
    // In "result[0]['w']", 0 is the position in the tuple of results.
    if (path.components.size() > 1 && path.root() == "result")
      path.components.erase(path.components.begin());
    std::string name = joined(path);
    bool isPlain = name.empty() || name == "result";
    if (!isPlain && llvm::isDigit(name[0]))
      name = "result." + name;
    signature.results.push_back(unique(
        isPlain ? "result" + (function.getNumResults() > 1 ? std::to_string(i)
                                                           : std::string())
                : name));
    resultPaths.push_back(std::move(path));
  }
}

bool SignatureReader::fits(unsigned argument, unsigned result) {
  return result < taken.size() && !taken[result] &&
         function.getResultTypes()[result] ==
             function.getArgumentTypes()[argument];
}

void SignatureReader::tie(unsigned argument, unsigned result) {
  signature.arguments[argument].next = result;
  taken[result] = true;
}

/// Returns the donated arguments that are not tied yet and have the type of
/// `argument` and, if `isByPath` is set, also its path.
SmallVector<unsigned> SignatureReader::donatedLike(unsigned argument,
                                                   bool isByPath) {
  SmallVector<unsigned> found;
  for (unsigned i = 0; i < paths.size(); ++i)
    if (donated[i] && !signature.arguments[i].next &&
        function.getArgumentTypes()[i] ==
            function.getArgumentTypes()[argument] &&
        (!isByPath || (paths[i].isContainer() &&
                       paths[i].inner() == paths[argument].inner())))
      found.push_back(i);
  return found;
}

/// Returns the results that are not tied yet and have the type of `argument`
/// and, if `isByPath` is set, also its path.
SmallVector<unsigned> SignatureReader::resultsLike(unsigned argument,
                                                   bool isByPath) {
  SmallVector<unsigned> found;
  for (unsigned i = 0; i < resultPaths.size(); ++i)
    if (fits(argument, i) &&
        (!isByPath || resultPaths[i].inner() == paths[argument].inner()))
      found.push_back(i);
  return found;
}

/// Returns the ties of `arguments` to `results` that tf.aliasing_output states.
SmallVector<SignatureReader::Tie>
SignatureReader::namedAmong(ArrayRef<unsigned> arguments,
                            ArrayRef<unsigned> results) {
  SmallVector<Tie> named;
  llvm::SmallDenseSet<unsigned, 8> found;
  for (unsigned argument : arguments)
    if (auto result = aliases[argument]; result &&
                                         llvm::is_contained(results, *result) &&
                                         found.insert(*result).second)
      named.emplace_back(argument, *result);
  return named;
}

/// Ties arguments to results that have the same path. If several arguments have
/// the same path, tf.aliasing_output decides if it names all results with this
/// path; otherwise the order decides. If a path has more results than
/// arguments, tf.aliasing_output decides for the results that it names, the
/// order decides for the others, and a remark reports the guess.
void SignatureReader::tieByPath() {
  std::string guessed;
  for (unsigned i = 0; i < paths.size(); ++i) {
    if (!donated[i] || signature.arguments[i].next || !paths[i].isContainer())
      continue;
    SmallVector<unsigned> arguments = donatedLike(i, true),
                          results = resultsLike(i, true);
    bool isGuess = results.size() > arguments.size();
    if (isGuess && guessed.empty())
      guessed = signature.arguments[i].name;
    SmallVector<Tie> named = namedAmong(arguments, results);
    if (isGuess || named.size() == results.size())
      for (auto [argument, result] : named)
        tie(argument, result);
    llvm::erase_if(arguments,
                   [&](unsigned a) { return signature.arguments[a].next; });
    llvm::erase_if(results, [&](unsigned r) { return taken[r]; });
    for (auto [argument, result] : llvm::zip(arguments, results))
      tie(argument, result);
  }
  if (!guessed.empty())
    signature.remarks.push_back(
        "donated argument '" + guessed + "' has the path of several results: " +
        "tf.aliasing_output or their order chooses its next value");
}

void SignatureReader::tieByAttribute() {
  for (unsigned i = 0; i < paths.size(); ++i)
    if (aliases[i] && !signature.arguments[i].next && fits(i, *aliases[i]))
      tie(i, *aliases[i]);
}

llvm::Error SignatureReader::tieByOrder() {
  for (unsigned i = 0; i < paths.size(); ++i) {
    if (!donated[i] || signature.arguments[i].next)
      continue;
    const Argument &argument = signature.arguments[i];
    SmallVector<unsigned> arguments = donatedLike(i, false),
                          results = resultsLike(i, false);
    std::string what =
        (file + ": argument '" + argument.name + "' is donated, but ").str();
    if (results.size() < arguments.size())
      return makeError("{0}no result of type {1} is left to be its next value; "
                       "donate what the step returns as new values (parameters "
                       "and states), not the batch",
                       what, argument.type);
    if (results.size() > arguments.size())
      return makeError(
          "{0}{1} results of type {2} could be its next value; accepted: names "
          "(enable_debug_info=True), or tf.aliasing_output",
          what, results.size(), argument.type);
    if (arguments.size() > 1)
      signature.remarks.push_back(
          std::to_string(arguments.size()) + " donated arguments of type " +
          describe(argument.type) + ", '" + argument.name +
          "' first, are tied in order to the results of this type: "
          "neither names nor tf.aliasing_output distinguish them");
    for (auto [of, result] : llvm::zip(arguments, results))
      tie(of, result);
  }
  return llvm::Error::success();
}

void SignatureReader::adoptPaths() {
  for (auto [path, argument] : llvm::zip(paths, signature.arguments))
    if (path.components.empty() && argument.next)
      path = resultPaths[*argument.next];
}

void SignatureReader::assignStep() {
  llvm::StringRef first;
  bool known = false;
  for (unsigned i = 0; i < signature.arguments.size(); ++i) {
    Argument &argument = signature.arguments[i];
    if (!argument.next)
      continue;
    if (!known)
      first = paths[i].root();
    known = true;
    bool isFloat = isa<FloatType>(argument.type.getElementType());
    argument.role = isFloat && paths[i].root() == first
                        ? Argument::Role::parameter
                        : Argument::Role::state;
  }
  // Assign each state to the parameter with the longest matching path, so that
  // both have the same sharding.
  for (unsigned i = 0; i < signature.arguments.size(); ++i) {
    Argument &state = signature.arguments[i];
    size_t best = 0;
    for (unsigned j = 0; state.role == Argument::Role::state && j < i; ++j) {
      const Argument &parameter = signature.arguments[j];
      llvm::ArrayRef<llvm::StringRef> path = paths[j].inner();
      if (parameter.role != Argument::Role::parameter ||
          parameter.type.getShape() != state.type.getShape() ||
          path.size() <= best || !paths[i].endsWith(path))
        continue;
      best = path.size();
      state.of = parameter.name;
    }
  }
}

void SignatureReader::assignForward() {
  if (paths.empty() || !paths[0].isContainer())
    return;
  for (auto [path, argument] : llvm::zip(paths, signature.arguments))
    if (path.root() == paths[0].root())
      argument.role = isa<FloatType>(argument.type.getElementType())
                          ? Argument::Role::parameter
                          : Argument::Role::buffer;
}

llvm::Error SignatureReader::filter() {
  std::vector<std::string> floats;
  for (const Argument &argument : signature.arguments)
    if (isa<FloatType>(argument.type.getElementType()))
      floats.push_back(argument.name);
  if (signature.isStep &&
      (!options.frozen.empty() || !options.trainable.empty()))
    return makeError("{0} is already a training step; --frozen and --trainable "
                     "apply only to functions that are not",
                     file);
  auto frozen = NameFilter::create("--frozen", options.frozen, file, "argument",
                                   floats, floats);
  if (!frozen)
    return frozen.takeError();
  auto trainable = NameFilter::create("--trainable", options.trainable, file,
                                      "argument", floats, floats);
  if (!trainable)
    return trainable.takeError();
  for (Argument &argument : signature.arguments) {
    if (!isa<FloatType>(argument.type.getElementType()))
      continue;
    if (trainable->matches(argument.name))
      argument.role = Argument::Role::parameter;
    else if (frozen->matches(argument.name))
      argument.role = Argument::Role::buffer;
  }
  return llvm::Error::success();
}

llvm::Expected<Signature> SignatureReader::run() {
  if (llvm::Error error = readTypes())
    return std::move(error);
  readNames();
  if (llvm::Error error = readDonations())
    return std::move(error);
  if (signature.isStep) {
    taken.assign(function.getNumResults(), false);
    tieByPath();
    tieByAttribute();
    if (llvm::Error error = tieByOrder())
      return std::move(error);
    adoptPaths();
    assignStep();
  } else {
    assignForward();
  }
  if (llvm::Error error = filter())
    return std::move(error);
  return std::move(signature);
}

llvm::Expected<Signature> readSignature(func::FuncOp function,
                                        llvm::StringRef file,
                                        const ImportOptions &options) {
  return SignatureReader(function, file, options).run();
}

} // namespace dpc::frontend::hlo
