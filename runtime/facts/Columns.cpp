#include "runtime/facts/Columns.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/Status.h"

namespace dpc::rt {

static bool isRead(const SampleShape &shape, size_t target, size_t input) {
  const Port &port = shape.ports[input];
  return input != target && isFloat(port.dtype) && port.use == InputUse::Data &&
         !port.dependence.isTarget && !port.dependence.weighsLoss &&
         !port.dependence.hidden;
}

Columns::Columns(const SampleShape &shape, size_t target) : shape(shape) {
  for (size_t i = 0; i < shape.ports.size(); ++i)
    for (int64_t k = 0; isRead(shape, target, i) && k < shape.elements[i]; ++k)
      places.emplace_back(i, k);
}

int64_t Columns::countIn(const SampleShape &shape, size_t target) {
  int64_t count = 0;
  for (size_t i = 0; i < shape.ports.size(); ++i)
    count += isRead(shape, target, i) ? shape.elements[i] : 0;
  return count;
}

std::vector<double> Columns::values(const SampleArrays &sample) const {
  std::vector<double> result;
  result.reserve(places.size());
  for (const auto &[input, k] : places)
    result.push_back(loadAsDouble(sample[input], shape.ports[input].dtype, k));
  return result;
}

std::string Columns::nameOf(size_t column) const {
  return concat("element ", places[column].second, " of ",
                shape.nameOf(places[column].first));
}

std::string Columns::sumText(size_t first, size_t last) const {
  return concat("the sum of elements ", places[first].second, " to ",
                places[last].second, " of ", shape.nameOf(places[first].first));
}

} // namespace dpc::rt
