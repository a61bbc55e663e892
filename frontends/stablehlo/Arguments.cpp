//===- Arguments.cpp - What the arguments of a function are ---------------===//
#include "frontends/stablehlo/Arguments.h"

#include "frontends/stablehlo/Call.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend::hlo {

static constexpr llvm::StringLiteral kAliasing = "tf.aliasing_output",
                                     kDonor = "jax.buffer_donor",
                                     kResultInfo = "jax.result_info";

/// "params['w'][0].b" as {"params", "w", "0", "b"}.
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

/// A place in a Python argument or result.
struct Path {
  llvm::SmallVector<llvm::StringRef> components;

  llvm::StringRef root() const {
    return components.empty() ? llvm::StringRef() : components.front();
  }
  bool isContainer() const { return components.size() > 1; }
  /// The path inside of the argument.
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
  llvm::Error readTypes();
  void readNames();
  std::string unique(std::string name);
  bool isDonated(unsigned i) {
    return function.getArgAttr(i, kAliasing) || function.getArgAttr(i, kDonor);
  }
  llvm::Error tie();
  std::optional<unsigned> resultFor(unsigned argument);
  void assignStep();
  void assignForward();
  llvm::Error filter();

  func::FuncOp function;
  llvm::StringRef file;
  const ImportOptions &options;
  Signature signature;
  std::vector<Path> paths, resultPaths;
  std::vector<std::string> texts; ///< that paths point into
  llvm::StringSet<> used;
  std::vector<bool> taken; ///< by result
};

} // namespace

/// What Python calls an argument, or "".
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
      return makeError(file + ": argument " +
                       llvm::Twine(signature.arguments.size()) + " of @" +
                       function.getName() + " is " + text +
                       "; accepted: tensors of static shape with elements of "
                       "f16, bf16, f32, f64, i1 and integers of 8 to 64 bits");
    }
    Argument argument;
    argument.type = tensor;
    signature.arguments.push_back(std::move(argument));
  }
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
    // "result[0]['w']": the number counts what Python returns.
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

//===----------------------------------------------------------------------===//
// Training steps
//===----------------------------------------------------------------------===//

/// The result that is the next value of a donated argument.
std::optional<unsigned> SignatureReader::resultFor(unsigned argument) {
  Type type = function.getArgumentTypes()[argument];
  auto fits = [&](unsigned result) {
    return result < function.getNumResults() && !taken[result] &&
           function.getResultTypes()[result] == type;
  };
  const Path &path = paths[argument];
  std::optional<unsigned> samePath;
  unsigned count = 0;
  for (unsigned i = 0; path.isContainer() && i < resultPaths.size(); ++i)
    if (fits(i) && resultPaths[i].inner() == path.inner()) {
      ++count;
      samePath = samePath ? samePath : i;
    }
  auto named = function.getArgAttrOfType<IntegerAttr>(argument, kAliasing);
  // Several containers of one form: the attribute tells, then the order.
  if (named && fits(named.getInt()) &&
      (count != 1 || resultPaths[named.getInt()].inner() == path.inner()))
    return named.getInt();
  if (samePath)
    return samePath;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (fits(i))
      return i;
  return std::nullopt;
}

llvm::Error SignatureReader::tie() {
  taken.assign(function.getNumResults(), false);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (!isDonated(i))
      continue;
    std::optional<unsigned> result = resultFor(i);
    Argument &argument = signature.arguments[i];
    if (!result)
      return makeError(file + ": argument '" + argument.name +
                       "' is donated, but no result of type " +
                       describe(argument.type) +
                       " is left to be its next value; donate what the step "
                       "returns again (parameters and states), not the batch");
    taken[*result] = true;
    argument.next = *result;
  }
  return llvm::Error::success();
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
  // A state lies where its parameter does: the longest path that fits.
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

//===----------------------------------------------------------------------===//
// Plain functions
//===----------------------------------------------------------------------===//

void SignatureReader::assignForward() {
  if (paths.empty() || !paths[0].isContainer())
    return;
  for (auto [path, argument] : llvm::zip(paths, signature.arguments))
    if (path.root() == paths[0].root())
      argument.role = isa<FloatType>(argument.type.getElementType())
                          ? Argument::Role::parameter
                          : Argument::Role::buffer;
}

/// --frozen and --trainable.
llvm::Error SignatureReader::filter() {
  std::vector<std::string> floats;
  for (const Argument &argument : signature.arguments)
    if (isa<FloatType>(argument.type.getElementType()))
      floats.push_back(argument.name);
  if (signature.isStep &&
      (!options.frozen.empty() || !options.trainable.empty()))
    return makeError(file + " is a training step already: --frozen and "
                            "--trainable are for functions without one");
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
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    signature.isStep |= isDonated(i);
  if (signature.isStep) {
    if (llvm::Error error = tie())
      return std::move(error);
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
