//===- Import.cpp - Import of StableHLO into dpc modules ------------------===//
#include "frontends/stablehlo/Import.h"

#include "frontends/stablehlo/Arguments.h"
#include "frontends/stablehlo/Call.h"
#include "frontends/stablehlo/Shardings.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

/// The maximum number of ops after loops are unrolled and calls are inlined.
constexpr int64_t kMaxOps = 4000000;
constexpr int64_t kMaxDepth = 100;

const OperatorTable &operatorTable() {
  static const OperatorTable table = [] {
    OperatorTable made;
    addElementwise(made);
    addMovement(made);
    addReductions(made);
    addSpatial(made);
    addIndexing(made);
    addControl(made);
    return made;
  }();
  return table;
}

/// Returns why a known op is not supported and what is accepted. Returns "" for
/// other ops.
llvm::StringRef alternativeTo(llvm::StringRef name) {
  name.consume_front("stablehlo.");
  if (name.starts_with("rng"))
    return "draws random numbers, which is not supported; accepted: random "
           "arrays as arguments, or a dropout rate of 0";
  if (name.starts_with("dynamic_") || name == "get_dimension_size" ||
      name == "set_dimension_size" || name == "real_dynamic_slice")
    return "has a shape that is known only at run time, which is not "
           "supported; accepted: static shapes";
  if (name.starts_with("all_") || name == "collective_permute" ||
      name == "reduce_scatter" || name == "partition_id" ||
      name == "replica_id" || name.starts_with("sdy."))
    return "is part of a program for one of several devices; accepted: "
           "programs on whole arrays (jit, not shard_map or pmap)";
  return "";
}

class Importer {
public:
  Importer(ModuleOp module, llvm::StringRef file, MLIRContext *context,
           const ImportOptions &options)
      : module(module), file(file), options(options), forward(file, context),
        emit(forward.emit) {}

  llvm::Expected<OwningOpRef<ModuleOp>> run();

private:
  llvm::Expected<func::FuncOp> mainFunction();
  llvm::Error begin(func::FuncOp main);
  std::optional<llvm::SmallVector<Val>> runRegion(Region &region,
                                                  ArrayRef<Val> operands);
  bool convert(Operation *op);
  void note(Operation *op, const llvm::Twine &why);
  llvm::Expected<OwningOpRef<ModuleOp>> finish(func::FuncOp main,
                                               ArrayRef<Val> results);

  ModuleOp module;
  std::string file;
  const ImportOptions &options;
  Forward forward;
  Emitter &emit;
  Signature signature;
  Values values;
  llvm::DenseMap<Value, Parts> stackParts;
  RegionRunner runner;
  std::string error; ///< with its location
  int64_t ops = 0, depth = 0;
};

} // namespace

/// Returns the line of the op, or the Python expression that created it.
static std::string placeOf(Location loc) {
  if (auto place = dyn_cast<FileLineColLoc>(loc))
    return (":" + llvm::Twine(place.getLine()) + ":" +
            llvm::Twine(place.getColumn()))
        .str();
  if (auto name = dyn_cast<NameLoc>(loc))
    return (": " + name.getName().getValue()).str();
  return "";
}

void Importer::note(Operation *op, const llvm::Twine &why) {
  if (error.empty())
    error = (file + placeOf(op->getLoc()) + ": '" +
             op->getName().getStringRef() + "': " + why)
                .str();
}

bool Importer::convert(Operation *op) {
  llvm::StringRef name = op->getName().getStringRef();
  auto found = operatorTable().find(name);
  if (found == operatorTable().end()) {
    llvm::StringRef instead = alternativeTo(name);
    note(op,
         instead.empty()
             ? "is not supported; frontends/stablehlo/README.md lists the " +
                   std::to_string(operatorTable().size()) +
                   " operations that are"
             : instead.str());
    return false;
  }
  if (++ops > kMaxOps) {
    note(op, "is one of more than " + llvm::Twine(kMaxOps) +
                 " operations after unrolling loops and inlining calls");
    return false;
  }
  emit.loc = op->getLoc();
  Call call(emit, op, values, runner, stackParts);
  found->second(call);
  for (OpResult result : op->getResults()) {
    if (emit.failed())
      break;
    auto type = call.resultType(result.getResultNumber());
    Val value = values.lookup(result);
    if (type && !value)
      emit.fail("cannot compute result {0} from these operands",
                result.getResultNumber());
    else if (type && value.type() != type)
      emit.fail("the result is {0}, but the file says {1}", value, type);
  }
  if (emit.failed())
    note(op, emit.error);
  return !emit.failed();
}

std::optional<llvm::SmallVector<Val>>
Importer::runRegion(Region &region, ArrayRef<Val> operands) {
  if (!region.hasOneBlock() || region.front().empty() ||
      region.front().getNumArguments() != operands.size()) {
    emit.fail(
        "has a region of {0} blocks; accepted: one block that has ops and {1} "
        "arguments",
        region.getBlocks().size(), operands.size());
    return std::nullopt;
  }
  if (++depth > kMaxDepth) {
    emit.fail("is nested deeper than {0} regions and calls", kMaxDepth);
    return std::nullopt;
  }
  Block &block = region.front();
  for (auto [argument, value] : llvm::zip(block.getArguments(), operands)) {
    values[argument] = value;
    if (value.type() != argument.getType()) {
      emit.fail(
          "passes {0} to a region or function whose argument has another type",
          value);
      return std::nullopt;
    }
  }
  for (Operation &op : block.getOperations()) {
    if (&op == &block.back())
      break;
    if (!convert(&op)) {
      emit.fail(error);
      return std::nullopt;
    }
  }
  llvm::SmallVector<Val> results;
  for (Value value : block.back().getOperands()) {
    Val known = values.lookup(value);
    if (!known) {
      emit.fail("returns a value that no earlier op defines");
      return std::nullopt;
    }
    results.push_back(known);
  }
  --depth;
  return results;
}

llvm::Expected<func::FuncOp> Importer::mainFunction() {
  func::FuncOp main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    for (auto function : module.getOps<func::FuncOp>())
      if (!main && function.isPublic())
        main = function;
  if (!main)
    return makeError("{0}: has no function @main", file);
  if (!main.getBody().hasOneBlock())
    return makeError("{0}: @{1} must have a body with one block", file,
                     main.getName());
  return main;
}

llvm::Error Importer::begin(func::FuncOp main) {
  auto read = readSignature(main, file, options);
  if (!read)
    return read.takeError();
  signature = std::move(*read);
  std::vector<WeightArgument> weights;
  std::vector<DeclaredInput> declared;
  for (const Argument &argument : signature.arguments) {
    if (argument.role != Argument::Role::input) {
      weights.push_back({argument.name, argument.type,
                         argument.role == Argument::Role::parameter,
                         std::nullopt});
      // Of the floats, --frozen alone makes buffers.
      weights.back().isFrozen = argument.role == Argument::Role::buffer &&
                                isa<FloatType>(argument.type.getElementType());
      continue;
    }
    DeclaredInput input{argument.name, argument.type.getElementType(), {}};
    for (int64_t size : argument.type.getShape())
      input.dims.push_back({"", size});
    declared.push_back(std::move(input));
  }
  auto inputs = bindInputs(file, std::move(declared), options);
  if (!inputs)
    return inputs.takeError();
  llvm::StringMap<Val> byName = forward.begin(weights, *inputs, {});
  for (auto [argument, value] :
       llvm::zip(signature.arguments, main.getArguments()))
    values[value] = byName.lookup(argument.name);
  return llvm::Error::success();
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::finish(func::FuncOp main,
                                                       ArrayRef<Val> results) {
  // Results that are tied to arguments come last, so they cannot be the loss.
  std::vector<NamedResult> named;
  for (bool tied : {false, true})
    for (auto [i, value] : llvm::enumerate(results))
      if (signature.isTied(i) == tied)
        named.push_back({signature.results[i], value});
  auto made = forward.finish(named, options.lossOutput);
  if (!made)
    return made;
  for (const std::string &remark : signature.remarks)
    emitRemark((*made)->getLoc()) << remark;
  if (llvm::Error failure =
          keepShardings(module, main, signature, file, **made))
    return std::move(failure);
  if (signature.isStep)
    makeTrainStep(**made, signature);
  return made;
}

llvm::Expected<OwningOpRef<ModuleOp>> Importer::run() {
  auto main = mainFunction();
  if (!main)
    return main.takeError();
  if (llvm::Error failure = begin(*main))
    return std::move(failure);
  runner = [this](Region &region, ArrayRef<Val> operands) {
    return runRegion(region, operands);
  };
  llvm::SmallVector<Val> arguments;
  for (Value argument : main->getArguments())
    arguments.push_back(values.lookup(argument));
  auto results = runRegion(main->getBody(), arguments);
  if (!results)
    return error.empty()
               ? makeError("{0}: @{1} {2}", file, main->getName(), emit.error)
               : makeError(error);
  if (results->empty())
    return makeError("{0}: @{1} returns nothing", file, main->getName());
  return finish(*main, *results);
}

namespace {
struct UnregisteredAllowed {
  explicit UnregisteredAllowed(MLIRContext &context)
      : context(context), before(context.allowsUnregisteredDialects()) {
    context.allowUnregisteredDialects(true);
  }
  ~UnregisteredAllowed() { context.allowUnregisteredDialects(before); }
  MLIRContext &context;
  bool before;
};
} // namespace

/// Whether the text has ops in the pretty form `stablehlo.add %a` instead of
/// the generic form `"stablehlo.add"(%a)`.
static bool isPretty(llvm::StringRef text) {
  for (size_t at = text.find("stablehlo."); at != llvm::StringRef::npos;
       at = text.find("stablehlo.", at + 1)) {
    size_t line = text.rfind('\n', at);
    llvm::StringRef before =
        text.slice(line == llvm::StringRef::npos ? 0 : line + 1, at)
            .rtrim(" \t");
    if (before.empty() || (before.ends_with("=") && before.contains('%')))
      return true;
  }
  return false;
}

static bool isBytecode(llvm::StringRef bytes) {
  return bytes.starts_with("ML\xefR");
}

static llvm::Expected<OwningOpRef<ModuleOp>>
importText(llvm::StringRef text, llvm::StringRef file, MLIRContext &context,
           const ImportOptions &options) {
  if (isBytecode(text))
    return makeError("{0}: is StableHLO bytecode; accepted: the generic text, "
                     "which examples/jax_export.py prints",
                     file);
  if (isPretty(text))
    return makeError(
        "{0}: is StableHLO in its pretty form; accepted: the generic form: "
        "lowered.compiler_ir('stablehlo').operation.get_asm(print_generic_op_"
        "form=True), as examples/jax_export.py does",
        file);
  UnregisteredAllowed allowed(context);
  std::string why;
  OwningOpRef<ModuleOp> module;
  {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        why = placeOf(diagnostic.getLocation()) + ": " + diagnostic.str();
      return success();
    });
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context), file);
  }
  if (!module)
    return makeError("{0}{1}", file,
                     (why.empty() ? ": cannot be parsed" : why));
  return Importer(*module, file, &context, options).run();
}

} // namespace dpc::frontend::hlo

using namespace dpc;

bool dpc::isStableHlo(llvm::StringRef bytes) {
  if (frontend::hlo::isBytecode(bytes))
    return bytes.contains("vhlo") || bytes.contains("StableHLO");
  return bytes.contains("\"stablehlo.") || frontend::hlo::isPretty(bytes);
}

FailureOr<OwningOpRef<ModuleOp>>
dpc::importStableHlo(std::unique_ptr<llvm::MemoryBuffer> bytes,
                     llvm::StringRef file, MLIRContext &context,
                     const ImportOptions &options) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  return frontend::verified(
      frontend::hlo::importText(bytes->getBuffer(), file, context, options),
      file, context);
}

FailureOr<OwningOpRef<ModuleOp>>
dpc::importStableHlo(llvm::StringRef file, MLIRContext &context,
                     const ImportOptions &options) {
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer)
    return frontend::verified(frontend::makeError("{0}: cannot read: {1}", file,
                                                  buffer.getError().message()),
                              file, context);
  return importStableHlo(std::move(*buffer), file, context, options);
}
