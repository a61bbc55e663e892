//===- NoTensorBoard.cpp - a stub for builds of the runtime alone ---------===//
#include "runtime/observe/Metrics.h"

namespace dpc {

Expected<std::unique_ptr<Metrics>>
openTensorBoard(const std::string & /*folder*/, int64_t /*done*/) {
  return Status::unsupported(
      "--metrics=tensorboard: this dpc-run was built without it "
      "(DPC_RUNTIME_ONLY); FILE.jsonl and prometheus:FILE are accepted");
}

} // namespace dpc
