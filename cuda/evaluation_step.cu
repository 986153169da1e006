// evaluation_step: one bar of the greedy walk over every member's test window, in double.
//     ledger as in training, one account over the window, closed by force at its end; every L bars the episode's
//     bookkeeping restarts while position and equity carry over
// paper        none; the training's device functions instantiated for double
// launch       grid (ceil(M / 4))  block 128  no dynamic shared; a warp owns a member: all threads compute the same
//              bar, thread 0 stores it, the 8 + F columns are spread over the threads
// compile      TABLE_DIM, GOAL_HOLDS_ACHIEVED, ACTIVATION  see market_state.cuh;  NUM_BRANCHES, RELATIVE, AT_CLOSE
//              see market_step.cu;  --fmad=false
// in / out     action     uint8 [M, 1, K]  of the present bar
//              moves      float64 [bars, 4];  notional  float64 [bars], read where RELATIVE = 0
//              exposures  float64 [n_0];  sigma  float64 [M]
//              maker_cost, taker_cost, impact, adaptation_rate  float32 [M]
//              first, last  int64 [M]  rows of the first and the last decision; a member that is done stays on it
//              features .. limit  see market_state.cuh
//              account    float64 [8, M]  in and out;  bar  int32 [M]  in and out, -1: open the window, T: rest
//              trace      float64 [6, M, T]  out: return, position, traded, costs, 1 where bankrupt, impact
//              state      ACTIVATION [M, 1, Sp]  out
//              desired    float64  goal of every episode;  root_length  float64  sqrt(L)
//              members, bars, length  int32  M, T, L
// determinism  bitwise
// capture      safe: no allocation, no host read; the bar's number lives in device memory
// reference    trainer/evaluation.py   test  tests/kernels/test_evaluation_step.py

#include "market_state.cuh"

namespace foxtune {

constexpr int kMembersPerBlock = 4;

}  // namespace foxtune

extern "C" __global__ void __launch_bounds__(foxtune::kMembersPerBlock * foxtune::kWarpLanes)
evaluation_step(const unsigned char* __restrict__ action, const double* __restrict__ moves,
                const double* __restrict__ notional, const double* __restrict__ exposures,
                const double* __restrict__ sigma, const float* __restrict__ maker_cost,
                const float* __restrict__ taker_cost, const float* __restrict__ impact,
                const float* __restrict__ adaptation_rate,
                const long long* __restrict__ first, const long long* __restrict__ last,
                const float* __restrict__ features, const float* __restrict__ center,
                const float* __restrict__ inverse_scale, float limit, double* account, int* bar,
                double* __restrict__ trace, foxtune::Activation* __restrict__ state, double desired,
                double root_length, int members, int bars, int length) {
  using namespace foxtune;
  const int thread = threadIdx.x % kWarpLanes;
  const int member = blockIdx.x * kMembersPerBlock + threadIdx.x / kWarpLanes;
  if (member >= members) return;
  const int at = bar[member];
  if (at >= bars) return;
  Lane<double> lane = load_lane(account, member, members);
  __syncwarp();  // thread 0 writes over what all have read

  const Scale<double> scale = scale_of(sigma[member], length, root_length);
  const long long end = last[member];
  if (at < 0) {
    lane.account = flat_account<double>();
  } else {
    const long long now = min(first[member] + at, end);
    const double* prices = moves + 4 * now;
    const Bar<double> next_bar = {prices[0], prices[1], prices[2], prices[3]};
    const Order<double> order = decode_order<double, NUM_BRANCHES>(action + member * NUM_BRANCHES, exposures);
    const double taker = taker_cost[member];
    const double pressure = impact[member] * sigma[member];
    const bool closes = first[member] + at == end;
    const Costs<double> costs = {maker_cost[member], taker, pressure, closes ? taker : 0.0, closes ? pressure : 0.0};
    const double size = RELATIVE != 0 ? 1.0 : notional[now];
    const Settlement<double> settled =
        trade<RELATIVE != 0, AT_CLOSE != 0>(lane.account, order, next_bar, size, costs);
    const double rate = adaptation_rate[member];
    const SharpeStep<double> sharpe = differential_sharpe(lane.moments, settled.bar_return, rate, scale.floor);
    lane = advanced(lane, settled.account, sharpe.moments);
    if (thread == 0) {
      const long long plane = static_cast<long long>(members) * bars;
      double* place = trace + static_cast<long long>(member) * bars + at;
      place[0] = settled.bar_return;
      place[plane] = settled.account.position;
      place[2 * plane] = settled.traded;
      place[3 * plane] = settled.paid;
      place[4 * plane] = settled.bankrupt ? 1.0 : 0.0;
      place[5 * plane] = settled.pressure;
    }
  }
  const int next = at + 1;
  if (next % length == 0) lane = with_fresh_episode(lane.account, scale.sigma);
  double observed[kObserved];
  observe<RELATIVE != 0>(lane, scale, observed);
  const float own_prefix = prefix_column(desired, observed, thread);
  write_state({features, center, inverse_scale, limit}, member, min(first[member] + next, end), own_prefix, thread,
              state + static_cast<long long>(member) * kStatePitch);
  if (thread != 0) return;
  store_lane(lane, account, member, static_cast<long long>(members));
  bar[member] = next;
}
