//===- Shardings.cpp - Shardings that a module comes with -----------------===//
#include "frontends/stablehlo/Shardings.h"

#include "frontends/stablehlo/AttrText.h"
#include "ir/UserShardings.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend::hlo {

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

static bool eat(llvm::StringRef &text, llvm::StringRef token) {
  text = text.ltrim();
  return text.consume_front(token);
}

static bool eatName(llvm::StringRef &text, std::string &name) {
  if (!eat(text, "\""))
    return false;
  auto [found, rest] = text.split('"');
  name = found.str();
  text = rest;
  return !name.empty();
}

/// Of an axis: the product of two is no overflow.
static constexpr int64_t kMostDevices = int64_t(1) << 24;

std::optional<std::vector<UserAxis>> parseMesh(llvm::StringRef text) {
  std::vector<UserAxis> axes;
  if (!eat(text, "mesh") || !eat(text, "<") || !eat(text, "["))
    return std::nullopt;
  if (eat(text, "]"))
    return axes;
  do {
    UserAxis axis;
    if (!eatName(text, axis.name) || !eat(text, "=") ||
        text.consumeInteger(10, axis.size) || axis.size < 1 ||
        axis.size > kMostDevices)
      return std::nullopt;
    axes.push_back(std::move(axis));
  } while (eat(text, ","));
  return eat(text, "]") ? std::optional(axes) : std::nullopt;
}

/// One `{"x", "y", ?}`.
static bool parseDim(llvm::StringRef &text, UserSharding &sharding) {
  std::vector<std::string> axes;
  if (!eat(text, "{"))
    return false;
  while (!eat(text, "}")) {
    std::string name;
    if (eat(text, "?"))
      sharding.isOpen = true;
    else if (eatName(text, name))
      axes.push_back(name);
    else
      return false;
    eat(text, ",");
  }
  sharding.dims.push_back(std::move(axes));
  return true;
}

std::optional<UserSharding> parseSharding(llvm::StringRef text) {
  UserSharding sharding;
  if (!eat(text, "sharding") || !eat(text, "<") || !eat(text, "@"))
    return std::nullopt;
  size_t end = text.find(',');
  if (end == llvm::StringRef::npos)
    return std::nullopt;
  sharding.mesh = text.take_front(end).trim().str();
  text = text.drop_front(end + 1);
  if (!eat(text, "["))
    return std::nullopt;
  while (!eat(text, "]")) {
    if (!parseDim(text, sharding))
      return std::nullopt;
    eat(text, ",");
  }
  // What is said to be replicated is what no dimension names.
  if (eat(text, ",") && !eat(text, "replicated"))
    return std::nullopt;
  return sharding;
}

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

namespace {

class Keeper {
public:
  Keeper(ModuleOp module, func::FuncOp main, const Signature &signature,
         llvm::StringRef file)
      : module(module), main(main), signature(signature), file(file) {}

  llvm::Error read();
  llvm::Error put(ModuleOp made);
  void remarkOthers(ModuleOp made);

private:
  llvm::Error readOne(unsigned argument);
  int64_t sizeOf(const llvm::StringSet<> &names) const;

  ModuleOp module;
  func::FuncOp main;
  const Signature &signature;
  llvm::StringRef file;
  llvm::StringMap<std::vector<UserAxis>> meshes;
  llvm::StringMap<int64_t> sizes;                     ///< by axis
  std::vector<std::optional<UserSharding>> shardings; ///< by argument
  llvm::StringSet<> data, tensor;
};

} // namespace

llvm::Error Keeper::readOne(unsigned argument) {
  Attribute given = main.getArgAttr(argument, "sdy.sharding");
  shardings.emplace_back();
  if (!given)
    return llvm::Error::success();
  const Argument &of = signature.arguments[argument];
  auto sharding = parseSharding(opaqueText(given));
  auto mesh = sharding ? meshes.find(sharding->mesh) : meshes.end();
  if (mesh == meshes.end() ||
      static_cast<int64_t>(sharding->dims.size()) != of.type.getRank())
    return makeError(file + ": the sharding of argument '" + of.name +
                     "' is not understood: '" + opaqueText(given) +
                     "'; accepted: whole axes of an sdy.mesh of the module");
  llvm::StringSet<> own;
  for (const UserAxis &axis : mesh->second) {
    own.insert(axis.name);
    auto [entry, isNew] = sizes.try_emplace(axis.name, axis.size);
    if (entry->second != axis.size)
      return makeError(file + ": axis '" + axis.name + "' has " +
                       llvm::Twine(entry->second) +
                       " devices in one mesh and " + llvm::Twine(axis.size) +
                       " in @" + sharding->mesh);
  }
  for (const auto &dim : sharding->dims)
    for (const std::string &axis : dim)
      if (!own.contains(axis))
        return makeError(file + ": the sharding of argument '" + of.name +
                         "' names axis '" + axis + "', which mesh @" +
                         sharding->mesh + " lacks");
  shardings.back() = std::move(sharding);
  return llvm::Error::success();
}

llvm::Error Keeper::read() {
  for (Operation &op : module.getBody()->getOperations()) {
    if (op.getName().getStringRef() != "sdy.mesh")
      continue;
    auto properties =
        dyn_cast_if_present<DictionaryAttr>(op.getPropertiesAsAttribute());
    auto name = properties ? properties.getAs<StringAttr>("sym_name")
                           : op.getAttrOfType<StringAttr>("sym_name");
    Attribute text = properties ? properties.get("mesh") : op.getAttr("mesh");
    if (auto axes = parseMesh(opaqueText(text)); axes && name)
      meshes[name.getValue()] = *axes;
  }
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (llvm::Error error = readOne(i))
      return error;
  for (auto [argument, sharding] : llvm::zip(signature.arguments, shardings))
    if (sharding && argument.role == Argument::Role::input &&
        !sharding->dims.empty())
      for (const std::string &axis : sharding->dims[0])
        data.insert(axis);
  return llvm::Error::success();
}

int64_t Keeper::sizeOf(const llvm::StringSet<> &names) const {
  int64_t product = 1;
  for (const auto &name : names)
    product *= sizes.lookup(name.getKey());
  return product;
}

llvm::Error Keeper::put(ModuleOp made) {
  func::FuncOp function = *made.getOps<func::FuncOp>().begin();
  Builder b(made.getContext());
  llvm::StringMap<unsigned> places;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    places[function.getArgAttrOfType<StringAttr>(i, attr::kName).getValue()] =
        i;
  bool any = false;
  for (auto [argument, sharding] : llvm::zip(signature.arguments, shardings)) {
    if (!sharding)
      continue;
    any |= !sharding->isOpen ||
           llvm::any_of(sharding->dims,
                        [](const auto &axes) { return !axes.empty(); });
    Shape split;
    for (auto [d, axes] : llvm::enumerate(sharding->dims))
      for (const std::string &axis : axes) {
        bool isInput = argument.role == Argument::Role::input;
        if (data.contains(axis) && isInput && d == 0)
          continue;
        if (data.contains(axis))
          return makeError(file + ": argument '" + argument.name +
                           "' is split over '" + axis +
                           "', which splits the batch; leave it whole there "
                           "and give --strategy=zero=3");
        tensor.insert(axis);
        split.push_back(static_cast<int64_t>(d));
      }
    bool isFree = sharding->isOpen && split.empty();
    auto place = places.find(argument.name);
    if (!isFree && place != places.end() && argument.of.empty())
      function.setArgAttr(place->second, kUserSplitAttr,
                          b.getDenseI64ArrayAttr(split));
  }
  if (tensor.size() > 1)
    return makeError(file + ": shardings over several axes beside those of the "
                            "batch are not supported; accepted: one");
  if (any)
    made->setAttr(
        kUserDegreesAttr,
        b.getDictionaryAttr(
            {b.getNamedAttr("dp", b.getI64IntegerAttr(sizeOf(data))),
             b.getNamedAttr("tp", b.getI64IntegerAttr(sizeOf(tensor)))}));
  return llvm::Error::success();
}

void Keeper::remarkOthers(ModuleOp made) {
  int64_t inside = 0, old = 0;
  module.walk([&](Operation *op) {
    inside += op->getName().getStringRef() == "sdy.sharding_constraint";
  });
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    old += static_cast<bool>(main.getArgAttr(i, "mhlo.sharding"));
  if (inside)
    emitRemark(made.getLoc())
        << inside
        << " sharding constraints inside of the model are left to "
           "the search; those of arguments are kept";
  if (old)
    emitRemark(made.getLoc())
        << old
        << " arguments have an mhlo.sharding, which is not read; "
           "shardings of sdy are";
}

llvm::Error keepShardings(ModuleOp module, func::FuncOp main,
                          const Signature &signature, llvm::StringRef file,
                          ModuleOp made) {
  Keeper keeper(module, main, signature, file);
  if (llvm::Error error = keeper.read())
    return error;
  keeper.remarkOthers(made);
  return keeper.put(made);
}

} // namespace dpc::frontend::hlo
