// differential_sharpe: the reward of one bar and the moments behind it.
//     d = R - A,  s = sqrt(max(V, v_floor)),  z = d / s,  D = z + (A / s) (1 - z^2) / 2;
//     A += eta d,  V = (1 - eta) (V + eta d^2);  v_floor = max((0.1 sigma)^2, 1e-12);  reward = clip(., -5, 5)
// paper        Moody & Saffell 2001, Learning to Trade via Direct Reinforcement, eq. 14 to 16; V is kept instead of
//              B - A^2, which would cancel
// launch       device functions; one thread, or all lanes of a warp alike, owns a lane's A and V
// compile      no defines; --fmad=false
// in / out     Moments  A and V;  SharpeStep  D, not clipped, and the moments after the bar
// determinism  bitwise
// capture      safe: no allocation, no host read; eta comes from device memory
// reference    trainer/reference/differential_sharpe.py   test  tests/kernels/test_market_step.py
#pragma once

#include "real.cuh"

namespace foxtune {

constexpr double kRewardLimit = 5.0;
constexpr double kFloorShare = 0.1;
constexpr double kSmallestFloor = 1e-12;

template <typename Real>
struct Moments {
  Real first;     // A
  Real variance;  // V
};

template <typename Real>
struct SharpeStep {
  Real value;
  Moments<Real> moments;
};

template <typename Real>
__device__ __forceinline__ Real variance_floor(Real sigma) {
  const Real deviation = Real(kFloorShare) * sigma;
  return at_least(deviation * deviation, Real(kSmallestFloor));
}

template <typename Real>
__device__ __forceinline__ SharpeStep<Real> differential_sharpe(const Moments<Real>& before, Real bar_return,
                                                                Real rate, Real floor) {
  const Real deviation = bar_return - before.first;
  const Real scale = square_root(at_least(before.variance, floor));
  const Real z = deviation / scale;
  SharpeStep<Real> step;
  step.value = z + before.first / scale * (Real(1) - z * z) / Real(2);
  step.moments.first = before.first + rate * deviation;
  step.moments.variance = (Real(1) - rate) * (before.variance + rate * (deviation * deviation));
  return step;
}

template <typename Real>
__device__ __forceinline__ Real bar_reward(Real sharpe, Real bar_return, Real sigma, bool reward_is_return) {
  return clamped(reward_is_return ? bar_return / sigma : sharpe, Real(kRewardLimit));
}

}  // namespace foxtune
