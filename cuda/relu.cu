// relu: the rectifier, in place, on the product columns of a padded hidden layer.
//     x <- max(0, x); NaN stays NaN
// paper        none; the bias is a row of the weight matrix and is in x already. The constant column behind the
//              product columns is not touched
// launch       grid (ceil(rows columns / width / 256))  block (256)  no dynamic shared memory; one thread per
//              16 bytes, width = 4 (float) or 8 (Bf16)
// compile      ACTIVATION  float | foxtune::Bf16
// in / out     hidden   T    [rows, pitch]  first `columns` of each row; columns and pitch multiples of 8
//              rows     i64  members x batch rows
//              columns, pitch  i32
// determinism  bitwise: elementwise
// capture      safe: no allocation, no host read; rows, columns and pitch belong to the captured shape
// reference    torch.relu   test  tests/kernels/test_relu.py
#include "activation.cuh"

using Activation = ACTIVATION;

extern "C" __global__ void __launch_bounds__(256)
    relu(Activation* __restrict__ hidden, long long rows, int columns, int pitch) {
  using Pack = foxtune::Pack<Activation>;
  const int packs = columns / Pack::kWidth;
  const long long item = blockIdx.x * 256LL + threadIdx.x;
  const long long row = item / packs;
  if (row >= rows) return;
  Activation* place = hidden + row * pitch + (item - row * packs) * Pack::kWidth;
  float value[Pack::kWidth];
  Pack::load(place, value);
#pragma unroll
  for (int i = 0; i < Pack::kWidth; ++i) {
    value[i] = value[i] < 0.0f ? 0.0f : value[i];
  }
  Pack::store(place, value);
}
