// A kernel library as codegen writes it.
#include <cstdint>

// buffers: in, out; scalars: number of elements, addend
extern "C" void testAdd(void *const *buffers, const int64_t *scalars) {
  const float *in = (const float *)buffers[0];
  float *out = (float *)buffers[1];
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = in[i] + (float)scalars[1];
}
