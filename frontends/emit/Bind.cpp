//===- Bind.cpp - Sizes for symbolic dimensions ---------------------------===//
#include "frontends/emit/Bind.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

class Binder {
public:
  Binder(llvm::StringRef file, std::vector<DeclaredInput> declared,
         const ImportOptions &options)
      : file(file), sizes(options.bind), globalBatch(options.globalBatch),
        inputs(std::move(declared)) {
    for (const DeclaredInput &input : inputs)
      if (batchSymbol.empty() && !input.dims.empty())
        batchSymbol = input.dims[0].symbol;
    for (const DeclaredInput &input : llvm::reverse(inputs))
      if (batchSymbol.empty() && !input.dims.empty() &&
          !(isNumber(input) && sizes.count(input.name)))
        staticBatch = input.dims[0].size;
  }

  llvm::Expected<std::vector<BoundInput>> run() const {
    std::vector<BoundInput> bound;
    for (const DeclaredInput &input : inputs) {
      auto one = bind(input);
      if (!one)
        return one.takeError();
      bound.push_back(std::move(*one));
    }
    return bound;
  }

  llvm::Error checkBindings() {
    for (const auto &[symbol, size] : sizes) {
      if (isNumber(symbol))
        continue;
      if (!isSymbol(symbol))
        return makeError(
            "--bind={0}={1}: {2} has no symbolic dimension '{0}'{3}", symbol,
            size, file, symbolList());
      if (size <= 0)
        return makeError("--bind={0}={1}: a size must be positive", symbol,
                         size);
    }
    if (globalBatch == 0)
      return llvm::Error::success();
    std::string option = "--global-batch=" + std::to_string(globalBatch);
    if (globalBatch < 0)
      return makeError("{0}: a batch must be positive", option);
    if (batchSymbol.empty()) {
      if (staticBatch != globalBatch)
        return makeError("{0}: the inputs of {1} have a fixed batch of {2}",
                         option, file, staticBatch);
      return llvm::Error::success();
    }
    auto [entry, isNew] = sizes.try_emplace(batchSymbol, globalBatch);
    if (entry->second != globalBatch)
      return makeError("{0} contradicts --bind={1}={2}", option, batchSymbol,
                       entry->second);
    return llvm::Error::success();
  }

private:
  bool isSymbol(const std::string &name) const {
    for (const DeclaredInput &input : inputs)
      for (const InputDim &dim : input.dims)
        if (!name.empty() && dim.symbol == name)
          return true;
    return false;
  }

  static bool isNumber(const DeclaredInput &input) {
    return isa<IntegerType>(input.element) &&
           llvm::all_of(input.dims, [](const InputDim &dim) {
             return dim.symbol.empty() && dim.size == 1;
           });
  }

  bool isNumber(const std::string &name) const {
    return !isSymbol(name) &&
           llvm::any_of(inputs, [&](const DeclaredInput &input) {
             return input.name == name && isNumber(input);
           });
  }

  std::string symbolList() const {
    std::vector<std::string> names;
    for (const DeclaredInput &input : inputs)
      for (const InputDim &dim : input.dims)
        if (!dim.symbol.empty() && !llvm::is_contained(names, dim.symbol))
          names.push_back(dim.symbol);
    for (const DeclaredInput &input : inputs)
      if (isNumber(input))
        names.push_back(input.name);
    if (names.empty())
      return "; all its dimensions are fixed";
    return "; it has '" + llvm::join(names, "', '") + "'";
  }

  llvm::Error unbound(const DeclaredInput &input, const InputDim &dim) const {
    std::string hint = dim.symbol == batchSymbol
                           ? "pass --global-batch=N or --bind=" + dim.symbol
                           : "pass --bind=" + dim.symbol;
    return makeError(
        "{0}: symbolic dimension '{1}' of input '{2}' is unbound: {3}=N", file,
        dim.symbol, input.name, hint);
  }

  llvm::Expected<BoundInput> bind(const DeclaredInput &input) const {
    BoundInput bound;
    bound.name = input.name;
    Shape shape;
    for (const auto &[d, dim] : llvm::enumerate(input.dims)) {
      bool isBatch = dim.symbol.empty()
                         ? d == 0 && staticBatch > 0 && dim.size == staticBatch
                         : dim.symbol == batchSymbol;
      if (isBatch && !bound.batchDim)
        bound.batchDim = static_cast<int64_t>(d);
      auto size = sizes.find(dim.symbol);
      if (!dim.symbol.empty() && size == sizes.end())
        return unbound(input, dim);
      shape.push_back(dim.symbol.empty() ? dim.size : size->second);
    }
    bound.type = RankedTensorType::get(shape, input.element);
    if (isNumber(input.name))
      if (auto value = sizes.find(input.name); value != sizes.end())
        bound.value = value->second;
    return bound;
  }

  llvm::StringRef file;
  std::map<std::string, int64_t> sizes;
  int64_t globalBatch;
  std::vector<DeclaredInput> inputs;
  std::string batchSymbol;
  int64_t staticBatch = 0; ///< batch size of a model without a batch symbol
};

} // namespace

llvm::Expected<std::vector<BoundInput>>
bindInputs(llvm::StringRef file, std::vector<DeclaredInput> inputs,
           const ImportOptions &options) {
  Binder binder(file, std::move(inputs), options);
  if (llvm::Error error = binder.checkBindings())
    return std::move(error);
  return binder.run();
}

} // namespace dpc::frontend
