#include "runtime/data/Dataset.h"

#include "runtime/facts/DataFacts.h"

#include <filesystem>

namespace dpc::rt {

int64_t samplesPerStep(const Plan &plan) { return samplesPerStep(plan.inputs); }

static Status checkInputs(const Plan &plan) {
  if (plan.inputs.empty())
    return Status::invalid("the plan takes no input");
  if (samplesPerStep(plan) > 0)
    return Status::success();
  std::string inputs;
  for (const Port &port : plan.inputs)
    inputs += (inputs.empty() ? "" : ", ") + port.name + " " +
              describe(port.dtype, port.globalShape);
  return Status::invalid("the plan's inputs have different first extents, "
                         "expected the number of samples: ",
                         inputs, "; use --batches");
}

Expected<std::unique_ptr<Dataset>> openDataset(const Plan &plan,
                                               const std::string &path) {
  std::filesystem::path file(path);
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    return Status::io(path, ": ",
                      (error ? error.message() : "no such file or folder"));
  DPC_TRY(checkInputs(plan));
  if (std::filesystem::is_directory(file, error))
    return openNpyDataset(plan, path);
  if (file.extension() == ".safetensors")
    return openSafetensorsDataset(plan, path);
  if (file.extension() == ".npy")
    return Status::invalid(path, ": is one array; give the folder, with one "
                                 "NAME.npy for every input");
  return openTokenDataset(plan, path);
}

} // namespace dpc::rt
