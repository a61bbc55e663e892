#include "runtime/facts/Checks.h"

#include "runtime/base/OneLine.h"

namespace dpc::rt {

std::string SampleShape::nameOf(size_t input) const {
  return "input '" + oneLine(ports[input].name) + "'";
}

SampleChecks sampleChecks(const SampleShape &shape) {
  SampleChecks checks;
  addPaddingChecks(shape, checks);
  addTargetChecks(shape, checks);
  addColumnChecks(shape, checks);
  addImageChecks(shape, checks);
  addLeakChecks(shape, checks);
  addPartChecks(shape, checks);
  addRowChecks(shape, checks);
  addSeriesChecks(shape, checks);
  return checks;
}

} // namespace dpc::rt
