// value_output: the last layer of a value network, a dot product, by one warp.
//     V = sum_i hidden_i output_i + bias; the bias is output[HIDDEN], because hidden[HIDDEN] is 1
// paper        none; a product with one column would waste a matrix product's tiles, and the rows are read here anyway
// launch       device function for a whole warp; a lane owns packs 32 apart
// compile      no defines of its own; the including kernel gives HIDDEN, product columns of the last hidden layer,
//              as the template's argument, a multiple of 8
// in / out     hidden  T    [hidden_columns + 8]  one row of activations, 16-byte aligned
//              output  f32  [hidden_columns + 8]  the layer's weights, then the bias, then zeros
//              result  f32  V, the same in all lanes
// determinism  bitwise: each lane in order, then a butterfly
// capture      safe: no allocation, no host read
// reference    trainer/networks.py (ValueNetwork)   test  tests/kernels/test_c51_iql_step.py, test_act.py
#pragma once

#include "activation.cuh"
#include "reduce.cuh"

namespace foxtune {

template <int hidden_columns, typename T>
__device__ __forceinline__ float value_of(const T* hidden, const float* output, int lane) {
  using HiddenPack = Pack<T>;
  float sum = 0.0f;
  for (int first = lane * HiddenPack::kWidth; first < hidden_columns + 8; first += 32 * HiddenPack::kWidth) {
    float x[HiddenPack::kWidth];
    HiddenPack::load(hidden + first, x);
#pragma unroll
    for (int i = 0; i < HiddenPack::kWidth; ++i) sum += x[i] * __ldg(output + first + i);
  }
  return warp_sum(sum);
}

}  // namespace foxtune
