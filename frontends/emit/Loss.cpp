//===- Loss.cpp - The output that training minimizes ----------------------===//
#include "frontends/emit/Loss.h"

#include "frontends/emit/Options.h"
#include "ir/Attributes.h"

using namespace mlir;

namespace dpc::frontend {

static constexpr llvm::StringLiteral kLossName = "loss";

static llvm::StringRef nameOf(func::FuncOp function, unsigned result) {
  auto name = function.getResultAttrOfType<StringAttr>(result, attr::kName);
  return name ? name.getValue() : llvm::StringRef();
}

static bool isTied(func::FuncOp function, unsigned result) {
  return static_cast<bool>(function.getResultAttr(result, attr::kTies));
}

llvm::SmallVector<unsigned> possibleLosses(func::FuncOp function) {
  llvm::SmallVector<unsigned> possible;
  for (auto [i, result] : llvm::enumerate(function.getResultTypes())) {
    auto type = dyn_cast<RankedTensorType>(result);
    if (type && type.getRank() == 0 && isa<FloatType>(type.getElementType()) &&
        !isTied(function, i))
      possible.push_back(i);
  }
  return possible;
}

static std::optional<unsigned> resultNamed(func::FuncOp function,
                                           llvm::StringRef name) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (!isTied(function, i) && nameOf(function, i) == name)
      return i;
  return std::nullopt;
}

static llvm::Error noOutput(func::FuncOp function, llvm::StringRef name,
                            llvm::StringRef file) {
  constexpr int kMost = 20;
  std::string names;
  int others = 0;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (llvm::StringRef other = nameOf(function, i);
        !other.empty() && !isTied(function, i) && others++ < kMost)
      names += (names.empty() ? "'" : ", '") + other.str() + "'";
  if (others > kMost)
    names += " and " + std::to_string(others - kMost) + " more";
  return makeError("{0}: --loss-output={1}: no output has this name; "
                   "accepted: {2}",
                   file, name, names.empty() ? "nothing" : names);
}

/// Returns the result that is trained if the user names none.
static std::optional<unsigned> chooseLoss(func::FuncOp function) {
  llvm::SmallVector<unsigned> possible = possibleLosses(function);
  if (auto named = resultNamed(function, kLossName))
    return llvm::is_contained(possible, *named) ? named : std::nullopt;
  return possible.size() == 1 ? std::optional(possible.front()) : std::nullopt;
}

std::string adviceOnLoss(RankedTensorType type) {
  if (!isa<FloatType>(type.getElementType()))
    return "return a float from the model";
  return type.getNumElements() == 1 ? "return its .squeeze() from the model"
                                    : "return its .mean() from the model";
}

llvm::Error markLoss(func::FuncOp function, llvm::StringRef name,
                     llvm::StringRef file) {
  Builder builder(function.getContext());
  std::optional<unsigned> loss =
      name.empty() ? chooseLoss(function) : resultNamed(function, name);
  if (!name.empty() && !loss)
    return noOutput(function, name, file);
  if (!loss)
    return llvm::Error::success();
  auto type = cast<RankedTensorType>(function.getResultTypes()[*loss]);
  if (!llvm::is_contained(possibleLosses(function), *loss))
    return makeError("{0}: --loss-output={1}: the output is {2}; accepted: a "
                     "float scalar ({3})",
                     file, name, type, adviceOnLoss(type));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.removeResultAttr(i, builder.getStringAttr(attr::kLoss));
  function.setResultAttr(*loss, attr::kLoss, builder.getUnitAttr());
  return llvm::Error::success();
}

} // namespace dpc::frontend
