//===- Schedule.h - What a pipeline stage runs, in which order --*- C++ -*-===//
//
// A pipeline has pp rank stages with vpp chunks of the model each. Virtual
// stage v = chunk * pp + s is chunk v / pp of rank stage v % pp. A table says
// in which order a rank stage runs the phases of its chunks on M micro-batches;
// the same tables are simulated here and executed by the runtime.
//
// Needs: F(v, m) after F(v-1, m); B(v, m) after B(v+1, m) and F(v, m);
// W(v, m) after B(v, m). A stage runs its table strictly in order. Tables are
// right when
//   (T1) every stage has each (chunk, micro-batch) once per phase, and
//   (T2) needs and the orders of all tables together have no cycle: running
//        them never gets stuck (`simulateSchedule` is the test).
// Below f, b, w are a stage's seconds per micro-batch and b includes w unless
// the backward is split; "alive" counts micro-batches between their F and the
// last phase that reads what F kept.
//
// GPipe (Huang et al., 2019, arXiv:1811.06965): all F, then all B in reverse.
//   Alive: M. Idle: (pp-1)(f+b) of every stage, as the first F arrives after
//   s*f, the first B after (pp-1-s)*b more.
// 1F1B (PipeDream-Flush: Narayanan et al., 2021, arXiv:2006.09503): stage s
//   starts with w_s = min(M, pp-1-s) F, then F and B take turns, then the B
//   that are left. Alive: at most pp-s, as F(m) with m >= pp-s comes after
//   B(m-(pp-s)). Idle: as GPipe.
// Interleaved (Narayanan et al., 2021, arXiv:2104.04473, section 2.2): micro-
//   batches in groups of pp; a group passes chunk 0, then chunk 1, ...; B
//   the same with chunks in reverse. Stage s starts with 2(pp-1-s) + (vpp-1)pp
//   F. A chunk takes (f+b)/vpp, filling and draining pass pp-1 of them, so
//   idle: (pp-1)(f+b)/vpp. M that pp does not divide: the table of the next
//   multiple without the micro-batches that do not exist; leaving all phases of
//   a micro-batch out cannot make a cycle. vpp = 1 is 1F1B.
// ZB-H1 (Qi et al., 2024, arXiv:2401.10241): 1F1B with the backward split: B
//   makes the gradient of the stage's input, which the stage before waits for,
//   W those of the weights, which nobody waits for. Stage s runs W of
//   micro-batch m behind B of m+s. Alive: at most pp (stage s has pp-s
//   before their B and s before their W), 1F1B's worst stage. Idle, where
//   f = b = w: (pp-1)(f+b-w), a third of 1F1B's (pp-1)(f+b+w).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_STRATEGY_SCHEDULE_H
#define DPC_COST_MODEL_STRATEGY_SCHEDULE_H

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

/// The values are those of the attribute `dpc.schedule` and of plans.
enum class SchedulePhase : int64_t { Forward = 1, Backward = 2, Weight = 3 };
/// "forward", "backward", "weight".
std::string_view stringifySchedulePhase(SchedulePhase phase);

/// One entry of a table: run `phase` of `chunk` on micro-batch `microBatch`.
struct ScheduleStep {
  SchedulePhase phase = SchedulePhase::Forward;
  int64_t chunk = 0;
  int64_t microBatch = 0;

  bool operator==(const ScheduleStep &) const = default;
};

/// The tables of all rank stages, by stage. Needs pp, vpp, microBatches >= 1.
/// Only interleaved takes vpp > 1; the others fail with one line. Weight
/// entries appear with ZbH1 only.
Expected<std::vector<std::vector<ScheduleStep>>>
makeSchedule(ScheduleKind kind, int64_t pp, int64_t vpp, int64_t microBatches);

/// What is left of tables for a program that does not train: the forwards.
std::vector<std::vector<ScheduleStep>>
forwardOnly(const std::vector<std::vector<ScheduleStep>> &tables);

/// Most micro-batches of `chunk` that are between their first and their last
/// entry of `table` at once: the slots its frame needs. Linear in the table.
int64_t mostAlive(const std::vector<ScheduleStep> &table, int64_t chunk);

/// Seconds of one micro-batch.
struct PhaseSeconds {
  double forward = 0;
  double backward = 0;
  double weight = 0;
};

/// Data that a phase of one virtual stage waits for from another.
struct ScheduleTransfer {
  SchedulePhase fromPhase = SchedulePhase::Forward;
  int64_t from = 0; ///< Virtual stage.
  SchedulePhase toPhase = SchedulePhase::Forward;
  int64_t to = 0; ///< Virtual stage.
  /// From the end of the one to the start of the other; negative where the data
  /// leaves before the one ends, or is needed after the other has started.
  double seconds = 0;
};

/// What the entries of the tables cost.
struct ScheduleCosts {
  std::vector<PhaseSeconds> virtualStages; ///< pp * vpp of them.
  std::vector<ScheduleTransfer> transfers;
  /// By rank stage, when it can start; empty = at 0.
  std::vector<double> firstStarts;
  /// How many times as fast a stage runs while the others wait, at most: ranks
  /// that take turns at the cores of one machine leave them to each other.
  /// Seconds above are those of a stage beside all others.
  double turns = 1;
};

/// Transfers between neighbouring virtual stages, forward and backward.
std::vector<ScheduleTransfer> chainTransfers(int64_t virtualStages,
                                             double seconds);

/// When everything runs.
struct ScheduleTimeline {
  double makespan = 0; ///< When the last entry ends.
  /// Idle seconds over all seconds of all stages, 0 when nothing takes time.
  double bubbleFraction = 0;
  std::vector<double> busySeconds; ///< By rank stage.
  /// By rank stage and entry of its table.
  std::vector<std::vector<double>> starts, ends;
};

/// Runs the tables: a stage starts an entry when the one before it has ended
/// and its needs have arrived. Transfers do not occupy a stage. Fails with one
/// line that names a stage and its entry when the tables get stuck.
///
/// With `turns` the stages are one processor that is shared evenly (egalitarian
/// processor sharing, Kleinrock, 1967): k of pp stages at work run at
/// min(turns, pp / k) times their speed. What a stage waits for counts from the
/// end of the entry that makes it, at the earliest.
Expected<ScheduleTimeline>
simulateSchedule(const std::vector<std::vector<ScheduleStep>> &tables,
                 const ScheduleCosts &costs);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_STRATEGY_SCHEDULE_H
