//===- Weights.cpp - Parameters, buffers and constants --------------------===//
#include "frontends/torch/Weights.h"
#include "frontends/torch/Call.h"
#include "frontends/torch/Complex.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;

namespace dpc::frontend::pt2 {

/// The largest weight that can become a constant, in elements.
static constexpr int64_t kMaxConstantElements = int64_t(4) << 20;
/// The largest record that can contain such a constant.
static constexpr int64_t kMaxConstantBytes = int64_t(256) << 20;
/// Every nonzero element of an additive mask is at most this number.
static constexpr double kMaskValue = -1e3;

namespace {

struct Weight {
  const InputSpec *spec;
  const WeightEntry *entry;
  RankedTensorType type;
  int64_t offset = 0; ///< within its record
  int64_t bytes = 0;
  const Record *record = nullptr; ///< null: abstract
};

class Placer {
public:
  Placer(const Archive &archive, const Program &program, MLIRContext *context)
      : archive(archive), program(program), context(context) {}

  /// Finds the names of each weight. Tied weights have several.
  void nameTied(const llvm::StringMap<WeightEntry> &table);
  /// Follows nameTied.
  llvm::Error readFilters(const ImportOptions &options,
                          const llvm::StringMap<WeightEntry> &table);
  llvm::Error place(const InputSpec &spec,
                    const llvm::StringMap<WeightEntry> &table, bool isChanged);
  /// Gives all names of the tables to arguments or to `unread`.
  void nameOthers(const llvm::StringMap<WeightEntry> &table);
  void addRemarks(const ImportOptions &options);
  Weights result;

private:
  llvm::Expected<Weight> describeWeight(const InputSpec &spec,
                                        const WeightEntry &entry) const;
  llvm::Expected<std::optional<Val>> constantOf(const Weight &weight) const;
  /// The pair of constants for a complex buffer or literal.
  llvm::Expected<Val> complexOf(const InputSpec &spec,
                                const WeightEntry &entry) const;
  llvm::Error addArgument(const Weight &weight);
  void noteTrainable(const Weight &weight);
  bool trains(const Weight &weight) const;
  const std::string &nameOf(const Weight &weight) const;
  /// Whether `filter` matches any name of the weight.
  bool matches(const NameFilter &filter, const Weight &weight) const;
  llvm::Error error(const InputSpec &spec, const llvm::Twine &why) const {
    return makeError("{0}: weight '{1}' {2}", archive.path(), spec.name, why);
  }

  const Archive &archive;
  const Program &program;
  MLIRContext *context;
  NameFilter frozen, trainable;
  /// The record, offset and type of a tensor's data.
  using Place = std::tuple<std::string, int64_t, std::vector<int64_t>>;
  Place placeOf(llvm::StringRef name, const WeightEntry &entry) const;
  /// The names of the tensor at each place, in the order of the module. The
  /// first is the name of the weight.
  std::map<Place, std::vector<std::string>> places;
  llvm::StringSet<> added;
  /// Weights that --trainable matches: those that it changes, those that are
  /// trained anyway, and those that --frozen matches too.
  std::vector<std::string> changed, idle, contradicted;
  /// Empty records that tensors of different types share without being tied.
  llvm::StringSet<> shared;
};

} // namespace

llvm::Error Placer::readFilters(const ImportOptions &options,
                                const llvm::StringMap<WeightEntry> &table) {
  std::vector<std::string> names, others, parameters;
  for (const InputSpec &spec : program.inputs) {
    bool isParameter = spec.kind == InputSpec::Kind::Parameter;
    if (!isParameter && spec.kind != InputSpec::Kind::Buffer)
      continue;
    names.push_back(spec.name);
    std::vector<std::string> own = {spec.name};
    if (auto entry = table.find(spec.name); entry != table.end())
      llvm::append_range(own, places.at(placeOf(spec.name, entry->second)));
    llvm::append_range(others, own);
    if (isParameter)
      llvm::append_range(parameters, own);
  }
  for (auto [option, patterns, filter] :
       {std::tuple("--frozen", &options.frozen, &frozen),
        std::tuple("--trainable", &options.trainable, &trainable)}) {
    auto made = NameFilter::create(option, *patterns, archive.path(), "weight",
                                   others, names);
    if (!made)
      return made.takeError();
    *filter = std::move(*made);
  }
  if (auto idle = frozen.matchingNone(parameters); !idle.empty())
    return makeError("--frozen={0}: matches only buffers of {1}, which are "
                     "never trained; accepted: parameters",
                     idle.front(), archive.path());
  return llvm::Error::success();
}

/// Accepts any stride for dimensions of size 1.
static bool isRowMajor(const TensorMeta &meta, llvm::ArrayRef<int64_t> shape) {
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && (!meta.strides[d].expression.empty() ||
                          meta.strides[d].value != expected))
      return false;
    expected *= shape[d];
  }
  return true;
}

llvm::Expected<Weight> Placer::describeWeight(const InputSpec &spec,
                                              const WeightEntry &entry) const {
  const TensorMeta &meta = entry.meta;
  Weight weight{&spec, &entry, {}};
  if (entry.pickled)
    return error(spec, "is pickled; accepted: plain tensors, which "
                       "torch.export.save stores as they are");
  Type element = elementOf(meta.dtype, context);
  if (!element)
    return error(spec, "has elements of " + dtypeText(meta.dtype) +
                           ", which is not supported; accepted: FLOAT, HALF, "
                           "BFLOAT16, DOUBLE, LONG, INT, BOOL");
  Shape shape;
  int64_t bytes = elementBytes(element);
  bool possible = meta.strides.size() == meta.sizes.size();
  for (const Size &size : meta.sizes) {
    shape.push_back(size.value);
    possible &= size.expression.empty() && size.value >= 0 &&
                !llvm::MulOverflow(bytes, size.value, bytes);
  }
  if (!possible ||
      llvm::MulOverflow(meta.storageOffset, elementBytes(element),
                        weight.offset) ||
      weight.offset < 0)
    return error(spec, "has impossible dimensions");
  if (!isRowMajor(meta, shape))
    return error(spec, "is not row-major; call .contiguous() on it "
                       "before the export");
  weight.type = RankedTensorType::get(shape, element);
  weight.bytes = bytes;
  const Record *record = archive.find(entry.record);
  if (!record)
    return error(spec, "should be in record '" + entry.record +
                           "', which is missing from the archive");
  // An empty record means that the weight is abstract.
  if (record->bytes == 0)
    return weight;
  if (record->bytes < weight.offset || record->bytes - weight.offset < bytes)
    return error(spec, "ends at byte " + llvm::Twine(weight.offset + bytes) +
                           " of record '" + entry.record + "', which holds " +
                           llvm::Twine(record->bytes));
  weight.record = record;
  return weight;
}

static ConstTensor decode(llvm::StringRef bytes, RankedTensorType type) {
  Type element = type.getElementType();
  int64_t step = elementBytes(element);
  std::vector<Scalar> values;
  for (int64_t n = 0; n < type.getNumElements(); ++n) {
    const char *at = bytes.data() + n * step;
    Scalar s;
    if (auto f = dyn_cast<FloatType>(element)) {
      uint64_t bits = step == 2   ? llvm::support::endian::read16le(at)
                      : step == 4 ? llvm::support::endian::read32le(at)
                                  : llvm::support::endian::read64le(at);
      llvm::APFloat value(f.getFloatSemantics(),
                          llvm::APInt(static_cast<unsigned>(step * 8), bits));
      bool loses = false;
      value.convert(llvm::APFloat::IEEEdouble(),
                    llvm::APFloat::rmNearestTiesToEven, &loses);
      s.f = value.convertToDouble();
    } else if (step == 1) {
      s.i = *at != 0;
    } else {
      s.i = step == 4
                ? static_cast<int32_t>(llvm::support::endian::read32le(at))
                : static_cast<int64_t>(llvm::support::endian::read64le(at));
    }
    values.push_back(s);
  }
  return ConstTensor::dense(element, type.getShape(), std::move(values))
      .compacted();
}

static bool isMask(const ConstTensor &tensor) {
  bool masks = false;
  for (int64_t n = 0; n < tensor.size(); ++n) {
    double v = tensor.at(n).f;
    if (v != 0.0 && !(v <= kMaskValue))
      return false;
    masks |= v != 0.0;
  }
  return masks;
}

bool Placer::trains(const Weight &weight) const {
  if (!isa<FloatType>(weight.type.getElementType()))
    return false;
  if (matches(trainable, weight))
    return true;
  return weight.spec->kind == InputSpec::Kind::Parameter &&
         weight.entry->meta.requiresGrad && !matches(frozen, weight);
}

const std::string &Placer::nameOf(const Weight &weight) const {
  return places.at(placeOf(weight.spec->name, *weight.entry)).front();
}

bool Placer::matches(const NameFilter &filter, const Weight &weight) const {
  return llvm::any_of(
      places.at(placeOf(weight.spec->name, *weight.entry)),
      [&](const std::string &name) { return filter.matches(name); });
}

/// Returns the weight's value if it becomes a constant, otherwise nullopt.
llvm::Expected<std::optional<Val>>
Placer::constantOf(const Weight &weight) const {
  bool isFloat = isa<FloatType>(weight.type.getElementType());
  // A weight without elements has no record, and nothing to train.
  if (weight.type.getNumElements() == 0)
    return Val(ConstTensor::dense(weight.type.getElementType(),
                                  weight.type.getShape(), {}));
  if (weight.spec->kind == InputSpec::Kind::Parameter || trains(weight) ||
      !weight.record || weight.type.getNumElements() > kMaxConstantElements)
    return std::nullopt;
  auto bytes =
      archive.read(weight.entry->record, *weight.record, kMaxConstantBytes);
  if (!bytes)
    return bytes.takeError();
  ConstTensor value = decode(
      llvm::StringRef(*bytes).substr(weight.offset, weight.bytes), weight.type);
  bool isLiteral = weight.spec->kind == InputSpec::Kind::Constant;
  if (isFloat && !isLiteral && !isMask(value))
    return std::nullopt;
  return Val(std::move(value));
}

/// Whether elements are pairs of FLOAT (COMPLEXFLOAT) or DOUBLE.
static bool isComplexType(int64_t dtype) { return dtype == 10 || dtype == 11; }

llvm::Expected<Val> Placer::complexOf(const InputSpec &spec,
                                      const WeightEntry &entry) const {
  constexpr int64_t kToReal = 3;
  WeightEntry parts = entry;
  TensorMeta &meta = parts.meta;
  meta.dtype -= kToReal;
  meta.storageOffset *= 2;
  for (Size &stride : meta.strides)
    stride.value *= 2;
  meta.sizes.push_back({"", 2});
  meta.strides.push_back({"", 1});
  auto weight = describeWeight(spec, parts);
  if (!weight)
    return weight.takeError();
  int64_t count = weight->type.getNumElements();
  if (spec.kind == InputSpec::Kind::Parameter || !weight->record ||
      count == 0 || count > kMaxConstantElements)
    return error(spec, "has elements of " + dtypeText(entry.meta.dtype) +
                           "; accepted: at most " +
                           llvm::Twine(kMaxConstantElements / 2) +
                           " of them in a buffer with values, else two real "
                           "weights and torch.complex");
  auto bytes = archive.read(entry.record, *weight->record, kMaxConstantBytes);
  if (!bytes)
    return bytes.takeError();
  ConstTensor both =
      decode(llvm::StringRef(*bytes).substr(weight->offset, weight->bytes),
             weight->type);
  std::vector<Scalar> values[2];
  for (int64_t n = 0; n < count; ++n)
    values[n % 2].push_back(both.at(n));
  auto part = [&](int i) {
    return Val(ConstTensor::dense(weight->type.getElementType(),
                                  weight->type.getShape().drop_back(),
                                  std::move(values[i]))
                   .compacted());
  };
  return pairOf(part(0), part(1));
}

static std::vector<int64_t> typeOf(const TensorMeta &meta) {
  std::vector<int64_t> type = {meta.dtype};
  for (const Size &size : meta.sizes)
    type.push_back(size.value);
  return type;
}

Placer::Place Placer::placeOf(llvm::StringRef name,
                              const WeightEntry &entry) const {
  std::string record = entry.record;
  if (shared.contains(record))
    record = name.str();
  return {record, entry.meta.storageOffset, typeOf(entry.meta)};
}

void Placer::nameTied(const llvm::StringMap<WeightEntry> &table) {
  // Under FakeTensorMode, torch writes one empty record for all tensors.
  llvm::StringMap<std::vector<int64_t>> types;
  for (const auto &[path, entry] : table) {
    const Record *record = archive.find(entry.record);
    auto [first, isNew] = types.try_emplace(entry.record, typeOf(entry.meta));
    if (!isNew && record && record->bytes == 0 &&
        first->second != typeOf(entry.meta))
      shared.insert(entry.record);
  }
  std::map<std::pair<size_t, std::string>, const WeightEntry *> ordered;
  for (const auto &[path, entry] : table)
    ordered[{entry.position, path.str()}] = &entry;
  for (const auto &[name, entry] : ordered)
    places[placeOf(name.second, *entry)].push_back(name.second);
}

llvm::Error Placer::addArgument(const Weight &weight) {
  const InputSpec &spec = *weight.spec;
  const std::string &name = nameOf(weight);
  WeightArgument argument{name, weight.type, trains(weight), std::nullopt};
  argument.isUnsaved = weight.entry->isUnsaved;
  argument.isFrozen = weight.spec->kind == InputSpec::Kind::Parameter &&
                      isa<FloatType>(weight.type.getElementType()) &&
                      !argument.isParameter;
  result.bound.emplace_back(spec.value, name);
  if (!added.insert(name).second)
    return llvm::Error::success();
  noteTrainable(weight);
  if (weight.record && weight.record->offset < 0)
    return error(spec, "is in record '" + weight.entry->record +
                           "', which is compressed; weights must be stored, "
                           "as torch.export.save does");
  if (weight.record)
    argument.data = DataLocation{
        archive.path(), weight.record->offset + weight.offset, weight.bytes};
  result.arguments.push_back(std::move(argument));
  return llvm::Error::success();
}

void Placer::noteTrainable(const Weight &weight) {
  if (!trains(weight) || !matches(trainable, weight))
    return;
  bool isByDefault = weight.spec->kind == InputSpec::Kind::Parameter &&
                     weight.entry->meta.requiresGrad;
  (matches(frozen, weight) ? contradicted
   : isByDefault           ? idle
                           : changed)
      .push_back(nameOf(weight));
}

/// "2 weights of the model are not used: a, b"
static std::string listed(const std::vector<std::string> &names,
                          llvm::StringRef what = "") {
  constexpr size_t kMost = 5;
  std::string text = std::to_string(names.size()) +
                     (names.size() == 1 ? " weight" : " weights") + what.str() +
                     ": ";
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost)
    text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

void Placer::addRemarks(const ImportOptions &options) {
  llvm::StringSet<> parameters;
  for (const InputSpec &spec : program.inputs)
    if (spec.kind == InputSpec::Kind::Parameter)
      parameters.insert(spec.name);
  std::vector<std::string> unused;
  for (const std::string &name : result.unread)
    if (parameters.contains(name))
      unused.push_back(name);
  if (!unused.empty())
    result.remarks.push_back(
        listed(unused, unused.size() == 1 ? " of the model is not used"
                                          : " of the model are not used"));
  if (!contradicted.empty())
    result.remarks.push_back(
        "--trainable takes precedence over --frozen, and both match " +
        listed(contradicted));
  if (!options.trainable.empty() && changed.empty() && contradicted.empty())
    result.remarks.push_back(
        idle.empty() ? "--trainable changes nothing: it matches no float "
                       "weight that the model reads"
                     : "--trainable changes nothing: without it, training "
                       "changes " +
                           listed(idle));
}

llvm::Error Placer::place(const InputSpec &spec,
                          const llvm::StringMap<WeightEntry> &table,
                          bool isChanged) {
  auto entry = table.find(spec.name);
  if (entry == table.end())
    return error(spec, "is not in the archive's tables of weights");
  if (isComplexType(entry->second.meta.dtype)) {
    if (isChanged)
      return error(spec, "is complex and changes in a step; accepted: two real "
                         "buffers and torch.complex");
    auto pair = complexOf(spec, entry->second);
    if (!pair)
      return pair.takeError();
    result.constants.emplace_back(spec.value, *pair);
    return llvm::Error::success();
  }
  auto weight = describeWeight(spec, entry->second);
  if (!weight)
    return weight.takeError();
  if (isChanged)
    return addArgument(*weight);
  auto constant = constantOf(*weight);
  if (!constant)
    return constant.takeError();
  if (!*constant)
    return addArgument(*weight);
  result.constants.emplace_back(spec.value, **constant);
  if (isa<FloatType>(weight->type.getElementType()))
    result.constantNames.push_back(spec.name);
  return llvm::Error::success();
}

void Placer::nameOthers(const llvm::StringMap<WeightEntry> &table) {
  llvm::StringMap<WeightArgument *> arguments;
  for (WeightArgument &argument : result.arguments)
    arguments[argument.name] = &argument;
  std::map<std::string, const WeightEntry *> sorted;
  for (const auto &[path, entry] : table)
    sorted[path.str()] = &entry;
  for (const auto &[path, entry] : sorted) {
    const std::string &name = places.at(placeOf(path, *entry)).front();
    WeightArgument *argument = arguments.lookup(name);
    if (!argument)
      result.unread.push_back(path);
    else if (name != path)
      argument->aliases.push_back(path);
  }
}

llvm::Expected<Weights>
placeWeights(const Archive &archive, const Program &program,
             llvm::function_ref<bool(llvm::StringRef)> isRead,
             llvm::function_ref<bool(llvm::StringRef)> isChanged,
             const ImportOptions &options, MLIRContext *context) {
  auto table = readWeightTable(archive);
  if (!table)
    return table.takeError();
  Placer placer(archive, program, context);
  placer.nameTied(*table);
  if (llvm::Error error = placer.readFilters(options, *table))
    return std::move(error);
  for (const InputSpec &spec : program.inputs)
    if (spec.kind != InputSpec::Kind::User &&
        spec.kind != InputSpec::Kind::Other && isRead(spec.value))
      if (llvm::Error error = placer.place(spec, *table, isChanged(spec.value)))
        return std::move(error);
  placer.nameOthers(*table);
  placer.addRemarks(options);
  return std::move(placer.result);
}

} // namespace dpc::frontend::pt2
