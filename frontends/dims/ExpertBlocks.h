//===- ExpertBlocks.h - Mixtures of experts ---------------------*- C++ -*-===//
#pragma once

#include "frontends/dims/Blocks.h"

namespace dpc::model {

/// Adds mixtures of experts to a graph.
class ExpertBlocks {
public:
  ExpertBlocks(OnnxGraph &graph, const ModelDims &dims, Blocks &blocks)
      : g(graph), d(dims), blocks(blocks) {}

  /// Adds a mixture of experts, with shared experts if the dims have them. `x`
  /// has the shape [batch, seq, hidden], and `name` prefixes the weights.
  std::string mixture(const std::string &x, const std::string &name);

private:
  std::string glu(std::string gate, std::string up);
  template <typename Product>
  std::string layers(const std::string &given, Product product);
  std::string withSlots(const std::string &x, const std::string &name);
  std::string dropless(const std::string &x, const std::string &name);
  std::pair<std::string, std::string> choose(const std::string &tokens,
                                             const std::string &name);
  std::pair<std::string, std::string> route(const std::string &tokens,
                                            const std::string &name);

  OnnxGraph &g;
  const ModelDims &d;
  Blocks &blocks;
};

} // namespace dpc::model
