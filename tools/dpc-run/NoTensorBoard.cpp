//===- NoTensorBoard.cpp - what a build of the runtime alone answers ------===//
#include "tools/dpc-run/Metrics.h"

namespace dpc {

rt::Expected<std::unique_ptr<Metrics>>
openTensorBoard(const std::string & /*folder*/, int64_t /*done*/) {
  return rt::Status::unsupported(
      "--metrics=tensorboard: this dpc-run was built without it "
      "(DPC_RUNTIME_ONLY); FILE.jsonl and prometheus:FILE are accepted");
}

} // namespace dpc
