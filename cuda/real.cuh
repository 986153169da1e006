// real: arithmetic that ledger, rewards and agent columns share, for float and double alike.
//     at_least(x, a) = max(x, a), at_most(x, a) = min(x, a), both of which keep NaN; square root, logarithm, |x|
// paper        none; overloads, so that one template serves training (float) and evaluation (double)
// launch       device functions
// compile      no defines; kernels that use them are compiled with --fmad=false, so that every operation rounds as
//              it does in the reference and decisions on the edge fall alike
// in / out     Real  float | double
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    torch.Tensor.clamp_min, clamp_max, sqrt, log   test  tests/kernels/test_market_step.py
#pragma once

namespace foxtune {

template <typename Real>
__device__ __forceinline__ Real at_least(Real value, Real low) {
  return value < low ? low : value;
}

template <typename Real>
__device__ __forceinline__ Real at_most(Real value, Real high) {
  return value > high ? high : value;
}

template <typename Real>
__device__ __forceinline__ Real clamped(Real value, Real limit) {
  return at_most(at_least(value, -limit), limit);
}

__device__ __forceinline__ float square_root(float value) { return sqrtf(value); }
__device__ __forceinline__ double square_root(double value) { return sqrt(value); }
__device__ __forceinline__ float logarithm(float value) { return logf(value); }
__device__ __forceinline__ double logarithm(double value) { return log(value); }
__device__ __forceinline__ float magnitude(float value) { return fabsf(value); }
__device__ __forceinline__ double magnitude(double value) { return fabs(value); }

}  // namespace foxtune
