//===- Schedule.h - The order in which stages run micro-batches -*- C++ -*-===//
//
// A pipeline has pp rank stages with vpp chunks of the model each. Virtual
// stage v = chunk * pp + s is chunk v / pp of rank stage v % pp. A table lists
// the phases of a rank stage in their order: forward F, backward B and weight
// gradients W of each chunk and each of M micro-batches. The runtime executes
// the same tables that are simulated here.
//
// F(v, m) depends on F(v-1, m); B(v, m) on B(v+1, m) and F(v, m); W(v, m) on
// B(v, m). A stage runs its table strictly in order. Valid tables satisfy
//   (T1) every stage has each (chunk, micro-batch) once per phase, and
//   (T2) the dependencies and the orders of all tables have no cycle, so that
//        the stages never deadlock (`simulateSchedule` tests it).
// Below, f, b and w are a stage's seconds per micro-batch; b includes w unless
// the backward pass is split. A micro-batch is alive from its F to the last
// phase that reads an activation of that F.
//
// GPipe (Huang et al., 2019, arXiv:1811.06965): all F, then all B in reverse.
//   Alive: M. Idle: (pp-1)(f+b) on every stage, because the first F of stage s
//   arrives after s*f, and its first B after (pp-1-s)*b more.
// 1F1B (PipeDream-Flush: Narayanan et al., 2021, arXiv:2006.09503): stage s
//   runs min(M, pp-1-s) F, then F and B alternate, then the remaining B follow.
//   Alive: at most pp-s, because F(m) with m >= pp-s follows B(m-(pp-s)). Idle:
//   the same as GPipe.
// Interleaved (Narayanan et al., 2021, arXiv:2104.04473, section 2.2): groups
//   of pp micro-batches pass chunk 0, then chunk 1, ...; B takes the chunks in
//   reverse order. Stage s starts with 2(pp-1-s) + (vpp-1)pp F. A chunk takes
//   (f+b)/vpp, and filling and draining take pp-1 chunks, so the idle time is
//   (pp-1)(f+b)/vpp. If pp does not divide M, the table is made for the next
//   multiple of pp, and the micro-batches beyond M are removed: removing all
//   phases of a micro-batch cannot create a cycle. With vpp = 1 it is 1F1B.
// ZB-H1 (Qi et al., 2024, arXiv:2401.10241): 1F1B with a split backward pass. B
//   computes the gradient of the stage's input, for which the previous stage
//   waits; W computes the gradients of weights, for which no stage waits. Stage
//   s runs W of micro-batch m after B of m+s. Alive: at most pp (stage s has
//   pp-s micro-batches before B and s before W), as on the worst stage of 1F1B.
//   Idle if f = b = w: (pp-1)(f+b-w), a third of 1F1B's (pp-1)(f+b+w).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/EnumNames.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dpc::cost {

enum class ScheduleKind { GPipe, OneFOneB, Interleaved, ZbH1 };

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<cost::ScheduleKind> =
    {"gpipe", "1f1b", "interleaved", "zb-h1"};
} // namespace dpc

namespace dpc::cost {

/// Returns whether the tables of the schedule have W entries.
constexpr bool splitsBackward(ScheduleKind kind) {
  return kind == ScheduleKind::ZbH1;
}

constexpr bool hasChunks(ScheduleKind kind) {
  return kind == ScheduleKind::Interleaved;
}

/// The attribute `dpc.schedule` and plans have the same values.
enum class SchedulePhase : int64_t { Forward = 1, Backward = 2, Weight = 3 };
std::string_view stringifySchedulePhase(SchedulePhase phase);

/// One entry of a table: run `phase` of `chunk` on micro-batch `microBatch`.
struct ScheduleStep {
  SchedulePhase phase = SchedulePhase::Forward;
  int64_t chunk = 0;
  int64_t microBatch = 0;

  bool operator==(const ScheduleStep &) const = default;
};

/// Returns the tables of all rank stages. `pp`, `vpp` and `microBatches` are at
/// least 1. Fails if vpp > 1 and the schedule is not interleaved. Only ZbH1
/// tables have weight entries.
Expected<std::vector<std::vector<ScheduleStep>>>
makeSchedule(ScheduleKind kind, int64_t pp, int64_t vpp, int64_t microBatches);

/// Returns the forward entries of `tables`: the tables of an inference program.
std::vector<std::vector<ScheduleStep>>
forwardOnly(const std::vector<std::vector<ScheduleStep>> &tables);

/// Returns a table that first runs `passes` passes with the forward entries of
/// `table`, then `table`. Each pass has `chunks` chunks of its own: those of
/// pass p begin at p * chunks, and those of `table` at passes * chunks.
std::vector<ScheduleStep> afterPasses(const std::vector<ScheduleStep> &table,
                                      int64_t passes, int64_t chunks);

/// Returns the largest number of micro-batches of `chunk` that are alive at
/// once, from their first to their last entry in `table`. Takes linear time.
int64_t mostAlive(const std::vector<ScheduleStep> &table, int64_t chunk);

struct PhaseSeconds {
  double forward = 0;
  double backward = 0;
  double weight = 0;
};

/// Data that one virtual stage sends to another stage, which waits for it.
struct ScheduleTransfer {
  SchedulePhase fromPhase = SchedulePhase::Forward;
  int64_t from = 0; ///< Virtual stage.
  SchedulePhase toPhase = SchedulePhase::Forward;
  int64_t to = 0; ///< Virtual stage.
  /// The time from the end of `fromPhase` to the earliest start of `toPhase`.
  /// Negative if the data is sent before `fromPhase` ends, or is needed only
  /// after `toPhase` has started.
  double seconds = 0;
};

struct ScheduleCosts {
  std::vector<PhaseSeconds> virtualStages; ///< pp * vpp elements.
  std::vector<ScheduleTransfer> transfers;
  /// The earliest start of each rank stage; if empty, 0 for all stages.
  std::vector<double> firstStarts;
  /// The largest factor by which a stage runs faster while other stages wait,
  /// if the ranks of a machine share its cores. `virtualStages` has the times
  /// while all stages run.
  double turns = 1;
};

/// Returns the transfers between adjacent virtual stages, forward and backward.
std::vector<ScheduleTransfer> chainTransfers(int64_t virtualStages,
                                             double seconds);

struct ScheduleTimeline {
  double makespan = 0;
  /// Idle seconds divided by the seconds of all stages; 0 if `makespan` is 0.
  double bubbleFraction = 0;
  std::vector<double> busySeconds; ///< By rank stage.
  /// By rank stage and entry of its table.
  std::vector<std::vector<double>> starts, ends;
};

/// Simulates the tables. A stage starts an entry when its previous entry has
/// ended and all data for the entry has arrived. Transfers do not occupy a
/// stage. If the tables deadlock, the error names a stage and its entry.
///
/// If `turns` > 1, the stages share one processor evenly (egalitarian processor
/// sharing, Kleinrock, 1967): if k of pp stages are busy, each of them runs at
/// min(turns, pp / k) times its speed, and data is sent only when the entry
/// that computes it has ended.
Expected<ScheduleTimeline>
simulateSchedule(const std::vector<std::vector<ScheduleStep>> &tables,
                 const ScheduleCosts &costs);

} // namespace dpc::cost
