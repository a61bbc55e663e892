//===- Unsupported.cpp - Operators without a converter --------------------===//
#include "frontends/torch/Unsupported.h"

#include "frontends/emit/Options.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"

namespace dpc::frontend::pt2 {

/// The maximum number of operators that a message describes.
static constexpr size_t kMaxDescribed = 20;

/// Returns the operators that run_decompositions() must decompose so that only
/// supported operators are left, or "". The entries follow torch/_decomp and
/// torch/_refs of PyTorch. Many other decompositions end at operators that are
/// not supported either.
static llvm::StringRef decomposedBy(llvm::StringRef op) {
  return llvm::StringSwitch<llvm::StringRef>(op)
      .Case("logit", "aten.logit")
      .Case("nan_to_num", "aten.nan_to_num, aten.isneginf, aten.isposinf")
      .Case("nansum", "aten.nansum")
      .Case("rot90", "aten.rot90")
      .Case("std_mean", "aten.std_mean")
      .Default("");
}

/// Returns what to write instead of an operator.
static std::string remedyFor(llvm::StringRef target) {
  target.consume_front("aten.");
  llvm::StringRef op = target.split('.').first;
  if (llvm::StringRef list = decomposedBy(op); !list.empty())
    return formatted("with aten = torch.ops.aten, exported_program."
                     "run_decompositions(torch._decomp.get_decompositions([{0}]"
                     ")) before torch.export.save replaces it by supported "
                     "ones",
                     list);
  constexpr const char *dependsOnData =
      "the shape of its result depends on data; ";
  if (op == "stft" || op == "istft")
    return "multiply by the matrix of the transform";
  if (op.starts_with("linalg_"))
    return "compute it outside of the model";
  if (llvm::StringSwitch<bool>(op)
          .Cases({"gru", "lstm", "rnn_relu", "rnn_tanh"}, true)
          .Default(false))
    return "run it on padded sequences, which are no PackedSequence";
  return llvm::StringSwitch<std::string>(op)
      .Cases({"nonzero", "nonzero_numpy", "argwhere", "masked_select", "where"},
             dependsOnData + std::string("compute every position and mask with "
                                         "torch.where"))
      .Cases({"unique", "_unique2", "unique_dim", "unique_consecutive",
              "bincount"},
             dependsOnData +
                 std::string("use counts over a fixed number of classes"))
      .Cases({"multinomial", "randperm"}, "draw it outside of the model")
      .Default("compute it with other operators (frontends/torch/README.md "
               "lists the supported ones)");
}

namespace {

struct Use {
  size_t count = 0, first = 0;
};

} // namespace

static std::string described(const Node &node, const Use &use) {
  std::string text = formatted(
      "{0} ({1}node {2} '{3}'", node.target,
      use.count > 1 ? formatted("{0} nodes, first ", use.count) : std::string(),
      use.first, node.name);
  if (!node.source.empty())
    text += " at " + node.source;
  return text + "): " + remedyFor(node.target);
}

llvm::Error checkSupported(const Program &program, const Liveness &live,
                           llvm::StringRef file,
                           llvm::function_ref<bool(const Node &)> isSupported) {
  llvm::MapVector<llvm::StringRef, Use> uses;
  for (const auto &[index, node] : llvm::enumerate(program.graph.nodes))
    if (live.nodes[index] && !isSupported(node)) {
      auto [entry, isNew] = uses.insert({node.target, Use{0, index}});
      ++entry->second.count;
    }
  if (uses.empty())
    return llvm::Error::success();
  std::string list;
  for (const auto &[n, use] : llvm::enumerate(uses))
    if (n < kMaxDescribed)
      list += (n ? "; " : "") +
              described(program.graph.nodes[use.second.first], use.second);
  if (uses.size() > kMaxDescribed)
    list += formatted("; and {0} more", uses.size() - kMaxDescribed);
  return makeError("{0}: {1} not supported: {2}", file,
                   uses.size() == 1
                       ? std::string("an operator is")
                       : formatted("{0} operators are", uses.size()),
                   list);
}

} // namespace dpc::frontend::pt2
