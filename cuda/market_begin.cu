// market_begin: starts a fresh episode in every lane and writes the network's first input row.
//     account flat, equity 1, A = 0, V = sigma^2; row and goal by market_lanes.cuh at position 0
// paper        none; one warp per lane, because the 8 + F columns of the row are its only real work
// launch       grid (ceil(E / 4), M)  block 128  no dynamic shared; a warp owns a lane, thread 0 of it the state
// compile      TABLE_DIM, GOAL_HOLDS_ACHIEVED, ACTIVATION  see market_state.cuh;  RELATIVE  1: percent returns, 0:
//              differences;  --fmad=false
// in / out     keys, steps, train_start, train_rows, goals  see market_lanes.cuh;  sigma  float32 [M]
//              features, center, inverse_scale, limit  see market_state.cuh
//              account        float32 [8, M, E]  out, planes of agent_state.cuh
//              goal           float32 [M, E]     out;  bar  int32 [M, E]  out
//              position, episode_start  int32 [M, E]  out, 0
//              ring_prefix    float32 [M, C, 8]  out at the lane's first slot;  written  int64 []
//              state          ACTIVATION [M, E, Sp]  out
//              lanes, length, capacity  int32  E, L, C;  root_length  float32  sqrt(L)
// determinism  bitwise
// capture      safe: no allocation, no host read
// reference    trainer/market_environment.py (begin_lanes)   test  tests/kernels/test_market_begin.py

#include "market_lanes.cuh"

extern "C" __global__ void __launch_bounds__(foxtune::kWarpsPerBlock * foxtune::kWarpLanes)
market_begin(const long long* __restrict__ keys, const long long* __restrict__ steps,
             const long long* __restrict__ train_start, const long long* __restrict__ train_rows,
             const float* __restrict__ goals, const float* __restrict__ sigma, const float* __restrict__ features,
             const float* __restrict__ center, const float* __restrict__ inverse_scale, float limit,
             float* __restrict__ account, float* __restrict__ goal, int* __restrict__ bar, int* __restrict__ position,
             int* __restrict__ episode_start, float* __restrict__ ring_prefix, const long long* __restrict__ written,
             foxtune::Activation* __restrict__ state, int lanes, int length, int capacity, float root_length) {
  using namespace foxtune;
  const int member = blockIdx.y, thread = threadIdx.x % kWarpLanes;
  const int lane = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarpLanes;
  if (lane >= lanes) return;
  const long long item = static_cast<long long>(member) * lanes + lane;
  const StartRule rule = {keys, steps, train_start, train_rows, goals};
  const Start start = draw_start(rule, member, lane, 0, length);
  const Scale<float> scale = scale_of(sigma[member], length, root_length);
  const Lane<float> fresh = with_fresh_episode(flat_account<float>(), scale.sigma);
  float observed[kObserved];
  observe<RELATIVE != 0>(fresh, scale, observed);
  const float own_prefix = prefix_column(start.goal, observed, thread);
  const long long slot = ring_slot(member, lane, 0, length, capacity, *written);
  if (thread < kPrefixDim) ring_prefix[slot * kPrefixDim + thread] = own_prefix;
  const Features table = {features, center, inverse_scale, limit};
  write_state(table, member, start.bar, own_prefix, thread, state + item * kStatePitch);
  if (thread != 0) return;
  store_lane(fresh, account, item, static_cast<long long>(gridDim.y) * lanes);
  goal[item] = start.goal;
  bar[item] = start.bar;
  position[item] = 0;
  episode_start[item] = 0;
}
