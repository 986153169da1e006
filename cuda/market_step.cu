// market_step: trades one bar in every lane, stores the transition and writes the network's next input row.
//     order -> ledger -> differential Sharpe ratio -> episode; a bankrupt lane starts anew at a fresh random row
// paper        Moody & Saffell 2001, eq. 14 to 16 (reward); transitions go straight into the ring, so that no copy of
//              the collection is ever made
// launch       grid (ceil(E / 4), M)  block 128  no dynamic shared; a warp owns a lane and its account: all threads
//              compute the same bar, thread 0 stores it, the 8 + F columns are spread over the threads
// compile      TABLE_DIM, GOAL_HOLDS_ACHIEVED, ACTIVATION  see market_state.cuh;  NUM_BRANCHES K >= 1
//              RELATIVE  1: percent returns, 0: differences;  AT_CLOSE  1: market orders fill at the next close
//              --fmad=false
// in / out     keys, steps, train_start, train_rows, goals, features .. limit  as in market_begin
//              sigma, maker_cost, taker_cost, impact, adaptation_rate  float32 [M];  reward_is_return  bool [M]
//              moves      float32 [bars, 4]  open, high, low, close of bar t + 1 against c_t
//              notional   float32 [bars]  |c_t| / capital; read where RELATIVE = 0
//              exposures  float32 [n_0];  action  uint8 [M, E, K]
//              account .. episode_start  as in market_begin, in and out; a lane at position L rests: nothing happens
//              ring_*     the rings of the replay, [M, C, ...]: prefix, next_prefix float32 [8], bar int32,
//                         action uint8 [K], reward float32, terminated, truncated bool, episode_start int64  out
//              written    int64 []  items written before this collection
//              state      ACTIVATION [M, E, Sp]  out
//              lanes, length, capacity  int32;  root_length  float32
// determinism  bitwise: one warp owns a lane, every slot is written once
// capture      safe: no allocation, no host read; positions and counters live in device memory
// reference    trainer/market_environment.py (step), trainer/collector.py   test  tests/kernels/test_market_step.py

#include "market_lanes.cuh"

extern "C" __global__ void __launch_bounds__(foxtune::kWarpsPerBlock * foxtune::kWarpLanes)
market_step(const long long* __restrict__ keys, const long long* __restrict__ steps,
            const long long* __restrict__ train_start, const long long* __restrict__ train_rows,
            const float* __restrict__ goals, const float* __restrict__ sigma, const float* __restrict__ features,
            const float* __restrict__ center, const float* __restrict__ inverse_scale, float limit,
            const float* __restrict__ maker_cost, const float* __restrict__ taker_cost,
            const float* __restrict__ impact, const float* __restrict__ adaptation_rate,
            const bool* __restrict__ reward_is_return, const float* __restrict__ moves,
            const float* __restrict__ notional, const float* __restrict__ exposures,
            const unsigned char* __restrict__ action, float* account, float* goal, int* bar, int* position,
            int* episode_start, float* __restrict__ ring_prefix, float* __restrict__ ring_next_prefix,
            int* __restrict__ ring_bar, unsigned char* __restrict__ ring_action, float* __restrict__ ring_reward,
            bool* __restrict__ ring_terminated, bool* __restrict__ ring_truncated,
            long long* __restrict__ ring_episode_start, const long long* __restrict__ written,
            foxtune::Activation* __restrict__ state, int lanes, int length, int capacity, float root_length) {
  using namespace foxtune;
  const int member = blockIdx.y, thread = threadIdx.x % kWarpLanes;
  const int lane = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarpLanes;
  if (lane >= lanes) return;
  const long long item = static_cast<long long>(member) * lanes + lane;
  const long long stride = static_cast<long long>(gridDim.y) * lanes;
  const int at = position[item];
  if (at >= length) return;
  const Lane<float> before = load_lane(account, item, stride);
  const int now = bar[item], begun = episode_start[item];
  const float desired = goal[item];
  __syncwarp();  // thread 0 writes over what all have read

  const Scale<float> scale = scale_of(sigma[member], length, root_length);
  const float4 prices = reinterpret_cast<const float4*>(moves)[now];
  const Bar<float> next_bar = {prices.x, prices.y, prices.z, prices.w};
  const Order<float> order = decode_order<float, NUM_BRANCHES>(action + item * NUM_BRANCHES, exposures);
  const float pressure = impact[member] * sigma[member];
  const Costs<float> costs = {maker_cost[member], taker_cost[member], pressure, 0.0f, 0.0f};
  const float size = RELATIVE != 0 ? 1.0f : notional[now];
  const Settlement<float> settled =
      trade<RELATIVE != 0, AT_CLOSE != 0>(before.account, order, next_bar, size, costs);
  const SharpeStep<float> sharpe =
      differential_sharpe(before.moments, settled.bar_return, adaptation_rate[member], scale.floor);
  Lane<float> after = advanced(before, settled.account, sharpe.moments);
  float observed[kObserved];
  observe<RELATIVE != 0>(after, scale, observed);
  const float reached = prefix_column(desired, observed, thread);

  const long long slot = ring_slot(member, lane, at, length, capacity, *written);
  if (thread < kPrefixDim) ring_next_prefix[slot * kPrefixDim + thread] = reached;
  for (int branch = thread; branch < NUM_BRANCHES; branch += kWarpLanes) {
    ring_action[slot * NUM_BRANCHES + branch] = action[item * NUM_BRANCHES + branch];
  }
  Start start = {now + 1, desired};
  float own_prefix = reached;
  if (settled.bankrupt) {
    start = draw_start({keys, steps, train_start, train_rows, goals}, member, lane, at + 1, length);
    after = with_fresh_episode(flat_account<float>(), scale.sigma);
    observe<RELATIVE != 0>(after, scale, observed);
    own_prefix = prefix_column(start.goal, observed, thread);
  }
  if (at + 1 < length && thread < kPrefixDim) {
    const long long next = ring_slot(member, lane, at + 1, length, capacity, *written);
    ring_prefix[next * kPrefixDim + thread] = own_prefix;
  }
  write_state({features, center, inverse_scale, limit}, member, start.bar, own_prefix, thread,
              state + item * kStatePitch);
  if (thread != 0) return;
  ring_bar[slot] = now;
  ring_reward[slot] = bar_reward(sharpe.value, settled.bar_return, scale.sigma, reward_is_return[member]);
  ring_terminated[slot] = settled.bankrupt;
  ring_truncated[slot] = at + 1 == length;
  ring_episode_start[slot] = *written + static_cast<long long>(lane) * length + begun;
  store_lane(after, account, item, stride);
  goal[item] = start.goal;
  bar[item] = start.bar;
  position[item] = at + 1;
  episode_start[item] = settled.bankrupt ? at + 1 : begun;
}
