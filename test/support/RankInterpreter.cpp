//===- RankInterpreter.cpp - All ranks of @step in one process ------------===//
#include "test/support/RankInterpreter.h"
#include "ir/ScalarSemantics.h"
#include "test/support/RankRowOps.h"

#include <cmath>

using namespace mlir;

namespace dpc::test {

static ShardingSpec specOf(Type type) {
  return *ShardingSpec::get(cast<RankedTensorType>(type));
}

static int64_t microBatches(MeshAttr mesh) {
  return mesh.axisSize(kMicroBatchAxis);
}

std::vector<Coordinates> allRanks(MeshAttr mesh) {
  std::vector<Coordinates> result{Coordinates{}};
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes())) {
    int64_t count = name.getValue() == kMicroBatchAxis ? 1 : size;
    std::vector<Coordinates> next;
    for (const Coordinates &before : result)
      for (int64_t c = 0; c < count; ++c) {
        next.push_back(before);
        next.back().push_back(c);
      }
    result = std::move(next);
  }
  return result;
}

/// Calls body(local offset, global offset) for every local element. The global
/// offset of padding is -1.
template <typename Body>
static void forEachElement(const ShardingSpec &spec,
                           const Coordinates &coordinates, Body body) {
  std::vector<std::vector<int64_t>> positions;
  std::vector<int64_t> local;
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    positions.push_back(globalPositions(spec, d, coordinates));
    local.push_back(positions.back().size());
  }
  auto globalShape = spec.globalShape();
  std::vector<int64_t> strides =
      HostArray({globalShape.begin(), globalShape.end()}).strides();
  int64_t i = 0;
  forEachIndex(local, [&](const std::vector<int64_t> &index) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size() && at >= 0; ++d) {
      int64_t position = positions[d][index[d]];
      at = position < 0 ? -1 : at + position * strides[d];
    }
    body(i++, at);
  });
}

HostArray pack(const HostArray &global, RankedTensorType type,
               const Coordinates &coordinates) {
  ShardingSpec spec = specOf(type);
  auto shape = spec.localShape();
  HostArray local({shape.begin(), shape.end()});
  double padding = isa<IntegerType>(type.getElementType()) ? 1 : kPadding;
  std::optional<double> instead;
  for (const PartialAxis &partial : spec.partial)
    if (coordinates[partial.axis] != 0)
      instead = neutralOf(partial.kind);
  forEachElement(spec, coordinates, [&](int64_t i, int64_t at) {
    local[i] = at < 0 ? padding : instead.value_or(at < 0 ? 0 : global[at]);
  });
  return local;
}

std::vector<HostArray> runGlobal(func::FuncOp func,
                                 const std::vector<HostArray> &inputs) {
  llvm::DenseMap<Value, HostArray> values;
  for (auto [argument, input] : llvm::zip(func.getArguments(), inputs))
    values[argument] = input;
  std::vector<HostArray> outputs;
  for (Operation &op : func.getBody().front()) {
    Evaluation e{&op, {}, {}, {}};
    for (Value operand : op.getOperands())
      e.operands.push_back(&values[operand]);
    if (isa<func::ReturnOp>(op)) {
      for (const HostArray *value : e.operands)
        outputs.push_back(*value);
      break;
    }
    evaluate(e);
    for (auto [result, value] : llvm::zip(op.getResults(), e.results))
      values[result] = std::move(value);
  }
  return outputs;
}

namespace {

class RankRun {
public:
  RankRun(func::FuncOp step, const std::vector<HostArray> &inputs)
      : step(step), mesh(step->getAttrOfType<MeshAttr>("dpc.mesh")),
        inputs(inputs), ranks(allRanks(mesh)), values(ranks.size()) {
    if (auto axis = mesh.findAxis(kMicroBatchAxis))
      microBatch = *axis;
  }

  RankResult run();

private:
  using Values = llvm::DenseMap<Value, HostArray>;

  void load(int64_t microBatchIndex);
  void runPhase(Phase phase, int64_t chunk = 0);
  void runLoop();
  void runOp(Operation *op);
  void runCollective(Operation *op);
  void exchangeRows(ExpertTilesOp op);
  void accumulate(Operation *op);
  void store(int64_t microBatchIndex);
  void storeResult(size_t index, Value value, const ShardingSpec &spec);
  std::vector<int64_t> group(int64_t rank, ArrayAttr axes);
  std::vector<HostArray> combineGroup(Operation *op, int64_t rank,
                                      const std::vector<int64_t> &members);
  ShardingSpec resultSpec(size_t index) {
    return specOf(
        cast<TypeAttr>(step.getResultAttr(index, "dpc.global")).getValue());
  }

  func::FuncOp step;
  MeshAttr mesh;
  const std::vector<HostArray> &inputs;
  std::vector<Coordinates> ranks;
  std::vector<Values> values;
  std::vector<llvm::DenseMap<Operation *, HostArray>> sums;
  int64_t microBatch = -1;
  RankResult result;
  std::vector<std::vector<bool>> written;
};

void RankRun::load(int64_t index) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (microBatch >= 0)
      ranks[r][microBatch] = index;
    for (BlockArgument argument : step.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto type = cast<RankedTensorType>(
          step.getArgAttrOfType<TypeAttr>(i, "dpc.global").getValue());
      values[r][argument] = pack(inputs[i], type, ranks[r]);
    }
  }
}

/// Returns the ranks that differ from `rank` only in `axes`, row-major.
std::vector<int64_t> RankRun::group(int64_t rank, ArrayAttr axes) {
  std::vector<Coordinates> members{ranks[rank]};
  for (auto name : axes.getAsRange<StringAttr>()) {
    int64_t axis = *mesh.findAxis(name.getValue());
    std::vector<Coordinates> next;
    for (Coordinates member : members)
      for (int64_t c = 0; c < mesh.getSizes()[axis]; ++c) {
        member[axis] = c;
        next.push_back(member);
      }
    members = std::move(next);
  }
  std::vector<int64_t> result;
  for (const Coordinates &member : members)
    result.push_back(llvm::find(ranks, member) - ranks.begin());
  return result;
}

std::vector<HostArray>
RankRun::combineGroup(Operation *op, int64_t rank,
                      const std::vector<int64_t> &members) {
  int64_t self = llvm::find(members, rank) - members.begin();
  std::vector<HostArray> outputs;
  for (auto [i, resultValue] : llvm::enumerate(op->getResults())) {
    auto shape = cast<RankedTensorType>(resultValue.getType()).getShape();
    HostArray out({shape.begin(), shape.end()});
    int64_t piece = out.size();
    if (isa<AllGatherOp, AllToAllOp>(op))
      piece /= members.size();
    for (auto [m, member] : llvm::enumerate(members)) {
      const HostArray &in = values[member][op->getOperand(i)];
      for (int64_t j = 0; j < piece; ++j) {
        if (isa<AllGatherOp>(op))
          out[m * piece + j] = in[j];
        else if (isa<AllToAllOp>(op))
          out[m * piece + j] = in[self * piece + j];
        else if (isa<RingShiftOp>(op))
          out[j] = m == (self + members.size() - 1) % members.size() ? in[j]
                                                                     : out[j];
        else {
          ReduceKind kind = *cast<CollectiveOpInterface>(op).getReduceKind();
          double x = in[isa<ReduceScatterOp>(op) ? self * piece + j : j];
          out[j] = m == 0 ? x : combine(kind, out[j], x);
        }
      }
    }
    outputs.push_back(std::move(out));
  }
  return outputs;
}

void RankRun::runCollective(Operation *op) {
  ArrayAttr axes = cast<CollectiveOpInterface>(op).getAxes();
  std::vector<std::vector<HostArray>> outputs;
  for (size_t r = 0; r < ranks.size(); ++r)
    outputs.push_back(combineGroup(op, r, group(r, axes)));
  for (size_t r = 0; r < ranks.size(); ++r)
    for (auto [value, array] : llvm::zip(op->getResults(), outputs[r]))
      values[r][value] = array;
  ++result.collectives[op->getName().stripDialect().str()];
}

/// Each rank runs the op on the rows of each member. Results of rows belong to
/// the member, and sums of tiles to the rank.
void RankRun::exchangeRows(ExpertTilesOp op) {
  std::vector<std::vector<HostArray>> outputs(ranks.size());
  auto add = [](HostArray &sum, const HostArray &term) {
    for (int64_t i = 0; i < term.size(); ++i)
      sum[i] += term[i];
  };
  for (size_t r = 0; r < ranks.size(); ++r)
    for (Value value : op->getResults()) {
      auto shape = cast<RankedTensorType>(value.getType()).getShape();
      outputs[r].emplace_back(std::vector<int64_t>(shape.begin(), shape.end()));
    }
  for (size_t r = 0; r < ranks.size(); ++r)
    for (int64_t member : group(r, *op.getExchange())) {
      Evaluation e{op, {&values[member][op.getIds()]}, ranks[r], {}};
      for (auto [operand, share] :
           llvm::zip_equal(op.getInputs(), op.getInShares()))
        e.operands.push_back(&values[share > 0 ? member : r][operand]);
      evaluate(e);
      for (auto [i, share] : llvm::enumerate(op.getOutShares()))
        add(outputs[share > 0 ? member : r][i], e.results[i]);
    }
  for (size_t r = 0; r < ranks.size(); ++r)
    for (auto [value, array] : llvm::zip(op->getResults(), outputs[r]))
      values[r][value] = std::move(array);
  ++result.collectives["expert_tiles"];
}

void RankRun::accumulate(Operation *op) {
  auto kind = cast<AccumulateOp>(op).getKind();
  for (size_t r = 0; r < ranks.size(); ++r) {
    const HostArray &x = values[r][op->getOperand(0)];
    auto [it, first] = sums[r].try_emplace(op, x);
    for (int64_t i = 0; !first && i < x.size(); ++i)
      it->second[i] = combine(kind, it->second[i], x[i]);
    values[r][op->getResult(0)] = it->second;
  }
}

void RankRun::runOp(Operation *op) {
  if (isa<CollectiveOpInterface>(op))
    return runCollective(op);
  if (auto tiles = dyn_cast<ExpertTilesOp>(op); tiles && tiles.getExchange())
    return exchangeRows(tiles);
  if (isa<AccumulateOp>(op))
    return accumulate(op);
  for (size_t r = 0; r < ranks.size(); ++r) {
    Evaluation e{op, {}, ranks[r], {}};
    for (Value operand : op->getOperands())
      e.operands.push_back(&values[r][operand]);
    evaluate(e);
    for (auto [value, array] : llvm::zip(op->getResults(), e.results))
      values[r][value] = std::move(array);
  }
}

void RankRun::runPhase(Phase phase, int64_t chunk) {
  for (Operation &op : step.getBody().front().without_terminator())
    if (phaseOf(&op) == phase && chunkOf(&op) == chunk)
      runOp(&op);
}

/// Runs the entries of `dpc.schedule`, if there are several passes over the
/// micro-batches. Results belong to the backward phase of the last pass.
void RankRun::runLoop() {
  auto table = step->getAttrOfType<DenseI64ArrayAttr>("dpc.schedule");
  if (!table) {
    for (int64_t m = 0; m < microBatches(mesh); ++m) {
      load(m);
      runPhase(Phase::forward);
      runPhase(Phase::backward);
      store(m);
    }
    return;
  }
  llvm::ArrayRef<int64_t> words = table.asArrayRef();
  int64_t last = words[words.size() - 2];
  for (; !words.empty(); words = words.drop_front(3)) {
    load(words[2]);
    runPhase(static_cast<Phase>(words[0]), words[1]);
    bool isNext = words.size() > 3 && words[5] == words[2];
    if (words[1] == last && !isNext)
      store(words[2]);
  }
}

void RankRun::storeResult(size_t index, Value value, const ShardingSpec &spec) {
  HostArray &out = result.outputs[index];
  for (size_t r = 0; r < ranks.size(); ++r) {
    bool replica = false;
    for (size_t axis = 0; axis < ranks[r].size(); ++axis)
      replica |= ranks[r][axis] != 0 && !spec.usesAxis(axis);
    if (replica && !spec.partial.empty())
      continue; // a replica already added this term
    const HostArray &local = values[r][value];
    forEachElement(spec, ranks[r], [&](int64_t i, int64_t at) {
      if (at < 0)
        return;
      if (!spec.partial.empty() && written[index][at]) {
        out[at] = combine(spec.partial[0].kind, out[at], local[i]);
      } else if (written[index][at] && out[at] != local[i] &&
                 result.disagreement.empty()) {
        result.disagreement =
            (llvm::Twine("result ") + llvm::Twine(index) + " element " +
             llvm::Twine(at) + ": " + std::to_string(out[at]) + " and " +
             std::to_string(local[i]) + " on rank " + llvm::Twine(r))
                .str();
      } else {
        out[at] = local[i];
      }
      written[index][at] = true;
    });
  }
}

/// Stores the results of micro-batch `index`, or those of the whole step if
/// `index` is -1.
void RankRun::store(int64_t index) {
  auto ret = cast<func::ReturnOp>(step.getBody().front().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    ShardingSpec spec = resultSpec(i);
    bool perMicroBatch = microBatch >= 0 && spec.usesAxis(microBatch);
    if (perMicroBatch == (index >= 0))
      storeResult(i, value, spec);
  }
}

RankResult RankRun::run() {
  sums.resize(ranks.size());
  for (size_t i = 0; i < step.getNumResults(); ++i) {
    auto shape = resultSpec(i).globalShape();
    result.outputs.emplace_back(
        std::vector<int64_t>(shape.begin(), shape.end()), kPadding);
    written.emplace_back(result.outputs.back().size(), false);
  }
  load(0);
  runPhase(Phase::setup);
  runLoop();
  runPhase(Phase::update);
  store(-1);
  return std::move(result);
}

} // namespace

RankResult runRanks(func::FuncOp step, const std::vector<HostArray> &inputs) {
  return RankRun(step, inputs).run();
}

} // namespace dpc::test
