//===- Blocks.h - Building blocks of transformer layers ---------*- C++ -*-===//
#ifndef DPC_FRONTENDS_DIMS_BLOCKS_H
#define DPC_FRONTENDS_DIMS_BLOCKS_H

#include "frontends/dims/ModelDims.h"
#include "frontends/dims/OnnxGraph.h"

namespace dpc::model {

/// Values that all layers of a model share.
struct Shared {
  std::string mask;     ///< Added to the scores, or "".
  std::string bias;     ///< ALiBi [1, heads, 1, seq] for the scores, or "".
  std::string cos, sin; ///< RoPE tables [seq, headDim], or "".
};

/// base ^ -(0, 1 / count, 2 / count, ...): the frequencies of sinusoidal and
/// rotary position embeddings.
std::vector<float> frequencies(int64_t count, double base);

/// Writes building blocks into a graph. `x` always has the shape [batch, seq,
/// hidden]; `name` is the path of the block's weights.
class Blocks {
public:
  Blocks(OnnxGraph &graph, const ModelDims &dims, bool hasBiases)
      : g(graph), d(dims), hasBiases(hasBiases) {}

  /// x w [+ b]
  std::string linear(const std::string &x, const std::string &name,
                     int64_t inputs, int64_t outputs, bool hasBias);
  /// Layer norm with a scale, and with a bias if the model has biases.
  std::string layerNorm(const std::string &x, const std::string &name);
  /// (x - mean) / deviation, without weights.
  std::string plainNorm(const std::string &x);
  std::string rmsNorm(const std::string &x, const std::string &name);

  /// A mask [seq, seq] for the scores: 0 up to the diagonal and -1e9 beyond it.
  std::string causalMask();
  /// The ALiBi slopes times the key positions.
  std::string alibi();
  /// Fills in the RoPE tables of `shared`.
  void rotaryTables(Shared &shared);

  /// Attention with one GEMM for q, k and v.
  std::string fusedAttention(const std::string &x, const std::string &name,
                             const Shared &shared);
  /// Attention with three GEMMs and possibly fewer heads for k and v.
  std::string groupedAttention(const std::string &x, const std::string &name,
                               const Shared &shared);

  /// Two GEMMs with gelu in between; `approximate` is "tanh" or "none".
  std::string geluFfn(const std::string &x, const std::string &name,
                      const char *approximate);
  /// (silu(x w1) * (x w3)) w2.
  std::string swiGlu(const std::string &x, const std::string &name,
                     int64_t width);
  std::string silu(const std::string &x);
  /// Routed experts plus shared experts.
  std::string experts(const std::string &x, const std::string &name);

  /// The mean cross entropy of logits [.., classes] and labels [..].
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
