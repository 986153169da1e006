// priority: the priority of a temporal-difference error.
//     q = (min(|delta|, 255) + 1e-6)^alpha, as exp(alpha log .)
// paper        Schaul, Quan, Antonoglou, Silver 2016, Prioritized Experience Replay, section 3.3, proportional variant
// launch       device function
// compile      no defines
// in / out     error  float32  finite;  alpha  float32 in [0, 1];  result  float32 in (0, 255]
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/reference/priority_write.py   test  tests/kernels/test_priority_write.py
#pragma once

namespace foxtune {

constexpr float kLargestError = 255.0f;
constexpr float kSmallestError = 1e-6f;

__device__ __forceinline__ float priority_of(float error, float alpha) {
  const float base = __fadd_rn(fminf(fabsf(error), kLargestError), kSmallestError);
  return expf(__fmul_rn(alpha, logf(base)));
}

}  // namespace foxtune
