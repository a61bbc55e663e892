#include "runtime/job/Evaluation.h"

#include "runtime/base/WriteFile.h"
#include "runtime/data/DatasetInputs.h"

namespace dpc {

using namespace rt;

/// Returns whether the rows of `output` are those of samples.
static bool hasSamples(const Port &output) { return output.batchDim == 0; }

Status checkEvaluation(const Plan &plan, int64_t samples) {
  int64_t perStep = samplesPerStep(plan);
  if (perStep == 0 || samples % perStep == 0)
    return Status::success();
  const bool hasLabels = usualLabels(plan).has_value();
  for (const Port &output : plan.outputs)
    if (!hasSamples(output) && output.faults.empty())
      return Status::invalid(
          "output '", output.name, "' has one value for a step of ", perStep,
          " samples, and ", samples, " samples do not fill whole steps; ",
          hasLabels
              ? "--last-batch=mask fills the last step with samples whose "
                "labels are ignored, or "
              : "",
          "plan with a --global-batch that divides ", samples,
          ", or leave out the rest with --last-batch=drop");
  return Status::success();
}

Status Evaluation::start(const std::string &dir, int64_t samples,
                         int64_t stepCount) {
  if (dir.empty())
    return Status::success();
  DPC_TRY(makeFolder(dir).in("--outputs"));
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &output = plan.outputs[i];
    if (!output.faults.empty())
      continue;
    std::vector<int64_t> shape = output.globalShape;
    if (hasSamples(output))
      shape.front() = samples;
    else
      shape.insert(shape.begin(), stepCount);
    Writer &writer = writers.emplace_back();
    writer.output = i;
    DPC_TRY(writer.file.start(npyFile(dir, output), output.dtype, shape));
  }
  return Status::success();
}

Status Evaluation::add(const std::vector<HostTensor> &outputs, int64_t count) {
  for (Writer &writer : writers) {
    const HostTensor &value = outputs[writer.output];
    int64_t elements = value.elements();
    if (hasSamples(plan.outputs[writer.output]))
      elements = elements / value.shape.front() * count;
    DPC_TRY(writer.file.append(value, elements));
  }
  return Status::success();
}

Status Evaluation::finish() {
  for (Writer &writer : writers)
    DPC_TRY(writer.file.finish());
  return Status::success();
}

} // namespace dpc
