//===- Bind.cpp - Symbolic dimensions get their sizes ---------------------===//
#include "frontends/onnx/Bind.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// A dimension of an input: a size, or a symbol when `symbol` is not empty.
struct InputDim {
  std::string symbol;
  int64_t size = 0;
};

struct RawInput {
  const ::onnx::ValueInfoProto *info;
  std::vector<InputDim> dims;
};

class Binder {
public:
  Binder(const ModelFile &file, const ImportOptions &options)
      : file(file), sizes(options.bind), globalBatch(options.globalBatch) {}

  llvm::Expected<std::vector<BoundInput>> run(MLIRContext *context) {
    if (llvm::Error error = readInputs())
      return std::move(error);
    if (llvm::Error error = checkBindings())
      return std::move(error);
    std::vector<BoundInput> bound;
    for (const RawInput &input : inputs) {
      auto one = bind(input, context);
      if (!one)
        return one.takeError();
      bound.push_back(std::move(*one));
    }
    return bound;
  }

private:
  llvm::Error readInputs() {
    const auto &graph = file.model().graph();
    llvm::StringSet<> initializers;
    for (const auto &tensor : graph.initializer())
      initializers.insert(tensor.name());
    for (const auto &info : graph.input()) {
      if (initializers.contains(info.name()))
        continue;
      if (!info.type().has_tensor_type() ||
          !info.type().tensor_type().has_shape())
        return makeError(file.path() + ": input '" + info.name() +
                         "' is no tensor of known rank");
      RawInput input{&info, {}};
      const auto &shape = info.type().tensor_type().shape();
      for (int d = 0; d < shape.dim_size(); ++d) {
        InputDim dim;
        if (shape.dim(d).has_dim_value() && shape.dim(d).dim_value() >= 0)
          dim.size = shape.dim(d).dim_value();
        else if (!shape.dim(d).dim_param().empty())
          dim.symbol = shape.dim(d).dim_param();
        else
          dim.symbol = info.name() + "." + std::to_string(d);
        if (dim.symbol.empty() && dim.size == 0)
          return makeError(file.path() + ": dimension " + llvm::Twine(d) +
                           " of input '" + info.name() + "' has size 0");
        input.dims.push_back(dim);
      }
      if (batchSymbol.empty() && !input.dims.empty())
        batchSymbol = input.dims[0].symbol;
      inputs.push_back(std::move(input));
    }
    for (const RawInput &input : llvm::reverse(inputs))
      if (batchSymbol.empty() && !input.dims.empty())
        staticBatch = input.dims[0].size;
    return llvm::Error::success();
  }

  llvm::Error checkBindings() {
    for (const auto &[symbol, size] : sizes) {
      if (!isSymbol(symbol))
        return makeError("--bind=" + symbol + "=" + llvm::Twine(size) + ": " +
                         file.path() + " has no symbolic dimension '" + symbol +
                         "'" + symbolList());
      if (size <= 0)
        return makeError("--bind=" + symbol + "=" + llvm::Twine(size) +
                         ": a size must be positive");
    }
    if (globalBatch == 0)
      return llvm::Error::success();
    std::string option = "--global-batch=" + std::to_string(globalBatch);
    if (globalBatch < 0)
      return makeError(option + ": a batch must be positive");
    if (batchSymbol.empty()) {
      if (staticBatch != globalBatch)
        return makeError(option + ": the inputs of " + file.path() +
                         " have a fixed batch of " + llvm::Twine(staticBatch));
      return llvm::Error::success();
    }
    auto [entry, isNew] = sizes.try_emplace(batchSymbol, globalBatch);
    if (entry->second != globalBatch)
      return makeError(option + " contradicts --bind=" + batchSymbol + "=" +
                       llvm::Twine(entry->second));
    return llvm::Error::success();
  }

  bool isSymbol(const std::string &name) const {
    for (const RawInput &input : inputs)
      for (const InputDim &dim : input.dims)
        if (!name.empty() && dim.symbol == name)
          return true;
    return false;
  }

  std::string symbolList() const {
    std::vector<std::string> names;
    for (const RawInput &input : inputs)
      for (const InputDim &dim : input.dims)
        if (!dim.symbol.empty() && !llvm::is_contained(names, dim.symbol))
          names.push_back(dim.symbol);
    if (names.empty())
      return "; all its dimensions are fixed";
    return "; it has '" + llvm::join(names, "', '") + "'";
  }

  llvm::Error unbound(const RawInput &input, const InputDim &dim) const {
    std::string hint = dim.symbol == batchSymbol
                           ? "pass --global-batch=N or --bind=" + dim.symbol
                           : "pass --bind=" + dim.symbol;
    return makeError(file.path() + ": symbolic dimension '" + dim.symbol +
                     "' of input '" + input.info->name() +
                     "' is unbound: " + hint + "=N");
  }

  llvm::Expected<BoundInput> bind(const RawInput &input,
                                  MLIRContext *context) const {
    BoundInput bound;
    bound.name = input.info->name();
    int32_t onnxType = input.info->type().tensor_type().elem_type();
    Type element = elementTypeOf(onnxType, context);
    if (!element)
      return makeError(file.path() + ": input '" + bound.name +
                       "' has elements of " + onnxTypeName(onnxType) +
                       ", which is not supported; accepted: FLOAT, FLOAT16, "
                       "BFLOAT16, DOUBLE, INT64, INT32, BOOL");
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
    bound.type = RankedTensorType::get(shape, element);
    return bound;
  }

  const ModelFile &file;
  std::map<std::string, int64_t> sizes;
  int64_t globalBatch;
  std::vector<RawInput> inputs;
  std::string batchSymbol;
  int64_t staticBatch = 0; ///< of a model without a batch symbol
};

} // namespace

llvm::Expected<std::vector<BoundInput>> bindInputs(const ModelFile &file,
                                                   const ImportOptions &options,
                                                   MLIRContext *context) {
  return Binder(file, options).run(context);
}

} // namespace dpc::frontend
