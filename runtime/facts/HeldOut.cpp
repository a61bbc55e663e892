#include "runtime/facts/HeldOut.h"

#include "runtime/base/OneLine.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

/// Passages that cross the ends of samples are missing.
static constexpr double kLeastShare = 0.4;

std::string commonText(const DataFacts &training, const std::string &source,
                       const DataFacts &heldOut) {
  int64_t common = heldOut.samples.countIn(training.samples);
  bool isComplete =
      training.seen == training.rows && heldOut.seen == heldOut.rows &&
      training.samples.isComplete() && heldOut.samples.isComplete();
  return common == 0 ? ""
                     : concat(isComplete ? "" : "at least ", common, " of ",
                              heldOut.rows * heldOut.samplesPerRow,
                              " samples of --eval-data ",
                              common == 1 ? "is" : "are", " also in ", source);
}

std::string trainedText(const DataFacts &data, const std::string &here,
                        const DataProfile &trained, const std::string &where) {
  if (!trained.samples)
    return "";
  std::optional<double> share = data.samples.shareIn(*trained.samples);
  if (!share)
    return "";
  const bool isComplete = trained.samples->hashed == trained.samples->samples;
  return concat(isComplete ? "about " : "at least about ",
                std::lround(100 * *share), " % of the samples of ", here,
                " are also ", where);
}

std::string roundedText(const DataFacts &training, const std::string &source,
                        const DataFacts &heldOut) {
  const int64_t equal = heldOut.samples.countIn(training.samples);
  // A few samples of few numbers are nearly equal by chance.
  const int64_t least =
      equal + std::max<int64_t>(2, heldOut.samples.count() / 16);
  for (DType type : {DType::F16, DType::BF16}) {
    const int64_t rounded =
        heldOut.samples.countRoundedIn(training.samples, type);
    if (rounded >= least)
      return concat(rounded, " of ", heldOut.samples.count(),
                    " samples of --eval-data equal samples of ", source,
                    " after both are rounded to ", nameOf(type));
  }
  return "";
}

/// Whether most samples of `heldOut` are also in `training`.
static bool areMostlyCommon(const DataFacts &training,
                            const DataFacts &heldOut) {
  return 2 * heldOut.samples.countIn(training.samples) >=
         std::max<int64_t>(heldOut.samples.count(), 1);
}

std::string nearText(const DataFacts &training, const std::string &source,
                     const DataFacts &heldOut) {
  return areMostlyCommon(training, heldOut)
             ? ""
             : NearSamples::text(training.near, source, heldOut.near);
}

std::string passageText(const DataFacts &training, const std::string &source,
                        const DataFacts &heldOut) {
  if (areMostlyCommon(training, heldOut))
    return "";
  for (const SequenceFacts &held : heldOut.sequences)
    for (const SequenceFacts &trained : training.sequences) {
      const std::string &name = heldOut.inputs[held.input].port.name;
      std::optional<double> share =
          held.passages.shareIn(trained.passages, false);
      if (name != training.inputs[trained.input].port.name ||
          share.value_or(0) < kLeastShare)
        continue;
      return concat("about ", std::lround(100 * *share),
                    " % of the passages of ", SequenceFacts::kPassage,
                    " ids in input '", oneLine(name),
                    "' of --eval-data are also in ", source);
    }
  return "";
}

std::string seriesText(const DataFacts &training, const std::string &source,
                       const DataFacts &heldOut) {
  if (areMostlyCommon(training, heldOut) ||
      training.series.size() != heldOut.series.size())
    return "";
  std::string text;
  for (size_t i = 0; i < heldOut.series.size(); ++i) {
    const SeriesFacts &held = heldOut.series[i], &trained = training.series[i];
    const std::string &name = heldOut.inputs[held.input].port.name;
    std::optional<double> share =
        held.passages.shareIn(trained.passages, /*elsewhere=*/true);
    // Series of one time, such as dates, may accompany different series.
    if (name != training.inputs[trained.input].port.name ||
        share.value_or(0) < kLeastShare || !held.areComparable() ||
        !trained.areComparable())
      return "";
    if (text.empty())
      text = concat("about ", std::lround(100 * *share),
                    " % of the passages of input '", oneLine(name),
                    "' in --eval-data are also in ", source,
                    ", at other positions of samples: are both windows of one "
                    "series?");
  }
  return text;
}

} // namespace dpc::rt
