//===- Blocks.h - Building blocks of transformer layers ---------*- C++ -*-===//
#pragma once

#include "frontends/dims/ModelDims.h"
#include "frontends/dims/OnnxGraph.h"

namespace dpc::model {

/// The label of a token that the loss ignores, if any has it.
inline constexpr int64_t kIgnoredLabel = -100;

struct Shared {
  std::string mask;     ///< Added to the scores, or "".
  std::string window;   ///< The mask of layers with a window, or "".
  std::string bias;     ///< ALiBi [1, heads, 1, seq] for the scores, or "".
  std::string cos, sin; ///< RoPE tables [seq, headDim], or "".
};

/// Returns base^(-i / count) for i = 0 to count - 1: the frequencies of
/// sinusoidal and rotary position embeddings.
std::vector<float> frequencies(int64_t count, double base);

/// Adds building blocks to a graph. `x` has the shape [batch, seq, hidden], and
/// `name` prefixes the names of the block's weights.
class Blocks {
public:
  Blocks(OnnxGraph &graph, const ModelDims &dims, bool hasBiases)
      : g(graph), d(dims), hasBiases(hasBiases) {}

  /// x w [+ b]
  std::string linear(const std::string &x, const std::string &name,
                     int64_t inputs, int64_t outputs, bool hasBias);
  /// Adds a layer norm with a scale, and with a bias if `hasBiases`.
  std::string layerNorm(const std::string &x, const std::string &name);
  /// (x - mean) / deviation, without weights.
  std::string plainNorm(const std::string &x);
  /// `width` is the last dimension of x.
  std::string rmsNorm(const std::string &x, const std::string &name,
                      int64_t width);

  /// An additive mask [seq, seq]: -1e9 above the diagonal, 0 elsewhere.
  std::string causalMask();
  /// An additive mask [seq, seq]: -1e9 for keys at least ModelDims::window
  /// before the query, 0 elsewhere.
  std::string windowMask();
  /// Returns slope x key position as [1, heads, 1, seq].
  std::string alibi();
  /// Sets `shared.cos` and `shared.sin`.
  void rotaryTables(Shared &shared);

  /// Adds attention with one GEMM for q, k and v together.
  std::string fusedAttention(const std::string &x, const std::string &name,
                             const Shared &shared);
  /// Adds grouped-query attention with separate GEMMs for q, k and v.
  std::string groupedAttention(const std::string &x, const std::string &name,
                               const Shared &shared);

  /// Adds multi-head latent attention (ModelDims::kvRank).
  std::string latentAttention(const std::string &x, const std::string &name,
                              const Shared &shared);

  /// Adds two GEMMs with gelu in between; `approximate` is "tanh" or "none".
  std::string geluFfn(const std::string &x, const std::string &name,
                      const char *approximate);
  /// (silu(x w1) * (x w3)) w2.
  std::string swiGlu(const std::string &x, const std::string &name,
                     int64_t width);
  std::string silu(const std::string &x);

  /// Returns the mean cross entropy of logits [.., classes] and labels [..].
  std::string crossEntropy(const std::string &logits, const std::string &labels,
                           int64_t classes);

private:
  /// Returns `x` as [batch, heads, length, width].
  std::string toHeads(const std::string &x, int64_t heads, int64_t width);
  std::string rope(const std::string &x, const Shared &shared);
  std::string repeatHeads(const std::string &x, int64_t length);
  /// Adds softmax(q k^T / sqrt(width) + masks) v for q and k of `width`
  /// columns, and returns it as [batch, length, heads x valueDim]. `name`
  /// prefixes the sinks, if the dims have them.
  std::string attend(const std::string &q, const std::string &k,
                     const std::string &v, int64_t width,
                     const std::string &name, const Shared &shared);
  std::pair<std::string, std::string> splitLast(const std::string &x,
                                                int64_t first, int64_t second);
  /// Adds a column of learned scores, whose values are 0, to the softmax.
  std::string softmaxWithSinks(const std::string &scores,
                               const std::string &name);

  OnnxGraph &g;
  const ModelDims &d;
  bool hasBiases;
};

} // namespace dpc::model
