//===- Shardings.cpp - Shardings in the imported module -------------------===//
#include "frontends/stablehlo/Shardings.h"

#include "frontends/stablehlo/AttrText.h"
#include "frontends/stablehlo/HloSharding.h"
#include "ir/Attributes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend::hlo {

static constexpr llvm::StringLiteral kSdySharding = "sdy.sharding",
                                     kHloSharding = "mhlo.sharding";

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

/// The maximum number of devices of a mesh. Its square does not overflow.
static constexpr int64_t kMaxDevices = int64_t(1) << 24;

/// The maximum number of steps for parsing all shardings of a module, so that
/// parsing takes a fraction of a second. 50 different shardings of 100,000
/// devices need fewer steps.
static constexpr int64_t kMaxSteps = int64_t(1) << 26;

std::optional<std::vector<UserAxis>> parseMesh(llvm::StringRef text) {
  std::vector<UserAxis> axes;
  if (!eat(text, "mesh") || !eat(text, "<") || !eat(text, "["))
    return std::nullopt;
  if (eat(text, "]"))
    return axes;
  int64_t devices = 1;
  do {
    UserAxis axis;
    if (!eatName(text, axis.name) || !eat(text, "=") ||
        text.consumeInteger(10, axis.size) || axis.size < 1 ||
        axis.size > kMaxDevices / devices)
      return std::nullopt;
    devices *= axis.size;
    axes.push_back(std::move(axis));
  } while (eat(text, ","));
  return eat(text, "]") ? std::optional(axes) : std::nullopt;
}

/// Parses one dimension, for example `{"x", "y", ?}`.
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
  // The list after the dimensions names replicated axes, which are ignored.
  if (eat(text, ",") && !eat(text, "replicated"))
    return std::nullopt;
  return sharding;
}

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
  llvm::Error readMeshes();
  llvm::Error readOne(unsigned argument);
  llvm::Error enter(llvm::StringRef mesh, const std::vector<UserAxis> &axes);
  llvm::Error readHlo(unsigned argument);
  llvm::Expected<UserSharding> axesOf(const HloSharding &read,
                                      const Argument &of);
  llvm::Error noGrid() const;
  size_t partCount() const;
  llvm::Error checkGrid() const;
  int64_t sizeOf(const llvm::StringSet<> &names) const;

  ModuleOp module;
  func::FuncOp main;
  const Signature &signature;
  llvm::StringRef file;
  llvm::StringMap<std::vector<UserAxis>> meshes;
  llvm::StringMap<llvm::StringSet<>> entered; ///< axes by mesh
  llvm::StringMap<int64_t> sizes;             ///< of each axis
  /// The axes of the mhlo.shardings: for each axis, the shard index of each
  /// device. An axis is named by its index.
  std::vector<std::vector<int32_t>> hloAxes;
  /// Cache of parsed mhlo.shardings by text.
  llvm::StringMap<UserSharding> known;
  int64_t steps = 0;                                  ///< for parsing them
  std::vector<std::optional<UserSharding>> shardings; ///< of each argument
  llvm::StringSet<> data, tensor;
};

} // namespace

/// Adds the axes of a mesh. Fails if an axis has another size in another mesh.
llvm::Error Keeper::enter(llvm::StringRef mesh,
                          const std::vector<UserAxis> &axes) {
  for (const UserAxis &axis : axes) {
    entered[mesh].insert(axis.name);
    auto [entry, isNew] = sizes.try_emplace(axis.name, axis.size);
    if (entry->second != axis.size)
      return makeError(
          "{0}: axis '{1}' has {2} devices in one mesh and {3} in @{4}", file,
          axis.name, entry->second, axis.size, mesh);
  }
  return llvm::Error::success();
}

llvm::Error Keeper::readOne(unsigned argument) {
  Attribute given = main.getArgAttr(argument, kSdySharding);
  shardings.emplace_back();
  if (!given)
    return llvm::Error::success();
  const Argument &of = signature.arguments[argument];
  auto sharding = parseSharding(opaqueText(given));
  auto mesh = sharding ? meshes.find(sharding->mesh) : meshes.end();
  if (mesh == meshes.end() ||
      static_cast<int64_t>(sharding->dims.size()) != of.type.getRank())
    return makeError("{0}: the sharding of argument '{1}' is not understood: "
                     "'{2}'; accepted: whole axes of an sdy.mesh of the module",
                     file, of.name, opaqueText(given));
  if (!entered.contains(sharding->mesh))
    if (llvm::Error error = enter(sharding->mesh, mesh->second))
      return error;
  const llvm::StringSet<> &own = entered[sharding->mesh];
  for (const auto &dim : sharding->dims)
    for (const std::string &axis : dim)
      if (!own.contains(axis))
        return makeError("{0}: the sharding of argument '{1}' names axis "
                         "'{2}', which mesh @{3} lacks",
                         file, of.name, axis, sharding->mesh);
  shardings.back() = std::move(sharding);
  return llvm::Error::success();
}

/// Dimensions with the same tile on every device share one axis.
llvm::Expected<UserSharding> Keeper::axesOf(const HloSharding &read,
                                            const Argument &of) {
  UserSharding sharding;
  sharding.isOpen = read.isOpen;
  sharding.dims.resize(of.type.getRank());
  if (llvm::all_of(read.tiles, [](int64_t parts) { return parts == 1; }))
    return sharding;
  auto devices = static_cast<size_t>(read.deviceCount());
  if (!hloAxes.empty() && hloAxes[0].size() != devices)
    return makeError("{0}: the sharding of argument '{1}' is over {2} devices, "
                     "others are over {3}",
                     file, of.name, devices, hloAxes[0].size());
  steps += read.listingSteps();
  if (steps > kMaxSteps)
    return makeError("{0}: the shardings of the arguments up to '{1}' place "
                     "parts on {2} devices in too many ways; accepted: "
                     "one axis for the batch and one axis for parameters",
                     file, of.name, devices);
  auto tileOf = read.tileOf();
  if (!tileOf)
    return makeError("{0}: the sharding of argument '{1}' does not name each "
                     "of {2} devices once",
                     file, of.name, devices);
  for (auto [d, held] : llvm::enumerate(*tileOf)) {
    if (held.empty())
      continue;
    auto axis = llvm::find(hloAxes, held);
    std::string name = "axis" + std::to_string(axis - hloAxes.begin());
    if (axis == hloAxes.end())
      hloAxes.push_back(std::move(held));
    sizes[name] = read.tiles[d];
    sharding.dims[d].push_back(std::move(name));
    if (partCount() > devices)
      return noGrid();
  }
  return sharding;
}

llvm::Error Keeper::readHlo(unsigned argument) {
  auto given = main.getArgAttrOfType<StringAttr>(argument, kHloSharding);
  shardings.emplace_back();
  if (!given)
    return llvm::Error::success();
  const Argument &of = signature.arguments[argument];
  auto rank = static_cast<size_t>(of.type.getRank());
  if (auto found = known.find(given.getValue());
      found != known.end() && found->second.dims.size() == rank) {
    shardings.back() = found->second;
    return llvm::Error::success();
  }
  auto read = parseHloSharding(given.getValue());
  if (!read || (!read->tiles.empty() && read->tiles.size() != rank))
    return makeError(
        "{0}: the sharding of argument '{1}' is not understood: '{2}'; "
        "accepted: '{{replicated}', '{{devices=[2,1]0,1}' and "
        "'{{devices=[2,1]<=[2]}' with a tile count for each dimension",
        file, of.name, given.getValue());
  auto sharding = axesOf(*read, of);
  if (!sharding)
    return sharding.takeError();
  known[given.getValue()] = *sharding;
  shardings.back() = std::move(*sharding);
  return llvm::Error::success();
}

llvm::Error Keeper::noGrid() const {
  return makeError("{0}: the shardings of the arguments split {1} devices in "
                   "ways that are not axes of one mesh; accepted: one axis for "
                   "the batch and one axis for parameters",
                   file, hloAxes[0].size());
}

/// Stops multiplying when the product exceeds the number of devices.
size_t Keeper::partCount() const {
  size_t parts = 1, devices = hloAxes.empty() ? 1 : hloAxes[0].size();
  for (size_t axis = 0; axis < hloAxes.size() && parts <= devices; ++axis)
    parts *= sizes.lookup("axis" + std::to_string(axis));
  return parts;
}

/// Checks that every combination of shards is on a device.
llvm::Error Keeper::checkGrid() const {
  size_t parts = partCount(), held = 0,
         devices = hloAxes.empty() ? 1 : hloAxes[0].size();
  std::vector<size_t> combinations(devices);
  for (const auto &[axis, of] : llvm::enumerate(hloAxes)) {
    size_t size = sizes.lookup("axis" + std::to_string(axis));
    for (size_t device = 0; device < devices; ++device)
      combinations[device] = combinations[device] * size + of[device];
  }
  std::vector<bool> isHeld(parts);
  for (size_t combination : combinations) {
    held += !isHeld[combination];
    isHeld[combination] = true;
  }
  return held == parts ? llvm::Error::success() : noGrid();
}

llvm::Error Keeper::readMeshes() {
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
  return llvm::Error::success();
}

llvm::Error Keeper::read() {
  bool isSdy = false;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    isSdy |= static_cast<bool>(main.getArgAttr(i, kSdySharding));
  if (isSdy) {
    if (llvm::Error error = readMeshes())
      return error;
  } else {
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (llvm::Error error = readHlo(i))
        return error;
    if (llvm::Error error = checkGrid())
      return error;
  }
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
    if (product <= kMaxDevices) // axes of several meshes can exceed it
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
          return makeError(
              "{0}: argument '{1}' is split over '{2}', which splits the "
              "batch; do not split it and use --strategy=zero=3 instead",
              file, argument.name, axis);
        tensor.insert(axis);
        split.push_back(static_cast<int64_t>(d));
      }
    bool isFree = sharding->isOpen && split.empty();
    auto place = places.find(argument.name);
    if (!isFree && place != places.end() && argument.of.empty())
      function.setArgAttr(place->second, attr::kUserSplit,
                          b.getDenseI64ArrayAttr(split));
  }
  if (tensor.size() > 1)
    return makeError("{0}: the arguments are sharded over several axes in "
                     "addition to the batch axes; accepted: one",
                     file);
  if (sizeOf(data) > kMaxDevices || sizeOf(tensor) > kMaxDevices)
    return makeError("{0}: the axes that shard arguments have more than "
                     "{1} devices together",
                     file, kMaxDevices);
  if (any)
    made->setAttr(
        attr::kUserDegrees,
        b.getDictionaryAttr(
            {b.getNamedAttr("dp", b.getI64IntegerAttr(sizeOf(data))),
             b.getNamedAttr("tp", b.getI64IntegerAttr(sizeOf(tensor)))}));
  return llvm::Error::success();
}

static bool isConstraint(Operation *op) {
  llvm::StringRef name = op->getName().getStringRef();
  if (name != "stablehlo.custom_call")
    return name == "sdy.sharding_constraint";
  auto properties =
      dyn_cast_if_present<DictionaryAttr>(op->getPropertiesAsAttribute());
  auto target = properties ? properties.getAs<StringAttr>("call_target_name")
                           : op->getAttrOfType<StringAttr>("call_target_name");
  return target && target.getValue() == "Sharding";
}

void Keeper::remarkOthers(ModuleOp made) {
  int64_t inside = 0;
  module.walk([&](Operation *op) { inside += isConstraint(op); });
  if (inside)
    emitRemark(made.getLoc())
        << inside
        << " sharding constraints inside the model are left to "
           "the search; those of arguments are kept";
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
