// agent_state: what an agent knows about itself: achieved goal and six columns, and the episode behind them.
//     clip(log(equity / start) / (sigma sqrt(L)), -10, 10); position; clip(unrealised / sigma, -10, 10);
//     min(held / L, 1); age / L; A / s; log(s^2 / sigma^2) / 2,  s^2 = max(V, v_floor)
// paper        Moody & Saffell 2001 for A and V; the columns are the project's own (docs/numerics.md)
// launch       device functions; one thread, or all lanes of a warp alike, owns a lane
// compile      no defines; --fmad=false
// in / out     Lane      account, episode and moments of one lane; in memory 8 planes of `stride` values:
//                        position, entry, equity, log_start, age, held, A, V
//              observed  Real [7]
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/reference/agent_state.py   test  tests/kernels/test_market_step.py
#pragma once

#include "differential_sharpe.cuh"
#include "ledger.cuh"

namespace foxtune {

constexpr int kObserved = 7;  // achieved goal and the agent's columns
constexpr double kReturnLimit = 10.0;
constexpr double kSmallestEquity = 1e-6;

template <typename Real>
struct Lane {
  Account<Real> account;
  Real log_start;  // log equity at the episode's start
  Real age;        // bars since then
  Real held;       // bars in the present position, 1 at the first close after it was opened
  Moments<Real> moments;
};

// How a member's market is scaled.
template <typename Real>
struct Scale {
  Real sigma;
  Real floor;        // v_floor
  Real length;       // L
  Real root_length;  // sqrt(L), from the host
};

template <typename Real>
__device__ __forceinline__ Scale<Real> scale_of(Real sigma, int length, Real root_length) {
  return {sigma, variance_floor(sigma), static_cast<Real>(length), root_length};
}

template <typename Real>
__device__ __forceinline__ Lane<Real> load_lane(const Real* memory, long long item, long long stride) {
  const Real* place = memory + item;
  return {{place[0], place[stride], place[2 * stride]},
          place[3 * stride],
          place[4 * stride],
          place[5 * stride],
          {place[6 * stride], place[7 * stride]}};
}

template <typename Real>
__device__ __forceinline__ void store_lane(const Lane<Real>& lane, Real* memory, long long item, long long stride) {
  Real* place = memory + item;
  place[0] = lane.account.position;
  place[stride] = lane.account.entry;
  place[2 * stride] = lane.account.equity;
  place[3 * stride] = lane.log_start;
  place[4 * stride] = lane.age;
  place[5 * stride] = lane.held;
  place[6 * stride] = lane.moments.first;
  place[7 * stride] = lane.moments.variance;
}

template <typename Real>
__device__ __forceinline__ Real log_equity(Real equity) {
  return logarithm(at_least(equity, Real(kSmallestEquity)));
}

// Starts the bookkeeping at the present equity; position, entry and equity stay.
template <typename Real>
__device__ __forceinline__ Lane<Real> with_fresh_episode(const Account<Real>& account, Real sigma) {
  return {account, log_equity(account.equity), Real(0), Real(0), {Real(0), sigma * sigma}};
}

// The lane after a bar that settled as given.
template <typename Real>
__device__ __forceinline__ Lane<Real> advanced(const Lane<Real>& before, const Account<Real>& account,
                                               const Moments<Real>& moments) {
  const bool kept = before.account.position * account.position > Real(0);
  const Real held = account.position == Real(0) ? Real(0) : (kept ? before.held : Real(0)) + Real(1);
  return {account, before.log_start, before.age + Real(1), held, moments};
}

template <bool kRelative, typename Real>
__device__ __forceinline__ void observe(const Lane<Real>& lane, const Scale<Real>& scale, Real (&observed)[kObserved]) {
  const Real growth = (log_equity(lane.account.equity) - lane.log_start) / (scale.sigma * scale.root_length);
  const Real unrealised = unrealised_return<kRelative>(lane.account) / scale.sigma;
  const Real variance = at_least(lane.moments.variance, scale.floor);
  observed[0] = clamped(growth, Real(kReturnLimit));
  observed[1] = lane.account.position;
  observed[2] = clamped(unrealised, Real(kReturnLimit));
  observed[3] = at_most(lane.held / scale.length, Real(1));
  observed[4] = lane.age / scale.length;
  observed[5] = lane.moments.first / square_root(variance);
  observed[6] = logarithm(variance / (scale.sigma * scale.sigma)) / Real(2);
}

}  // namespace foxtune
