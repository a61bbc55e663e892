//===- Inputs.h - Inputs, weights and their files ------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"
#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <compare>
#include <map>
#include <set>
#include <string>

namespace dpc {

/// Sets Port::use of each input, and Port::first, limit and ignored of each
/// integer input that `program` uses as an index of table rows or of classes in
/// a loss, also after it adds a constant. Every use accepts first to limit - 1;
/// a label is ignored if every use ignores it.
void setInputUses(mlir::func::FuncOp program, rt::Plan &plan);

/// The uses of an input of tokens, [batch, positions].
struct TokenUses {
  /// Each op that reads rows of a table by the tokens, and how many positions
  /// of the tokens it leaves out at the front.
  std::vector<std::pair<EmbeddingOp, int64_t>> rows;
  /// How many positions before its scores the label of a loss is, such as 1 for
  /// labels[:, 1:] with scores[:, :-1], for each loss.
  std::set<int64_t> labels;
};

TokenUses tokenUses(mlir::BlockArgument input);

/// The names of an input of labels and of the input of these tokens.
struct TokenPair {
  std::string labels, tokens;
  auto operator<=>(const TokenPair &) const = default;
};

/// Returns the pairs of which the loss of `forward` compares the scores of each
/// position with a later token, because the model shifts its labels, and how
/// many positions later this is.
std::map<TokenPair, int64_t> predictedTokens(mlir::func::FuncOp forward);

/// Returns a remark on each input that no op of `program` reads.
std::vector<std::string> unreadInputs(mlir::func::FuncOp program);

/// Returns the absolute path of `file`, or `file` if the current folder does
/// not exist.
std::string absoluteFile(const std::string &file);

/// Makes file names in `dpc.source` absolute, because a plan may run from
/// another folder.
void makeSourcesAbsolute(mlir::ModuleOp module);

/// Removes each `dpc.source` whose file does not exist, so that the weight has
/// no initial value. Returns the names of these files.
std::set<std::string> removeMissingSources(mlir::ModuleOp module);

/// Describes the files that `dpc.source` and `choice` name. Names must be
/// absolute.
Expected<std::vector<rt::SourceFile>>
describeSources(mlir::ModuleOp module, const rt::InitChoice &choice);

/// Sets Plan::unreadWeights: the unread weights of the model `program`, and its
/// weights and states for which the plan has no tensor.
void setUnreadWeights(mlir::ModuleOp program, rt::Plan &plan);

void setInitialValues(rt::Plan &plan, const rt::InitChoice &choice);

} // namespace dpc
