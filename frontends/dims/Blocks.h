//===- Blocks.h - What transformer layers are made of -----------*- C++ -*-===//
#ifndef DPC_FRONTENDS_DIMS_BLOCKS_H
#define DPC_FRONTENDS_DIMS_BLOCKS_H

#include "frontends/dims/ModelDims.h"
#include "frontends/dims/OnnxGraph.h"

namespace dpc::model {

/// What all layers of a model share.
struct Shared {
  std::string mask;     ///< Added to scores, or "".
  std::string bias;     ///< Of the scores [1, heads, 1, seq] (ALiBi), or "".
  std::string cos, sin; ///< Rotary tables [seq, headDim], or "".
};

/// base ^ -(0, 1 / count, 2 / count, ...): of the waves that tell positions.
std::vector<float> frequencies(int64_t count, double base);

/// Writes blocks into a graph. `x` is [batch, seq, hidden] everywhere, `name`
/// the path of the block's weights.
class Blocks {
public:
  Blocks(OnnxGraph &graph, const ModelDims &dims, bool hasBiases)
      : g(graph), d(dims), hasBiases(hasBiases) {}

  /// x w [+ b]
  std::string linear(const std::string &x, const std::string &name,
                     int64_t inputs, int64_t outputs, bool hasBias);
  /// Layer norm with scale, and bias where the model has biases.
  std::string layerNorm(const std::string &x, const std::string &name);
  /// (x - mean) / deviation, without weights.
  std::string plainNorm(const std::string &x);
  std::string rmsNorm(const std::string &x, const std::string &name);

  /// Added to scores [seq, seq]: nothing up to the diagonal, much beyond.
  std::string causalMask();
  /// Slopes of ALiBi by key position.
  std::string alibi();
  /// Sets the tables of `shared`.
  void rotaryTables(Shared &shared);

  /// Attention with one product for q, k and v.
  std::string fusedAttention(const std::string &x, const std::string &name,
                             const Shared &shared);
  /// The same with three, and fewer heads of k and v.
  std::string groupedAttention(const std::string &x, const std::string &name,
                               const Shared &shared);

  /// Two products and gelu between; "tanh" or "none" approximates it.
  std::string geluFfn(const std::string &x, const std::string &name,
                      const char *approximate);
  /// silu(x w1) * (x w3), w2.
  std::string swiGlu(const std::string &x, const std::string &name,
                     int64_t width);
  std::string silu(const std::string &x);
  /// Chosen experts and shared ones.
  std::string experts(const std::string &x, const std::string &name);

  /// The mean cross entropy of logits [.., classes] and labels of as many.
  void crossEntropy(const std::string &logits, const std::string &labels,
                    int64_t classes);

private:
  /// [batch, heads, length, headDim]
  std::string toHeads(const std::string &x, int64_t heads);
  std::string rope(const std::string &x, const Shared &shared);
  std::string repeatHeads(const std::string &x, int64_t length);
  std::string attend(const std::string &q, const std::string &k,
                     const std::string &v, const Shared &shared);
  std::pair<std::string, std::string> route(const std::string &tokens,
                                            const std::string &name);

  OnnxGraph &g;
  const ModelDims &d;
  bool hasBiases;
};

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_BLOCKS_H
