// ledger: one order through one bar: target, fill, settlement, entry price.
//     r = p_old (c - 1) + (p_new - p_old) (c - f) - cost |p_new - p_old|, prices divided by c_t (moves are price - 1);
//     RELATIVE = false: r / equity, costs on |c_t| / capital; a market fill of d units pays impact d sqrt(d) on top
// paper        none; the accounting of trainer/reference/ledger.py operation by operation, so that float decides as
//              the reference does in float32 and double as it does in float64
// launch       device functions; one thread, or all lanes of a warp alike, owns a lane's account
// compile      no defines; --fmad=false
// in / out     Account  position in [-1, 1]; entry, move of the entry price against c_t; equity, 1 at the start
//              Bar      moves of open, high, low, close of the next bar against c_t
//              action   uint8 [K]  exposure, order kind mod 3, urgency mod 3; absent: market, urgent
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/reference/ledger.py, fills.py   test  tests/kernels/test_market_step.py
#pragma once

#include "real.cuh"

namespace foxtune {

constexpr int kMarket = 0;
constexpr int kLimit = 1;
constexpr int kOrderKinds = 3;
constexpr int kUrgencies = 3;
constexpr int kUrgent = 2;
constexpr double kCloseWhole = 0.01 + 1e-6;  // a gap of at most .01 is closed whole, in float as in double
constexpr double kSmallestDivisor = 1e-6;

template <typename Real>
struct Account {
  Real position;
  Real entry;
  Real equity;
};

template <typename Real>
struct Bar {
  Real open;
  Real high;
  Real low;
  Real close;
};

// Fractions of the traded value; `impact` is the move of the price by a market fill of size 1. The two of the
// closing are paid on the new position at the end of a window, else 0.
template <typename Real>
struct Costs {
  Real maker;
  Real taker;
  Real impact;
  Real closing;
  Real closing_impact;
};

template <typename Real>
struct Order {
  Real exposure;
  int kind;
  Real share;  // part of the gap to close in this bar
};

template <typename Real>
struct Settlement {
  Account<Real> account;
  Real bar_return;
  Real traded;
  Real paid;
  Real pressure;  // the part of `paid` that the impact took
  bool bankrupt;
};

template <typename Real>
__device__ __forceinline__ Account<Real> flat_account() {
  return {Real(0), Real(0), Real(1)};
}

template <typename Real>
__device__ __forceinline__ Real urgency_share(int urgency) {
  return urgency == kUrgent ? Real(1) : (urgency == 1 ? Real(2.0 / 3.0) : Real(1.0 / 3.0));
}

template <typename Real, int kBranches>
__device__ __forceinline__ Order<Real> decode_order(const unsigned char* action, const Real* exposures) {
  Order<Real> order = {exposures[action[0]], kMarket, Real(1)};
  if constexpr (kBranches > 1) order.kind = action[1] % kOrderKinds;
  if constexpr (kBranches > 2) order.share = urgency_share<Real>(action[2] % kUrgencies);
  return order;
}

template <typename Real>
__device__ __forceinline__ Real target_position(Real position, const Order<Real>& order) {
  const Real gap = order.exposure - position;
  const bool whole = magnitude(gap) <= Real(kCloseWhole) || order.share >= Real(1);
  return whole ? order.exposure : position + order.share * gap;
}

// Averages the fill into the entry price where it adds to the position, and moves on to c_{t+1}.
template <bool kRelative, typename Real>
__device__ __forceinline__ Real entry_after(const Account<Real>& account, Real position, Real change, Real fill,
                                            Real close) {
  if (position == Real(0)) return Real(0);
  const bool adds = position * change > Real(0);
  const Real weight = adds ? at_most(change / position, Real(1)) : Real(0);
  const Real entry = account.entry + weight * (fill - account.entry) - close;
  return kRelative ? entry / at_least(Real(1) + close, Real(kSmallestDivisor)) : entry;
}

// Settles a bar for a given new position and fill price.
template <bool kRelative, typename Real>
__device__ __forceinline__ Settlement<Real> settle(const Account<Real>& account, Real position, Real fill, Real close,
                                                   Real notional, Real cost, Real impact, Real closing_cost,
                                                   Real closing_impact) {
  Settlement<Real> settled;
  const Real change = position - account.position;
  settled.traded = magnitude(change);
  settled.paid = cost * settled.traded + closing_cost * magnitude(position);
  settled.pressure = impact * settled.traded * square_root(settled.traded) +
                     closing_impact * magnitude(position) * square_root(magnitude(position));
  Real earned = account.position * close + change * (close - fill);
  if constexpr (!kRelative) {
    const Real equity = at_least(account.equity, Real(kSmallestDivisor));
    settled.paid = settled.paid * notional / equity;
    settled.pressure = settled.pressure / equity;
    earned = earned / equity;
  }
  settled.paid = settled.paid + settled.pressure;
  settled.bar_return = at_least(earned - settled.paid, Real(-1));
  settled.account.position = position;
  settled.account.entry = entry_after<kRelative>(account, position, change, fill, close);
  settled.account.equity = account.equity * (Real(1) + settled.bar_return);
  settled.bankrupt = settled.account.equity <= Real(0);
  return settled;
}

// Carries one order through one bar. A limit order fills iff the bar trades through c_t.
template <bool kRelative, bool kAtClose, typename Real>
__device__ __forceinline__ Settlement<Real> trade(const Account<Real>& account, const Order<Real>& order,
                                                  const Bar<Real>& bar, Real notional, const Costs<Real>& costs) {
  const Real target = target_position(account.position, order);
  const bool buys = target - account.position > Real(0);
  const bool crossed = buys ? bar.low < Real(0) : bar.high > Real(0);
  const bool passive = crossed && order.kind != kMarket;
  const bool filled = passive || order.kind != kLimit;
  const Real limit_price = buys ? at_most(bar.open, Real(0)) : at_least(bar.open, Real(0));
  const Real market_price = kAtClose || order.kind != kMarket ? bar.close : bar.open;
  const Real fill = passive ? limit_price : market_price;
  const Real position = filled ? target : account.position;
  const Real cost = passive ? costs.maker : costs.taker;
  const Real impact = passive ? Real(0) : costs.impact;
  return settle<kRelative>(account, position, fill, bar.close, notional, cost, impact, costs.closing,
                           costs.closing_impact);
}

// position (c_t / entry - 1), or position (c_t - entry) / capital.
template <bool kRelative, typename Real>
__device__ __forceinline__ Real unrealised_return(const Account<Real>& account) {
  const Real gain = -account.position * account.entry;
  return kRelative ? gain / at_least(Real(1) + account.entry, Real(kSmallestDivisor)) : gain;
}

}  // namespace foxtune
