// relu_mask: the rectifier's backward pass, in place.
//     dx <- dx where x > 0 (or x is NaN), else 0
// paper        none; the mask is read from the rectified output, so no bit mask is stored
// launch       grid (ceil(rows columns / width / 256))  block (256)  no dynamic shared memory; one thread per
//              16 bytes, width = 4 (float) or 8 (Bf16)
// compile      ACTIVATION  float | foxtune::Bf16
// in / out     gradient  T    [rows, columns]  d loss / d output in, d loss / d input out
//              hidden    T    [rows, pitch]    rectified output; its constant column is not read
//              rows      i64  members x batch rows
//              columns, pitch  i32, multiples of 8
// determinism  bitwise: elementwise
// capture      safe: no allocation, no host read; rows, columns and pitch belong to the captured shape
// reference    torch.relu's backward   test  tests/kernels/test_relu_mask.py
#include "activation.cuh"

using Activation = ACTIVATION;

extern "C" __global__ void __launch_bounds__(256)
    relu_mask(Activation* __restrict__ gradient, const Activation* __restrict__ hidden, long long rows, int columns,
              int pitch) {
  using Pack = foxtune::Pack<Activation>;
  const int packs = columns / Pack::kWidth;
  const long long item = blockIdx.x * 256LL + threadIdx.x;
  const long long row = item / packs;
  if (row >= rows) return;
  float slope[Pack::kWidth];
  float output[Pack::kWidth];
  Pack::load(gradient + item * Pack::kWidth, slope);
  Pack::load(hidden + row * pitch + (item - row * packs) * Pack::kWidth, output);
#pragma unroll
  for (int i = 0; i < Pack::kWidth; ++i) {
    slope[i] = output[i] <= 0.0f ? 0.0f : slope[i];
  }
  Pack::store(gradient + item * Pack::kWidth, slope);
}
