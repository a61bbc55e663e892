//===- SplitStages.cpp - dpc-split-stages ---------------------------------===//
//
// Clones each op to the pipeline stages that need it. A *place* is where an
// instance of an op runs: a virtual stage in the micro-batch loop, or a rank
// stage in setup and update.
//   * An op with `dpc.stage`, except a constant, has one place, the *home*.
//   * Another op has a place wherever it is read, so that cheap
//     ops are repeated instead of sending their results. If the op is in the
//     loop and its reader is not, the op runs with the last stage that produces
//     an operand.
//
// Each pass over the micro-batches (PartitionTotals.cpp) has virtual stages of
// its own, so the passes are further chunks of each rank stage. The schedule of
// a pass for totals consists of the forward entries of the schedule.
//
// Demand starts at the homes and continues at the results of the function. The
// next value of an argument is needed on every rank stage where an op reads the
// argument. Every other result is needed on one rank stage. An input that no op
// reads is on rank stage 0.
//
// If a rank stage other than the home reads a value, the value is sent there
// once per run of the phase that produces it:
//
//   produced in      sent                      received
//   setup            after the producer        at the end of setup
//   the loop         after the producer        before the first reader
//   accumulate       when update begins        before the first reader
//     in a pass      when the next pass        before the first reader
//     for totals     begins, per micro-batch
//   update           after the producer        before the first reader
//
//===----------------------------------------------------------------------===//
#include "passes/local/SplitStages.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"
#include "passes/local/ScheduleTable.h"
#include "passes/shard/Passes.h"

#include "ir/Attributes.h"

#include <map>

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCSPLITSTAGES
#include "passes/local/Passes.h.inc"

namespace {

using Place = StageDemand::Place;

/// A value that one rank stage sends to another. Its tag is its index.
struct Message {
  Value value;
  int64_t from = 0, to = 0;
};

/// When an instance runs: a phase and, in the loop, a chunk of the rank stage.
struct When {
  Phase phase;
  int64_t chunk = 0;
};

/// An instance of an op. Instances run in the order of `key`: the run order of
/// phase and chunk, then the index of the op in the program.
struct Instance {
  std::pair<int64_t, int64_t> key;
  Operation *op = nullptr;
  Place place;
};

class StageSplitter {
public:
  /// A pass has `chunks` chunks.
  StageSplitter(func::FuncOp step, int64_t ranks, int64_t chunks)
      : step(step), ranks(ranks), chunks(chunks), last(totalsPassesOf(step)),
        demand(step, ranks, ranks * chunks), builder(step.getContext()),
        instances(ranks) {}

  void run() {
    findMessages();
    findInstances();
    for (int64_t stage = 0; stage < ranks; ++stage)
      makeFunction(stage);
  }

private:
  void findMessages() {
    afterSetup.resize(ranks);
    auto need = [&](Value value, Place reader) {
      Operation *producer = value.getDefiningOp();
      if (!producer)
        return;
      int64_t from = demand.placeFor(producer, reader).rank;
      size_t tag = messages.size();
      if (from == reader.rank ||
          !messagesOf[value].try_emplace(reader.rank, tag).second)
        return;
      messages.push_back({value, from, reader.rank});
      if (demand.phaseOf(producer) == Phase::setup)
        afterSetup[reader.rank].push_back(tag);
    };
    for (Operation &op : step.getBody().front().without_terminator())
      for (Place place : demand.placesOf(&op)) {
        if (auto own = dyn_cast<StageValueOp>(&op))
          need(own.getValues()[place.rank], place);
        else
          for (Value operand : op.getOperands())
            need(operand, place);
      }
    Operation *end = step.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(end->getOperands()))
      for (int64_t holder : demand.ranksOfResult(i))
        need(value, {StageDemand::kNoStage, holder});
  }

  int64_t chunkOf(const Place &place) const {
    return place.stage == StageDemand::kNoStage ? 0 : place.stage / ranks;
  }
  void findInstances() {
    for (auto [index, op] :
         llvm::enumerate(step.getBody().front().without_terminator())) {
      if (auto sum = dyn_cast<AccumulateOp>(op))
        sums.push_back(sum);
      for (Place place : demand.placesOf(&op)) {
        int64_t order = runOrder(demand.phaseOf(&op), chunkOf(place));
        instances[place.rank].push_back(
            {{order, static_cast<int64_t>(index)}, &op, place});
      }
    }
    for (std::vector<Instance> &list : instances)
      llvm::sort(list, [](const Instance &a, const Instance &b) {
        return a.key < b.key;
      });
  }

  void makeFunction(int64_t stage) {
    rank = stage;
    phase = Phase::setup;
    sentPasses = 0;
    made.clear();
    received.clear();
    builder.setInsertionPoint(step);
    makeSignature();
    builder.setInsertionPointToStart(&func.getBody().front());
    for (const Instance &instance : instances[stage])
      emit(instance);
    enter(Phase::update, last + 1);
    Operation *end = step.getBody().front().getTerminator();
    SmallVector<Value> values;
    for (unsigned i : keptResults)
      values.push_back(valueFor(
          end->getOperand(i), {StageDemand::kNoStage, rank}, {Phase::update}));
    func::ReturnOp::create(builder, step.getLoc(), values);
  }

  void makeSignature() {
    SmallVector<Type> inputs, outputs;
    SmallVector<Attribute> inputAttrs, outputAttrs;
    DenseMap<int64_t, int64_t> newIndex;
    keptArguments.clear();
    keptResults.clear();
    for (unsigned i = 0; i < step.getNumArguments(); ++i) {
      const std::set<int64_t> &holders = demand.holdersOf(i);
      if (!holders.count(rank))
        continue;
      newIndex[i] = keptArguments.size();
      keptArguments.push_back(i);
      inputs.push_back(step.getArgumentTypes()[i]);
      NamedAttrList attrs(step.getArgAttrDict(i));
      StringRef role = roleOfArgument(step, i);
      bool isStored =
          !role.empty() && role != role::kInput && role != role::kScalar;
      if (isStored && *holders.begin() != rank)
        attrs.set(attr::kCopy, builder.getUnitAttr());
      inputAttrs.push_back(attrs.getDictionary(builder.getContext()));
    }
    for (unsigned i = 0; i < step.getNumResults(); ++i) {
      if (!demand.ranksOfResult(i).count(rank))
        continue;
      keptResults.push_back(i);
      outputs.push_back(step.getResultTypes()[i]);
      NamedAttrList attrs(step.getResultAttrDict(i));
      if (auto tied = step.getResultAttrOfType<IntegerAttr>(i, attr::kTies))
        attrs.set(attr::kTies,
                  builder.getI64IntegerAttr(newIndex.at(tied.getInt())));
      outputAttrs.push_back(attrs.getDictionary(builder.getContext()));
    }
    func = func::FuncOp::create(builder, step.getLoc(),
                                "step." + std::to_string(rank),
                                builder.getFunctionType(inputs, outputs));
    func->setDiscardableAttrs(step->getDiscardableAttrDictionary());
    func->setAttr(attr::kStage, builder.getI64IntegerAttr(rank));
    func.setArgAttrsAttr(builder.getArrayAttr(inputAttrs));
    func.setResAttrsAttr(builder.getArrayAttr(outputAttrs));
    Block *body = func.addEntryBlock();
    arguments.clear();
    for (auto [kept, argument] : llvm::zip(keptArguments, body->getArguments()))
      arguments[step.getArgument(kept)] = argument;
  }

  void emit(const Instance &instance) {
    Operation *op = instance.op;
    When when{demand.phaseOf(op), chunkOf(instance.place)};
    enter(when.phase, isInLoop(when.phase) ? when.chunk / chunks : last + 1);
    auto record = [&](Value result, Value value) {
      made[{result, instance.place.stage}] = value;
    };
    if (auto own = dyn_cast<StageValueOp>(op))
      return record(own.getResult(),
                    valueFor(own.getValues()[rank], instance.place, when));
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, valueFor(operand, instance.place, when));
    Operation *clone = builder.clone(*op, operands);
    setWhen(clone, when);
    for (auto [result, value] :
         llvm::zip(op->getResults(), clone->getResults()))
      record(result, value);
    if (!isa<AccumulateOp>(op))
      send(op, when);
  }

  /// Emits the communication at the start of phase `next` and of pass `pass`:
  /// receives results of setup, or sends sums over micro-batches.
  void enter(Phase next, int64_t pass) {
    if (phase == Phase::setup && next > Phase::setup)
      for (size_t message : afterSetup[rank])
        if (!received.count(messages[message].value))
          receive(message, {Phase::setup});
    for (; next > Phase::setup && sentPasses < std::min(pass, last);
         ++sentPasses)
      sendSums(sentPasses, {Phase::forward, (sentPasses + 1) * chunks});
    if (phase < Phase::update && next == Phase::update)
      sendSums(last, {Phase::update});
    phase = next;
  }

  void sendSums(int64_t pass, const When &when) {
    for (AccumulateOp sum : sums)
      if (demand.passOf(sum) == pass)
        send(sum, when);
  }

  /// Returns `value` for a reader at `reader`. Inserts a recv that runs at
  /// `when` if another stage sends the value.
  Value valueFor(Value value, Place reader, const When &when) {
    Operation *producer = value.getDefiningOp();
    if (!producer)
      return arguments.at(value);
    Place place = demand.placeFor(producer, reader);
    if (place.rank == reader.rank)
      return made.at({value, place.stage});
    if (auto it = received.find(value); it != received.end())
      return it->second;
    receive(messagesOf.find(value)->second.at(rank), when);
    return received.at(value);
  }

  void receive(size_t tag, const When &when) {
    const auto &[value, from, to] = messages[tag];
    auto recv =
        RecvOp::create(builder, value.getLoc(), value.getType(), from, tag);
    setWhen(recv, when);
    received[value] = recv.getValue();
  }

  void send(Operation *op, const When &when) {
    for (Value result : op->getResults()) {
      auto it = messagesOf.find(result);
      if (it == messagesOf.end())
        continue;
      for (auto [to, tag] : it->second) {
        if (messages[tag].from != rank)
          continue;
        Place here = demand.placeFor(op, {StageDemand::kNoStage, rank});
        setWhen(SendOp::create(builder, op->getLoc(),
                               made.at({result, here.stage}), to, tag),
                when);
      }
    }
  }

  /// Also removes the stage of `op`, because the function has only one stage.
  void setWhen(Operation *op, const When &when) {
    Attribute chunk =
        when.chunk > 0 ? builder.getI64IntegerAttr(when.chunk) : Attribute();
    StringAttr phase = phaseAttr(builder.getContext(), when.phase);
    whens.apply(op, {phase, chunk}, [&](NamedAttrList &list) {
      list.erase(attr::kStage);
      list.erase(attr::kChunk);
      list.set(attr::kPhase, phase);
      if (chunk)
        list.set(attr::kChunk, chunk);
    });
  }

  func::FuncOp step;
  int64_t ranks, chunks;
  int64_t last; ///< The number of the last pass.
  StageDemand demand;
  std::vector<Message> messages;
  /// For each value, the tags of its messages by receiving rank stage.
  DenseMap<Value, std::map<int64_t, size_t>> messagesOf;
  /// The tags of messages from setup, by receiving rank stage.
  std::vector<SmallVector<size_t>> afterSetup;
  SmallVector<AccumulateOp> sums;

  // State of the function under construction.
  int64_t rank = 0;
  func::FuncOp func;
  OpBuilder builder;
  Phase phase = Phase::setup;
  int64_t sentPasses = 0; ///< The passes whose sums have been sent.
  /// Indices in `step` of the arguments and results of `func`.
  SmallVector<unsigned> keptArguments, keptResults;
  DenseMap<Value, Value> arguments;
  /// Clones by original value and virtual stage.
  DenseMap<std::pair<Value, int64_t>, Value> made;
  DenseMap<Value, Value> received;
  AttributeEdits whens;

  std::vector<std::vector<Instance>> instances;
};

} // namespace

/// Moves a backward op to the weight phase (ZB-H1) if each reader runs after
/// the backward phase or moves as well. A reader that moves must be part of the
/// gradient of the same forward op (`dpc.group`) or convert the type, because
/// earlier stages may wait for values that other groups read.
static void markWeightPhase(func::FuncOp step) {
  Block &body = step.getBody().front();
  DenseSet<Operation *> weight;
  auto isBackward = [](Operation *op) {
    return phaseOf(op) == Phase::backward;
  };
  auto endsHere = [&](Operation *op, Operation *user) {
    if (!isBackward(user))
      return true;
    return weight.contains(user) &&
           (isa<ConvertOp>(user) || !user->hasAttr(attr::kGroup) ||
            !op->hasAttr(attr::kGroup) ||
            user->getAttr(attr::kGroup) == op->getAttr(attr::kGroup));
  };
  for (Operation &op : llvm::reverse(body.without_terminator()))
    if (isBackward(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
          return endsHere(&op, user);
        }))
      weight.insert(&op);
  for (Operation *op : weight)
    setPhase(op, Phase::weight);
}

int64_t totalsPassesOf(func::FuncOp step) {
  auto passes = step->getAttrOfType<IntegerAttr>(attr::kTotalsPasses);
  return passes ? passes.getInt() : 0;
}

void setTable(func::FuncOp step, ArrayRef<cost::ScheduleStep> table) {
  SmallVector<int64_t> triples;
  for (const cost::ScheduleStep &entry : table)
    triples.append(
        {static_cast<int64_t>(entry.phase), entry.chunk, entry.microBatch});
  step->setAttr(attr::kSchedule,
                DenseI64ArrayAttr::get(step.getContext(), triples));
}

std::vector<cost::ScheduleStep> tableOf(func::FuncOp step) {
  std::vector<cost::ScheduleStep> table;
  if (auto triples = step->getAttrOfType<DenseI64ArrayAttr>(attr::kSchedule))
    for (ArrayRef<int64_t> left = triples; left.size() >= 3;
         left = left.drop_front(3))
      table.push_back(
          {static_cast<cost::SchedulePhase>(left[0]), left[1], left[2]});
  return table;
}

namespace {

struct SplitStagesPass : impl::DpcSplitStagesBase<SplitStagesPass> {
  using Base::Base;

  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    auto mesh = step ? step->getAttrOfType<MeshAttr>(attr::kMesh) : MeshAttr();
    if (!mesh) {
      getOperation().emitError("no function @step with 'dpc.mesh' to split");
      return signalPassFailure();
    }
    int64_t ranks = mesh.axisSize(kPipelineAxis);
    if (ranks == 1)
      return;
    int64_t count =
        microBatches > 0 ? microBatches : mesh.axisSize(kMicroBatchAxis);
    auto tables = makeTables(step, ranks, count);
    if (!tables || failed(checkStages(step, ranks)))
      return signalPassFailure();
    bool trains = llvm::any_of(step.getOps(), [](Operation &op) {
      return phaseOf(&op) == Phase::backward;
    });
    if (!trains)
      *tables = cost::forwardOnly(*tables);
    if (splitsBackward(*symbolize<cost::ScheduleKind>(schedule)))
      markWeightPhase(step);
    int64_t passes = totalsPassesOf(step);
    if (passes > 0)
      numberStages(step, ranks * chunks);
    StageSplitter(step, ranks, chunks).run();
    for (auto [stage, table] : llvm::enumerate(*tables))
      setTable(getOperation().lookupSymbol<func::FuncOp>("step." +
                                                         std::to_string(stage)),
               cost::afterPasses(table, passes, chunks));
    step.erase();
  }

  /// Gives the ops of each pass virtual stages of its own.
  static void numberStages(func::FuncOp step, int64_t stages) {
    Builder builder(step.getContext());
    for (Operation &op : step.getOps())
      if (auto stage = stageOf(&op); stage && isInLoop(phaseOf(&op)))
        op.setAttr(attr::kStage,
                   builder.getI64IntegerAttr(*stage + chunkOf(&op) * stages));
  }

  /// Returns the schedule of every rank stage, or nullopt after a diagnostic.
  std::optional<std::vector<std::vector<cost::ScheduleStep>>>
  makeTables(func::FuncOp step, int64_t ranks, int64_t microBatches) {
    auto kind = symbolize<cost::ScheduleKind>(schedule);
    if (!kind) {
      step.emitError("schedule is '")
          << schedule << "', expected gpipe, 1f1b, interleaved or zb-h1";
      return std::nullopt;
    }
    if (chunks < 1) {
      step.emitError("chunks=") << chunks.getValue() << "; expected at least 1";
      return std::nullopt;
    }
    auto tables = cost::makeSchedule(*kind, ranks, chunks, microBatches);
    if (!tables) {
      step.emitError(tables.message());
      return std::nullopt;
    }
    return *tables;
  }

  LogicalResult checkStages(func::FuncOp step, int64_t ranks) {
    for (Operation &op : step.getOps())
      if (int64_t stage = stageOf(&op).value_or(0);
          stage < 0 || stage >= ranks * chunks)
        return op.emitError("'dpc.stage' is ")
               << stage << ", expected 0 to " << ranks * chunks - 1 << ": "
               << ranks << " rank stages with " << chunks.getValue()
               << " chunks each";
    return success();
  }
};

} // namespace
} // namespace dpc
